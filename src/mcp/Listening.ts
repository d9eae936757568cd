/**
 * `subscriptions/listen` of the revision 2026-07-28: a stream of the changes that the client subscribed to. The SDK
 * validates the message, and the frames equal the SDK's. Each stream is a socket and calls that write to it. The SDK
 * would keep a server, a web stream and a timer per stream (`test/mcp/listening.test.ts` compares the two).
 */
import {
  classifyInboundRequest,
  isSpecType,
  PROTOCOL_VERSION_META_KEY,
  SERVER_INFO_META_KEY,
  SUBSCRIPTION_ID_META_KEY,
  type SubscriptionFilter
} from "@modelcontextprotocol/server"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import { EventStream, hold, StreamWriter } from "#src/http/engine/EventStream.ts"
import type { Change, Changes } from "./Changes.ts"
import type { AuthenticatedClient } from "./Credentials.ts"
import { eventStream, type JsonObject, memberOf } from "./Message.ts"
import { serverInfo } from "./Protocol.ts"
import type { HeartbeatTarget } from "./SessionStream.ts"

const method = "subscriptions/listen"
const revision = "2026-07-28"

export interface ListeningNeeds {
  readonly changes: Changes
  /** Open streams of this process. */
  readonly listening: Set<HeartbeatTarget>
}

/** A message for which the SDK would open a stream. */
export interface Subscription {
  readonly id: string | number
  /** The supported part of the requested filter. */
  readonly honored: SubscriptionFilter
}

/** The filter as the SDK repeats it. A subscription to prompts is valid, although they never change. */
const honoredOf = ({
  promptsListChanged,
  resourcesListChanged,
  resourceSubscriptions = [],
  toolsListChanged
}: SubscriptionFilter): SubscriptionFilter => ({
  ...(toolsListChanged === true ? { toolsListChanged } : {}),
  ...(promptsListChanged === true ? { promptsListChanged } : {}),
  ...(resourcesListChanged === true ? { resourcesListChanged } : {}),
  ...(resourceSubscriptions.length > 0 ? { resourceSubscriptions } : {})
})

/** Undefined for any other message, which the SDK refuses. */
export const subscriptionOf = (
  headers: Readonly<Record<string, string | undefined>>,
  message: unknown
): Subscription | undefined => {
  if (memberOf(message, "method") !== method) return undefined
  const { "mcp-method": mcpMethodHeader, "mcp-protocol-version": protocolVersionHeader } = headers
  // Both headers are required, but the SDK's classification only compares them.
  if (mcpMethodHeader === undefined || protocolVersionHeader === undefined) return undefined
  const meta = memberOf(memberOf(message, "params"), "_meta")
  if (memberOf(meta, PROTOCOL_VERSION_META_KEY) !== revision) return undefined
  const { kind } = classifyInboundRequest({ httpMethod: "POST", body: message, mcpMethodHeader, protocolVersionHeader })
  if (kind !== "modern" || !isSpecType.SubscriptionsListenRequest(message)) return undefined
  const id = memberOf(message, "id")
  return typeof id === "string" || typeof id === "number"
    ? { id, honored: honoredOf(message.params.notifications) }
    : undefined
}

/** Resources that one stream may follow. */
const maxSubscriptions = 50

const frame = (message: JsonObject): string =>
  `event: message\ndata: ${JSON.stringify({ jsonrpc: "2.0", ...message })}\n\n`

const notification = (id: Subscription["id"], name: string, params: JsonObject = {}): string =>
  frame({ method: `notifications/${name}`, params: { ...params, _meta: { [SUBSCRIPTION_ID_META_KEY]: id } } })

const complete = (id: Subscription["id"]): string =>
  frame({
    id,
    result: {
      resultType: "complete",
      _meta: { [SUBSCRIPTION_ID_META_KEY]: id, [SERVER_INFO_META_KEY]: serverInfo }
    }
  })

/** Undefined for a change outside the client's filter. */
const textOf = ({ honored, id }: Subscription, change: Change): string | undefined => {
  switch (change.kind) {
    case "tools":
      return honored.toolsListChanged === true ? notification(id, "tools/list_changed") : undefined
    case "resources":
      return honored.resourcesListChanged === true ? notification(id, "resources/list_changed") : undefined
    case "resource":
      return honored.resourceSubscriptions?.includes(change.uri) === true
        ? notification(id, "resources/updated", { uri: change.uri })
        : undefined
  }
}

/** `staged` means that the client's list of tools grows with its scopes. */
export const open = Effect.fnUntraced(function* (
  { changes, listening }: ListeningNeeds,
  client: AuthenticatedClient,
  subscription: Subscription,
  staged: boolean
) {
  const { honored, id } = subscription
  const streamHold = yield* hold
  const writer = new StreamWriter()
  const end = () => {
    if (writer.isOver) return
    writer.write(complete(id))
    writer.end()
  }
  const tell = (change: Change) => {
    const text = textOf(subscription, change)
    if (text !== undefined) writer.write(text)
  }
  if (Object.keys(honored).length === 0) end()
  else {
    const uris = (honored.resourceSubscriptions ?? []).slice(0, maxSubscriptions)
    yield* changes.watch(client, uris, { hold: streamHold, staged, tell, end })
    const target: HeartbeatTarget = { beat: () => writer.write(": keepalive\n\n"), look: () => undefined }
    listening.add(target)
    streamHold.until(() => listening.delete(target))
  }
  const events = new EventStream((out) => {
    streamHold.began()
    writer.begin(out, notification(id, "subscriptions/acknowledged", { notifications: honored }))
    return streamHold.end
  })
  return HttpServerResponse.raw(events, eventStream)
})

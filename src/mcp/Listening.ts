/**
 * `subscriptions/listen` of the revision 2026-07-28: a stream that says what the client asked to be told of. The SDK
 * judges the message, and its words stand in the frames; the stream itself is a socket and calls that write to it, where
 * the SDK holds a server, a web stream and a timer for each (`test/mcp/listening.test.ts` compares the two).
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
import { EventStream, hold, Voice } from "#src/http/engine/EventStream.ts"
import type { Change, Changes } from "./Changes.ts"
import type { AuthenticatedClient } from "./Credentials.ts"
import { eventStream, type JsonObject, memberOf } from "./Message.ts"
import { serverInfo } from "./Protocol.ts"
import type { Beaten } from "./SessionStream.ts"

export const method = "subscriptions/listen"
const revision = "2026-07-28"

export interface ListeningNeeds {
  readonly changes: Changes
  /** Streams that are open on this process. */
  readonly listening: Set<Beaten>
}

/** A message that the SDK would open a stream for. */
export interface Subscription {
  readonly id: string | number
  /** What it asked for, of what there is. */
  readonly honored: SubscriptionFilter
}

/** As the SDK repeats it. Prompts never change, which is no reason to refuse whoever listens for it. */
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

/** Undefined for anything else, which the SDK refuses in its own words. */
export const subscriptionOf = (
  headers: Readonly<Record<string, string | undefined>>,
  message: unknown
): Subscription | undefined => {
  if (memberOf(message, "method") !== method) return undefined
  const { "mcp-method": mcpMethodHeader, "mcp-protocol-version": protocolVersionHeader } = headers
  // Both are required, and the SDK's own classification only compares them.
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

/** Resources that one stream follows. */
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

/** Undefined for what the client did not ask for. */
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

/** `staged`: the client has a list of tools that grows. */
export const open = Effect.fnUntraced(function* (
  { changes, listening }: ListeningNeeds,
  client: AuthenticatedClient,
  subscription: Subscription,
  staged: boolean
) {
  const { honored, id } = subscription
  const held = yield* hold
  const voice = new Voice()
  const end = () => {
    if (voice.isOver) return
    voice.say(complete(id))
    voice.end()
  }
  const tell = (change: Change) => {
    const text = textOf(subscription, change)
    if (text !== undefined) voice.say(text)
  }
  if (Object.keys(honored).length === 0) end()
  else {
    const uris = (honored.resourceSubscriptions ?? []).slice(0, maxSubscriptions)
    yield* changes.watch(client, uris, { hold: held, staged, tell, end })
    const beaten: Beaten = { beat: () => voice.say(": keepalive\n\n"), look: () => undefined }
    listening.add(beaten)
    held.until(() => listening.delete(beaten))
  }
  const events = new EventStream((out) => {
    held.began()
    voice.begin(out, notification(id, "subscriptions/acknowledged", { notifications: honored }))
    return held.end
  })
  return HttpServerResponse.raw(events, eventStream)
})

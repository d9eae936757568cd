/**
 * Requests of the revision 2026-07-28: a POST each, whose response is JSON or, for `subscriptions/listen`, a stream.
 */
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import type { ServerEvent } from "@modelcontextprotocol/server"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Runtime from "effect/Runtime"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import type { Shutdown } from "#src/http/Shutdown.ts"
import type { Change, Changes } from "./Changes.ts"
import type { AuthenticatedClient } from "./Credentials.ts"
import { memberOf } from "./Message.ts"
import * as Modern from "./Modern.ts"
import type { Protocol } from "./Protocol.ts"
import { eventStream, fromWeb } from "./Responses.ts"
import { streamScope } from "./SessionStream.ts"

/** Resources that one stream follows. */
const maxSubscriptions = 50

export interface ModernNeeds {
  readonly url: string
  readonly protocol: Protocol
  readonly changes: Changes
  readonly keys: ServiceKeys
  readonly shutdown: Shutdown["Type"]
}

const serverEvent = (change: Change): ServerEvent => {
  if (change.kind === "resource") return { kind: "resource_updated", uri: change.uri }
  return { kind: change.kind === "tools" ? "tools_list_changed" : "resources_list_changed" }
}

/** Addresses of resources that a `subscriptions/listen` follows; undefined for any other message. */
const subscriptionsOf = (message: unknown): ReadonlyArray<string> | undefined => {
  if (memberOf(message, "method") !== "subscriptions/listen") return undefined
  const uris = memberOf(memberOf(memberOf(message, "params"), "notifications"), "resourceSubscriptions")
  return Array.isArray(uris) ? uris.filter((uri) => typeof uri === "string").slice(0, maxSubscriptions) : []
}

/** The SDK's listener of one request; `end` runs when the SDK lets go of it. */
const makeListener = (end: Effect.Effect<void>) =>
  Effect.map(Effect.runtime<never>(), (runtime) => {
    let listener: ((event: ServerEvent) => void) | undefined
    return {
      listen: (to: (event: ServerEvent) => void) => {
        listener = to
        return () => {
          listener = undefined
          Runtime.runFork(runtime)(end)
        }
      },
      notify: (change: Change) => Effect.sync(() => listener?.(serverEvent(change)))
    }
  })

export const post = Effect.fnUntraced(function* (
  { changes, keys, protocol, shutdown, url }: ModernNeeds,
  { bearer, caller, principal }: AuthenticatedClient,
  message: unknown,
  headers: Headers
) {
  const states = Modern.makeStates(Redacted.value(yield* keys.get("mcp-request-state")))
  const abort = new AbortController()
  const { end, scope } = yield* streamScope
  const uris = subscriptionsOf(message)
  const watched = uris === undefined ? null : yield* Scope.extend(changes.watch(caller, bearer, uris), scope)
  const { listen, notify } = yield* makeListener(end)
  const { close, response } = yield* Modern.respond(protocol, states, {
    caller,
    principal,
    message,
    headers,
    url,
    signal: abort.signal,
    listen
  }).pipe(
    Effect.onInterrupt(() =>
      Effect.zipRight(
        Effect.sync(() => abort.abort()),
        end
      )
    )
  )
  const { body } = response
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true
  if (!isStream || body === null) {
    yield* end
    return yield* fromWeb(response)
  }
  const finished = Effect.zipRight(Effect.promise(close), end)
  if (watched !== null) {
    // When the credential ends or the server stops, the stream ends in the protocol's way.
    yield* Effect.raceFirst(Stream.runForEach(watched.changes, notify), Deferred.await(shutdown.deferred)).pipe(
      Effect.zipRight(finished),
      Effect.forkIn(scope)
    )
  }
  const bytes = Stream.fromReadableStream({ evaluate: () => body, onError: (error) => error })
  return HttpServerResponse.stream(Stream.ensuring(bytes, finished), { status: response.status, ...eventStream })
})

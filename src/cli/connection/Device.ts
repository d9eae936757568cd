/** Device request, shown to the user, who approves it in the browser (docs/contract/device-authorization.md). */
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { hostname, release, type as osType } from "node:os"
import { DeviceApi, DeviceEvent, type DevicePollResponse, type DeviceAuthorization } from "#schema/DeviceApi.ts"
import { isPlainName } from "#schema/Values.ts"
import * as Browser from "#src/cli/terminal/Browser.ts"
import { call, connect, type Connection } from "./Client.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { note, plain, stderrIsTerminal } from "#src/cli/terminal/Output.ts"

const deviceApi = HttpApi.make("ampoule").add(DeviceApi)
export const client = ({ http }: Connection) => HttpApiClient.group(deviceApi, { group: "device", httpClient: http })

// --- waiting for the decision ---

const decodeEvent = Schema.decodeUnknownOption(Schema.parseJson(DeviceEvent))

/** The server sends a comment every 15 s. After 40 s without a byte, the stream counts as lost. */
const silence = Duration.seconds(40)

/** Listens until a decision event arrives. Ends without one when the stream ends, for any reason. */
const listen = (connection: Connection, lastByteAt: Ref.Ref<number>, decided: Deferred.Deferred<void>) =>
  Effect.gen(function* () {
    const request = HttpClientRequest.get("/auth/cli/device/events").pipe(HttpClientRequest.accept("text/event-stream"))
    const response = yield* connection.http.execute(request)
    yield* response.stream.pipe(
      Stream.tap(() => Effect.flatMap(Clock.currentTimeMillis, (now) => Ref.set(lastByteAt, now))),
      Stream.decodeText(),
      Stream.splitLines,
      Stream.filter((line) => line.startsWith("data:")),
      Stream.runForEach((line) => {
        const event = Option.map(decodeEvent(line.slice("data:".length)), ({ event }) => event)
        return Option.contains(event, "approved") || Option.contains(event, "denied")
          ? Deferred.succeed(decided, undefined)
          : Effect.void
      })
    )
  }).pipe(Effect.ignore, Effect.zipRight(Ref.set(lastByteAt, 0)))

interface ApprovedDevice {
  readonly credential: Redacted.Redacted
  readonly answer: DevicePollResponse
}

const failureSentences: ReadonlyMap<string, string> = new Map(
  Object.entries({
    denied: "The request was denied.",
    expired: "The request was not decided in time.",
    consumed: "The credential of this request was delivered already, and did not arrive here.",
    unknown: "The server does not know this request any more."
  })
)

/** Waits until the person decides. `again`: the command to repeat after a failure. */
export const wait = Effect.fnUntraced(function* (connection: Connection, started: DeviceAuthorization, again: string) {
  const deviceCode = Redacted.make(started.deviceCode)
  const device = yield* client(connection)
  const stream = yield* connect({ url: connection.url, credential: deviceCode })
  const lastByteAt = yield* Ref.make(0)
  const decided = yield* Deferred.make<void>()
  yield* Effect.fork(listen(stream, lastByteAt, decided))

  const deadline = (yield* Clock.currentTimeMillis) + started.expiresInSeconds * 1_000
  let interval = Math.max(1, started.pollIntervalSeconds)
  for (;;) {
    yield* Effect.raceFirst(Deferred.await(decided), Effect.sleep(Duration.seconds(interval)))
    const now = yield* Clock.currentTimeMillis
    const isDecided = yield* Deferred.isDone(decided)
    const isListening = now - (yield* Ref.get(lastByteAt)) < Duration.toMillis(silence)
    if (!isDecided && isListening && now < deadline) continue
    const polled = yield* Effect.either(call(connection, device.token({ payload: { deviceCode } })))
    if (polled._tag === "Left") {
      // Server unreachable for a moment, or a request to slow down: the device request still exists.
      if (polled.left._tag === "ServerRefused" && polled.left.status < 500 && polled.left.status !== 429)
        return yield* polled.left
      if (now >= deadline) return yield* polled.left
      yield* Effect.sleep(Duration.seconds(interval))
      continue
    }
    const answer = polled.right
    if (answer.credential !== undefined) {
      return { credential: Redacted.make(answer.credential), answer } satisfies ApprovedDevice
    }
    if (answer.status === "pending") {
      if (now >= deadline) return yield* new CliFailure({ message: "The request was not decided in time." })
      if (answer.reason === "slow_down") interval += 5
      if (isDecided) yield* Effect.sleep(Duration.seconds(interval))
      continue
    }
    return yield* new CliFailure({
      message: failureSentences.get(answer.reason ?? "") ?? "The request failed.",
      hint: `${again} starts a new one.`
    })
  }
}, Effect.scoped)

const hostText = (text: string): string | undefined => (isPlainName(text) ? text.slice(0, 256) : undefined)

/** Host name and operating system, for the approval page. */
export const host = (): { readonly hostname?: string; readonly os?: string } => {
  const name = hostText(hostname())
  const os = hostText(`${osType()} ${release()}`)
  return { ...(name === undefined ? {} : { hostname: name }), ...(os === undefined ? {} : { os }) }
}

/** Shows the address of the approval page, and opens it when the machine has a screen. */
export const show = Effect.fnUntraced(function* (
  started: DeviceAuthorization,
  { noBrowser }: { readonly noBrowser: boolean }
) {
  const page = Browser.webPage(started.verificationUriComplete)
  if (page === undefined) {
    return yield* new CliFailure({ message: "The server sent an address that is not a web page. It was not opened." })
  }
  yield* note(`Open  ${plain(page.href)}`)
  yield* note(`and approve the code  ${plain(started.userCode)}  there, if the page shows the same code.`)
  const wantsBrowser = !noBrowser && Browser.hasScreen() && stderrIsTerminal()
  if (wantsBrowser && (yield* Browser.open(page))) yield* note("(The page was opened in your browser.)")
  yield* note("Waiting…")
})

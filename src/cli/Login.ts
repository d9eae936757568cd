/**
 * `ampoule login` and `logout`: device authorization (RFC 8628 in the shape of docs/contract/device-authorization.md).
 */
import type * as Command from "@effect/cli/Command"
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
import { randomUUID } from "node:crypto"
import { hostname, release, type as osType } from "node:os"
import { DeviceApi, DeviceEvent, type DevicePollResponse, type DeviceAuthorization } from "#schema/DeviceApi.ts"
import { InstallationId } from "#schema/Ids.ts"
import { isPlainName } from "#schema/Values.ts"
import * as Browser from "./Browser.ts"
import { call, connect, type Connection } from "./Client.ts"
import * as Choice from "./Choice.ts"
import { CredentialStores, type Protection } from "./CredentialStore.ts"
import { CliFailure } from "./Failure.ts"
import { isInTheClear } from "./Link.ts"
import * as Logins from "./Logins.ts"
import * as Suggest from "./Suggest.ts"
import * as OfflineCache from "./OfflineCache.ts"
import * as Help from "./Help.ts"
import * as Shared from "./Options.ts"
import { json, note, plain, stderrIsTerminal, warn } from "./Output.ts"

const deviceApi = HttpApi.make("ampoule").add(DeviceApi)
const device = ({ http }: Connection) => HttpApiClient.group(deviceApi, { group: "device", httpClient: http })

// --- waiting for the decision ---

const decodeEvent = Schema.decodeUnknownOption(Schema.parseJson(DeviceEvent))

/** The server sends a comment every 15 s: after this long without a byte the stream is as good as gone. */
const silence = Duration.seconds(40)

/** Listens until the event of a decision; ends without one when the stream does, for whatever reason. */
const listen = (connection: Connection, heard: Ref.Ref<number>, decided: Deferred.Deferred<void>) =>
  Effect.gen(function* () {
    const request = HttpClientRequest.get("/auth/cli/device/events").pipe(HttpClientRequest.accept("text/event-stream"))
    const response = yield* connection.http.execute(request)
    yield* response.stream.pipe(
      Stream.tap(() => Effect.flatMap(Clock.currentTimeMillis, (now) => Ref.set(heard, now))),
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
  }).pipe(Effect.ignore, Effect.zipRight(Ref.set(heard, 0)))

interface Granted {
  readonly credential: Redacted.Redacted
  readonly answer: DevicePollResponse
}

const failed: ReadonlyMap<string, string> = new Map(
  Object.entries({
    denied: "The request was denied.",
    expired: "The request was not decided in time.",
    consumed: "The credential of this request was delivered already, and did not arrive here.",
    unknown: "The server does not know this request any more."
  })
)

const wait = Effect.fnUntraced(function* (connection: Connection, started: DeviceAuthorization) {
  const deviceCode = Redacted.make(started.deviceCode)
  const client = yield* device(connection)
  const stream = yield* connect({ url: connection.url, credential: deviceCode })
  const heard = yield* Ref.make(0)
  const decided = yield* Deferred.make<void>()
  yield* Effect.fork(listen(stream, heard, decided))

  const deadline = (yield* Clock.currentTimeMillis) + started.expiresInSeconds * 1_000
  let interval = Math.max(1, started.pollIntervalSeconds)
  for (;;) {
    yield* Effect.raceFirst(Deferred.await(decided), Effect.sleep(Duration.seconds(interval)))
    const now = yield* Clock.currentTimeMillis
    const isTold = yield* Deferred.isDone(decided)
    const isListening = now - (yield* Ref.get(heard)) < Duration.toMillis(silence)
    if (!isTold && isListening && now < deadline) continue
    const polled = yield* Effect.either(call(connection, client.token({ payload: { deviceCode } })))
    if (polled._tag === "Left") {
      // Away for a moment, or asked to wait: the request is still there.
      if (polled.left._tag === "ServerRefused" && polled.left.status < 500 && polled.left.status !== 429)
        return yield* polled.left
      if (now >= deadline) return yield* polled.left
      yield* Effect.sleep(Duration.seconds(interval))
      continue
    }
    const answer = polled.right
    if (answer.credential !== undefined) {
      return { credential: Redacted.make(answer.credential), answer } satisfies Granted
    }
    if (answer.status === "pending") {
      if (now >= deadline) return yield* new CliFailure({ message: "The request was not decided in time." })
      if (answer.reason === "slow_down") interval += 5
      if (isTold) yield* Effect.sleep(Duration.seconds(interval))
      continue
    }
    return yield* new CliFailure({
      message: failed.get(answer.reason ?? "") ?? "The request failed.",
      hint: "`ampoule login` starts again."
    })
  }
}, Effect.scoped)

// --- login ---

const hostText = (text: string): string | undefined => (isPlainName(text) ? text.slice(0, 256) : undefined)

const host = (): { readonly hostname?: string; readonly os?: string } => {
  const name = hostText(hostname())
  const os = hostText(`${osType()} ${release()}`)
  return { ...(name === undefined ? {} : { hostname: name }), ...(os === undefined ? {} : { os }) }
}

const show = Effect.fnUntraced(function* (started: DeviceAuthorization, wantsBrowser: boolean) {
  const page = Browser.webPage(started.verificationUriComplete)
  if (page === undefined) {
    return yield* new CliFailure({ message: "The server sent an address that is not a web page. It was not opened." })
  }
  yield* note(`Open  ${plain(page.href)}`)
  yield* note(`and approve the code  ${plain(started.userCode)}  there, if it is the one that the page shows.`)
  if (wantsBrowser && (yield* Browser.open(page))) yield* note("(The page was opened in your browser.)")
  yield* note("Waiting…")
})

const decodeInstallation = Schema.decodeUnknownOption(InstallationId)
const decodeNewInstallation = Schema.decodeSync(InstallationId)

/** Gives a credential back; one that the server does not take any more is given back already. */
const revoke = (url: string, credential: Redacted.Redacted) =>
  Effect.gen(function* () {
    const connection = yield* connect({ url, credential })
    const client = yield* device(connection)
    yield* call(connection, client.logout())
  }).pipe(
    Effect.catchIf(
      (error) => error._tag === "ServerRefused" && error.status === 401,
      () => Effect.void
    )
  )

export const plaintext = Shared.flag(
  "plaintext-local",
  "Keep the credential in a file that only you can read, instead of the system's keychain"
)

const loginOptions = {
  url: Shared.url,
  json: Shared.json,
  plaintext,
  machine: Shared.flag("machine", "Ask for unattended use (a server, an agent); who approves decides"),
  noBrowser: Shared.noBrowser
} as const

export const logIn = Effect.fnUntraced(function* (options: Command.Command.ParseConfig<typeof loginOptions>) {
  const logins = yield* Logins.read
  const { url } = yield* Choice.address(options.url, logins)
  if (isInTheClear(url)) yield* warn(`${url} is not https: others on the network can read the credential.`)
  const protection: Protection = options.plaintext ? "plaintext_local" : "os_keychain"
  const stores = yield* CredentialStores
  const store = stores[protection]
  const before = yield* store.read(url)
  // Before anybody is asked to approve what then cannot be kept: a locked keychain answers a read, and refuses a
  // write.
  if (protection === "os_keychain") {
    yield* Effect.zipRight(store.write(`${url}#trial`, Redacted.make("trial")), store.forget(`${url}#trial`))
  }
  const installationId = Option.flatMap(logins, ({ installationId }) => decodeInstallation(installationId)).pipe(
    Option.getOrElse(() => decodeNewInstallation(randomUUID()))
  )

  const connection = yield* connect({ url })
  const client = yield* device(connection)
  const started = yield* call(
    connection,
    client.start({
      payload: {
        credentialProtection: protection,
        installationId,
        host: host(),
        ...(options.machine ? { machineCredential: "grant" as const } : {})
      }
    })
  )
  yield* show(started, !options.noBrowser && Browser.hasScreen() && stderrIsTerminal())
  const { answer, credential } = yield* wait(connection, started)

  const record: Logins.Login = {
    url,
    protection,
    grantId: answer.grantId ?? "",
    email: answer.user?.email ?? "",
    machine: answer.status === "granted-machine",
    expiresAt: answer.expiresAt ?? ""
  }
  yield* Effect.zipRight(store.write(url, credential), Logins.remember(logins, installationId, record)).pipe(
    // What cannot be kept must not live on unseen.
    Effect.tapError(() => Effect.ignore(revoke(url, credential)))
  )
  const former = Logins.find(logins, url)
  const replaced =
    Option.isSome(former) && former.value.protection !== protection
      ? yield* Effect.orElseSucceed(stores[former.value.protection].read(url), () => Option.none())
      : before
  if (Option.isSome(replaced)) yield* Effect.ignore(revoke(url, replaced.value))
  if (Option.isSome(former) && former.value.protection !== protection) {
    yield* Effect.ignore(stores[former.value.protection].forget(url))
  }

  if (options.json)
    return yield* json({ ...record, teams: answer.teams ?? [], restrictions: answer.restrictions ?? null })
  yield* note(
    `Logged in to ${url} as ${plain(record.email)}${record.machine ? " (unattended)" : ""}, until ${plain(record.expiresAt)}.`
  )
  for (const team of answer.teams ?? []) yield* note(`  ${plain(team.name)}: ${team.scopes.map(plain).join(" ")}`)
  if (options.machine && !record.machine) yield* note("Unattended use was not granted.")
  const shadowed = yield* Choice.environmentCredential
  if (Option.isSome(shadowed)) {
    yield* warn(`this login takes precedence over ${shadowed.value.name}; --credential env uses the variable.`)
  }
})

export const login = Help.command(
  "login",
  {
    says: "Log in: approve this command line in the browser, here or on another device.",
    more: [
      "The credential goes to the system's keychain. Where none is (containers, servers): --plaintext-local.",
      "A stored login takes precedence over AMPOULE_API_TOKEN."
    ],
    examples: [
      "ampoule login",
      "ampoule login --url https://ampoule.example.com",
      "ampoule login --machine --plaintext-local --no-browser"
    ]
  },
  loginOptions,
  logIn
)

export const logout = Help.command(
  "logout",
  {
    says: "Revoke the login and forget it, with the offline copies that were made.",
    examples: ["ampoule logout", "ampoule logout --url https://ampoule.example.com"]
  },
  {
    url: Shared.url,
    json: Shared.json,
    local: Shared.flag("local", "Forget the login here even if the server does not answer; it stays valid there")
  },
  Effect.fnUntraced(function* (options) {
    const logins = yield* Logins.read
    const { url } = yield* Choice.address(options.url, logins)
    const login = Logins.find(logins, url)
    yield* Suggest.forget
    if (Option.isNone(logins) || Option.isNone(login)) {
      return yield* new CliFailure({ message: `There is no login for ${url}.` })
    }
    const store = (yield* CredentialStores)[login.value.protection]
    const credential = yield* options.local
      ? Effect.orElseSucceed(store.read(url), () => Option.none())
      : store.read(url)
    if (Option.isSome(credential)) {
      const told = revoke(url, credential.value)
      yield* options.local
        ? Effect.catchAll(told, () => warn("the server did not answer: revoke the login in its dashboard."))
        : told
    }
    yield* options.local ? Effect.ignore(store.forget(url)) : store.forget(url)
    yield* Logins.forget(logins.value, url)
    yield* OfflineCache.dropAll
    yield* options.json ? json({ url, loggedOut: true }) : note(`Logged out of ${url}.`)
  })
)

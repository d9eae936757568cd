/** `ampoule login` and `logout`: device authorization (RFC 8628, as in docs/contract/device-authorization.md). */
import type * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"
import { InstallationId } from "#schema/Ids.ts"
import { call, connect } from "#src/cli/connection/Client.ts"
import * as Choice from "#src/cli/connection/Choice.ts"
import { CredentialStores, type Protection } from "#src/cli/connection/CredentialStore.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { isInTheClear } from "#src/cli/connection/Link.ts"
import * as Logins from "#src/cli/connection/Logins.ts"
import * as Suggest from "#src/cli/connection/Suggest.ts"
import * as OfflineCache from "#src/cli/values/OfflineCache.ts"
import * as OnlyEnvironment from "#src/cli/connection/OnlyEnvironment.ts"
import * as Device from "#src/cli/connection/Device.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note, plain, warn } from "#src/cli/terminal/Output.ts"

// --- login ---

const decodeInstallation = Schema.decodeUnknownOption(InstallationId)
const decodeNewInstallation = Schema.decodeSync(InstallationId)

/** Revokes a credential. A 401 means that the server has already revoked it. */
const revoke = (url: string, credential: Redacted.Redacted) =>
  Effect.gen(function* () {
    const connection = yield* connect({ url, credential })
    const client = yield* Device.client(connection)
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
  machine: Shared.flag("machine", "Ask for unattended use (a server, an agent); the approver decides"),
  noBrowser: Shared.noBrowser
} as const

export const logIn = Effect.fnUntraced(function* (options: Command.Command.ParseConfig<typeof loginOptions>) {
  const logins = yield* Logins.read
  const { url } = yield* Choice.chooseAddress(options.url, logins)
  if (isInTheClear(url)) yield* warn(`${url} is not https: others on the network can read the credential.`)
  const protection: Protection = options.plaintext ? "plaintext_local" : "os_keychain"
  const stores = yield* CredentialStores
  const store = stores[protection]
  const before = yield* store.read(url)
  // Try the keychain before the user approves: a locked keychain answers reads, but refuses writes.
  if (protection === "os_keychain") {
    yield* Effect.zipRight(store.write(`${url}#trial`, Redacted.make("trial")), store.forget(`${url}#trial`))
  }
  const installationId = Option.flatMap(logins, ({ installationId }) => decodeInstallation(installationId)).pipe(
    Option.getOrElse(() => decodeNewInstallation(randomUUID()))
  )

  const connection = yield* connect({ url })
  const client = yield* Device.client(connection)
  const started = yield* call(
    connection,
    client.start({
      payload: {
        credentialProtection: protection,
        installationId,
        host: Device.host(),
        ...(options.machine ? { machineCredential: "grant" as const } : {})
      }
    })
  )
  yield* Device.show(started, options)
  const { answer, credential } = yield* Device.wait(connection, started, "`ampoule login`")

  const record: Logins.Login = {
    url,
    protection,
    grantId: answer.grantId ?? "",
    email: answer.user?.email ?? "",
    machine: answer.status === "granted-machine",
    expiresAt: answer.expiresAt ?? ""
  }
  yield* Effect.zipRight(store.write(url, credential), Logins.remember(logins, installationId, record)).pipe(
    // Revoke a credential that cannot be stored: nothing else would end it.
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
      "The credential is stored in the system's keychain. Use --plaintext-local where there is none (containers, servers).",
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
    says: "Revoke the login, and delete it here together with the offline copies.",
    examples: ["ampoule logout", "ampoule logout --url https://ampoule.example.com"]
  },
  {
    url: Shared.url,
    json: Shared.json,
    local: Shared.flag("local", "Delete the login here even if the server does not answer; it stays valid there")
  },
  Effect.fnUntraced(function* (options) {
    const logins = yield* Logins.read
    const { url } = yield* Choice.chooseAddress(options.url, logins)
    const login = Logins.find(logins, url)
    yield* Suggest.forget
    yield* OnlyEnvironment.forget
    if (Option.isNone(logins) || Option.isNone(login)) {
      return yield* new CliFailure({ message: `There is no login for ${url}.` })
    }
    const store = (yield* CredentialStores)[login.value.protection]
    const credential = yield* options.local
      ? Effect.orElseSucceed(store.read(url), () => Option.none())
      : store.read(url)
    if (Option.isSome(credential)) {
      const revocation = revoke(url, credential.value)
      yield* options.local
        ? Effect.catchAll(revocation, () => warn("the server did not answer. Revoke the login in its dashboard."))
        : revocation
    }
    yield* options.local ? Effect.ignore(store.forget(url)) : store.forget(url)
    yield* Logins.forget(logins.value, url)
    yield* OfflineCache.dropAll
    yield* options.json ? json({ url, loggedOut: true }) : note(`Logged out of ${url}.`)
  })
)

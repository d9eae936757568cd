/** Public keys of environments: fetched from the server, and cached so that sealing works offline later. */
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { EnvironmentId } from "#schema/Ids.ts"
import { SealedApi } from "#schema/SealedApi.ts"
import * as SealedEnv from "#src/sealed/SealedEnv.ts"
import * as Capabilities from "#src/cli/connection/Capabilities.ts"
import { call, type Connection } from "#src/cli/connection/Client.ts"
import * as Choice from "#src/cli/connection/Choice.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import { type CliError, CliFailure, describe, UnexpectedAnswer } from "#src/cli/terminal/Failure.ts"
import { jsonFile } from "#src/cli/terminal/Folders.ts"
import * as Logins from "#src/cli/connection/Logins.ts"
import { note } from "#src/cli/terminal/Output.ts"
import type { EnvironmentOptions } from "#src/cli/connection/Reach.ts"
import { projects } from "#src/cli/connection/Routes.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"
import * as Target from "#src/cli/connection/Target.ts"

const sealedApi = HttpApi.make("ampoule").add(SealedApi)
export const sealed = ({ http }: Connection) => HttpApiClient.group(sealedApi, { group: "sealed", httpClient: http })

const Key = Shape.struct({ environmentId: Shape.string, keyId: Shape.string, publicKey: Shape.string })
export type Key = Shape.Of<typeof Key>
const KeyCache = Shape.record(Key)
const file = jsonFile("cache", "sealing-keys.json", KeyCache, "the list of sealing keys")

const readCache = file.read.pipe(
  Effect.map(Option.getOrElse((): Shape.Of<typeof KeyCache> => ({}))),
  Effect.orElseSucceed((): Shape.Of<typeof KeyCache> => ({}))
)
const cache = (name: string, key: Key) =>
  Effect.ignore(Effect.flatMap(readCache, (cached) => file.write({ ...cached, [name]: key })))

const nameOf = (url: string, target: Target.Target) => `${url} ${target.project} ${target.environment}`
const idName = (url: string, environmentId: string) => `${url} ${environmentId}`

const decodeId = Schema.decodeUnknownOption(EnvironmentId)

export const environments = Effect.fnUntraced(function* (session: Connection, project: Target.ProjectName) {
  const client = yield* projects(session)
  const { items } = yield* Target.withProject(session, project, (projectId) =>
    call(session, client.listEnvironments({ path: { projectId } }))
  )
  return items
})

/** Id of the environment, which addresses it in sealed routes (docs/contract/secrets.md). */
export const environmentId = Effect.fnUntraced(function* (session: Connection, target: Target.Target) {
  const items = yield* environments(session, target)
  const id = Option.flatMap(Option.fromNullable(items.find((item) => item.slug === target.environment)), (item) =>
    decodeId(item.id)
  )
  if (Option.isSome(id)) return id.value
  return yield* new CliFailure({
    message: `This credential cannot reach an environment ${target.environment} of the project.`,
    hint: "`ampoule projects environments` lists those that it can reach."
  })
})

/** Active key, checked: an id is a part of its key's hash. */
export const fetch = Effect.fnUntraced(function* (session: Connection, envId: EnvironmentId) {
  yield* Capabilities.requireFeature(session, "sealedValues")
  const client = yield* sealed(session)
  const answer = yield* call(session, client.keypair({ path: { envId } }))
  const raw = SealedEnv.parsePublicKey(answer.publicKey)
  if (Option.isNone(raw) || SealedEnv.keyIdOf(raw.value) !== answer.keyId) {
    return yield* new UnexpectedAnswer({
      url: session.url,
      status: 200,
      reason: "the sealing key does not match its id"
    })
  }
  const key: Key = { environmentId: envId, keyId: answer.keyId, publicKey: answer.publicKey }
  yield* cache(idName(session.url, envId), key)
  return key
})

/** Key from the server, or the cached one when the server does not respond or `--offline` is set. */
const currentOrCached = Effect.fnUntraced(function* <R>(
  name: (url: string) => string,
  options: Credential.ConnectionOptions & { readonly offline: boolean },
  subject: string,
  online: Effect.Effect<Key, CliError, R>
) {
  const { url } = yield* Choice.chooseAddress(options.url, yield* Logins.read)
  const cached = Option.fromNullable((yield* readCache)[name(url)])
  if (options.offline) {
    return yield* Effect.mapError(
      cached,
      () =>
        new CliFailure({
          message: `The sealing key of ${subject} was not fetched yet.`,
          hint: "Run this once without --offline."
        })
    )
  }
  return yield* Effect.catchTag(online, "ServerUnreachable", (error) =>
    Option.match(cached, {
      onNone: () => Effect.fail(error),
      onSome: (key) => Effect.as(note(`${describe(error).message} Using ${key.keyId}, fetched earlier.`), key)
    })
  )
})

/** Active key of the environment in the options. `open`: the connection of a command that has one. */
export const active = Effect.fnUntraced(function* (
  options: EnvironmentOptions & { readonly offline: boolean },
  open: ReturnType<typeof Credential.open> = Credential.open(options)
) {
  if (options.offline) {
    const target = yield* Target.targetOffline(options, yield* Choice.closedIdentity(options))
    return yield* currentOrCached((url) => nameOf(url, target), options, "this environment", Effect.never)
  }
  const { session, target } = yield* Target.reach(options, open, true)
  const online = Effect.gen(function* () {
    if (target.unavailable !== undefined) return yield* Effect.fail(target.unavailable)
    const key = yield* fetch(session, yield* environmentId(session, target))
    yield* cache(nameOf(session.url, target), key)
    return key
  })
  return yield* currentOrCached((url) => nameOf(url, target), options, "this environment", online)
})

/** Key of a file's own environment, never taken from the file: a repository could name the key of an attacker. */
export const ofFile = (
  options: Credential.ConnectionOptions & { readonly offline: boolean },
  environment: EnvironmentId,
  open: ReturnType<typeof Credential.open> = Credential.open(options)
) =>
  currentOrCached(
    (url) => idName(url, environment),
    options,
    "this file's environment",
    Effect.flatMap(open, (session) => fetch(session, environment))
  )

const recipient = (key: Key): Effect.Effect<SealedEnv.Recipient, CliFailure> =>
  Effect.flatMap(SealedEnv.parsePublicKey(key.publicKey), (raw) => SealedEnv.recipient(key.environmentId, raw)).pipe(
    Effect.mapError(
      () => new CliFailure({ message: "The sealing key is damaged.", hint: "Run without --offline to fetch it again." })
    )
  )

const notAKey = () => new CliFailure({ message: "The server's sealing key is not a key." })

/** Seals the list of a file's entries as its last entry. */
export const sealManifest = Effect.fnUntraced(
  function* (key: Key, entries: ReadonlyMap<string, string>) {
    return yield* SealedEnv.sealManifest(yield* recipient(key), entries)
  },
  Effect.catchTag("SealingKeyInvalid", notAKey)
)

export const sealAll = Effect.fnUntraced(
  function* (
    key: Key,
    values: ReadonlyArray<readonly [name: string, value: Redacted.Redacted]>,
    withManifest: boolean
  ) {
    const to = yield* recipient(key)
    const entries = new Map<string, string>()
    for (const [name, value] of values) entries.set(name, yield* SealedEnv.sealEntry(to, name, value))
    if (withManifest) entries.set(SealedEnv.manifestName, yield* SealedEnv.sealManifest(to, entries))
    return entries
  },
  Effect.catchTag("SealingKeyInvalid", notAKey)
)

/** Public keys of environments: from the server, and kept, so that sealing works without it later. */
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
type Key = Shape.Of<typeof Key>
const Kept = Shape.record(Key)
const file = jsonFile("cache", "sealing-keys.json", Kept, "the list of sealing keys")

const readKept = file.read.pipe(
  Effect.map(Option.getOrElse((): Shape.Of<typeof Kept> => ({}))),
  Effect.orElseSucceed((): Shape.Of<typeof Kept> => ({}))
)
const keep = (name: string, key: Key) =>
  Effect.ignore(Effect.flatMap(readKept, (kept) => file.write({ ...kept, [name]: key })))

const nameOf = (url: string, target: Target.Target) => `${url} ${target.project} ${target.environment}`
const idName = (url: string, environmentId: string) => `${url} ${environmentId}`

const decodeId = Schema.decodeUnknownOption(EnvironmentId)

export const environments = Effect.fnUntraced(function* (session: Connection, project: string) {
  const client = yield* projects(session)
  const { items } = yield* Target.withProject(session, project, (projectId) =>
    call(session, client.listEnvironments({ path: { projectId } }))
  )
  return items
})

/** The environment's id: sealed routes address it so (docs/contract/secrets.md). */
export const environmentId = Effect.fnUntraced(function* (session: Connection, target: Target.Target) {
  const items = yield* environments(session, target.project)
  const id = Option.flatMap(Option.fromNullable(items.find((item) => item.slug === target.environment)), (item) =>
    decodeId(item.id)
  )
  if (Option.isSome(id)) return id.value
  return yield* new CliFailure({
    message: `This credential reaches no environment ${target.environment} of the project.`,
    hint: "`ampoule projects environments` lists those it reaches."
  })
})

/** The active key, checked: an id is part of the hash of its key. */
export const fetch = Effect.fnUntraced(function* (session: Connection, envId: EnvironmentId) {
  yield* Capabilities.need(session, "sealedValues")
  const client = yield* sealed(session)
  const answer = yield* call(session, client.keypair({ path: { envId } }))
  const raw = SealedEnv.parsePublicKey(answer.publicKey)
  if (Option.isNone(raw) || SealedEnv.keyIdOf(raw.value) !== answer.keyId) {
    return yield* new UnexpectedAnswer({
      url: session.url,
      status: 200,
      reason: "the sealing key does not have the id that it is named by"
    })
  }
  const key: Key = { environmentId: envId, keyId: answer.keyId, publicKey: answer.publicKey }
  yield* keep(idName(session.url, envId), key)
  return key
})

/** The key from the server; when that does not answer, or is not to be asked, the one that was fetched last. */
const currentOr = Effect.fnUntraced(function* <R>(
  name: (url: string) => string,
  options: Credential.ConnectionOptions & { readonly offline: boolean },
  of: string,
  online: Effect.Effect<Key, CliError, R>
) {
  const { url } = yield* Choice.address(options.url, yield* Logins.read)
  const kept = Option.fromNullable((yield* readKept)[name(url)])
  if (options.offline) {
    return yield* Effect.mapError(
      kept,
      () =>
        new CliFailure({
          message: `The sealing key of ${of} was not fetched yet.`,
          hint: "Run this once without --offline."
        })
    )
  }
  return yield* Effect.catchTag(online, "ServerUnreachable", (error) =>
    Option.match(kept, {
      onNone: () => Effect.fail(error),
      onSome: (key) => Effect.as(note(`${describe(error).message} Using ${key.keyId}, fetched earlier.`), key)
    })
  )
})

/** The active key of the environment that the options name. */
export const active = Effect.fnUntraced(function* (options: EnvironmentOptions & { readonly offline: boolean }) {
  const target = yield* Target.target(options)
  const online = Effect.gen(function* () {
    const session = yield* Credential.open(options)
    const key = yield* fetch(session, yield* environmentId(session, target))
    yield* keep(nameOf(session.url, target), key)
    return key
  })
  return yield* currentOr((url) => nameOf(url, target), options, "this environment", online)
})

/**
 * The key of a file's own environment. The file itself is not asked for it: what is in a repository can be anyone's
 * key.
 */
export const ofFile = (
  options: Credential.ConnectionOptions & { readonly offline: boolean },
  environment: EnvironmentId
) =>
  currentOr(
    (url) => idName(url, environment),
    options,
    "this file's environment",
    Effect.flatMap(Credential.open(options), (session) => fetch(session, environment))
  )

const recipient = (key: Key): Effect.Effect<SealedEnv.Recipient, CliFailure> =>
  Effect.flatMap(SealedEnv.parsePublicKey(key.publicKey), (raw) => SealedEnv.recipient(key.environmentId, raw)).pipe(
    Effect.mapError(
      () => new CliFailure({ message: "The sealing key is damaged.", hint: "Fetch it again: run without --offline." })
    )
  )

const notAKey = () => new CliFailure({ message: "The server's sealing key is not a key." })

/** The list of a file's entries, sealed as its last entry. */
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

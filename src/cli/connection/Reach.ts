/** Shared by commands on an environment: the connection and the target, the list of keys, and one secret by its key. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type ProjectId, SecretId } from "#schema/Ids.ts"
import type { ListQuery } from "#schema/SecretRequests.ts"
import type { SecretListItem } from "#schema/SecretResponses.ts"
import type { SecretKey } from "#schema/Values.ts"
import { call, type Connection } from "./Client.ts"
import * as Credential from "./Credential.ts"
import { type CliError, ServerRefused } from "#src/cli/terminal/Failure.ts"
import { noSuchKey } from "#src/cli/terminal/Keys.ts"
import { secrets as secretsClient } from "./Routes.ts"
import * as Target from "./Target.ts"

export type EnvironmentOptions = Credential.ConnectionOptions & Target.TargetOptions

/** Environment in the form that the routes take. */
export interface Location {
  readonly projectId: ProjectId
  readonly environment: Target.Target["environment"]
}

type OpenEnvironment = Location & { readonly session: Credential.Session }

interface Opened {
  readonly session: Credential.Session
  readonly target: Target.Target
}

/** Opens the connection and finds the target, for commands that ask the user before they send anything. */
export const open = (options: EnvironmentOptions) => Target.reach(options, Credential.open(options))

/** Runs `use` with the project id. */
export const at = <A, E extends CliError, R>(
  { session, target }: Opened,
  use: (at: OpenEnvironment) => Effect.Effect<A, E, R>
) => Target.inEnvironment(session, target, (projectId) => use({ session, projectId, environment: target.environment }))

/** Opens the connection and the target, and runs `use` with the project id. */
const within = <A, E extends CliError, R>(
  options: EnvironmentOptions,
  use: (at: OpenEnvironment) => Effect.Effect<A, E, R>
) => Effect.flatMap(open(options), (opened) => at(opened, use))

/** Handler of a command that works on a single environment. */
export const onEnvironment =
  <Options extends EnvironmentOptions, A, E extends CliError, R>(
    use: (at: OpenEnvironment, options: Options) => Effect.Effect<A, E, R>
  ) =>
  (options: Options) =>
    within(options, (at) => use(at, options))

const largestPage = 500

/** All keys and metadata, page by page. */
export const listAll = Effect.fnUntraced(function* (
  connection: Connection,
  location: Location,
  query: Pick<ListQuery, "lastRead"> = {}
) {
  const client = yield* secretsClient(connection)
  const items: Array<SecretListItem> = []
  for (let page = 1; ; page++) {
    const list = yield* call(
      connection,
      client.list({ urlParams: { ...location, ...query, page, pageSize: largestPage } })
    )
    items.push(...list.items)
    if (!list.hasMore || list.items.length === 0) return items
  }
})

/** Names in other programs, by key. An older server sends none. */
export const aliasesOf = (items: ReadonlyArray<Pick<SecretListItem, "key" | "alias">>): ReadonlyMap<string, string> =>
  new Map(items.flatMap(({ alias, key }) => (alias === null ? [] : [[key, alias] as const])))

const decodeId = Schema.decodeUnknown(SecretId)
export const idOf = (connection: Connection, id: string) => call(connection, decodeId(id))

/** In a request with several secrets, an error names the key instead of the path of the member (`secrets.3.value`, `entries.3.value`). */
export const withKeyOfEntry =
  (entries: ReadonlyArray<{ readonly key: string }>) =>
  <A, E extends CliError, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | ServerRefused, R> =>
    Effect.mapError(self, (error) => {
      if (error._tag !== "ServerRefused") return error
      const key = entries[Number(/^(?:secrets|entries)\.(\d+)\b/.exec(error.field ?? "")?.[1])]?.key
      return key === undefined ? error : new ServerRefused({ ...error, message: error.message, field: key })
    })

export const keysOf = (items: ReadonlyArray<Pick<SecretListItem, "key">>): ReadonlyArray<string> =>
  items.map(({ key }) => key)

export const findLive = Effect.fnUntraced(function* (connection: Connection, location: Location, key: SecretKey) {
  const items = yield* listAll(connection, location)
  const item = items.find((candidate) => candidate.key === key)
  if (item === undefined) return yield* noSuchKey(key, location.environment, keysOf(items))
  return item
})

/** Deleted secrets of this key, latest deletion first. */
export const findDeleted = Effect.fnUntraced(function* (connection: Connection, location: Location, key: SecretKey) {
  const client = yield* secretsClient(connection)
  const { items } = yield* call(connection, client.listDeleted({ urlParams: location }))
  return items.filter((item) => item.key === key).sort((a, b) => (a.deletedAt < b.deletedAt ? 1 : -1))
})

/** Id of the live secret, or else of the one deleted last. */
export const anyId = Effect.fnUntraced(function* (session: Connection, location: Location, key: SecretKey) {
  const live = yield* listAll(session, location)
  const item = live.find((candidate) => candidate.key === key) ?? (yield* findDeleted(session, location, key))[0]
  if (item === undefined) return yield* noSuchKey(key, location.environment, keysOf(live))
  return yield* idOf(session, item.id)
})

/** What commands on an environment share: the connection and the target, the list of keys, one secret by its key. */
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

/** Of an environment, as the routes take it. */
export interface Location {
  readonly projectId: ProjectId
  readonly environment: Target.Target["environment"]
}

type Reached = Location & { readonly session: Credential.Session }

/** The connection, the target, and a way to run with its project id. */
export const within = <A, E extends CliError, R>(
  options: EnvironmentOptions,
  use: (at: Reached) => Effect.Effect<A, E, R>
) =>
  Effect.gen(function* () {
    const target = yield* Target.target(options)
    const session = yield* Credential.open(options)
    return yield* Target.withProject(session, target.project, (projectId) =>
      use({ session, projectId, environment: target.environment })
    ).pipe(Target.sayingHowToAsk(target))
  })

/** A handler of a command that is about one environment from its beginning to its end. */
export const onEnvironment =
  <Options extends EnvironmentOptions, A, E extends CliError, R>(
    use: (at: Reached, options: Options) => Effect.Effect<A, E, R>
  ) =>
  (options: Options) =>
    within(options, (at) => use(at, options))

const largestPage = 500

/** All keys and metadata, page by page. */
export const listAll = Effect.fnUntraced(function* (
  connection: Connection,
  location: Location,
  asked: Pick<ListQuery, "lastRead"> = {}
) {
  const client = yield* secretsClient(connection)
  const items: Array<SecretListItem> = []
  for (let page = 1; ; page++) {
    const answer = yield* call(
      connection,
      client.list({ urlParams: { ...location, ...asked, page, pageSize: largestPage } })
    )
    items.push(...answer.items)
    if (!answer.hasMore || answer.items.length === 0) return items
  }
})

const decodeId = Schema.decodeUnknown(SecretId)
export const idOf = (connection: Connection, id: string) => call(connection, decodeId(id))

/** Where a request holds several, the key stands for the path of a member: `secrets.3.value`. */
export const namingEntries =
  (entries: ReadonlyArray<{ readonly key: string }>) =>
  <A, E extends CliError, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | ServerRefused, R> =>
    Effect.mapError(self, (error) => {
      if (error._tag !== "ServerRefused") return error
      const key = entries[Number(/^secrets\.(\d+)\b/.exec(error.field ?? "")?.[1])]?.key
      return key === undefined ? error : new ServerRefused({ ...error, message: error.message, field: key })
    })

export const findLive = Effect.fnUntraced(function* (connection: Connection, location: Location, key: SecretKey) {
  const items = yield* listAll(connection, location)
  const item = items.find((candidate) => candidate.key === key)
  if (item === undefined) return yield* noSuchKey(key, location.environment)
  return item
})

/** Deleted secrets of this key, the last deleted first. */
export const findDeleted = Effect.fnUntraced(function* (connection: Connection, location: Location, key: SecretKey) {
  const client = yield* secretsClient(connection)
  const { items } = yield* call(connection, client.listDeleted({ urlParams: location }))
  return items.filter((item) => item.key === key).sort((a, b) => (a.deletedAt < b.deletedAt ? 1 : -1))
})

/** A live secret, or else the last deleted one of that key. */
export const anyId = Effect.fnUntraced(function* (session: Connection, location: Location, key: SecretKey) {
  const live = yield* listAll(session, location)
  const item = live.find((candidate) => candidate.key === key) ?? (yield* findDeleted(session, location, key))[0]
  if (item === undefined) return yield* noSuchKey(key, location.environment)
  return yield* idOf(session, item.id)
})

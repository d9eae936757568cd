/**
 * A value that an agent needs and only a person has (URL-mode elicitation). The person types it into a page of this
 * server; no conversation sees it. A request lives 10 minutes and is answered once.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import { GrantAlreadyDecided, GrantNotFound, MemberNotFound, SecretAlreadyExists } from "#schema/Errors.ts"
import {
  EnvironmentIdOut,
  type ProjectId,
  ProjectIdOut,
  type SecretId,
  SecretIdOut,
  TeamIdOut,
  type UserId,
  UserIdOut
} from "#schema/Ids.ts"
import { CredentialKind, Visibility } from "#schema/Scopes.ts"
import { EnvironmentSlug, SecretKey, type SecretText } from "#schema/Values.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import * as Policy from "#src/access/Policy.ts"
import { base62, Crypto } from "#src/crypto/Crypto.ts"
import { EventBus } from "#src/events/EventBus.ts"
import { type Policy as Limit, RateLimiter } from "#src/limits/RateLimiter.ts"
import { days } from "#src/Days.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { methods } from "#src/Methods.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as Rows from "#src/database/Rows.ts"
import * as SecretRows from "./SecretRows.ts"
import * as ValueSource from "./ValueSource.ts"
import * as LockedEnvironment from "./LockedEnvironment.ts"
import type { Transaction } from "./LockedEnvironment.ts"
import * as EnvironmentWrite from "./EnvironmentWrite.ts"
import { onlySecret } from "./WriteRequest.ts"

const lifetimeMillis = 600_000
/** New requests of one credential: each costs a person's attention. */
const requestPolicy: Limit = [{ limit: 30, millis: 600_000 }]
/** The address of the page opens nothing by itself: the page needs a signed-in person who may write there. */
const codeLength = 24

interface RequestedSecret {
  readonly projectId: ProjectId
  readonly environment: string
  readonly key: string
  readonly note?: string
  readonly replace?: boolean
}

export type RequestState =
  | { readonly status: "stored"; readonly id: SecretId; readonly key: string; readonly version: number }
  | { readonly status: "declined" }
  | { readonly status: "pending"; readonly requestId: string; readonly code: string; readonly expiresAt: Date }

const Status = Schema.Literal("pending", "stored", "declined")
const RequestRow = Schema.Struct({
  id: Schema.String,
  code: Schema.String,
  credentialId: Schema.String,
  askedBy: Schema.Struct({ kind: CredentialKind, name: Schema.NullOr(Schema.String) }),
  userId: Schema.NullOr(UserIdOut),
  teamId: TeamIdOut,
  projectId: ProjectIdOut,
  projectName: Schema.String,
  visibility: Visibility,
  environmentId: EnvironmentIdOut,
  environment: EnvironmentSlug,
  key: SecretKey,
  note: Schema.NullOr(Schema.String),
  replace: Schema.Boolean,
  status: Status,
  secretId: Schema.NullOr(SecretIdOut),
  version: Schema.NullOr(Schema.Number),
  createdAt: Schema.DateFromSelf,
  expiresAt: Schema.DateFromSelf,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})
type RequestRow = typeof RequestRow.Type

/** The request as the page shows it. */
type ValueRequest = Pick<
  RequestRow,
  | "code"
  | "askedBy"
  | "projectId"
  | "projectName"
  | "environment"
  | "key"
  | "note"
  | "replace"
  | "createdAt"
  | "expiresAt"
>

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly access: Access
  readonly audit: Audit
  readonly crypto: Crypto
  readonly rowSeal: RowSeal
  readonly bus: EventBus["Type"]
  readonly limiter: RateLimiter
  readonly writing: LockedEnvironment.Needs
}

const stateOf = (row: RequestRow): RequestState => {
  if (row.status === "stored" && row.secretId !== null && row.version !== null) {
    return { status: "stored", id: row.secretId, key: row.key, version: row.version }
  }
  if (row.status === "declined") return { status: "declined" }
  return { status: "pending", requestId: row.id, code: row.code, expiresAt: row.expiresAt }
}

const topic = (id: string) => `value:${id}`
/** A request of this credential was answered. */
export const answersTopic = (credentialId: string) => `values:${credentialId}`

const columns = (sql: SqlClient.SqlClient) =>
  sql.literal(`
    v.id, v.code, v.credential_id, v.asked_by, v.user_id, v.team_id, v.project_id, p.name AS project_name, p.visibility,
    v.environment_id, e.slug AS environment, v.key, v.note, v.replace, v.status, v.secret_id, v.version, v.created_at,
    v.expires_at, v.mac
    FROM value_requests v
    JOIN environments e ON e.id = v.environment_id AND e.deleted_at IS NULL
    JOIN projects p ON p.id = v.project_id AND p.deleted_at IS NULL`)

/** Requests that a server wrote as they are. The page shows place and key of a request, and the answer goes there. */
const requestsWhere = ({ rowSeal, sql }: Needs, where: Statement.Fragment) =>
  Effect.zipWith(rowSeal.ready, Rows.findAll(RequestRow, sql`SELECT ${columns(sql)} WHERE ${where}`), (macs, rows) =>
    rows.filter((row) => macs.isAuthentic("value_requests", row))
  )
const requestWhere = (needs: Needs, where: Statement.Fragment) =>
  Effect.map(requestsWhere(needs, where), ([row]): RequestRow | undefined => row)

/** The answer goes to the asking credential once; until then the same question finds it. */
const reported = Effect.fnUntraced(function* ({ sql }: Needs, row: RequestRow) {
  if (row.status !== "pending") {
    yield* Rows.run(sql`UPDATE value_requests SET reported_at = ${yield* DateTime.nowAsDate} WHERE id = ${row.id}`)
  }
  return stateOf(row)
})

/** The same question of the same credential, as long as its answer was not reported. */
const earlierRequest = (
  needs: Needs,
  { caller, target }: EnvironmentPermit<"secrets:write">,
  at: { readonly key: string; readonly replace: boolean; readonly now: number }
) =>
  requestWhere(
    needs,
    needs.sql`
      v.credential_id = ${caller.credentialId} AND v.environment_id = ${target.environmentId} AND v.key = ${at.key}
        AND v.replace = ${at.replace} AND v.expires_at > ${new Date(at.now)} AND v.reported_at IS NULL
      ORDER BY v.created_at DESC LIMIT 1`
  )

/**
 * The row of a new request, for the transaction that records it. `userId`: the only person who may answer; null: any
 * person who may write.
 */
const newRequest = Effect.fnUntraced(function* (
  { crypto, rowSeal, sql }: Needs,
  { caller, target }: EnvironmentPermit<"secrets:write">,
  asked: {
    readonly key: string
    readonly note?: string | undefined
    readonly replace: boolean
    readonly userId: UserId | null
    readonly lifetime: number
  }
) {
  const id = yield* crypto.uuid
  const code = yield* crypto.randomText(base62, codeLength)
  const now = yield* Clock.currentTimeMillis
  const expiresAt = new Date(now + asked.lifetime)
  const name = caller.user !== null && caller.kind === "session" ? caller.user.email : caller.name
  const row = {
    id,
    code,
    credentialId: caller.credentialId,
    askedBy: { kind: caller.kind, name },
    userId: asked.userId,
    teamId: target.teamId,
    projectId: target.projectId,
    environmentId: target.environmentId,
    key: asked.key,
    note: asked.note ?? null,
    replace: asked.replace,
    status: "pending",
    secretId: null,
    version: null,
    createdAt: new Date(now),
    expiresAt
  }
  const insert = Effect.flatMap(rowSeal.values("value_requests", row), (values) =>
    Rows.run(sql`INSERT INTO value_requests ${values}`)
  )
  return { id, code, expiresAt, insert }
})

/**
 * Asks, or returns the state of the same question of this credential. The credential must be allowed to write the
 * secret. The person who answers is checked with their own rights.
 */
const ask = Effect.fn("ValueRequests.ask")(function* (needs: Needs, at: RequestedSecret) {
  const { access, audit, limiter, sql } = needs
  const { key, note, replace = false } = at
  const permit = yield* access.environment("secrets:write", at, { audit: "secret.request", keys: [key] })
  const { caller } = permit
  const now = yield* Clock.currentTimeMillis
  const earlier = yield* earlierRequest(needs, permit, { key, replace, now })
  if (earlier !== undefined) return yield* reported(needs, earlier)
  if (!replace && (yield* SecretRows.isLive(sql, permit, key))) return yield* new SecretAlreadyExists({ field: "key" })
  yield* limiter.take(`value-requests:${caller.credentialId}`, requestPolicy)
  const userId = caller.user?.id ?? null
  const created = yield* newRequest(needs, permit, { key, note, replace, userId, lifetime: lifetimeMillis })
  const { code, expiresAt, id, insert } = created
  const event = permit.event({ keys: [key], target: { type: "value_request", id, name: key } })
  yield* Effect.orDie(sql.withTransaction(Effect.zipRight(insert, audit.append(event))))
  const pending: RequestState = { status: "pending", requestId: id, code, expiresAt }
  return pending
})

/** Lifetime of a request to another person of the team. */
const personLifetime = days(1)

/**
 * Asks one person of the team for the new value of a secret, on a page for that person alone. The caller must be
 * allowed to write the secret. The person who answers is checked with their own rights.
 */
const askPerson = Effect.fn("ValueRequests.askPerson")(function* (
  needs: Needs,
  at: RequestedSecret & { readonly userId: UserId }
) {
  const { audit, limiter, sql } = needs
  const permit = yield* needs.access.environment("secrets:write", at, { audit: "secret.request", keys: [at.key] })
  const { caller, target } = permit
  const isMember = yield* Rows.exists(sql`
    SELECT 1 FROM memberships WHERE team_id = ${target.teamId} AND user_id = ${at.userId} AND active`)
  if (!isMember) return yield* new MemberNotFound()
  yield* limiter.take(`value-requests:${caller.credentialId}`, requestPolicy)
  const created = yield* newRequest(needs, permit, { ...at, replace: true, lifetime: personLifetime })
  const event = permit.event({ keys: [at.key], target: { type: "value_request", id: created.id, name: at.key } })
  yield* Effect.orDie(sql.withTransaction(Effect.zipRight(created.insert, audit.append(event))))
  return { code: created.code, expiresAt: created.expiresAt }
})

const ownRequest = (needs: Needs, requestId: string, caller: Caller) =>
  requestWhere(needs, needs.sql`v.id = ${requestId} AND v.credential_id = ${caller.credentialId}`)

/** The state of a request of this credential. Waits up to `millis` for a decision. */
const outcome = Effect.fn("ValueRequests.outcome")(function* (needs: Needs, requestId: string, millis: number) {
  const caller = yield* CurrentCaller
  const decided = Stream.unwrapScoped(
    Effect.map(needs.bus.subscribe(topic(requestId)), (notified) =>
      Stream.merge(notified, Stream.fromSchedule(Schedule.spaced("3 seconds"))).pipe(
        (later) => Stream.concat(Stream.succeed(undefined), later),
        Stream.mapEffect(() => ownRequest(needs, requestId, caller)),
        Stream.takeUntil((row) => row === undefined || row.status !== "pending"),
        Stream.interruptAfter(millis)
      )
    )
  )
  yield* Effect.orDie(Stream.runDrain(decided))
  const row = yield* ownRequest(needs, requestId, caller)
  if (row === undefined) return yield* new GrantNotFound()
  return yield* reported(needs, row)
})

/** A request that this person may answer; any other does not exist for them. */
const visible = Effect.fnUntraced(function* (needs: Needs, code: string) {
  const caller = yield* CurrentCaller
  const row = yield* requestWhere(needs, needs.sql`v.code = ${code}`)
  const user = caller.user
  if (row === undefined || user === null) return yield* new GrantNotFound()
  // The agent of another person asked: a person lured to this page must not answer (MCP elicitation, phishing).
  if (row.userId !== null && row.userId !== user.id) return yield* new GrantNotFound()
  if (!Policy.environmentVisible(caller, row)) return yield* new GrantNotFound()
  if (row.status !== "pending") return yield* new GrantAlreadyDecided()
  if (row.expiresAt.getTime() <= (yield* Clock.currentTimeMillis)) return yield* new GrantNotFound()
  return { row, user }
})

const show = Effect.fn("ValueRequests.show")(function* (needs: Needs, code: string) {
  const { row } = yield* visible(needs, code)
  const request: ValueRequest = row
  return request
})

/** Takes the request, if it is still open: of two parallel answers one is stored. */
const decide = Effect.fnUntraced(function* (
  { rowSeal, sql }: Needs,
  row: RequestRow,
  userId: UserId,
  status: "stored" | "declined"
) {
  const now = yield* DateTime.nowAsDate
  const where = sql`id = ${row.id} AND status = 'pending' AND expires_at > ${now}`
  const others = { decided_at: now, decided_by: userId }
  const closed = yield* rowSeal.update("value_requests", where, () => ({ status }), others)
  if (closed === 0) return yield* new GrantAlreadyDecided()
})

const announce = ({ bus }: Needs, row: RequestRow) =>
  Effect.forEach(
    [topic(row.id), answersTopic(row.credentialId)],
    (one) => Effect.catchAllDefect(bus.publish(one), () => Effect.void),
    { discard: true }
  )

/** The answered and the open ones of these requests. */
const states = Effect.fnUntraced(function* (needs: Needs, ids: ReadonlyArray<string>) {
  const now = yield* DateTime.nowAsDate
  const rows = yield* requestsWhere(
    needs,
    needs.sql`v.id = any(${ids}::uuid[]) AND (v.status <> 'pending' OR v.expires_at > ${now})`
  )
  return {
    answered: rows.filter(({ status }) => status !== "pending").map(({ id }) => id),
    waiting: rows.filter(({ status }) => status === "pending").map(({ id }) => id)
  }
})

/** Stores the value as it was typed, in the person's name and with the person's rights. */
const provide = Effect.fn("ValueRequests.provide")(function* (needs: Needs, code: string, value: SecretText) {
  const { row, user } = yield* visible(needs, code)
  const at = { projectId: row.projectId, environment: row.environment }
  const permit = yield* needs.access.environment("secrets:write", at, { audit: "secret.create", keys: [row.key] })
  const changes = Effect.fnUntraced(function* ({ live }: Transaction) {
    yield* decide(needs, row, user.id, "stored")
    if (live.has(row.key) && !row.replace) return yield* new SecretAlreadyExists({ field: "key" })
    return new Map([[row.key, ValueSource.writeOf(ValueSource.requested({ kind: "literal", value }))]])
  })
  const stored = yield* EnvironmentWrite.write(needs.writing, permit, changes, {
    keys: [row.key],
    field: "value",
    entries: ({ transaction }) => [
      permit.event({ audit: transaction.live.has(row.key) ? "secret.update" : "secret.create", keys: [row.key] })
    ],
    answer: Effect.fnUntraced(function* (written) {
      const { id, version } = yield* onlySecret(written)
      yield* needs.rowSeal.update("value_requests", needs.sql`id = ${row.id}`, () => ({ secretId: id, version }))
      return { id, version }
    })
  })
  yield* announce(needs, row)
  return stored
})

const decline = Effect.fn("ValueRequests.decline")(function* (needs: Needs, code: string) {
  const { row, user } = yield* visible(needs, code)
  yield* Rows.transaction(needs.sql, function* () {
    yield* decide(needs, row, user.id, "declined")
  })
  yield* announce(needs, row)
})

/** Requests are removed a day after their end. */
const purge = ({ sql }: Needs) =>
  Effect.flatMap(
    Clock.currentTimeMillis,
    (now) => sql`
      DELETE FROM value_requests WHERE id IN
        (SELECT id FROM value_requests WHERE expires_at < ${new Date(now - days(1))} ORDER BY expires_at LIMIT 1000)`
  )

export class ValueRequests extends Effect.Service<ValueRequests>()("secrets/ValueRequests", {
  scoped: Effect.gen(function* () {
    const needs: Needs = {
      sql: yield* SqlClient.SqlClient,
      access: yield* Access,
      audit: yield* Audit,
      crypto: yield* Crypto,
      rowSeal: yield* RowSeal,
      bus: yield* EventBus,
      limiter: yield* RateLimiter,
      writing: yield* LockedEnvironment.services
    }
    yield* Housekeeping.every("1 hour", purge(needs))
    return methods(needs, { ask, askPerson, outcome, states, show, provide, decline })
  })
}) {}

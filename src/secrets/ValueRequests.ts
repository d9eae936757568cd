/**
 * A value that an agent needs and only a person has (URL-mode elicitation). The person types it into a page of ours; it
 * passes through no conversation. A request lives 10 minutes and is answered once.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import { GrantAlreadyDecided, GrantNotFound, SecretAlreadyExists, SecretNotFound } from "#schema/Errors.ts"
import type { EnvironmentId, ProjectId, SecretId, TeamId, UserId } from "#schema/Ids.ts"
import type { CredentialKind } from "#schema/Scopes.ts"
import type { EnvironmentSlug, SecretKey, SecretText } from "#schema/Values.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/access/Audit.ts"
import * as Policy from "#src/access/Policy.ts"
import { base62, Crypto } from "#src/crypto/Crypto.ts"
import { EventBus } from "#src/events/EventBus.ts"
import { type Policy as Limit, RateLimiter } from "#src/limits/RateLimiter.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { decideWrite, resultOf } from "./Secrets.ts"
import { SecretStore } from "./SecretStore.ts"

export const lifetimeMillis = 600_000
/** New requests of one credential: each costs a person's attention. */
const requestPolicy: Limit = [{ limit: 30, millis: 600_000 }]
/** The page's address says nothing and opens nothing by itself: it needs a signed-in person who may write there. */
const codeLength = 24

export interface Ask {
  readonly projectId: ProjectId
  readonly environment: string
  readonly key: string
  readonly note?: string
  readonly replace?: boolean
}

export type Standing =
  | { readonly status: "stored"; readonly id: SecretId; readonly key: string; readonly version: number }
  | { readonly status: "declined" }
  | { readonly status: "pending"; readonly requestId: string; readonly code: string; readonly expiresAt: Date }

interface Row {
  readonly id: string
  readonly code: string
  readonly credentialId: string
  readonly askedBy: { readonly kind: CredentialKind; readonly name: string | null }
  readonly userId: UserId | null
  readonly teamId: TeamId
  readonly projectId: ProjectId
  readonly projectName: string
  readonly environmentId: EnvironmentId
  readonly environment: EnvironmentSlug
  readonly key: SecretKey
  readonly note: string | null
  readonly replace: boolean
  readonly status: "pending" | "stored" | "declined"
  readonly secretId: SecretId | null
  readonly version: number | null
  readonly createdAt: Date
  readonly expiresAt: Date
}

/** What the page shows. */
export type Shown = Pick<
  Row,
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

const standingOf = (row: Row): Standing => {
  if (row.status === "stored" && row.secretId !== null && row.version !== null) {
    return { status: "stored", id: row.secretId, key: row.key, version: row.version }
  }
  if (row.status === "declined") return { status: "declined" }
  return { status: "pending", requestId: row.id, code: row.code, expiresAt: row.expiresAt }
}

const topic = (id: string) => `value:${id}`
/** Something that this credential asked for was answered. */
export const answersTopic = (credentialId: string) => `values:${credentialId}`

export class ValueRequests extends Effect.Service<ValueRequests>()("secrets/ValueRequests", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const access = yield* Access
    const audit = yield* Audit
    const crypto = yield* Crypto
    const bus = yield* EventBus
    const limiter = yield* RateLimiter
    const store = yield* SecretStore

    const columns = sql.literal(`
      v.id, v.code, v.credential_id, v.asked_by, v.user_id, v.team_id, v.project_id, p.name AS project_name,
      v.environment_id, e.slug AS environment, v.key, v.note, v.replace, v.status, v.secret_id, v.version, v.created_at,
      v.expires_at
      FROM value_requests v
      JOIN environments e ON e.id = v.environment_id AND e.deleted_at IS NULL
      JOIN projects p ON p.id = v.project_id AND p.deleted_at IS NULL`)

    /** The answer goes to the asking credential once; until then the same question finds it. */
    const reported = Effect.fnUntraced(function* (row: Row) {
      if (row.status !== "pending") {
        yield* sql`UPDATE value_requests SET reported_at = ${yield* DateTime.nowAsDate} WHERE id = ${row.id}`
      }
      return standingOf(row)
    })

    /**
     * Asks, or finds what became of the same question of this credential. Whoever asks must be allowed to write the
     * secret; whoever answers is checked again, as the person they are.
     */
    const ask = Effect.fn("ValueRequests.ask")(function* (at: Ask) {
      const { key, note = null, replace = false } = at
      const permit = yield* access.environment("secrets:write", at, { audit: "secret.request", keys: [key] })
      const { caller, target } = permit
      const now = yield* Clock.currentTimeMillis
      const rows = yield* Effect.orDie(sql<Row>`
        SELECT ${columns}
        WHERE v.credential_id = ${caller.credentialId} AND v.environment_id = ${target.environmentId} AND v.key = ${key}
          AND v.replace = ${replace} AND v.expires_at > ${new Date(now)} AND v.reported_at IS NULL
        ORDER BY v.created_at DESC LIMIT 1`)
      if (rows.length > 0) return yield* Effect.orDie(reported(rows[0]))
      const live = yield* store.graph(permit)
      if (!replace && live.some((secret) => secret.key === key)) return yield* new SecretAlreadyExists({ field: "key" })
      yield* limiter.take(`value-requests:${caller.credentialId}`, requestPolicy)
      const id = yield* crypto.uuid
      const code = yield* crypto.randomText(base62, codeLength)
      const expiresAt = new Date(now + lifetimeMillis)
      yield* Effect.orDie(
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`INSERT INTO value_requests ${sql.insert({
              id,
              code,
              credential_id: caller.credentialId,
              asked_by: JSON.stringify({ kind: caller.kind, name: caller.name }),
              user_id: caller.user?.id ?? null,
              team_id: target.teamId,
              project_id: target.projectId,
              environment_id: target.environmentId,
              key,
              note,
              replace,
              status: "pending",
              created_at: new Date(now),
              expires_at: expiresAt
            })}`
            yield* audit.append(permit.event({ keys: [key], target: { type: "value_request", id, name: key } }))
          })
        )
      )
      const standing: Standing = { status: "pending", requestId: id, code, expiresAt }
      return standing
    })

    const own = (requestId: string, caller: Caller) =>
      Effect.map(
        sql<Row>`SELECT ${columns} WHERE v.id = ${requestId} AND v.credential_id = ${caller.credentialId}`,
        (rows): Row | undefined => rows[0]
      )

    /** What became of a request of this credential, waiting up to `millis` for a decision. */
    const outcome = Effect.fn("ValueRequests.outcome")(function* (requestId: string, millis: number) {
      const caller = yield* CurrentCaller
      const decided = Stream.unwrapScoped(
        Effect.map(bus.subscribe(topic(requestId)), (notified) =>
          Stream.merge(notified, Stream.fromSchedule(Schedule.spaced("3 seconds"))).pipe(
            (later) => Stream.concat(Stream.succeed(undefined), later),
            Stream.mapEffect(() => own(requestId, caller)),
            Stream.takeUntil((row) => row === undefined || row.status !== "pending"),
            Stream.interruptAfter(millis)
          )
        )
      )
      yield* Effect.orDie(Stream.runDrain(decided))
      const row = yield* Effect.orDie(own(requestId, caller))
      if (row === undefined) return yield* new GrantNotFound()
      return yield* Effect.orDie(reported(row))
    })

    /** A request that this person may answer; anything else is not there. */
    const visible = Effect.fnUntraced(function* (code: string) {
      const caller = yield* CurrentCaller
      const rows = yield* Effect.orDie(sql<Row>`SELECT ${columns} WHERE v.code = ${code}`)
      const row: Row | undefined = rows[0]
      const user = caller.user
      if (row === undefined || user === null) return yield* new GrantNotFound()
      // Another person's agent asks: a page that somebody was lured to does nothing (MCP elicitation, phishing).
      if (row.userId !== null && row.userId !== user.id) return yield* new GrantNotFound()
      if (!Policy.environmentVisible(caller, row)) return yield* new GrantNotFound()
      if (row.status !== "pending") return yield* new GrantAlreadyDecided()
      if (row.expiresAt.getTime() <= (yield* Clock.currentTimeMillis)) return yield* new GrantNotFound()
      return { row, user }
    })

    const show = Effect.fn("ValueRequests.show")(function* (code: string) {
      const { row } = yield* visible(code)
      const shown: Shown = row
      return shown
    })

    /** Takes the request, if it is still open: of two parallel answers one is stored. */
    const decide = Effect.fnUntraced(function* (row: Row, userId: UserId, status: "stored" | "declined") {
      const now = yield* DateTime.nowAsDate
      const taken = yield* Effect.orDie(sql`
        UPDATE value_requests SET status = ${status}, decided_at = ${now}, decided_by = ${userId}
        WHERE id = ${row.id} AND status = 'pending' AND expires_at > ${now} RETURNING id`)
      if (taken.length === 0) return yield* new GrantAlreadyDecided()
    })

    const tell = (row: Row) =>
      Effect.forEach(
        [topic(row.id), answersTopic(row.credentialId)],
        (one) => Effect.catchAllDefect(bus.publish(one), () => Effect.void),
        { discard: true }
      )

    /** Of these requests: which were answered, and which wait for a person. Others can be neither any more. */
    const standings = Effect.fnUntraced(function* (ids: ReadonlyArray<string>) {
      const rows = yield* sql<Pick<Row, "id" | "status">>`
        SELECT id, status FROM value_requests
        WHERE id = any(${ids}::uuid[]) AND (status <> 'pending' OR expires_at > ${yield* DateTime.nowAsDate})`
      return {
        answered: rows.filter(({ status }) => status !== "pending").map(({ id }) => id),
        waiting: rows.filter(({ status }) => status === "pending").map(({ id }) => id)
      }
    }, Effect.orDie)

    /** Stores the value as it was typed, in the person's name and with the person's rights. */
    const provide = Effect.fn("ValueRequests.provide")(function* (code: string, value: SecretText) {
      const { row, user } = yield* visible(code)
      const place = { projectId: row.projectId, environment: row.environment }
      const permit = yield* access.environment("secrets:write", place, { audit: "secret.create", keys: [row.key] })
      const work = store.change(permit, (env) =>
        Effect.gen(function* () {
          yield* decide(row, user.id, "stored")
          const existing = env.live.get(row.key)
          if (existing !== undefined && !row.replace) return yield* new SecretAlreadyExists({ field: "key" })
          const write = decideWrite({ kind: "literal", value }, undefined)
          const { meta } = yield* resultOf(yield* env.commit(new Map([[row.key, write]]), () => "value"), row.key)
          const action = existing === undefined ? "secret.create" : "secret.update"
          yield* env.audit(permit.event({ audit: action, keys: [row.key] }))
          yield* sql`
            UPDATE value_requests SET secret_id = ${meta.id}, version = ${meta.version} WHERE id = ${row.id}`
          return { id: meta.id, version: meta.version }
        })
      )
      const stored = yield* store.outermost(permit.event({ keys: [row.key] }), work)
      yield* tell(row)
      return stored
    })

    const decline = Effect.fn("ValueRequests.decline")(function* (code: string) {
      const { row, user } = yield* visible(code)
      yield* decide(row, user.id, "declined")
      yield* tell(row)
    })

    /** Requests are of no use to anybody a day after their end. */
    yield* Housekeeping.every(
      "1 hour",
      Effect.flatMap(
        Clock.currentTimeMillis,
        (now) => sql`
          DELETE FROM value_requests WHERE id IN
            (SELECT id FROM value_requests WHERE expires_at < ${new Date(now - 86_400_000)} ORDER BY expires_at LIMIT 1000)`
      )
    )

    return { ask, outcome, standings, show, provide, decline } as const
  })
}) {}

/** Errors of the page's rules that mean: this request cannot be answered any more. */
export const gone = (error: { readonly _tag: string }): boolean =>
  error._tag === GrantNotFound.code || error._tag === GrantAlreadyDecided.code || error._tag === SecretNotFound.code

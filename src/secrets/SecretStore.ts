/** Rows and sealed boxes of one environment. Every method takes a Permit, so what was checked is what is touched (architecture rule 7). */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import type * as Statement from "@effect/sql/Statement"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import {
  EnvironmentNotFound,
  IntegrityFailure,
  PlanLimitReached,
  RateLimited,
  TemplateCycle,
  type TemplateInvalid,
  TemplateReferenceMissing
} from "#schema/Errors.ts"
import { type SecretId, SecretIdOut } from "#schema/Ids.ts"
import type { SecretKind } from "#schema/Values.ts"
import { actorOf, Audit, type AuditEvent } from "#src/access/Audit.ts"
import { recordingDenials } from "#src/access/Change.ts"
import { dieWhenVaultIsDown } from "#src/access/Dependency.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import * as Policy from "#src/access/Policy.ts"
import type { EnvironmentTarget } from "#src/access/Target.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import { diffPolicy, RateLimiter } from "#src/limits/RateLimiter.ts"
import * as Composition from "./Composition.ts"

/** Live secrets per environment (decisions 4 "Limits"). */
export const maxSecrets = 5_000
/** Bytes that are opened or parsed in one go. */
const pieceBytes = 1_048_576
/** "Deleted secrets are purged after 30 days." */
export const purgeDelay = 30 * 86_400_000

type ReadPermit = EnvironmentPermit<"secrets:read" | "secrets:read_values" | "secrets:run" | "secrets:write">

export interface Author {
  readonly type: string
  readonly id: string
  readonly name: string | null
}

/**
 * A stored box, or the key it is under, does not fit its place. It is told as INTEGRITY_FAILURE and recorded by whoever
 * holds no transaction open any more: a denial is an entry of its own, over a connection of its own.
 */
export class BoxAltered extends Data.TaggedError("BoxAltered")<{
  /** What did not open; empty: not known which. */
  readonly keys: ReadonlyArray<string>
}> {}

/** What is known of a live secret without opening it. */
export interface SecretMeta {
  readonly id: SecretId
  readonly key: string
  readonly kind: SecretKind
  readonly version: number
  readonly createdAt: Date
  readonly updatedAt: Date
}
const metaOf = ({ createdAt, id, key, kind, updatedAt, version }: SecretMeta): SecretMeta => ({
  id,
  key,
  kind,
  version,
  createdAt,
  updatedAt
})
interface SealedMeta extends SecretMeta {
  readonly pinned: boolean
  readonly refs: ReadonlyArray<string>
  readonly dataKeyId: string
  readonly bytes: number
}
interface SealedRow extends SecretMeta {
  readonly dataKeyId: string
  readonly sealed: Buffer
}

/** A live secret with its text as written. */
export interface OpenSecret extends SecretMeta {
  readonly text: string
}

export interface SecretListRow extends SecretMeta {
  readonly refs: ReadonlyArray<string>
  readonly updatedBy: Author
}

/** A text to store under a key; the kind is decided. */
export interface Write {
  readonly kind: SecretKind
  readonly pinned: boolean
  readonly text: string
  /**
   * Where the text comes from: the request (sent or copied), an earlier text of the same secret, or this server, which made
   * it up or expanded it. The last is no guess; the second was not seen by the caller.
   */
  readonly from: "caller" | "stored" | "server"
}

export interface Written {
  readonly meta: SecretMeta
  readonly outcome: "created" | "updated" | "unchanged"
}

/** Whether the caller may have values of the environment: read them, or run programs with them. */
const mayHaveValues = ({ caller, target }: EnvironmentPermit<"secrets:write">): boolean => {
  const team = Policy.teamOf(caller, target.teamId)
  const may = (action: Policy.Action) =>
    team !== undefined && Policy.decide({ caller, team, target, action }) === undefined
  return may("secrets:read_values") || may("secrets:run")
}

/** What the caller is told: that a value was equal is told only to callers who may have it. */
export const reportedOutcome = (permit: EnvironmentPermit<"secrets:write">, { outcome }: Written): Written["outcome"] =>
  outcome === "unchanged" && !mayHaveValues(permit) ? "updated" : outcome

/** An environment under its lock, inside one transaction. */
export interface Locked {
  readonly permit: EnvironmentPermit<"secrets:write">
  readonly live: ReadonlyMap<string, SecretMeta & { readonly pinned: boolean }>
  readonly byId: ReadonlyMap<string, SecretMeta & { readonly pinned: boolean }>
  /** Text as written of live secrets. */
  readonly open: (keys: Iterable<string>) => Effect.Effect<ReadonlyMap<string, string>, BoxAltered>
  /** The part of the environment that composition concerns: templates and what they use, and `keys`. */
  readonly state: (keys: Iterable<string>) => Effect.Effect<Composition.State, BoxAltered | TemplateInvalid>
  /**
   * Checks the environment as it will be (templates, sizes, count) and writes the changes: new versions for writes, a
   * deletion mark for nulls. An equal text of equal kind makes no version.
   */
  readonly commit: (
    changes: ReadonlyMap<string, Write | null>,
    fieldOf?: (key: string) => string | undefined
  ) => Effect.Effect<ReadonlyMap<string, Written>, Composition.Problem | TemplateInvalid | RateLimited | BoxAltered>
  /** Text, kind and pin of an earlier version of a live or deleted secret. */
  readonly version: (id: SecretId, key: string, version: number) => Effect.Effect<Write | undefined, BoxAltered>
  /** Brings a deleted secret back at its version; the caller has checked that no live secret has its key. */
  readonly revive: (
    secret: SecretMeta,
    write: Write
  ) => Effect.Effect<SecretMeta, Composition.Problem | TemplateInvalid | BoxAltered>
  readonly deleted: (id: SecretId) => Effect.Effect<(SecretMeta & { readonly purgeAt: Date }) | undefined>
  /** The last version a key ever had; 0 = never used. */
  readonly lastVersion: (key: string) => Effect.Effect<number>
  readonly audit: (event: AuditEvent) => Effect.Effect<void>
}

export class SecretStore extends Effect.Service<SecretStore>()("secrets/SecretStore", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const dataKeys = yield* DataKeys
    const audit = yield* Audit
    const cipher = yield* Envelope.ValueCipher
    const limiter = yield* RateLimiter

    const contextOf = (target: EnvironmentTarget, secret: SecretMeta, dataKeyId: string): Envelope.ValueContext => ({
      teamId: target.teamId,
      projectId: target.projectId,
      environmentId: target.environmentId,
      secretId: secret.id,
      key: secret.key,
      kind: secret.kind,
      version: secret.version,
      dataKeyId
    })

    /** Opens boxes all or none. */
    const openAll = Effect.fnUntraced(function* (permit: ReadPermit, rows: ReadonlyArray<SealedRow>) {
      const ids = new Set(rows.map((row) => row.dataKeyId))
      const keys = yield* keyIntact(dieWhenVaultIsDown(dataKeys.byId(permit.target, ids)))
      const opened: Array<OpenSecret> = []
      let sinceYield = 0
      for (const row of rows) {
        const key = keys.get(row.dataKeyId)
        if (key === undefined) return yield* Effect.dieMessage("a data key was asked for and not answered")
        const text = Envelope.openValue(key.key, contextOf(permit.target, row, row.dataKeyId), row.sealed)
        if (Either.isLeft(text)) return yield* new BoxAltered({ keys: [row.key] })
        opened.push({ ...metaOf(row), text: Redacted.value(text.right) })
        // Large environments must not hold up other requests (security V13).
        sinceYield += row.sealed.length + 1024
        if (sinceYield > pieceBytes) {
          sinceYield = 0
          yield* Effect.yieldNow()
        }
      }
      return opened
    })

    /** Around a read, or around the outermost transaction of a write: what was refused is recorded before it is told. */
    const outermost = <A, E, R>(
      event: AuditEvent,
      work: Effect.Effect<A, E | BoxAltered, R>
    ): Effect.Effect<A, Exclude<E, BoxAltered> | IntegrityFailure, R> =>
      recordingDenials(audit, event, work).pipe(
        Effect.catchAll((error): Effect.Effect<never, Exclude<E, BoxAltered> | IntegrityFailure> => {
          if (!(error instanceof BoxAltered)) return Effect.fail(error as Exclude<E, BoxAltered>)
          const refusal = new IntegrityFailure()
          const named = error.keys.length === 0 ? event : { ...event, keys: error.keys }
          return Effect.zipRight(
            audit.record({ ...named, outcome: "denied", reason: refusal._tag }),
            Effect.fail(refusal)
          )
        })
      )
    const openForReading = (permit: ReadPermit, rows: ReadonlyArray<SealedRow>) =>
      outermost(permit.event(), openAll(permit, rows))

    const sealedColumns = sql.literal(`
      s.id, s.key, v.kind, s.version, s.created_at, s.updated_at, v.data_key_id, v.sealed`)
    const liveVersions = sql.literal(`
      secrets s JOIN secret_versions v ON v.secret_id = s.id AND v.version = s.version`)

    /** Every live secret of the environment, opened, and the revision they stand at, from one statement. */
    const live = Effect.fnUntraced(function* (permit: ReadPermit) {
      const rows = yield* Effect.orDie(sql<SealedRow & { readonly revision: number; readonly live: boolean }>`
        SELECT e.revision::float8 AS revision, s.id IS NOT NULL AS live, ${sealedColumns}
        FROM environments e LEFT JOIN (${liveVersions}) ON s.environment_id = e.id AND s.deleted_at IS NULL
        WHERE e.id = ${permit.target.environmentId} AND e.deleted_at IS NULL
        ORDER BY s.key`)
      if (rows.length === 0) return yield* new EnvironmentNotFound()
      return {
        revision: rows[0].revision,
        secrets: yield* openForReading(permit, rows[0].live ? rows : [])
      }
    })

    /** Of `wanted`, the key column of a subselect: those secrets and, to `expand` them, everything they build on. */
    const withBasis = (permit: ReadPermit, wanted: Statement.Fragment, expand: boolean) => sql`
      WITH RECURSIVE wanted AS (${wanted}), needed (key) AS (
        SELECT key COLLATE "C" FROM wanted
        UNION
        SELECT unnest(v.refs) COLLATE "C" FROM needed n
        JOIN secrets s ON s.environment_id = ${permit.target.environmentId} AND s.key = n.key AND s.deleted_at IS NULL
        JOIN secret_versions v ON v.secret_id = s.id AND v.version = s.version
        WHERE ${expand}
      )`

    /** Secrets by key, as far as they are live, opened; with `expand` also everything they build on. */
    const closure = Effect.fnUntraced(function* (permit: ReadPermit, keys: ReadonlyArray<string>, expand: boolean) {
      const rows = yield* Effect.orDie(sql<SealedRow & { readonly revision: number }>`
        ${withBasis(permit, sql`SELECT unnest(${keys}::text[]) AS key`, expand)}
        SELECT e.revision::float8 AS revision, ${sealedColumns}
        FROM environments e
        JOIN secrets s ON s.environment_id = e.id AND s.deleted_at IS NULL AND s.key IN (SELECT key FROM needed)
        JOIN secret_versions v ON v.secret_id = s.id AND v.version = s.version
        WHERE e.id = ${permit.target.environmentId} AND e.deleted_at IS NULL`)
      return {
        /** 0: none of the keys is live. */
        revision: rows.length === 0 ? 0 : rows[0].revision,
        secrets: yield* openForReading(permit, rows)
      }
    })

    /** A page of the live secrets, opened, from one statement; `secrets` also holds what they build on, with `expand`. */
    const livePage = Effect.fnUntraced(function* (permit: ReadPermit, size: number, offset: number, expand: boolean) {
      const { environmentId } = permit.target
      const wanted = sql`
        SELECT key FROM secrets WHERE environment_id = ${environmentId} AND deleted_at IS NULL
        ORDER BY key LIMIT ${size} OFFSET ${offset}`
      const rows = yield* Effect.orDie(sql<
        SealedRow & {
          readonly revision: number
          readonly total: number
          readonly live: boolean
          readonly shown: boolean
        }
      >`
        ${withBasis(permit, wanted, expand)}
        SELECT e.revision::float8 AS revision, s.id IS NOT NULL AS live, s.key IN (SELECT key FROM wanted) AS shown,
          (SELECT count(*)::int FROM secrets WHERE environment_id = e.id AND deleted_at IS NULL) AS total, ${sealedColumns}
        FROM environments e LEFT JOIN (${liveVersions})
          ON s.environment_id = e.id AND s.deleted_at IS NULL AND s.key IN (SELECT key FROM needed)
        WHERE e.id = ${environmentId} AND e.deleted_at IS NULL
        ORDER BY s.key`)
      if (rows.length === 0) return yield* new EnvironmentNotFound()
      return {
        revision: rows[0].revision,
        total: rows[0].total,
        keys: rows.filter((row) => row.live && row.shown).map((row) => row.key),
        secrets: yield* openForReading(permit, rows[0].live ? rows : [])
      }
    })

    const page = (permit: ReadPermit, size: number, offset: number) =>
      Effect.orDie(sql<SecretListRow & { readonly total: number }>`
        SELECT s.id, s.key, v.kind, s.version, s.created_at, s.updated_at, v.refs, v.created_by AS updated_by
        FROM ${liveVersions}
        WHERE s.environment_id = ${permit.target.environmentId} AND s.deleted_at IS NULL
        ORDER BY s.key LIMIT ${size} OFFSET ${offset}`)
    const count = (permit: ReadPermit) =>
      Effect.orDie(
        Effect.map(
          sql<{ readonly n: number }>`
            SELECT count(*)::int AS n FROM secrets
            WHERE environment_id = ${permit.target.environmentId} AND deleted_at IS NULL`,
          (rows) => rows[0].n
        )
      )

    const graph = (permit: ReadPermit) =>
      Effect.orDie(sql<{
        readonly id: SecretId
        readonly key: string
        readonly kind: SecretKind
        readonly refs: ReadonlyArray<string>
      }>`
        SELECT s.id, s.key, v.kind, v.refs FROM ${liveVersions}
        WHERE s.environment_id = ${permit.target.environmentId} AND s.deleted_at IS NULL
        ORDER BY s.key LIMIT ${maxSecrets}`)

    /** History of a live or deleted secret of this environment, newest first; empty when there is none. */
    const versions = (permit: ReadPermit, id: SecretId) =>
      Effect.orDie(sql<{
        readonly version: number
        readonly kind: SecretKind
        readonly createdAt: Date
        readonly createdBy: Author
        readonly deleted: boolean
      }>`
        SELECT v.version, v.kind, v.created_at, v.created_by, s.deleted_at IS NOT NULL AS deleted
        FROM secrets s JOIN secret_versions v ON v.secret_id = s.id
        WHERE s.id = ${id} AND s.environment_id = ${permit.target.environmentId}
        ORDER BY v.version DESC LIMIT 1000`)

    /** Deleted secrets that can be restored at `now`. */
    const deleted = (permit: ReadPermit, now: Date) =>
      Effect.orDie(sql<SecretMeta & { readonly deletedAt: Date; readonly purgeAt: Date }>`
        SELECT s.id, s.key, v.kind, s.version, s.created_at, s.updated_at, s.deleted_at, s.purge_at
        FROM ${liveVersions}
        WHERE s.environment_id = ${permit.target.environmentId} AND s.deleted_at IS NOT NULL AND s.purge_at > ${now}
        ORDER BY s.key, s.deleted_at DESC LIMIT ${maxSecrets}`)

    const lock = Effect.fnUntraced(function* (permit: EnvironmentPermit<"secrets:write">) {
      const { target } = permit
      const [found] = yield* Effect.orDie(sql<{ readonly revision: number }>`
        SELECT revision::float8 AS revision FROM environments
        WHERE id = ${target.environmentId} AND deleted_at IS NULL FOR UPDATE`)
      if (found === undefined) return yield* new EnvironmentNotFound()
      let { revision } = found
      /** What this transaction made of keys, for the trail. */
      const versions = new Map<string, number>()
      const metas = yield* Effect.orDie(sql<SealedMeta>`
        SELECT s.id, s.key, v.kind, s.version, s.created_at, s.updated_at, v.pinned, v.refs, v.data_key_id,
          octet_length(v.sealed) AS bytes
        FROM ${liveVersions}
        WHERE s.environment_id = ${target.environmentId} AND s.deleted_at IS NULL`)
      const liveByKey = new Map(metas.map((meta) => [meta.key, meta]))
      const now = yield* Clock.currentTimeMillis
      const at = new Date(now)
      const author = JSON.stringify(actorOf(permit.caller))

      const open: Locked["open"] = Effect.fnUntraced(function* (keys) {
        const wanted = [...keys].flatMap((key) => liveByKey.get(key) ?? [])
        if (wanted.length === 0) return new Map<string, string>()
        const rows = yield* Effect.orDie(sql<SealedRow>`
          SELECT ${sealedColumns} FROM ${liveVersions} WHERE s.id = ANY(${wanted.map((meta) => meta.id)}::uuid[])`)
        return new Map((yield* openAll(permit, rows)).map((secret) => [secret.key, secret.text]))
      })

      const state: Locked["state"] = Effect.fnUntraced(function* (keys) {
        const concerned = new Set<string>(keys)
        for (const meta of metas) {
          if (meta.kind !== "template") continue
          concerned.add(meta.key)
          for (const key of meta.refs) concerned.add(key)
        }
        const entries = new Map<string, Composition.Entry>()
        let sinceYield = 0
        for (const [key, text] of yield* open(concerned)) {
          entries.set(key, yield* Composition.entry(liveByKey.get(key)?.kind ?? "literal", text))
          sinceYield += text.length
          if (sinceYield > pieceBytes) {
            sinceYield = 0
            yield* Effect.yieldNow()
          }
        }
        return entries
      })

      const seal = Effect.fnUntraced(function* (secrets: ReadonlyArray<SecretMeta & { readonly text: string }>) {
        const dataKey = yield* keyIntact(dieWhenVaultIsDown(dataKeys.active(target)))
        const boxes: Array<Buffer> = []
        for (const secret of secrets) {
          const salt = yield* crypto.randomBytes(Envelope.saltLength)
          const at = contextOf(target, secret, dataKey.id)
          boxes.push(Envelope.sealValue(dataKey.key, at, Redacted.make(secret.text), salt, cipher))
        }
        return { dataKeyId: dataKey.id, boxes }
      })

      const insertVersions = Effect.fnUntraced(function* (
        secrets: ReadonlyArray<
          SecretMeta & { readonly text: string; readonly pinned: boolean; readonly refs: ReadonlyArray<string> }
        >
      ) {
        const { boxes, dataKeyId } = yield* seal(secrets)
        // Postgres has no array of arrays of unequal length: the references travel as JSON.
        yield* sql`
          INSERT INTO secret_versions (secret_id, version, kind, pinned, refs, data_key_id, sealed, created_at, created_by)
          SELECT i.id, i.version, i.kind, i.pinned,
            array(SELECT jsonb_array_elements_text(i.refs::jsonb)), ${dataKeyId}, i.sealed, ${at}, ${author}::jsonb
          FROM unnest(
            ${secrets.map((s) => s.id)}::uuid[], ${secrets.map((s) => s.version)}::int[], ${secrets.map((s) => s.kind)}::text[],
            ${secrets.map((s) => s.pinned)}::boolean[], ${secrets.map((s) => JSON.stringify(s.refs))}::text[], ${boxes}::bytea[]
          ) AS i (id, version, kind, pinned, refs, sealed)`
        if (target.plan === "developer") {
          // Only the current version is kept on this plan (decisions 4).
          yield* sql`
            DELETE FROM secret_versions v USING unnest(
              ${secrets.map((s) => s.id)}::uuid[], ${secrets.map((s) => s.version)}::int[]
            ) AS i (id, version) WHERE v.secret_id = i.id AND v.version < i.version`
        }
      })

      const bumpRevision = Effect.zipRight(
        sql`UPDATE environments SET revision = revision + 1 WHERE id = ${target.environmentId}`,
        Effect.sync(() => revision++)
      )

      const check = Effect.fnUntraced(function* (
        changes: ReadonlyMap<string, Composition.Entry | null>,
        fieldOf?: (key: string) => string | undefined
      ) {
        let secrets = metas.length
        for (const [key, change] of changes) secrets += (change === null ? 0 : 1) - (liveByKey.has(key) ? 1 : 0)
        if (secrets > maxSecrets) return yield* new PlanLimitReached()
        const before = yield* state([])
        let besides = 0
        for (const meta of metas) {
          if (!before.has(meta.key) && !changes.has(meta.key)) besides += meta.bytes - Envelope.overhead
        }
        // A literal that a new template starts to use must take part in the check with its text.
        const joined = new Set<string>()
        for (const change of changes.values()) {
          if (change === null) continue
          for (const key of Composition.referencesOf(change)) if (!before.has(key) && !changes.has(key)) joined.add(key)
        }
        const concerned = new Map(before)
        for (const [key, text] of yield* open(joined)) {
          concerned.set(key, yield* Composition.entry(liveByKey.get(key)?.kind ?? "literal", text))
          besides -= (liveByKey.get(key)?.bytes ?? 0) - Envelope.overhead
        }
        yield* Composition.checkAfter(concerned, changes, fieldOf, besides)
      })

      /**
       * Whether a new text equals the old one shows: by the outcome, and by a version that does not change. Without a right to
       * values that is a guess tested, so each such key takes one unit of the limit that comparisons have. A request with
       * more keys than the limit is refused whole; the message says that fewer have to be sent.
       */
      const countGuesses = (changes: ReadonlyMap<string, Write | null>) => {
        const guesses = [...changes].filter(
          ([key, write]) => write !== null && write.from !== "server" && liveByKey.has(key)
        ).length
        return guesses === 0 || mayHaveValues(permit)
          ? Effect.void
          : Effect.catchTag(
              limiter.take(`diff:${permit.caller.credentialId}`, diffPolicy, guesses),
              "RATE_LIMITED",
              ({ retryAfterSeconds }) =>
                new RateLimited({
                  retryAfterSeconds,
                  message:
                    "A credential that may not read values can write at most 30 existing keys per minute. Send fewer keys, or try again after the interval named."
                })
            )
      }

      /** Keys that a text names are part of it: they are told only to callers who sent it or may read it. */
      const withoutNames = <A, E, R>(writes: Iterable<Write | null>, self: Effect.Effect<A, E, R>) =>
        [...writes].every((write) => write?.from !== "stored") || mayHaveValues(permit)
          ? self
          : Effect.mapError(self, (error) => {
              if (error instanceof TemplateReferenceMissing) {
                return new TemplateReferenceMissing({
                  ...(error.field === undefined ? {} : { field: error.field }),
                  references: []
                }) as E & TemplateReferenceMissing
              }
              if (error instanceof TemplateCycle) {
                return new TemplateCycle({
                  ...(error.field === undefined ? {} : { field: error.field }),
                  cycle: []
                }) as E & TemplateCycle
              }
              return error
            })

      const commit: Locked["commit"] = Effect.fnUntraced(
        function* (changes, fieldOf) {
          yield* countGuesses(changes)
          const results = new Map<string, Written>()
          const entries = new Map<string, Composition.Entry | null>()
          const texts = yield* open([...changes].flatMap(([key, write]) => (write === null ? [] : [key])))
          const changed: Array<{ readonly key: string; readonly write: Write }> = []
          const repinned: Array<{ readonly meta: SealedMeta; readonly pinned: boolean }> = []
          for (const [key, write] of changes) {
            if (write === null) {
              entries.set(key, null)
              continue
            }
            const meta = liveByKey.get(key)
            if (meta !== undefined && meta.kind === write.kind && texts.get(key) === write.text) {
              if (meta.pinned !== write.pinned) repinned.push({ meta, pinned: write.pinned })
              results.set(key, { meta, outcome: "unchanged" })
              continue
            }
            const parsed = Composition.entry(write.kind, write.text, fieldOf?.(key))
            entries.set(key, yield* parsed)
            changed.push({ key, write })
          }
          const gone = [...changes].flatMap(([key, write]) => (write === null ? (liveByKey.get(key) ?? []) : []))
          if (repinned.length > 0) {
            yield* sql`
            UPDATE secret_versions v SET pinned = i.pinned FROM unnest(
              ${repinned.map((r) => r.meta.id)}::uuid[], ${repinned.map((r) => r.meta.version)}::int[],
              ${repinned.map((r) => r.pinned)}::boolean[]
            ) AS i (id, version, pinned) WHERE v.secret_id = i.id AND v.version = i.version`
          }
          if (changed.length === 0 && gone.length === 0) return results
          yield* withoutNames(changes.values(), check(entries, fieldOf))

          if (gone.length > 0) {
            yield* sql`
            UPDATE secrets SET deleted_at = ${at}, purge_at = ${new Date(now + purgeDelay)}
            WHERE id = ANY(${gone.map((meta) => meta.id)}::uuid[])`
          }
          if (changed.length > 0) {
            const versionOf = new Map(
              (yield* sql<{ readonly key: string; readonly lastVersion: number }>`
              INSERT INTO secret_counters (environment_id, key, last_version)
              SELECT ${target.environmentId}::uuid, k, 1 FROM unnest(${changed.map((c) => c.key)}::text[]) AS k
              ON CONFLICT (environment_id, key) DO UPDATE SET last_version = secret_counters.last_version + 1
              RETURNING key, last_version`).map((row) => [row.key, row.lastVersion])
            )
            const ids = yield* crypto.uuids(changed.length)
            const written = changed.map(({ key, write }, i) => {
              const before = liveByKey.get(key)
              const entry = entries.get(key)
              return {
                id: before?.id ?? SecretIdOut.make(ids[i]),
                key,
                kind: write.kind,
                version: versionOf.get(key) ?? 1,
                createdAt: before?.createdAt ?? at,
                updatedAt: at,
                text: write.text,
                pinned: write.pinned,
                refs: entry === undefined || entry === null ? [] : Composition.referencesOf(entry),
                outcome: before === undefined ? ("created" as const) : ("updated" as const)
              }
            })
            yield* sql`
            INSERT INTO secrets (id, environment_id, key, version, created_at, updated_at)
            SELECT i.id, ${target.environmentId}::uuid, i.key, i.version, ${at}, ${at}
            FROM unnest(${written.map((w) => w.id)}::uuid[], ${written.map((w) => w.key)}::text[], ${written.map((w) => w.version)}::int[])
              AS i (id, key, version)
            ON CONFLICT (id) DO UPDATE SET version = excluded.version, updated_at = excluded.updated_at`
            yield* insertVersions(written)
            for (const one of written) {
              versions.set(one.key, one.version)
              results.set(one.key, { meta: metaOf(one), outcome: one.outcome })
            }
          }
          yield* bumpRevision
          return results
        },
        Effect.catchTag("SqlError", Effect.die)
      )

      const version: Locked["version"] = Effect.fnUntraced(function* (id, key, wanted) {
        const rows = yield* Effect.orDie(sql<SealedRow & { readonly pinned: boolean }>`
          SELECT s.id, s.key, v.kind, v.version, s.created_at, s.updated_at, v.data_key_id, v.sealed, v.pinned
          FROM secrets s JOIN secret_versions v ON v.secret_id = s.id AND v.version = ${wanted}::bigint
          WHERE s.id = ${id} AND s.key = ${key} AND s.environment_id = ${target.environmentId}`)
        if (rows.length === 0) return undefined
        const [opened] = yield* openAll(permit, rows)
        return { kind: opened.kind, pinned: rows[0].pinned, text: opened.text, from: "stored" as const }
      })

      const revive: Locked["revive"] = Effect.fnUntraced(
        function* (secret, write) {
          const entry = yield* Composition.entry(write.kind, write.text)
          yield* withoutNames([write], check(new Map([[secret.key, entry]])))
          // `updated_at` stays: it says when the version was written, like `updatedBy` by whom.
          yield* sql`UPDATE secrets SET deleted_at = NULL, purge_at = NULL WHERE id = ${secret.id}`
          yield* bumpRevision
          versions.set(secret.key, secret.version)
          return metaOf(secret)
        },
        Effect.catchTag("SqlError", Effect.die)
      )

      const deletedSecret: Locked["deleted"] = (id) =>
        Effect.orDie(
          Effect.map(
            sql<SecretMeta & { readonly purgeAt: Date }>`
              SELECT s.id, s.key, v.kind, s.version, s.created_at, s.updated_at, s.purge_at FROM ${liveVersions}
              WHERE s.id = ${id} AND s.environment_id = ${target.environmentId} AND s.deleted_at IS NOT NULL
                AND s.purge_at > ${at}`,
            (rows) => rows[0]
          )
        )

      const lastVersion: Locked["lastVersion"] = (key) =>
        Effect.orDie(
          Effect.map(
            sql<{ readonly lastVersion: number }>`
              SELECT last_version FROM secret_counters WHERE environment_id = ${target.environmentId} AND key = ${key}`,
            (rows) => rows[0]?.lastVersion ?? 0
          )
        )

      const locked: Locked = {
        permit,
        live: liveByKey,
        byId: new Map(metas.map((meta) => [meta.id, meta])),
        open,
        state,
        commit,
        version,
        revive,
        deleted: deletedSecret,
        lastVersion,
        // What a writer of the database would have to fit as well, to roll a value back unnoticed (security I2).
        audit: (event) =>
          audit.append({
            ...event,
            ...(event.keys === undefined
              ? {}
              : {
                  versions: event.keys.map((key) => versions.get(key) ?? liveByKey.get(key)?.version ?? 0),
                  revision
                })
          })
      }
      return locked
    })

    /**
     * One transaction under the lock of the environment: `use` reads, checks, commits and appends its audit entries.
     * The caller puts `outermost` around it, or around the transaction it is part of.
     */
    const change = <A, E, R>(
      permit: EnvironmentPermit<"secrets:write">,
      use: (locked: Locked) => Effect.Effect<A, E, R>
    ): Effect.Effect<A, Exclude<E, SqlError> | EnvironmentNotFound, R> =>
      sql
        .withTransaction(Effect.flatMap(lock(permit), use))
        .pipe(Effect.catchIf(isSqlError, Effect.die)) as Effect.Effect<A, Exclude<E, SqlError> | EnvironmentNotFound, R>

    return { live, livePage, closure, page, count, graph, versions, deleted, change, outermost } as const
  })
}) {}

/** A data key that does not open is as good as an altered box. */
const keyIntact = <A, E>(self: Effect.Effect<A, E | IntegrityFailure>) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E, IntegrityFailure> => error instanceof IntegrityFailure,
    () => new BoxAltered({ keys: [] })
  )

const isSqlError = (error: unknown): error is SqlError =>
  typeof error === "object" && error !== null && "_tag" in error && error._tag === "SqlError"

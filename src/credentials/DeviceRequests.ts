/** Requests of device authorization (RFC 8628): their rows, their states, their start and their end. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { CredentialProtection, type DeviceStart, type DeviceStartResponse } from "#schema/DeviceApi.ts"
import { CredentialExpired, CredentialInvalid } from "#schema/Errors.ts"
import { EnvironmentIdOut, InstallationId, ProjectIdOut, TeamIdOut, UserIdOut } from "#schema/Ids.ts"
import { Scope } from "#schema/Scopes.ts"
import { RequestInfo } from "#src/access/RequestInfo.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import { days } from "#src/Days.ts"
import * as Rows from "#src/Rows.ts"
import { issue, ProofRow } from "./Issue.ts"
import * as TokenText from "./TokenText.ts"
import * as UserCode from "./UserCode.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
}

export const lifetimeSeconds = 600
export const pollIntervalSeconds = 5

const purgeAfter = days(1)
const purgeBatch = 1_000

const Time = Schema.NullOr(Schema.DateFromSelf)

export const RequestRow = Schema.Struct({
  id: Schema.String,
  status: Schema.Literal("pending", "approved", "denied"),
  credentialProtection: CredentialProtection,
  installationId: Schema.NullOr(Schema.typeSchema(InstallationId)),
  machineRequested: Schema.Boolean,
  hostname: Schema.NullOr(Schema.String),
  os: Schema.NullOr(Schema.String),
  ip: Schema.String,
  intervalSeconds: Schema.Number,
  lastPolledAt: Time,
  createdAt: Schema.DateFromSelf,
  expiresAt: Schema.DateFromSelf,
  decidedBy: Schema.NullOr(UserIdOut),
  decidedByEmail: Schema.NullOr(Schema.String),
  machine: Schema.NullOr(Schema.Boolean),
  teams: Schema.NullOr(Schema.Array(Schema.Struct({ teamId: TeamIdOut, scopes: Schema.Array(Scope) }))),
  projectIds: Schema.NullOr(Schema.Array(ProjectIdOut)),
  environmentIds: Schema.NullOr(Schema.Array(EnvironmentIdOut)),
  deliveredAt: Time
})
export type RequestRow = typeof RequestRow.Type

const columns = `
  r.id, r.status, r.credential_protection, r.installation_id, r.machine_requested, r.hostname, r.os, r.ip,
  r.interval_seconds, r.last_polled_at, r.created_at, r.expires_at, r.decided_by, u.email AS decided_by_email,
  r.machine, r.teams, r.project_ids, r.environment_ids, r.delivered_at
  FROM device_requests r LEFT JOIN users u ON u.id = r.decided_by`

export const byId = ({ sql }: Needs, id: string) =>
  Rows.findOne(RequestRow, sql`SELECT ${sql.literal(columns)} WHERE r.id = ${id}`)

export const lock = ({ sql }: Needs, id: string) =>
  Rows.findOne(RequestRow, sql`SELECT ${sql.literal(columns)} WHERE r.id = ${id} FOR UPDATE OF r`)

export const byUserCode = ({ sql }: Needs, code: string) =>
  Rows.findOne(RequestRow, sql`SELECT ${sql.literal(columns)} WHERE r.user_code_hash = ${UserCode.hash(code)}`)

export type State = "pending" | "approved" | "denied" | "expired" | "consumed"

/** A delivered and a denied request stay so; an approval that is not fetched in time expires. */
export const stateOf = (row: Pick<RequestRow, "status" | "deliveredAt" | "expiresAt">, now: number): State => {
  if (row.deliveredAt !== null) return "consumed"
  if (row.status === "denied") return "denied"
  return row.expiresAt.getTime() <= now ? "expired" : row.status
}

const RequestProofRow = Schema.Struct({ id: Schema.String, ...ProofRow.fields })

/** Id of the request whose code this is; undefined for anything else. */
export const idOf = Effect.fnUntraced(function* ({ sql }: Needs, deviceCode: Redacted.Redacted) {
  const token = TokenText.parse(Redacted.value(deviceCode))
  if (token?.kind !== "dc") return undefined
  const row = yield* Rows.findOne(
    RequestProofRow,
    sql`SELECT id, salt, hash FROM device_requests WHERE lookup_id = ${token.id}`
  )
  return TokenText.verify(row, token.secret) ? row?.id : undefined
})

/** The request of a code that can still lead to something; a consumed code is as unknown as one never issued. */
export const live = Effect.fnUntraced(function* (needs: Needs, deviceCode: Redacted.Redacted) {
  const id = yield* idOf(needs, deviceCode)
  const row = id === undefined ? undefined : yield* byId(needs, id)
  if (row === undefined) return yield* new CredentialInvalid()
  const state = stateOf(row, yield* Clock.currentTimeMillis)
  if (state === "consumed") return yield* new CredentialInvalid()
  if (state === "expired") return yield* new CredentialExpired()
  return row
})

/** Starts are counted where requests are, before their shape is checked (`http/AddressLimit.ts`). */
export const start = Effect.fn("DeviceGrants.start")(function* (
  { baseUrl, crypto, sql }: Needs & { readonly baseUrl: string; readonly crypto: Crypto },
  request: DeviceStart | null
) {
  const { ip } = yield* RequestInfo
  const now = yield* Clock.currentTimeMillis
  const id = yield* crypto.uuid
  const { proof, text } = yield* issue(crypto, "dc")
  const insert = Effect.gen(function* () {
    const userCode = yield* crypto.randomText(UserCode.alphabet, UserCode.length)
    const isFree = yield* Rows.exists(sql`
      INSERT INTO device_requests (id, lookup_id, salt, hash, user_code_hash, status, credential_protection,
        installation_id, machine_requested, hostname, os, ip, interval_seconds, created_at, expires_at)
      VALUES (${id}, ${proof.lookupId}, ${proof.salt}, ${proof.hash}, ${UserCode.hash(userCode)}, 'pending',
        ${request?.credentialProtection ?? "os_keychain"}, ${request?.installationId ?? null},
        ${request?.machineCredential === "grant"}, ${request?.host?.hostname ?? null}, ${request?.host?.os ?? null},
        ${ip}, ${pollIntervalSeconds}, ${new Date(now)}, ${new Date(now + lifetimeSeconds * 1_000)})
      ON CONFLICT (user_code_hash) DO NOTHING RETURNING id`)
    return isFree ? Option.some(userCode) : Option.none()
  })
  // A code that another request holds is drawn again; with 20^8 codes the second draw is already rare.
  const userCode = UserCode.print(
    yield* Effect.repeat(insert, { until: Option.isSome }).pipe(Effect.flatten, Effect.orDie)
  )
  const verificationUri = `${baseUrl}/device`
  const started: DeviceStartResponse = {
    deviceCode: Redacted.value(text),
    userCode,
    verificationUri,
    verificationUriComplete: `${verificationUri}?code=${userCode}`,
    expiresInSeconds: lifetimeSeconds,
    pollIntervalSeconds
  }
  return started
})

/** Forgets requests a day after their codes expired: until then a late poll still learns what became of it. */
export const purge = ({ sql }: Needs) =>
  Effect.gen(function* () {
    const before = new Date((yield* Clock.currentTimeMillis) - purgeAfter)
    const purged = yield* sql`
      DELETE FROM device_requests WHERE id IN
        (SELECT id FROM device_requests WHERE expires_at < ${before} ORDER BY expires_at LIMIT ${purgeBatch})
      RETURNING id`
    return purged.length
  }).pipe(Effect.repeat({ while: (purged) => purged === purgeBatch }))

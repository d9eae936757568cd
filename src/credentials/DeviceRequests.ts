/**
 * Requests of device authorization (RFC 8628): rows, states, start, and the event stream of a device code (`connected`,
 * then the decision).
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import {
  CredentialProtection,
  type DeviceEvent,
  type DeviceStart,
  type DeviceAuthorization
} from "#schema/DeviceApi.ts"
import { CredentialExpired, CredentialInvalid, RateLimited } from "#schema/Errors.ts"
import {
  EnvironmentIdOut,
  type GrantId,
  GrantIdOut,
  InstallationId,
  ProjectIdOut,
  type TeamId,
  TeamIdOut,
  type UserId,
  UserIdOut
} from "#schema/Ids.ts"
import { Scope } from "#schema/Scopes.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import type { EventBus } from "#src/events/EventBus.ts"
import * as Rows from "#src/database/Rows.ts"
import * as TokenText from "./TokenText.ts"
import * as UserCode from "./UserCode.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
}
interface ProvingNeeds extends Needs {
  readonly rowSeal: RowSeal
}

export const lifetimeSeconds = 600
const pollIntervalSeconds = 5

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
  factorAt: Time,
  manages: Schema.NullOr(TeamIdOut),
  loginId: Schema.NullOr(GrantIdOut),
  askedBy: Schema.NullOr(UserIdOut),
  deliveredAt: Time,
  lookupId: Schema.String,
  hash: Schema.Uint8ArrayFromSelf,
  userCodeHash: Schema.Uint8ArrayFromSelf,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})
export type RequestRow = typeof RequestRow.Type

const columns = `
  r.id, r.status, r.credential_protection, r.installation_id, r.machine_requested, r.hostname, r.os, r.ip,
  r.interval_seconds, r.last_polled_at, r.created_at, r.expires_at, r.decided_by, u.email AS decided_by_email,
  r.machine, r.teams, r.project_ids, r.environment_ids, r.factor_at,
  r.manages, r.login_id, r.asked_by, r.delivered_at, r.lookup_id, r.hash, r.user_code_hash, r.mac
  FROM device_requests r LEFT JOIN users u ON u.id = r.decided_by`

/**
 * The request, or undefined when none exists or the MAC of its row fails: then its code or its decision is not ours.
 */
const find = ({ rowSeal, sql }: ProvingNeeds, where: Statement.Fragment) =>
  Effect.zipWith(
    rowSeal.ready,
    Rows.findOne(RequestRow, sql`SELECT ${sql.literal(columns)} WHERE ${where}`),
    (macs, row) =>
      row !== undefined && (row.deliveredAt !== null || macs.isAuthentic("device_requests", row)) ? row : undefined
  )

export const byId = (needs: ProvingNeeds, id: string) => find(needs, needs.sql`r.id = ${id}`)
export const lock = (needs: ProvingNeeds, id: string) => find(needs, needs.sql`r.id = ${id} FOR UPDATE OF r`)
export const byUserCode = (needs: ProvingNeeds, code: string) =>
  find(needs, needs.sql`r.user_code_hash = ${UserCode.hash(code)}`)

type State = "pending" | "approved" | "denied" | "expired" | "consumed"

/** Delivered and denied are final; an approval that no device fetches in time expires. */
export const stateOf = (row: Pick<RequestRow, "status" | "deliveredAt" | "expiresAt">, now: number): State => {
  if (row.deliveredAt !== null) return "consumed"
  if (row.status === "denied") return "denied"
  return row.expiresAt.getTime() <= now ? "expired" : row.status
}

const RequestProofRow = Schema.Struct({ id: Schema.String, ...TokenText.ProofRow.fields })

/** Id of the request with this device code; undefined for any other text. */
export const idOf = (needs: ProvingNeeds, deviceCode: Redacted.Redacted) =>
  Effect.map(
    TokenText.prove(needs, "dc", deviceCode, (id) =>
      Rows.findOne(RequestProofRow, needs.sql`SELECT id, salt, hash FROM device_requests WHERE lookup_id = ${id}`)
    ),
    (row) => row?.id
  )

/**
 * The request of a code that is pending, approved or denied. A consumed code is as unknown as one that was never
 * issued.
 */
export const live = Effect.fnUntraced(function* (needs: ProvingNeeds, deviceCode: Redacted.Redacted) {
  const id = yield* idOf(needs, deviceCode)
  const row = id === undefined ? undefined : yield* byId(needs, id)
  if (row === undefined) return yield* new CredentialInvalid()
  const state = stateOf(row, yield* Clock.currentTimeMillis)
  if (state === "consumed") return yield* new CredentialInvalid()
  if (state === "expired") return yield* new CredentialExpired()
  return row
})

const noDecision = {
  decidedBy: null,
  machine: null,
  teams: null,
  projectIds: null,
  environmentIds: null,
  factorAt: null
}

/** The CLI login that requests management of one team, and its person; all null for a new login. */
interface Requester {
  readonly manages: TeamId | null
  readonly loginId: GrantId | null
  readonly askedBy: UserId | null
}
const noRequester: Requester = { manages: null, loginId: null, askedBy: null }

type StartNeeds = ProvingNeeds & { readonly baseUrl: string; readonly crypto: Crypto }

/** The rate limit of starts is applied before the body is parsed (`http/AddressLimit.ts`). */
export const start = Effect.fn("DeviceGrants.start")((needs: StartNeeds, request: DeviceStart | null) =>
  open(needs, request, noRequester)
)

export const open = Effect.fnUntraced(function* (needs: StartNeeds, request: DeviceStart | null, requester: Requester) {
  const { baseUrl, crypto, rowSeal, sql } = needs
  const { ip } = yield* RequestInfo
  const now = yield* Clock.currentTimeMillis
  const id = yield* crypto.uuid
  const { proof, text } = yield* TokenText.issue(needs, "dc")
  const insert = Effect.gen(function* () {
    const userCode = yield* crypto.randomText(UserCode.alphabet, UserCode.length)
    const row = yield* rowSeal.values(
      "device_requests",
      {
        id,
        lookupId: proof.lookupId,
        hash: proof.hash,
        userCodeHash: UserCode.hash(userCode),
        status: "pending",
        machineRequested: request?.machineCredential === "grant",
        expiresAt: new Date(now + lifetimeSeconds * 1_000),
        ...noDecision,
        ...requester
      },
      {
        salt: proof.salt,
        credential_protection: request?.credentialProtection ?? "os_keychain",
        installation_id: request?.installationId ?? null,
        hostname: request?.host?.hostname ?? null,
        os: request?.host?.os ?? null,
        ip,
        interval_seconds: pollIntervalSeconds,
        created_at: new Date(now)
      }
    )
    const isFree = yield* Rows.exists(
      sql`INSERT INTO device_requests ${row} ON CONFLICT (user_code_hash) DO NOTHING RETURNING id`
    )
    return isFree ? Option.some(userCode) : Option.none()
  })
  // A code that another request uses is drawn again; with 20^8 codes a second draw is rare.
  const userCode = UserCode.print(
    yield* Effect.repeat(insert, { until: Option.isSome }).pipe(Effect.flatten, Effect.orDie)
  )
  const verificationUri = `${baseUrl}/device`
  const authorization: DeviceAuthorization = {
    deviceCode: Redacted.value(text),
    userCode,
    verificationUri,
    verificationUriComplete: `${verificationUri}?code=${userCode}`,
    expiresInSeconds: lifetimeSeconds,
    pollIntervalSeconds
  }
  return authorization
})

/** An item of an open stream: an event, or a comment. */
export type DeviceSignal = DeviceEvent | "heartbeat"

/** Interval of the comments that keep proxies from closing a silent stream. */
const heartbeat = Duration.seconds(15)
/** Interval at which a stream reads the database, in case a notification from another process is lost. */
const backstop = Duration.seconds(10)

/** Open streams of one code, and of one process; a device beyond the limit polls. */
export const maxStreamsEach = 4
const maxStreams = 1_000

/** Open streams of this process, by request: anyone can get a code, and each stream costs look-ups. */
export const openStreams = () => {
  const byRequest = new Map<string, number>()
  let total = 0
  const isFull = (id: string) => total >= maxStreams || (byRequest.get(id) ?? 0) >= maxStreamsEach
  const take = (id: string): boolean => {
    if (isFull(id)) return false
    byRequest.set(id, (byRequest.get(id) ?? 0) + 1)
    total++
    return true
  }
  const release = (id: string): void => {
    const others = (byRequest.get(id) ?? 1) - 1
    if (others === 0) byRequest.delete(id)
    else byRequest.set(id, others)
    total--
  }
  return { isFull, take, release }
}

interface StreamNeeds extends ProvingNeeds {
  readonly bus: typeof EventBus.Service
  readonly streams: ReturnType<typeof openStreams>
}

const topic = (id: string) => `device:${id}`

/** A lost notification changes nothing: the stream also reads the database. */
export const announce = ({ bus }: Pick<StreamNeeds, "bus">, id: string) =>
  Effect.catchAllDefect(bus.publish(topic(id)), () => Effect.void)

const decisionOf = (needs: StreamNeeds, id: string) =>
  Effect.map(byId(needs, id), (row): Option.Option<DeviceEvent> =>
    row === undefined || row.status === "pending"
      ? Option.none()
      : Option.some({ event: row.status, ...(row.decidedByEmail === null ? {} : { email: row.decidedByEmail }) })
  )

/** Subscribes before the first read, so that no decision is missed between the two. */
const decision = (needs: StreamNeeds, id: string, timeLeft: Duration.Duration) =>
  Stream.unwrapScoped(
    Effect.map(needs.bus.subscribe(topic(id)), (notified) =>
      Stream.merge(notified, Stream.fromSchedule(Schedule.spaced(backstop))).pipe(
        Stream.mapEffect(() => decisionOf(needs, id)),
        (later) => Stream.concat(Stream.fromEffect(decisionOf(needs, id)), later),
        Stream.filterMap((event) => event),
        Stream.take(1),
        Stream.interruptAfter(timeLeft)
      )
    )
  )

/**
 * `connected`, then the decision, with comments in between. Ends after the decision, and without an event when the code
 * expires.
 */
export const events = Effect.fn("DeviceGrants.events")(function* (needs: StreamNeeds, deviceCode: Redacted.Redacted) {
  const { streams } = needs
  const { expiresAt, id } = yield* live(needs, deviceCode)
  if (streams.isFull(id)) return yield* new RateLimited({ retryAfterSeconds: pollIntervalSeconds })
  const timeLeft = Duration.millis(Math.max(0, expiresAt.getTime() - (yield* Clock.currentTimeMillis)))
  const comments = Stream.as(Stream.fromSchedule(Schedule.spaced(heartbeat)), "heartbeat" as const)
  const connected: DeviceEvent = { event: "connected" }
  const signals: Stream.Stream<DeviceSignal> = Stream.concat(
    Stream.make(connected),
    Stream.merge(decision(needs, id, timeLeft), comments, { haltStrategy: "left" })
  )
  // Counted when the stream starts, so that a response that the client never reads uses no slot.
  const slot = Effect.acquireRelease(
    Effect.sync(() => streams.take(id)),
    (isTaken) => Effect.sync(() => (isTaken ? streams.release(id) : undefined))
  )
  return Stream.unwrapScoped(Effect.map(slot, (isTaken) => (isTaken ? signals : Stream.empty)))
})

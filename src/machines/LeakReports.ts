/**
 * Credentials of this server that somebody found in the open (docs/contract/leaked-credentials.md). A report holds live
 * credentials: no text of one goes anywhere but into its proof and the answer to who sent it.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import {
  CredentialInvalid,
  DependencyUnavailable,
  Forbidden,
  RouteNotFound,
  Unauthenticated,
  ValidationFailed
} from "#schema/Errors.ts"
import { type TeamId, TeamIdOut } from "#schema/Ids.ts"
import { LeakedCredential as Leaked, type LeakLabel, LeakReports as Reports } from "#schema/LeakReportsApi.ts"
import { LeakRule } from "#schema/Scopes.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import { change } from "#src/access/Change.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as Accounts from "#src/credentials/Accounts.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import { endedEvents, Revocation, revocationEvents } from "#src/credentials/Revocation.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import { type Policy, RateLimiter } from "#src/limits/RateLimiter.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import * as LeakedLinks from "./LeakedLinks.ts"
import { ReportKeys } from "./ReportKeys.ts"

const services = Effect.all({
  access: Access,
  audit: Audit,
  authenticate: Authenticate,
  crypto: Crypto,
  keys: ReportKeys,
  limiter: RateLimiter,
  revocation: Revocation,
  rowSeal: RowSeal,
  sql: SqlClient.SqlClient
})
type Needs = Effect.Effect.Success<typeof services>

const perAddress: Policy = [{ limit: 60, millis: 60_000 }]
const listedAtMost = 100

/** A credential that a text proves. */
interface Found {
  readonly type: Caller["kind"] | "invitation" | "password_reset"
  readonly id: string
  readonly name: string
  readonly person: string | null
  readonly teams: ReadonlyArray<TeamId>
  readonly isLive: boolean
}

const utf8 = new TextDecoder("utf-8", { fatal: true })
const decode = Schema.decodeUnknownOption(Schema.parseJson(Reports))

/** What was signed, as reports. Its text is in no message. */
const reportsIn = (body: Uint8Array) =>
  Option.match(Option.flatMap(Option.liftThrowable(() => utf8.decode(body))(), decode), {
    onNone: () => Effect.fail(new ValidationFailed({ message: "The body is no list of reports." })),
    onSome: Effect.succeed
  })

/** The credential that the text proves, in whatever state it is. */
const prove = Effect.fnUntraced(function* (needs: Needs, text: string) {
  const token = TokenText.parse(text)
  if (token === undefined) return undefined
  const link = yield* LeakedLinks.prove(needs, token)
  if (link !== undefined) return link
  const verified = yield* Effect.option(needs.authenticate.verify(token))
  return Option.match(verified, {
    onNone: () => undefined,
    onSome: ({ caller, life }): Found => ({
      type: caller.kind,
      id: caller.credentialId,
      name: caller.name ?? "",
      person: caller.user?.email ?? null,
      teams: caller.teams.map(({ id }) => id),
      isLive: life === "live"
    })
  })
})

const RuleRow = Schema.Struct({
  id: TeamIdOut,
  plan: Schema.String,
  adminsNeedGrants: Schema.Boolean,
  tokensFollowCreators: Schema.Boolean,
  secondFactorRequired: Schema.Boolean,
  stepUpMinutes: Schema.Number,
  leakedCredentials: LeakRule,
  signInOnly: Schema.NullOr(Schema.Array(Schema.String)),
  suspended: Schema.Boolean,
  sessionAddresses: Schema.NullOr(Schema.Array(Schema.String)),
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})

/** What each team wants. A rule that no server wrote as it is counts for nothing: the credential ends. */
const rulesOf = Effect.fnUntraced(function* ({ rowSeal, sql }: Needs, teams: ReadonlyArray<TeamId>) {
  const rows = yield* Rows.findAll(
    RuleRow,
    sql`
      SELECT id, plan, admins_need_grants, tokens_follow_creators, second_factor_required, step_up_minutes,
        leaked_credentials, sign_in_only, suspended, session_addresses, mac
      FROM teams WHERE id = ANY(${teams}::uuid[]) ORDER BY id`
  )
  const macs = yield* rowSeal.ready
  return rows.map((row) => ({
    teamId: row.id,
    revokes: row.leakedCredentials === "revoke" || !macs.isAuthentic("teams", row)
  }))
})

/** Ends it in one team, where it is one of a team; part of the caller's transaction. */
const revoke = Effect.fnUntraced(function* ({ revocation, sql }: Needs, { id, type }: Found, teamId: TeamId) {
  const by = { actor: "system", teamId } as const
  switch (type) {
    case "api_token":
      return revocationEvents("system", yield* revocation.tokenInTeam(id, teamId))
    case "cli_grant":
    case "oauth_token":
      return endedEvents(by, yield* revocation.loginInTeam(id, teamId))
    case "management":
    case "session": {
      const ended = yield* Accounts.endSessions({ sql }, sql`id = ${id}`)
      return ended.map((one): AuditEvent => ({
        ...by,
        action: "session.end",
        outcome: "allowed",
        target: { type: "session", id: one, name: "" }
      }))
    }
    default:
      return yield* LeakedLinks.end(sql, type, id, by)
  }
})

const inTheOpen = /amp_[a-z]{2}_[0-9A-Za-z_]*/g
/** An address without what may be another secret: user, query, fragment, a credential in the path. */
const placeOf = (url: string | null | undefined): string | null => {
  if (url === null || url === undefined || !URL.canParse(url)) return null
  const { origin, pathname, protocol } = new URL(url)
  if (protocol !== "https:" && protocol !== "http:") return null
  return `${origin}${pathname}`.replaceAll(inTheOpen, "…").slice(0, 1_000)
}
const wordOf = (source: string | null | undefined): string | null =>
  source !== null && source !== undefined && /^[a-z_]{1,50}$/i.test(source) ? source : null

/** Once for a credential and a team, however often it is reported. */
const settle = Effect.fnUntraced(function* (
  needs: Needs,
  found: Found,
  where: { readonly url: string | null; readonly source: string | null }
) {
  const { audit, crypto, sql } = needs
  const now = new Date(yield* Clock.currentTimeMillis)
  const target = { type: found.type, id: found.id, name: found.name || (found.person ?? "") }
  const event = (teamId: TeamId | null): AuditEvent => ({
    actor: "system",
    action: "credential.leaked",
    outcome: "allowed",
    teamId,
    target,
    ...(where.url === null ? {} : { reason: where.url })
  })
  yield* change(needs, event(null), function* () {
    for (const { revokes, teamId } of yield* rulesOf(needs, found.teams)) {
      const ended = revokes ? yield* revoke(needs, found, teamId) : []
      const isNew = yield* Rows.exists(sql`
        INSERT INTO leaked_credentials ${sql.insert({
          id: yield* crypto.uuid,
          team_id: teamId,
          credential_type: found.type,
          credential_id: found.id,
          name: found.name,
          person: found.person,
          url: where.url,
          source: where.source,
          revoked: revokes,
          reported_at: now
        })} ON CONFLICT (team_id, credential_id) DO NOTHING RETURNING 1 AS one`)
      if (isNew) yield* audit.append(event(teamId))
      // One that the team kept until now, and ends by its rule of today.
      else if (ended.length > 0) {
        yield* Rows.run(
          sql`UPDATE leaked_credentials SET revoked = true WHERE team_id = ${teamId} AND credential_id = ${found.id}`
        )
      }
      if (ended.length > 0) yield* audit.append(...ended)
    }
    // Of a person without a team nobody else decides.
    if (found.teams.length === 0 && (found.type === "session" || found.type === "management")) {
      yield* Accounts.endSessions({ sql }, sql`id = ${found.id}`)
      yield* audit.append(event(null))
    }
  })
})

const labelled = (token: string, type: string, isOurs: boolean): LeakLabel => ({
  token_raw: token,
  token_type: type,
  label: isOurs ? "true_positive" : "false_positive"
})

export interface SignedReport {
  readonly identifier: string | undefined
  readonly signature: string | undefined
  readonly body: Effect.Effect<Uint8Array>
}

/**
 * Whoever holds a configured key may say which texts they found; the answer says which are ours. UNAUTHENTICATED,
 * CREDENTIAL_INVALID: it is not signed by one. Nothing is read of a body before its signature holds.
 */
const report = Effect.fn("LeakReports.report")(function* (needs: Needs, signed: SignedReport) {
  const { keys, limiter } = needs
  if (!keys.isOn) return yield* new RouteNotFound()
  const { ip } = yield* RequestInfo
  yield* limiter.take(`leak-reports-${addressBucket(ip)}`, perAddress)
  const { identifier, signature } = signed
  if (identifier === undefined || signature === undefined) return yield* new Unauthenticated()
  const body = yield* signed.body
  const isSigned = yield* Effect.mapError(
    keys.holds({ identifier, signature, body }),
    () => new DependencyUnavailable()
  )
  if (!isSigned) return yield* new CredentialInvalid()
  const reports = yield* reportsIn(body)
  const texts = [...new Set(reports.map(({ token }) => token))]
  const proved = yield* Effect.forEach(texts, (text) => prove(needs, text), { concurrency: 16 })
  const found = new Map(texts.map((text, i) => [text, proved[i]]))
  const settled = new Set<string>()
  for (const { source, token, url } of reports) {
    const one = found.get(token)
    if (one?.isLive !== true || settled.has(one.id)) continue
    settled.add(one.id)
    yield* settle(needs, one, { url: placeOf(url), source: wordOf(source) })
  }
  return reports.map(({ token, type }) => labelled(token, type, found.get(token) !== undefined))
})

const LeakedRow = Schema.Struct({ ...Leaked.fields, reportedAt: Rows.Iso })

/** Of a team, latest first. */
const list = Effect.fn("LeakReports.list")(function* ({ access, sql }: Needs, teamId: TeamId) {
  yield* access.team("audit:read", teamId, { audit: "audit.read" })
  const { environmentIds, projectIds } = (yield* CurrentCaller).restrictions
  if (environmentIds !== null || projectIds !== null) {
    return yield* new Forbidden({ message: "This login is restricted to a part of the team." })
  }
  const items = yield* Rows.findAll(
    LeakedRow,
    sql`
      SELECT id, credential_type AS type, credential_id, name, person, url, source, revoked, reported_at
      FROM leaked_credentials WHERE team_id = ${teamId} ORDER BY reported_at DESC, id DESC LIMIT ${listedAtMost}`
  )
  return { items }
})

export class LeakReports extends Effect.Service<LeakReports>()("machines/LeakReports", {
  effect: Effect.map(services, (needs) => methods(needs, { report, list }))
}) {}

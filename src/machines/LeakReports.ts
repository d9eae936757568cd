/**
 * Reports of leaked credentials of this server (docs/contract/leaked-credentials.md). A report contains live
 * credentials: their texts go only into their verification and the response to the sender.
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
const listLimit = 100

/** A credential that a text proves. */
interface ProvedCredential {
  readonly type: Caller["kind"] | "invitation" | "password_reset"
  readonly id: string
  readonly name: string
  readonly person: string | null
  readonly teams: ReadonlyArray<TeamId>
  readonly isLive: boolean
}

const utf8 = new TextDecoder("utf-8", { fatal: true })
const decode = Schema.decodeUnknownOption(Schema.parseJson(Reports))

/** The signed reports. No message quotes them. */
const reportsIn = (body: Uint8Array) =>
  Option.match(Option.flatMap(Option.liftThrowable(() => utf8.decode(body))(), decode), {
    onNone: () => Effect.fail(new ValidationFailed({ message: "The body is not a list of reports." })),
    onSome: Effect.succeed
  })

/** The credential that the text proves, live or ended. */
const prove = Effect.fnUntraced(function* (needs: Needs, text: string) {
  const token = TokenText.parse(text)
  if (token === undefined) return undefined
  const link = yield* LeakedLinks.prove(needs, token)
  if (link !== undefined) return link
  const verified = yield* Effect.option(needs.authenticate.verify(token))
  return Option.match(verified, {
    onNone: () => undefined,
    onSome: ({ caller, life }): ProvedCredential => ({
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
  secondPerson: Schema.Boolean,
  allowedKeys: Schema.NullOr(Schema.Array(Schema.String)),
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})

/** Each team's rule. A rule whose MAC fails counts as "revoke". */
const rulesOf = Effect.fnUntraced(function* ({ rowSeal, sql }: Needs, teams: ReadonlyArray<TeamId>) {
  const rows = yield* Rows.findAll(
    RuleRow,
    sql`
      SELECT id, plan, admins_need_grants, tokens_follow_creators, second_factor_required, step_up_minutes,
        leaked_credentials, sign_in_only, suspended, session_addresses, second_person, allowed_keys, mac
      FROM teams WHERE id = ANY(${teams}::uuid[]) ORDER BY id`
  )
  const macs = yield* rowSeal.ready
  return rows.map((row) => ({
    teamId: row.id,
    revokes: row.leakedCredentials === "revoke" || !macs.isAuthentic("teams", row)
  }))
})

/** Part of the caller's transaction: ends the credential, in one team if it belongs to teams. */
const revoke = Effect.fnUntraced(function* (
  { revocation, sql }: Needs,
  { id, type }: ProvedCredential,
  teamId: TeamId
) {
  const by = { actor: "system", teamId } as const
  switch (type) {
    case "api_token":
      return revocationEvents("system", yield* revocation.tokenInTeam(id, teamId))
    case "cli_grant":
    case "oauth_token":
      return endedEvents(by, yield* revocation.loginInTeam(id, teamId))
    case "management":
    case "session": {
      const events = yield* Accounts.endSessions({ sql }, sql`id = ${id}`)
      return events.map((one): AuditEvent => ({
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

const credentialText = /amp_[a-z]{2}_[0-9A-Za-z_]*/g
/** Address without parts that may be secret: user, query, fragment, a credential in the path. */
const placeOf = (url: string | null | undefined): string | null => {
  if (url === null || url === undefined || !URL.canParse(url)) return null
  const { origin, pathname, protocol } = new URL(url)
  if (protocol !== "https:" && protocol !== "http:") return null
  return `${origin}${pathname}`.replaceAll(credentialText, "…").slice(0, 1_000)
}
const wordOf = (source: string | null | undefined): string | null =>
  source !== null && source !== undefined && /^[a-z_]{1,50}$/i.test(source) ? source : null

/** Handles a leaked credential, once per team however often it is reported. */
const handle = Effect.fnUntraced(function* (
  needs: Needs,
  credential: ProvedCredential,
  where: { readonly url: string | null; readonly source: string | null }
) {
  const { audit, crypto, sql } = needs
  const now = new Date(yield* Clock.currentTimeMillis)
  const target = { type: credential.type, id: credential.id, name: credential.name || (credential.person ?? "") }
  const event = (teamId: TeamId | null): AuditEvent => ({
    actor: "system",
    action: "credential.leaked",
    outcome: "allowed",
    teamId,
    target,
    ...(where.url === null ? {} : { reason: where.url })
  })
  yield* change(needs, event(null), function* () {
    for (const { revokes, teamId } of yield* rulesOf(needs, credential.teams)) {
      const events = revokes ? yield* revoke(needs, credential, teamId) : []
      const isNew = yield* Rows.exists(sql`
        INSERT INTO leaked_credentials ${sql.insert({
          id: yield* crypto.uuid,
          team_id: teamId,
          credential_type: credential.type,
          credential_id: credential.id,
          name: credential.name,
          person: credential.person,
          url: where.url,
          source: where.source,
          revoked: revokes,
          reported_at: now
        })} ON CONFLICT (team_id, credential_id) DO NOTHING RETURNING 1 AS one`)
      if (isNew) yield* audit.append(event(teamId))
      // The team kept this credential until now; its current rule ends it.
      else if (events.length > 0) {
        yield* Rows.run(
          sql`UPDATE leaked_credentials SET revoked = true WHERE team_id = ${teamId} AND credential_id = ${credential.id}`
        )
      }
      if (events.length > 0) yield* audit.append(...events)
    }
    // A person without a team has no rule, so the session ends.
    if (credential.teams.length === 0 && (credential.type === "session" || credential.type === "management")) {
      yield* Accounts.endSessions({ sql }, sql`id = ${credential.id}`)
      yield* audit.append(event(null))
    }
  })
})

const labelOf = (token: string, type: string, isOurs: boolean): LeakLabel => ({
  token_raw: token,
  token_type: type,
  label: isOurs ? "true_positive" : "false_positive"
})

interface SignedReport {
  readonly identifier: string | undefined
  readonly signature: string | undefined
  readonly body: Effect.Effect<Uint8Array>
}

/**
 * A sender with a configured key reports found texts; the response says which are ours. UNAUTHENTICATED or
 * CREDENTIAL_INVALID without its signature. The body is parsed only after its signature holds.
 */
const report = Effect.fn("LeakReports.report")(function* (needs: Needs, signedReport: SignedReport) {
  const { keys, limiter } = needs
  if (!keys.isOn) return yield* new RouteNotFound()
  const { ip } = yield* RequestInfo
  yield* limiter.take(`leak-reports-${addressBucket(ip)}`, perAddress)
  const { identifier, signature } = signedReport
  if (identifier === undefined || signature === undefined) return yield* new Unauthenticated()
  const body = yield* signedReport.body
  const isSigned = yield* Effect.mapError(
    keys.holds({ identifier, signature, body }),
    () => new DependencyUnavailable()
  )
  if (!isSigned) return yield* new CredentialInvalid()
  const reports = yield* reportsIn(body)
  const texts = [...new Set(reports.map(({ token }) => token))]
  const credentials = yield* Effect.forEach(texts, (text) => prove(needs, text), { concurrency: 16 })
  const byText = new Map(texts.map((text, i) => [text, credentials[i]]))
  const handledIds = new Set<string>()
  for (const { source, token, url } of reports) {
    const one = byText.get(token)
    if (one?.isLive !== true || handledIds.has(one.id)) continue
    handledIds.add(one.id)
    yield* handle(needs, one, { url: placeOf(url), source: wordOf(source) })
  }
  return reports.map(({ token, type }) => labelOf(token, type, byText.get(token) !== undefined))
})

const LeakedRow = Schema.Struct({ ...Leaked.fields, reportedAt: Rows.Iso })

/** Leaked credentials of a team, latest first. */
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
      FROM leaked_credentials WHERE team_id = ${teamId} ORDER BY reported_at DESC, id DESC LIMIT ${listLimit}`
  )
  return { items }
})

export class LeakReports extends Effect.Service<LeakReports>()("machines/LeakReports", {
  effect: Effect.map(services, (needs) => methods(needs, { report, list }))
}) {}

/**
 * Sign-in with an issuer: the button, the issuer's response, and the session. Every fault of a response is a refusal in
 * the trail with its reason, and one sentence for the person.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Caller } from "#schema/Caller.ts"
import { Forbidden, SignInFailed } from "#schema/Errors.ts"
import { type UserId, UserIdOut } from "#schema/Ids.ts"
import { addressOf, Name } from "#schema/Values.ts"
import { Audit } from "#src/trail/Audit.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as IdentityState from "#src/credentials/IdentityState.ts"
import * as Authenticators from "#src/credentials/Authenticators.ts"
import * as ProvisionalAccounts from "#src/credentials/ProvisionalAccounts.ts"
import * as Accounts from "#src/credentials/Accounts.ts"
import { Revocation } from "#src/credentials/Revocation.ts"
import { isShutOut, openChecked, type SignInResult, type PresentedCookies } from "#src/credentials/SessionOpening.ts"
import * as SignInSteps from "#src/credentials/SignInSteps.ts"
import { Crypto, sha256 } from "#src/crypto/Crypto.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Flow from "./Flow.ts"
import * as Identities from "./Identities.ts"
import { SignInIssuers } from "./IssuerRows.ts"
import * as JoinRules from "./JoinRules.ts"
import { type Claims, type Issuer, Protocol, SignInRefused } from "./Protocol.ts"

const services = Effect.all({
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  keys: ServiceKeys,
  audit: Audit,
  rowSeal: RowSeal,
  revocation: Revocation,
  issuers: SignInIssuers,
  protocol: Protocol
})
type Needs = Effect.Effect.Success<typeof services>

const sentences: ReadonlyMap<string, string> = new Map([
  ["ISSUER_UNAVAILABLE", "The issuer does not answer as it should. Try again later."],
  ["FLOW_UNKNOWN", "This sign-in took too long, or began in another browser. Start again."],
  ["FLOW_USED", "This sign-in was used already. Start again."],
  ["ISSUER_UNKNOWN", "This server no longer has this way to sign in."],
  ["NOT_LET_IN", "No account here is linked to this sign-in. Ask an owner of your team for an invitation."],
  [
    "EMAIL_UNVERIFIED",
    "The issuer does not vouch for your e-mail address. Ask an owner of your team for an invitation."
  ],
  [
    "EMAIL_TAKEN",
    "Your e-mail address has an account here. Sign in to it, then link this sign-in on the page of your account."
  ],
  [
    "CLAIMS_ELSEWHERE",
    "The issuer does not list your groups, since there are too many. Ask an owner of your team to make it list fewer."
  ],
  [
    "EMAIL_LOOKS_ALIKE",
    "Your e-mail address cannot have an account here: it mixes letters of several scripts, or looks like another account's."
  ],
  [
    "OUT_OF_USE",
    "This sign-in was put out of use. Ask an owner or admin of your team for a link to set a new password, then confirm it."
  ],
  ["SHUT_OUT", "You are no longer a member of any team here."],
  ["ANOTHER_PERSON", "You signed in as another person, so nothing was confirmed."]
])

const failure = (reason: string) =>
  new SignInFailed({
    message: sentences.get(reason.split(" ")[0] ?? "") ?? "The sign-in did not succeed. Start again."
  })

interface Begin {
  readonly issuer: string
  readonly next: string
  /** Person to confirm, or to link; null for a sign-in. */
  readonly caller: Caller | null
  readonly link: boolean
}

/** Returns the address for the browser, and its cookie. */
const begin = Effect.fn("SignIn.begin")(function* (needs: Needs, { caller, issuer: key, link, next }: Begin) {
  const issuer = yield* needs.issuers.find(key)
  if (issuer === undefined) return yield* failure("ISSUER_UNKNOWN")
  if (link) {
    if (caller === null) return yield* new Forbidden()
    yield* Identities.checkMayLink(needs, caller, issuer)
  }
  const flow: Flow.Flow = {
    secret: Redacted.value(yield* needs.crypto.credentialSecret),
    issuer: key,
    link,
    userId: caller?.user?.id ?? null,
    next: next.length > 1_000 ? "" : next,
    endsAt: (yield* Clock.currentTimeMillis) + Flow.flowLife
  }
  const url = yield* Effect.catchTag(needs.protocol.begin(issuer, flow, isFresh(flow)), "SignInRefused", ({ reason }) =>
    refuse(needs, issuer, reason, null)
  )
  return { url, flow: yield* Flow.seal(needs, flow) }
})

/**
 * A confirmation needs a new proof, which the issuer states in `auth_time`. Linking does not, since some issuers never
 * send it: the account's own proof is the recent one.
 */
const isFresh = ({ link, userId }: Flow.Flow) => userId !== null && !link

/** A refusal of a team's issuer is in that team's trail. */
const refuse = (needs: Needs, issuer: Issuer | undefined, reason: string, person: Accounts.AccountRow | null) =>
  Effect.zipRight(
    needs.audit.record({
      actor: person === null ? "system" : { userId: person.id, email: person.email },
      action: "session.create",
      outcome: "denied",
      teamId: issuer?.teamId ?? null,
      reason,
      ...(issuer === undefined
        ? {}
        : { target: { type: "sign_in_issuer", id: issuer.key, name: issuer.name } as const })
    }),
    Effect.fail(failure(reason))
  )

const isRefused = <E>(error: E): error is Extract<E, SignInRefused> => error instanceof SignInRefused

/** Returns whether this is the flow's first response: a replay is refused before the issuer sees its code. */
const useUp = ({ sql }: Needs, flow: Flow.Flow) =>
  Rows.exists(sql`
    INSERT INTO machine_assertions (digest, expires_at)
    VALUES (${sha256("sign-in flow ", flow.secret)}, ${new Date(flow.endsAt)})
    ON CONFLICT (digest) DO NOTHING RETURNING 1 AS one`)

const decodeName = Schema.decodeUnknownOption(Name)

/** The verified address of the issuer's person, for a new account. */
const newAddressOf = (issuer: Issuer, claims: Claims) => {
  const email = Identities.verifiedEmail(issuer, claims)
  return email === undefined ? new SignInRefused({ reason: "EMAIL_UNVERIFIED" }) : Effect.succeed(email)
}

/**
 * Part of the caller's transaction, which holds the address's lock: creates an account without a password, with this
 * identity as its only sign-in. The installation's issuer vouches for the address. A team's own one does not, so the
 * account is provisional. An address never links an account.
 */
const createAccount = Effect.fnUntraced(function* (needs: Needs, issuer: Issuer, claims: Claims, now: Date) {
  const { crypto } = needs
  const email = yield* newAddressOf(issuer, claims)
  const { teamId } = issuer
  const accounts = yield* Accounts.atAddress(needs, email)
  // A member of the issuer's own team signs in to the account that they have there, and links the issuer.
  const isMember = accounts.some(({ memberships }) => memberships.some(({ id }) => id === teamId))
  if (isMember) return yield* new SignInRefused({ reason: "EMAIL_TAKEN" })
  const id = UserIdOut.make(yield* crypto.uuid)
  const name = Option.getOrElse(decodeName(claims["name"]), () => email)
  const vouchedBy = teamId === null ? "issuer" : "none"
  yield* ProvisionalAccounts.insert(needs, { id, email, name, passwordHash: "", vouchedBy, madeBy: teamId, now }).pipe(
    Effect.catchTags({
      AddressHeld: () => new SignInRefused({ reason: "EMAIL_TAKEN" }),
      VALIDATION_FAILED: () => new SignInRefused({ reason: "EMAIL_LOOKS_ALIKE" })
    })
  )
  const isNew = yield* Identities.insert(needs, issuer, claims, id, { closedTeams: null, witness: "address" })
  if (!isNew) return yield* new SignInRefused({ reason: "FLOW_USED" })
  return { id, email }
})

/**
 * The identity's account, with the roles of the issuer's rules applied. A rule that matches a new identity creates an
 * account. Locks in the order of all transactions: the address, teams, then accounts.
 */
const accountFor = (needs: Needs, issuer: Issuer, claims: Claims) =>
  Rows.transaction(needs.sql, function* () {
    const now = yield* DateTime.nowAsDate
    const roles = JoinRules.rolesBy(yield* JoinRules.of(needs, issuer), claims)
    const identity = yield* Identities.find(needs, issuer, claims)
    if (identity !== undefined && identity.suspendedAt !== null) {
      return yield* new SignInRefused({ reason: "OUT_OF_USE" })
    }
    if (identity === undefined && roles.size === 0) return yield* new SignInRefused({ reason: "NOT_LET_IN" })
    const account = identity === undefined ? undefined : yield* Accounts.find(needs, identity.userId)
    if (identity !== undefined && account === undefined) return yield* new SignInRefused({ reason: "SHUT_OUT" })
    if (account === undefined) yield* Accounts.lockAddresses(needs, yield* newAddressOf(issuer, claims))
    else if (Identities.witnesses(issuer, claims, account)) {
      yield* Accounts.lockAddresses(needs, addressOf(account.email))
    }
    const teams = yield* JoinRules.lockTeams(needs, { issuer: issuer.key, roles, userId: account?.id })
    if (account !== undefined) yield* Identities.vouch(needs, issuer, claims, account)
    const person = account ?? (yield* createAccount(needs, issuer, claims, now))
    yield* JoinRules.apply(needs, { person, issuer: issuer.key, now }, roles, teams)
    const isAccounts = Identities.verifiedEmail(issuer, claims) === addressOf(person.email)
    if (identity !== undefined) yield* Identities.recordUse(needs, identity, { claims, isAccounts, now })
    return person.id
  })

/** Whether the issuer states a second factor that its settings accept. */
const provedFactor = ({ factors }: Issuer, { acr, amr }: Claims): boolean =>
  factors.some((value) => value === acr || (Array.isArray(amr) && amr.includes(value)))

const textOf = (claim: unknown): string | null => (typeof claim === "string" && claim.length <= 255 ? claim : null)

type NextStep = { readonly session: SignInResult["session"] } | { readonly step: Redacted.Redacted }

/** Opens a session, or a sign-in step for an account whose second factor the issuer did not state. */
const enter = Effect.fnUntraced(function* (
  needs: Needs,
  issuer: Issuer,
  claims: Claims,
  userId: UserId,
  cookies: PresentedCookies,
  /** The caller whom the sign-in confirms; null: it opens a session. */
  confirmed: Caller | null
) {
  const account = yield* Accounts.find(needs, userId)
  const identity = yield* Identities.find(needs, issuer, claims)
  const { teamId } = issuer
  const isIn = teamId === null || account?.memberships.some(({ active, id }) => active && id === teamId) === true
  if (account === undefined || identity === undefined || isShutOut(account) || !isIn) {
    return yield* refuse(needs, issuer, "SHUT_OUT", account ?? null)
  }
  const by: Accounts.SignInSource = {
    issuer: issuer.key,
    onlyTeam: teamId,
    subject: claims.sub,
    session: textOf(claims["sid"]),
    closedTeams: Accounts.closedUnion(identity.closedTeams, confirmed?.closedTeams ?? null),
    confirmedTeams: yield* IdentityState.opens(needs, identity)
  }
  const hasFactor = provedFactor(issuer, claims)
  // While all authenticators are young, the issuer is the proof.
  const isProof = confirmed !== null && account.secondFactor && !(yield* Authenticators.hasOlder(needs, account.id))
  if (account.secondFactor && !hasFactor && !isProof) {
    const step: NextStep = { step: yield* SignInSteps.begin(needs, account.id, { by }) }
    return step
  }
  const browser = {
    session: cookies.session,
    device: yield* Accounts.findDevice(needs, cookies.device, account.id)
  }
  const now = yield* DateTime.nowAsDate
  const proof: Accounts.FactorProof = hasFactor
    ? { factorAt: now, provedAt: null, closedTeams: null }
    : isProof
      ? { factorAt: confirmed.factorAt, provedAt: now, closedTeams: null }
      : Accounts.noFactor
  const result = yield* openChecked(needs, account, browser, { prove: Effect.succeed(proof), by })
  if (Option.isNone(result)) return yield* refuse(needs, issuer, "FLOW_USED", account)
  const entered: NextStep = { session: result.value.session }
  return entered
})

/** Names of the claims that an account or the issuer's rules need. */
const claimNamesOf = (needs: Needs, issuer: Issuer) =>
  Effect.map(JoinRules.of(needs, issuer), (rules) => [
    ...new Set([...Identities.emailClaims, "name", ...rules.map(({ claim }) => claim)])
  ])

interface IssuerResponse {
  readonly issuer: string
  /** Query of the request, with its question mark. */
  readonly query: string
  readonly flow: Redacted.Redacted | null
  readonly cookies: PresentedCookies
  readonly caller: Caller | null
}

/** Handles the issuer's response in the browser that began. `entered` is null after a link: the session stays. */
const complete = Effect.fn("SignIn.complete")(function* (needs: Needs, response: IssuerResponse) {
  const { caller, cookies, query } = response
  const flow = yield* Flow.open(needs, response.flow, yield* Clock.currentTimeMillis)
  if (flow === undefined || flow.issuer !== response.issuer)
    return yield* refuse(needs, undefined, "FLOW_UNKNOWN", null)
  const issuer = yield* needs.issuers.find(flow.issuer)
  if (issuer === undefined) return yield* refuse(needs, undefined, "ISSUER_UNKNOWN", null)
  if (!(yield* useUp(needs, flow))) return yield* refuse(needs, issuer, "FLOW_USED", null)
  const isOther = flow.userId !== null && caller?.user?.id !== flow.userId
  if (isOther) return yield* refuse(needs, issuer, "ANOTHER_PERSON", null)
  const orRefuse = <A, E, R>(work: Effect.Effect<A, E, R>) =>
    Effect.catchIf(work, isRefused, ({ reason }) => refuse(needs, issuer, reason, null))
  const claimNames = flow.link ? Identities.emailClaims : yield* claimNamesOf(needs, issuer)
  const claims = yield* orRefuse(needs.protocol.complete(issuer, flow, { query, fresh: isFresh(flow), claimNames }))
  if (flow.link) {
    if (caller === null) return yield* new Forbidden()
    yield* Identities.link(needs, caller, issuer, claims)
    return { next: flow.next, entered: null }
  }
  const userId = yield* orRefuse(accountFor(needs, issuer, claims))
  if (flow.userId !== null && flow.userId !== userId) return yield* refuse(needs, issuer, "ANOTHER_PERSON", null)
  const confirmed = flow.userId === null ? null : caller
  return { next: flow.next, entered: yield* enter(needs, issuer, claims, userId, cookies, confirmed) }
})

/** Ends sessions of the issuer at its request (Back-Channel Logout): one by its session id, or all of the person. */
const logout = Effect.fn("SignIn.logout")(function* (needs: Needs, key: string, token: string) {
  const { audit, issuers, protocol, sql } = needs
  const issuer = yield* issuers.find(key)
  if (issuer === undefined) return yield* new SignInRefused({ reason: "ISSUER_UNKNOWN" })
  const { endsAt, session, subject } = yield* protocol.logout(issuer, token)
  yield* Rows.transaction(sql, function* () {
    const isNew = yield* Rows.exists(sql`
      INSERT INTO machine_assertions (digest, expires_at) VALUES (${sha256("logout token ", token)}, ${new Date(endsAt)})
      ON CONFLICT (digest) DO NOTHING RETURNING 1 AS one`)
    if (!isNew) return yield* new SignInRefused({ reason: "TOKEN_USED" })
    const ids = yield* Accounts.endSessions(
      { sql },
      sql`issuer = ${key} AND (${subject}::text IS NULL OR issuer_subject = ${subject})
        AND (${session}::text IS NULL OR issuer_session = ${session})`
    )
    if (ids.length === 0) return
    yield* audit.append({
      actor: "system",
      action: "session.end",
      outcome: "allowed",
      teamId: issuer.teamId,
      reason: "ENDED_BY_ISSUER",
      target: { type: "sign_in_issuer", id: key, name: issuer.name }
    })
  })
})

export class SignIn extends Effect.Service<SignIn>()("openid/SignIn", {
  effect: Effect.map(services, (needs) => methods(needs, { begin, complete, logout }))
}) {}

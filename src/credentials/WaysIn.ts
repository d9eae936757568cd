/**
 * One list of what lets a person in, with what each way out does to it (docs/security.md, "Ways in"). Every way out goes
 * through `end`, so that a new credential needs one new member here. `test/credentials/waysIn.test.ts` compares the
 * list with the database's tables.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { TeamId, UserId } from "#schema/Ids.ts"
import type { EndedWay, WayEnding } from "#schema/WaysIn.ts"
import * as Accounts from "./Accounts.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import * as Rows from "#src/database/Rows.ts"
import * as RecoveryCodes from "./RecoveryCodes.ts"
import type { EndedLogin, Revocation, RevokedToken } from "./Revocation.ts"
import * as SignInSteps from "./SignInSteps.ts"

/** Tables of each member. A table of credentials that is in none of them fails the test. */
export const everythingThatOpens = {
  links: ["invitations", "password_resets"],
  password: ["users"],
  sessions: ["sessions"],
  tokens: ["machine_rules", "api_tokens"],
  logins: ["cli_grants", "cli_grant_teams", "device_requests"],
  agents: [
    "oauth_grants",
    "oauth_grant_teams",
    "oauth_access_tokens",
    "oauth_refresh_tokens",
    "oauth_codes",
    "oauth_interactions"
  ],
  devices: ["known_devices"],
  steps: ["sign_in_steps", "passkey_challenges"],
  recoveryCodes: ["recovery_codes"],
  passkeys: ["passkeys"],
  app: ["totp_factors"],
  identities: ["sign_in_identities"]
} as const satisfies Record<string, ReadonlyArray<string>>
type Way = keyof typeof everythingThatOpens
/** In the order of all locks, so that no two transactions deadlock. */
const order = Object.keys(everythingThatOpens).filter((name): name is Way => name in everythingThatOpens)

type Plan = Readonly<Record<Way, WayEnding>>

const all = (ending: WayEnding): Plan => ({
  links: ending,
  password: ending,
  sessions: ending,
  tokens: ending,
  logins: ending,
  agents: ending,
  devices: ending,
  steps: ending,
  recoveryCodes: ending,
  passkeys: ending,
  app: ending,
  identities: ending
})
/** For good: all but the password. Authenticators and identities: until their person confirms them. */
const badDay: Plan = {
  ...all("ended"),
  password: "kept",
  passkeys: "out_of_use",
  app: "out_of_use",
  identities: "out_of_use"
}
/** For an actor who manages the person in some of their teams: what opens this team. */
const inThisTeam: Plan = {
  ...all("closed"),
  links: "ended",
  password: "kept",
  tokens: "ended",
  logins: "ended",
  agents: "ended",
  devices: "kept",
  steps: "ended"
}

/**
 * By way out. `everywhere`: the actor is the person, the operator, or manages the person in each of their teams. `here`:
 * the actor manages the person in this team, and not in all others. A way out without `here` always is everywhere.
 */
export const waysOut = {
  /** The person kept their authenticators and identities, and decides about each of them afterwards. */
  password_change: {
    everywhere: { ...all("ended"), password: "kept", passkeys: "kept", app: "kept", identities: "kept" },
    here: null
  },
  reset_link: { everywhere: badDay, here: null },
  end_access: { everywhere: badDay, here: inThisTeam },
  incident: { everywhere: { ...badDay, password: "ended" }, here: inThisTeam },
  /** The operator deactivates the person in all teams. Tokens have their creator's grace. */
  operator: { everywhere: { ...badDay, tokens: "kept" }, here: null },
  /** The operator removes the account. */
  account_removal: { everywhere: all("ended"), here: null },
  /** The membership is gone, and with it what any session opens here. The account stays. */
  removal: {
    everywhere: null,
    here: { ...all("kept"), links: "ended", tokens: "ended", logins: "ended", agents: "ended" }
  }
} as const satisfies Record<string, { readonly everywhere: Plan | null; readonly here: Plan | null }>
export type WayOut = keyof typeof waysOut

export interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly rowSeal: RowSeal
  readonly revocation: Revocation
}

interface At {
  readonly person: UserId
  /** Null: everywhere. */
  readonly teamId: TeamId | null
}
interface Ended {
  readonly count: number
  readonly tokens?: ReadonlyArray<RevokedToken>
  readonly logins?: ReadonlyArray<EndedLogin>
}
const counted = (count: number): Ended => ({ count })

type AuthenticatorTable = "passkeys" | "totp_factors" | "recovery_codes" | "sign_in_identities"

const closedWith = (closed: unknown, teamId: TeamId): ReadonlyArray<string> => {
  const before: ReadonlyArray<string> = Array.isArray(closed) ? closed : []
  return [...new Set([...before, teamId])].toSorted()
}

/** The rows open the team no more, until an owner there confirms them. */
const close = Effect.fnUntraced(function* ({ rowSeal, sql }: Needs, table: AuthenticatorTable, at: At) {
  const { person, teamId } = at
  if (teamId === null) return 0
  const where = sql`user_id = ${person} AND (closed_teams IS NULL OR NOT closed_teams @> ARRAY[${teamId}]::uuid[])`
  const closed = (row: { readonly closedTeams: unknown }) => ({ closedTeams: closedWith(row.closedTeams, teamId) })
  switch (table) {
    case "passkeys":
      return yield* rowSeal.update(table, where, closed)
    case "totp_factors":
      return yield* rowSeal.update(table, where, closed)
    case "recovery_codes":
      return yield* rowSeal.update(table, sql`${where} AND used_at IS NULL`, closed)
    case "sign_in_identities":
      // A confirmation by this team's owner ends with it.
      return yield* rowSeal.update(table, where, (row) => ({
        ...closed(row),
        confirmedTeams: Array.isArray(row.confirmedTeams)
          ? row.confirmedTeams.filter((id) => id !== teamId)
          : row.confirmedTeams
      }))
  }
})

/** Live sessions open the team no more; management sessions of the team end. */
const closeSessions = Effect.fnUntraced(function* ({ rowSeal, sql }: Needs, { person, teamId }: At) {
  if (teamId === null) return 0
  const ended = yield* Accounts.endSessions({ sql }, sql`user_id = ${person} AND manages = ${teamId}`)
  const closed = yield* rowSeal.update(
    "sessions",
    sql`user_id = ${person} AND revoked_at IS NULL AND expires_at > ${yield* DateTime.nowAsDate}`,
    (row) => ({ closedTeams: closedWith(row.closedTeams, teamId) })
  )
  return ended.length + closed
})

const suspend = Effect.fnUntraced(function* (
  { rowSeal, sql }: Needs,
  table: Exclude<AuthenticatorTable, "recovery_codes">,
  { person }: At
) {
  const suspendedAt = yield* DateTime.nowAsDate
  const where = sql`user_id = ${person} AND suspended_at IS NULL`
  const suspended = () => ({ suspendedAt })
  switch (table) {
    case "passkeys":
      return yield* rowSeal.update(table, where, suspended)
    case "totp_factors": {
      yield* RowJournal.remove(sql, table, sql`user_id = ${person} AND NOT confirmed`)
      return yield* rowSeal.update(table, where, suspended)
    }
    case "sign_in_identities":
      return yield* rowSeal.update(table, where, suspended)
  }
})

const removed = Effect.fnUntraced(function* (
  { sql }: Needs,
  table: AuthenticatorTable | "sign_in_steps",
  { person }: At
) {
  const count = yield* Rows.count(sql`SELECT count(*)::int AS n FROM ${sql(table)} WHERE user_id = ${person}`)
  yield* RowJournal.remove(sql, table, sql`user_id = ${person}`)
  return count
})

const endLinks = Effect.fnUntraced(function* ({ revocation }: Needs, { person, teamId }: At) {
  yield* revocation.linksBy(person, teamId)
  if (teamId === null) yield* revocation.resetLinksOf(person)
  return counted(0)
})
const endLogins = Effect.fnUntraced(function* ({ revocation }: Needs, { person, teamId }: At) {
  const logins = yield* teamId === null ? revocation.loginsOf(person) : revocation.grantsInTeam(person, teamId)
  return { count: logins.length, logins } satisfies Ended
})
const endAgents = Effect.fnUntraced(function* ({ revocation }: Needs, { person, teamId }: At) {
  const logins = yield* teamId === null ? revocation.agentsOf(person) : revocation.connectionsInTeam(person, teamId)
  return { count: logins.length, logins } satisfies Ended
})
const endTokens = Effect.fnUntraced(function* ({ revocation }: Needs, { person, teamId }: At) {
  const tokens = yield* revocation.tokensOf(person, teamId)
  return { count: tokens.length, tokens } satisfies Ended
})
const endSteps = Effect.fnUntraced(function* (needs: Needs, { person }: At) {
  yield* SignInSteps.endOf(needs, person)
  yield* RowJournal.remove(needs.sql, "passkey_challenges", needs.sql`user_id = ${person}`)
  return counted(0)
})

/** The end of each member, for good. */
const endings: { readonly [W in Way]: (needs: Needs, at: At) => Effect.Effect<Ended> } = {
  links: endLinks,
  password: ({ rowSeal, sql }, { person }) =>
    Effect.map(
      rowSeal.update("users", sql`id = ${person} AND password_hash <> ''`, () => ({ passwordHash: "" })),
      counted
    ),
  sessions: ({ revocation }, { person }) => Effect.map(revocation.sessionsOf(person), ({ length }) => counted(length)),
  tokens: endTokens,
  logins: endLogins,
  agents: endAgents,
  devices: ({ sql }, { person }) => Effect.as(Accounts.forgetDevices({ sql }, person), counted(0)),
  steps: endSteps,
  recoveryCodes: (needs, { person }) =>
    Effect.map(
      Effect.tap(RecoveryCodes.countUnused(needs, person), () => RecoveryCodes.remove(needs, person)),
      counted
    ),
  passkeys: (needs, at) => Effect.map(removed(needs, "passkeys", at), counted),
  app: (needs, at) => Effect.map(removed(needs, "totp_factors", at), counted),
  identities: (needs, at) => Effect.map(removed(needs, "sign_in_identities", at), counted)
}

const tableOf = { passkeys: "passkeys", app: "totp_factors", identities: "sign_in_identities" } as const

const endOne = (needs: Needs, at: At, way: Way, ending: WayEnding): Effect.Effect<Ended> => {
  if (ending === "kept") return Effect.succeed(counted(0))
  if (ending === "ended") return endings[way](needs, at)
  if (way === "sessions") return Effect.map(closeSessions(needs, at), counted)
  if (way === "recoveryCodes") return Effect.map(close(needs, "recovery_codes", at), counted)
  if (way === "passkeys" || way === "app" || way === "identities") {
    const table = tableOf[way]
    return Effect.map(ending === "closed" ? close(needs, table, at) : suspend(needs, table, at), counted)
  }
  return Effect.dieMessage(`${way} cannot be ${ending}`)
}

/**
 * Part of the caller's transaction. `teamId`: the team of an actor who does not manage the person in all of their teams;
 * null: everywhere. Returns what happened to each member, with the tokens and logins for their entries.
 */
export const end = Effect.fn("WaysIn.end")(function* (needs: Needs, wayOut: WayOut, at: At) {
  const plan: Plan | null = at.teamId === null ? waysOut[wayOut].everywhere : waysOut[wayOut].here
  if (plan === null) return yield* Effect.dieMessage(`${wayOut} does not end in this reach`)
  const ways: Array<EndedWay> = []
  const tokens: Array<RevokedToken> = []
  const logins: Array<EndedLogin> = []
  for (const way of order) {
    const ended = yield* endOne(needs, at, way, plan[way])
    ways.push({ way, ending: plan[way], count: ended.count })
    tokens.push(...(ended.tokens ?? []))
    logins.push(...(ended.logins ?? []))
  }
  return { ways, tokens, logins }
})

/**
 * The rules as tables to read, each cell checked; then the rules against an oracle written from the sentences of
 * docs/contract (credentials, device authorization, API tokens, session routes), over every combination there is.
 */
import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import type { Caller, CallerTeam, ActiveGrant, Restrictions } from "#schema/Caller.ts"
import { EnvironmentIdOut, ProjectIdOut, TeamIdOut, UserIdOut } from "#schema/Ids.ts"
import { type AccessLevel, allScopes, type CredentialKind, GrantLevel, type Role, type Scope } from "#schema/Scopes.ts"
import type { EnvironmentTarget, Target } from "#src/access/Target.ts"
import * as Actions from "#src/access/Actions.ts"
import * as Policy from "#src/access/Policy.ts"

/** Actions of each role, over the dashboard or with a CLI grant that holds the scope. */
const people = `
action               viewer     member     admin      owner
identity:read        yes        yes        yes        yes
projects:read        yes        yes        yes        yes
secrets:read         yes        yes        yes        yes
secrets:read_values  FORBIDDEN  yes        yes        yes
secrets:run          FORBIDDEN  yes        yes        yes
secrets:write        FORBIDDEN  yes        yes        yes
audit:read           FORBIDDEN  FORBIDDEN  yes        yes
members:read         yes        yes        yes        yes
audit-trail:read     FORBIDDEN  FORBIDDEN  yes        yes
projects:manage      FORBIDDEN  FORBIDDEN  yes        yes
environments:manage  FORBIDDEN  FORBIDDEN  yes        yes
sealing-keys:manage  FORBIDDEN  FORBIDDEN  yes        yes
tokens:manage        FORBIDDEN  FORBIDDEN  yes        yes
members:manage       FORBIDDEN  FORBIDDEN  yes        yes
team:manage          FORBIDDEN  FORBIDDEN  yes        yes
access:manage        FORBIDDEN  FORBIDDEN  yes        yes
access:decide        yes        yes        yes        yes
projects:open        FORBIDDEN  FORBIDDEN  yes        yes
projects:delete      FORBIDDEN  FORBIDDEN  yes        yes
environments:open    FORBIDDEN  FORBIDDEN  yes        yes
environments:delete  FORBIDDEN  FORBIDDEN  yes        yes
tokens:issue         FORBIDDEN  FORBIDDEN  yes        yes
webhooks:direct      FORBIDDEN  FORBIDDEN  yes        yes
members:raise        FORBIDDEN  FORBIDDEN  yes        yes
access:grant         FORBIDDEN  FORBIDDEN  yes        yes
access:approve       yes        yes        yes        yes
changes:approve      FORBIDDEN  yes        yes        yes
plan:manage          FORBIDDEN  FORBIDDEN  FORBIDDEN  yes
team-rules:manage    FORBIDDEN  FORBIDDEN  FORBIDDEN  yes
`

/** An environment that is granted, to a member without a grant, and by the level of the one they hold. */
const byGrants = `
action               none                     names                    run                      values                   write
secrets:read         yes                      yes                      yes                      yes                      yes
secrets:run          ENVIRONMENT_NOT_GRANTED  ENVIRONMENT_NOT_GRANTED  yes                      yes                      yes
secrets:read_values  ENVIRONMENT_NOT_GRANTED  ENVIRONMENT_NOT_GRANTED  ENVIRONMENT_NOT_GRANTED  yes                      yes
secrets:write        ENVIRONMENT_NOT_GRANTED  ENVIRONMENT_NOT_GRANTED  ENVIRONMENT_NOT_GRANTED  ENVIRONMENT_NOT_GRANTED  yes
environments:manage  FORBIDDEN                FORBIDDEN                FORBIDDEN                FORBIDDEN                FORBIDDEN
`

/** The one cell that protection changes for people: "accept changes from owners and admins only". */
const peopleOnProtected = `
action               viewer     member     admin      owner
secrets:read         yes        yes        yes        yes
secrets:read_values  FORBIDDEN  yes        yes        yes
secrets:run          FORBIDDEN  yes        yes        yes
secrets:write        FORBIDDEN  FORBIDDEN  yes        yes
environments:manage  FORBIDDEN  FORBIDDEN  yes        yes
sealing-keys:manage  FORBIDDEN  FORBIDDEN  yes        yes
`

/**
 * A CLI grant that does not hold the scope: the role speaks first, then the scope. None can hold `audit:read`: names are
 * what it needs.
 */
const grantsWithoutScope = `
action               viewer         member         admin          owner
identity:read        SCOPE_MISSING  SCOPE_MISSING  SCOPE_MISSING  SCOPE_MISSING
projects:read        SCOPE_MISSING  SCOPE_MISSING  SCOPE_MISSING  SCOPE_MISSING
secrets:read         SCOPE_MISSING  SCOPE_MISSING  SCOPE_MISSING  SCOPE_MISSING
secrets:read_values  FORBIDDEN      SCOPE_MISSING  SCOPE_MISSING  SCOPE_MISSING
secrets:run          FORBIDDEN      SCOPE_MISSING  SCOPE_MISSING  SCOPE_MISSING
secrets:write        FORBIDDEN      SCOPE_MISSING  SCOPE_MISSING  SCOPE_MISSING
audit:read           FORBIDDEN      FORBIDDEN      yes            yes
`

/** API tokens have no role: level, naming and protection decide. "named": created naming the environment. */
const tokens = `
action               read                 read,named           write                                         write,named
identity:read        yes                  yes                  yes                                           yes
projects:read        yes                  yes                  yes                                           yes
secrets:read         yes                  yes                  yes                                           yes
secrets:read_values  yes                  yes                  yes                                           yes
secrets:run          yes                  yes                  yes                                           yes
secrets:write        API_TOKEN_READ_ONLY  API_TOKEN_READ_ONLY  yes                                           yes
audit:read           SCOPE_MISSING        SCOPE_MISSING        SCOPE_MISSING                                 SCOPE_MISSING
tokens:manage        FORBIDDEN            FORBIDDEN            FORBIDDEN                                     FORBIDDEN
projects:manage      FORBIDDEN            FORBIDDEN            FORBIDDEN                                     FORBIDDEN
`
const tokensOnProtected = `
action               read                 read,named           write                                         write,named
secrets:read         yes                  yes                  yes                                           yes
secrets:read_values  yes                  yes                  yes                                           yes
secrets:run          yes                  yes                  yes                                           yes
secrets:write        API_TOKEN_READ_ONLY  API_TOKEN_READ_ONLY  API_TOKEN_NOT_SCOPED_TO_PROTECTED_ENVIRONMENT yes
`

const roles: ReadonlyArray<Role> = ["viewer", "member", "admin", "owner"]
const levels: ReadonlyArray<AccessLevel> = ["read", "write"]
/** `management:begin` is for logins: decisions.test.ts. */
const actions = Actions.actions.filter((action) => action !== "management:begin")

const teamId = TeamIdOut.make("t")
const projectId = ProjectIdOut.make("p")
const environmentId = EnvironmentIdOut.make("e")
const anywhere: Restrictions = { projectIds: null, environmentIds: null }

const environment = (
  isProtected: boolean,
  access: Partial<Pick<EnvironmentTarget, "changes" | "readers" | "visibility">> = {}
): EnvironmentTarget => ({
  type: "environment",
  teamId,
  plan: "team",
  projectId,
  environmentId,
  slug: "production",
  protected: isProtected,
  revision: 0,
  described: 0,
  readers: "team",
  changes: "direct",
  visibility: "team",
  ...access
})

interface Standing {
  readonly kind: CredentialKind
  readonly role: Role | null
  readonly scopes: ReadonlyArray<Scope> | null
  readonly level: AccessLevel | null
  readonly mcpScopes?: ReadonlyArray<Scope>
  readonly restrictions: Restrictions
  readonly grants?: ReadonlyArray<ActiveGrant>
  readonly adminsNeedGrants?: boolean
}
const standing = (s: Standing): { readonly caller: Caller; readonly team: CallerTeam } => {
  const team: CallerTeam = {
    id: teamId,
    name: "Team",
    plan: "team",
    role: s.role,
    scopes: s.scopes,
    adminsNeedGrants: s.adminsNeedGrants ?? false,
    factorIsOld: false,
    allowedKeys: null
  }
  return {
    team,
    caller: {
      kind: s.kind,
      credentialId: "c",
      name: null,
      user: s.kind === "api_token" ? null : { id: UserIdOut.make("u"), email: "ada@example.com", name: "Ada" },
      teams: [team],
      accessLevel: s.level,
      mcpScopes: s.mcpScopes ?? [],
      restrictions: s.restrictions,
      grants: s.grants ?? [],
      machine: false,
      withheld: [],
      factorAt: null,
      provedAt: null,
      issuer: null,
      onlyTeam: null,
      closedTeams: null,
      confirmedTeams: null,
      createdAt: new Date(0),
      expiresAt: null,
      lastUsedAt: null,
      named: null
    }
  }
}
const outcome = (s: Standing, target: Target, action: Actions.Action): string =>
  Policy.decide({ ...standing(s), target, action })?._tag ?? "yes"

const session = (role: Role): Standing => ({ kind: "session", role, scopes: null, level: null, restrictions: anywhere })
const grant = (role: Role, scopes: ReadonlyArray<Scope>): Standing => ({ ...session(role), kind: "cli_grant", scopes })
const token = (level: AccessLevel, named: boolean): Standing => ({
  kind: "api_token",
  role: null,
  scopes: null,
  level,
  restrictions: named ? { projectIds: null, environmentIds: [environmentId] } : anywhere
})

/** Checks every cell; `standingOf` says what a column's head means. */
const holds = (table: string, target: Target, standingOf: (column: string, action: Actions.Action) => Standing) => {
  const [head, ...rows] = table
    .trim()
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
  for (const [name, ...cells] of rows) {
    const action = actions.find((a) => a === name)
    assert.isDefined(action, name)
    assert.lengthOf(cells, head.length - 1)
    for (const [i, cell] of cells.entries()) {
      const column = head[i + 1]
      if (action !== undefined)
        assert.strictEqual(outcome(standingOf(column, action), target, action), cell, `${column} ${name}`)
    }
  }
  return rows.map(([name]) => name)
}
const roleOf = (column: string) => roles.find((role) => role === column) ?? "viewer"
const tokenOf = (column: string) => token(column.startsWith("read") ? "read" : "write", column.endsWith("named"))

describe("the rules, as tables", () => {
  it("what people may do, by role", () => {
    const covered = holds(people, environment(false), (column) => session(roleOf(column)))
    // Nothing that can be done is missing from the table.
    assert.sameMembers(covered, [...actions])
  })

  it("what people may do where the environment is protected", () => {
    holds(peopleOnProtected, environment(true), (column) => session(roleOf(column)))
  })

  it("a CLI grant with the scope is its person", () => {
    const scoped = people
      .split("\n")
      .filter((line) => line.startsWith("action") || allScopes.some((s) => line.startsWith(s)))
    holds(scoped.join("\n"), environment(false), (column) => grant(roleOf(column), allScopes))
    const onProtected = peopleOnProtected.split("\n").filter((line) => /^(action|secrets:)/.test(line))
    holds(onProtected.join("\n"), environment(true), (column) => grant(roleOf(column), allScopes))
  })

  it("a CLI grant without the scope", () => {
    for (const isProtected of [false, true]) {
      holds(grantsWithoutScope, environment(isProtected), (column, action) =>
        grant(
          roleOf(column),
          allScopes.filter((scope) => scope !== action)
        )
      )
    }
  })

  it("what a grant gives where grants decide", () => {
    for (const access of [{ readers: "granted" }, { visibility: "granted" }] as const) {
      holds(byGrants, environment(false, access), (column) => ({
        ...session("member"),
        grants: GrantLevel.literals
          .filter((level) => level === column)
          .map((level) => ({ projectId, environmentId: null, level }))
      }))
    }
  })

  it("what API tokens may do", () => {
    holds(tokens, environment(false), tokenOf)
    holds(tokensOnProtected, environment(true), tokenOf)
    // "Or a token with `audit:read`."
    const reading = { ...token("read", false), mcpScopes: ["audit:read"] as const }
    assert.strictEqual(outcome(reading, environment(true), "audit:read"), "yes")
    // A creator bounds a token, and lends it nothing.
    const bounded = (role: Role, s: Standing) => outcome({ ...s, role }, environment(false), "audit:read")
    assert.strictEqual(bounded("owner", token("write", false)), "SCOPE_MISSING")
    assert.strictEqual(bounded("owner", reading), "yes")
    assert.strictEqual(bounded("member", reading), "FORBIDDEN")
  })
})

// --- the model ---

/** Allowed callers, by the sentences of the contract. It shares no table with the rules. */
const mayPerson = (role: Role, action: Actions.Action, isProtected: boolean): boolean => {
  switch (action) {
    // "viewer reads names and metadata"
    case "identity:read":
    case "projects:read":
    case "secrets:read":
    case "members:read":
    // The request itself says whether.
    case "access:decide":
    case "access:approve":
      return true
    // "member also reads values and writes unprotected environments"
    case "secrets:read_values":
    case "secrets:run":
    case "changes:approve":
      return role !== "viewer"
    case "secrets:write":
      return role === "owner" || role === "admin" || (role === "member" && !isProtected)
    // "only owners manage owners and the plan"
    case "plan:manage":
    case "team-rules:manage":
      return role === "owner"
    // "admin and owner also … manage projects, environments, tokens and members"; the trail is for "owner and admin"
    default:
      return role === "owner" || role === "admin"
  }
}

/** "Reads, runs or is handed no value there without a grant; names stay visible." A level includes those before it. */
const grantAllows = (s: Standing, target: EnvironmentTarget, action: Actions.Action): boolean => {
  if (target.readers === "team" && target.visibility === "team") return true
  if ((s.role === "owner" || s.role === "admin") && s.adminsNeedGrants !== true) return true
  const enough = { "secrets:run": "run values write", "secrets:read_values": "values write", "secrets:write": "write" }
  if (action !== "secrets:run" && action !== "secrets:read_values" && action !== "secrets:write") return true
  return (s.grants ?? []).some(
    (held) =>
      held.projectId === target.projectId &&
      (held.environmentId === null || held.environmentId === target.environmentId) &&
      enough[action].split(" ").includes(held.level)
  )
}

const oracle = (s: Standing, target: EnvironmentTarget, action: Actions.Action): string => {
  const isScope = allScopes.some((scope) => scope === action)
  if (s.role !== null) {
    // The role and the scope speak before protection does; who lacks all three hears of the role.
    if (!mayPerson(s.role, action, false)) return "FORBIDDEN"
    if (s.scopes !== null) {
      // Actions without a scope are for signed-in people.
      if (!isScope) return "FORBIDDEN"
      // "`audit:read` cannot be granted" to a command line: it reads names, and its person is an admin.
      const needed = s.kind === "cli_grant" && action === "audit:read" ? "secrets:read" : action
      if (!s.scopes.some((scope) => scope === needed)) return "SCOPE_MISSING"
    }
    // "Members may propose": a token is no person.
    const proposes = action === "secrets:write" && target.changes === "proposed" && s.kind !== "api_token"
    if (!mayPerson(s.role, action, target.protected && !proposes)) return "FORBIDDEN"
    return grantAllows(s, target, action) ? "yes" : "ENVIRONMENT_NOT_GRANTED"
  }
  if (!isScope) return "FORBIDDEN"
  if (s.scopes !== null && !s.scopes.some((scope) => scope === action)) return "SCOPE_MISSING"
  // "Owner, admin, or a token with `audit:read`."
  if (action === "audit:read" && s.mcpScopes?.includes("audit:read") !== true) return "SCOPE_MISSING"
  if (action !== "secrets:write") return "yes"
  if (s.level === "read") return "API_TOKEN_READ_ONLY"
  const named = s.restrictions.environmentIds?.includes(target.environmentId) === true
  return target.protected && !named ? "API_TOKEN_NOT_SCOPED_TO_PROTECTED_ENVIRONMENT" : "yes"
}

const anyOf = <A>(values: ReadonlyArray<A>) => FastCheck.constantFrom(...values)
const someScopes = FastCheck.subarray([...allScopes])
const reach: FastCheck.Arbitrary<Restrictions> = FastCheck.record({
  projectIds: FastCheck.option(FastCheck.subarray([projectId, ProjectIdOut.make("p2")])),
  environmentIds: FastCheck.option(FastCheck.subarray([environmentId, EnvironmentIdOut.make("e2")]))
})
const anyGrants: FastCheck.Arbitrary<ReadonlyArray<ActiveGrant>> = FastCheck.array(
  FastCheck.record({
    projectId: anyOf([projectId, ProjectIdOut.make("p2")]),
    environmentId: anyOf([null, environmentId, EnvironmentIdOut.make("e2")]),
    level: anyOf(GrantLevel.literals)
  }),
  { maxLength: 3 }
)
const ungranted: FastCheck.Arbitrary<Standing> = FastCheck.oneof(
  anyOf(roles).map(session),
  FastCheck.tuple(anyOf(roles), someScopes, reach).map(([role, scopes, restrictions]) => ({
    ...grant(role, scopes),
    restrictions
  })),
  FastCheck.tuple(anyOf(levels), reach, someScopes).map(([level, restrictions, mcpScopes]) => ({
    ...token(level, false),
    restrictions,
    mcpScopes
  })),
  // Over MCP a token has its creator's role and its MCP scopes.
  FastCheck.tuple(anyOf(roles), someScopes, anyOf(levels), reach).map(([role, scopes, level, restrictions]) => ({
    kind: "oauth_token" as const,
    role,
    scopes,
    level: null as AccessLevel | null,
    restrictions: level === "read" ? restrictions : anywhere
  }))
)
const anyStanding: FastCheck.Arbitrary<Standing> = FastCheck.tuple(ungranted, anyGrants, FastCheck.boolean()).map(
  ([s, grants, adminsNeedGrants]) => ({ ...s, grants, adminsNeedGrants })
)
const open = anyOf(["team", "granted"] as const)
const anyTarget = FastCheck.tuple(FastCheck.boolean(), open, open, anyOf(["direct", "proposed"] as const)).map(
  ([isProtected, readers, visibility, changes]) => environment(isProtected, { readers, visibility, changes })
)

const reaches = (s: Standing, target: EnvironmentTarget, action: Actions.Action): boolean =>
  Policy.environmentVisible(standing(s).caller, target) && outcome(s, target, action) === "yes"

/** One step down: a lower role, fewer scopes, the lower level, a smaller reach. */
const narrower = (s: Standing): FastCheck.Arbitrary<Standing> => {
  const restrictions = FastCheck.record({
    projectIds:
      s.restrictions.projectIds === null
        ? FastCheck.option(FastCheck.subarray([projectId]))
        : FastCheck.subarray([...s.restrictions.projectIds]).map((ids) => ids as typeof s.restrictions.projectIds),
    environmentIds:
      s.restrictions.environmentIds === null
        ? FastCheck.option(FastCheck.subarray([environmentId]))
        : FastCheck.subarray([...s.restrictions.environmentIds])
  })
  return FastCheck.record({
    kind: FastCheck.constant(s.kind),
    role: s.role === null ? FastCheck.constant(null) : anyOf(roles.slice(0, roles.indexOf(s.role) + 1)),
    scopes: s.scopes === null ? FastCheck.constant(null) : FastCheck.subarray([...s.scopes]),
    mcpScopes: FastCheck.subarray([...(s.mcpScopes ?? [])]),
    level: s.level === null ? FastCheck.constant(null) : anyOf(s.level === "read" ? (["read"] as const) : levels),
    restrictions: restrictions,
    grants: FastCheck.subarray([...(s.grants ?? [])]),
    adminsNeedGrants: s.adminsNeedGrants === true ? FastCheck.constant(true) : FastCheck.boolean()
  })
}

describe("the rules, for all standings", () => {
  it.prop(
    "decide as the sentences of the contract do",
    [anyStanding, anyTarget, anyOf(actions)],
    ([s, target, action]) => {
      assert.strictEqual(outcome(s, target, action), oracle(s, target, action))
    },
    { fastCheck: { numRuns: 5_000 } }
  )

  it.prop(
    "never grant more when narrowed",
    [anyStanding.chain((wide) => FastCheck.tuple(FastCheck.constant(wide), narrower(wide))), anyTarget, anyOf(actions)],
    ([[wide, narrow], target, action]) => {
      // The contract's one exception: naming a protected environment narrows a token and opens that environment to it.
      const names = wide.restrictions.environmentIds === null && narrow.restrictions.environmentIds !== null
      if (wide.kind === "api_token" && target.protected && names) return
      if (reaches(narrow, target, action)) assert.isTrue(reaches(wide, target, action))
    },
    { fastCheck: { numRuns: 5_000 } }
  )

  it.prop(
    "never let a read token change anything",
    [anyStanding, anyTarget, anyOf(actions)],
    ([s, target, action]) => {
      const reading = { ...s, kind: "api_token" as const, level: "read" as const }
      if (action === "secrets:write" || action.endsWith(":manage"))
        assert.notStrictEqual(outcome(reading, target, action), "yes")
    },
    { fastCheck: { numRuns: 2_000 } }
  )

  it.prop("hide what is outside the reach", [anyStanding, anyTarget], ([s, target]) => {
    const { caller } = standing(s)
    const { environmentIds, projectIds } = s.restrictions
    const inside = (projectIds?.includes(projectId) ?? true) && (environmentIds?.includes(environmentId) ?? true)
    const inProject = (s.grants ?? []).filter((held) => held.projectId === projectId)
    const reaching = inProject.filter((held) => held.environmentId === null || held.environmentId === environmentId)
    const isOpen = target.visibility === "team" || s.role === null || s.role === "admin" || s.role === "owner"
    assert.strictEqual(Policy.environmentVisible(caller, target), inside && (isOpen || reaching.length > 0))
    assert.isFalse(Policy.environmentVisible(caller, { ...target, teamId: TeamIdOut.make("another") }))
    const project = { teamId, projectId, environmentIds: [environmentId], visibility: target.visibility }
    // A grant of an environment that the credential does not reach shows nothing of the project.
    const grants = inProject.filter(
      (one) => one.environmentId === null || (environmentIds?.includes(one.environmentId) ?? true)
    )
    assert.strictEqual(Policy.projectVisible(caller, project), inside && (isOpen || grants.length > 0))
    // "Projects without a reached environment are hidden": one without environments is, from a caller narrowed to
    // some.
    const empty = { ...project, environmentIds: [] }
    assert.strictEqual(
      Policy.projectVisible(caller, empty),
      environmentIds === null && (projectIds?.includes(projectId) ?? true) && (isOpen || grants.length > 0)
    )
  })
})

/**
 * Decisions of the policy beside the rules: copies, approvals, requests, second factors, sign-ins, and the sessions and
 * logins that manage. Each as a table to read, with the smallest step that changes the answer.
 */
import { assert, describe, it } from "@effect/vitest"
import type { Caller, CallerTeam, ActiveGrant } from "#schema/Caller.ts"
import { EnvironmentIdOut, ProjectIdOut, TeamIdOut, UserIdOut } from "#schema/Ids.ts"
import { allScopes, GrantLevel, type Role, type Scope } from "#schema/Scopes.ts"
import * as Actions from "#src/access/Actions.ts"
import * as Policy from "#src/access/Policy.ts"
import type { EnvironmentTarget, Target } from "#src/access/Target.ts"

const teamId = TeamIdOut.make("t")
const projectId = ProjectIdOut.make("p")
const environmentId = EnvironmentIdOut.make("e")
const [ada, grace] = [UserIdOut.make("ada"), UserIdOut.make("grace")]
const roles: ReadonlyArray<Role> = ["viewer", "member", "admin", "owner"]

const environment = (more: Partial<EnvironmentTarget> = {}): EnvironmentTarget => ({
  type: "environment",
  teamId,
  plan: "team",
  projectId,
  environmentId,
  slug: "production",
  protected: false,
  revision: 0,
  described: 0,
  readers: "team",
  changes: "direct",
  visibility: "team",
  ...more
})
const granted = environment({ readers: "granted" })
const guarded = environment({ protected: true })
const teamItself: Target = { type: "team", teamId, plan: "team" }

/** Ada, signed in with this role. */
const as = (role: Role | null, caller: Partial<Caller> = {}, team: Partial<CallerTeam> = {}) => {
  const own: CallerTeam = {
    id: teamId,
    name: "Team",
    plan: "team",
    role,
    scopes: null,
    adminsNeedGrants: false,
    factorIsOld: false,
    allowedKeys: null,
    ...team
  }
  const person: Caller = {
    kind: "session",
    credentialId: "c",
    name: null,
    user: { id: ada, email: "ada@example.com", name: "Ada" },
    teams: [own],
    accessLevel: null,
    mcpScopes: [],
    restrictions: { projectIds: null, environmentIds: null },
    grants: [],
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
    named: null,
    ...caller
  }
  return { caller: person, team: own }
}
const grant = (level: GrantLevel): ActiveGrant => ({ projectId, environmentId: null, level })
const tag = (denial: { readonly _tag: string } | undefined) => denial?._tag ?? "yes"
const byRole = (of: (role: Role) => unknown) => roles.map(of)

describe("management from the command line", () => {
  const login = (role: Role, scopes: ReadonlyArray<Scope>, caller: Partial<Caller> = {}) =>
    Policy.decide({
      ...as(role, { kind: "cli_grant", ...caller }, { scopes }),
      target: teamItself,
      action: "management:begin"
    })

  it("is asked for by owners and admins, with a login that says who they are and is not narrowed", () => {
    assert.deepStrictEqual(
      byRole((role) => tag(login(role, ["identity:read"]))),
      ["FORBIDDEN", "FORBIDDEN", "yes", "yes"]
    )
    const without = login("owner", ["secrets:read"])
    assert.strictEqual(without?._tag === "SCOPE_MISSING" && without.requiredScope, "identity:read")
    for (const restrictions of [
      { projectIds: [projectId], environmentIds: null },
      { projectIds: null, environmentIds: [environmentId] }
    ]) {
      const denial = login("owner", ["identity:read"], { restrictions })
      assert.strictEqual(denial?.message, "This login is restricted to a part of the team.")
      const trail = as("owner", { kind: "cli_grant", restrictions }, { scopes: ["secrets:read"] })
      assert.strictEqual(tag(Policy.decide({ ...trail, target: teamItself, action: "audit:read" })), "yes")
    }
    // A session begins it without scopes; other credentials with scopes do not.
    assert.strictEqual(tag(Policy.decide({ ...as("owner"), target: teamItself, action: "management:begin" })), "yes")
    const agent = as("owner", { kind: "oauth_token" }, { scopes: allScopes })
    assert.strictEqual(tag(Policy.decide({ ...agent, target: teamItself, action: "management:begin" })), "FORBIDDEN")
  })

  it("manages, and does nothing else", () => {
    const may = (action: Actions.Action) =>
      Policy.decide({ ...as("owner", { kind: "management" }), target: environment(), action }) === undefined
    const actions: ReadonlyArray<Actions.Action> = [
      ...allScopes,
      "projects:manage",
      "environments:manage",
      "access:manage",
      "access:decide",
      "sealing-keys:manage",
      "tokens:manage",
      "members:read",
      "members:manage",
      "team:manage",
      "plan:manage",
      "team-rules:manage",
      "audit-trail:read",
      "management:begin"
    ]
    const managed = ["projects:manage", "environments:manage", "tokens:manage", "members:read", "members:manage"]
    assert.deepStrictEqual(actions.filter(may), managed)
  })

  it("tells which scope is missing", () => {
    const reading = Policy.decide({
      ...as(null, { kind: "api_token", user: null, accessLevel: "write" }),
      target: environment(),
      action: "audit:read"
    })
    assert.strictEqual(reading?._tag === "SCOPE_MISSING" && reading.requiredScope, "audit:read")
    const agent = as("owner", { kind: "oauth_token" }, { scopes: ["secrets:read"] })
    const denial = Policy.decide({ ...agent, target: environment(), action: "secrets:run" })
    assert.strictEqual(denial?._tag === "SCOPE_MISSING" && denial.requiredScope, "secrets:run")
  })
})

describe("levels", () => {
  it("of a role where it holds no grant, by what the environment and the team say", () => {
    const of = (at: Partial<EnvironmentTarget>, adminsNeedGrants = false) =>
      byRole((role) => Policy.levelByRole(role, { adminsNeedGrants }, environment(at)))
    assert.deepStrictEqual(of({}), ["names", "write", "write", "write"])
    assert.deepStrictEqual(of({}, true), ["names", "write", "write", "write"])
    assert.deepStrictEqual(of({ protected: true }), ["names", "values", "write", "write"])
    assert.deepStrictEqual(of({ readers: "granted" }), ["names", "names", "write", "write"])
    assert.deepStrictEqual(of({ readers: "granted" }, true), ["names", "names", "names", "names"])
    assert.deepStrictEqual(of({ visibility: "granted" }), [undefined, undefined, "write", "write"])
    assert.deepStrictEqual(of({ visibility: "granted" }, true), [undefined, undefined, "names", "names"])
  })

  it("include those below, and no role is promised one that it never has", () => {
    const above = GrantLevel.literals.flatMap((one) =>
      GrantLevel.literals.filter((other) => Policy.isAbove(one, other)).map((other) => `${one} > ${other}`)
    )
    assert.deepStrictEqual(above, [
      "run > names",
      "values > names",
      "values > run",
      "write > names",
      "write > run",
      "write > values"
    ])
    const within = (role: Role) => GrantLevel.literals.filter((level) => Policy.levelWithin(role, level))
    assert.deepStrictEqual(byRole(within), [["names"], ...Array.from({ length: 3 }, () => [...GrantLevel.literals])])
  })

  it("of several grants: the highest, and of equal ones the one that lasts longest", () => {
    const of = (level: GrantLevel, until: string | null) => ({ level, until })
    const sooner = of("run", "2026-11-24T08:00:00.000Z")
    const later = of("run", "2026-11-25T08:00:00.000Z")
    const always = of("run", null)
    const names = of("names", null)
    const write = of("write", "2026-11-24T08:00:00.000Z")
    assert.isUndefined(Policy.highest([]))
    for (const [most, ...less] of [
      [later, sooner],
      [always, sooner, later],
      [write, always, names],
      [sooner, names]
    ]) {
      assert.strictEqual(Policy.highest([most, ...less]), most)
      assert.strictEqual(Policy.highest([...less, most]), most)
    }
  })

  it("are lacked where grants decide, by people whom they bind", () => {
    const lacks = (role: Role | null, at: EnvironmentTarget, held: ReadonlyArray<ActiveGrant> = [], bound = false) => {
      const { caller, team } = as(role, { grants: held }, { adminsNeedGrants: bound })
      return Policy.lacksGrant(caller, team, at, "run")
    }
    assert.isTrue(lacks("member", granted))
    assert.isTrue(lacks("member", environment({ visibility: "granted" })))
    assert.isFalse(lacks("member", environment()))
    assert.isFalse(lacks(null, granted))
    assert.isFalse(lacks("admin", granted))
    assert.isTrue(lacks("admin", granted, [], true))
    assert.isTrue(lacks("member", granted, [grant("names")]))
    assert.isFalse(lacks("member", granted, [grant("run")]))
    // The highest counts, at any place; one of another place does not.
    assert.isFalse(lacks("member", granted, [grant("values"), grant("names")]))
    assert.isTrue(lacks("member", granted, [{ ...grant("write"), projectId: ProjectIdOut.make("p2") }]))
    assert.isTrue(lacks("member", granted, [{ ...grant("write"), environmentId: EnvironmentIdOut.make("e2") }]))
    assert.isFalse(lacks("member", granted, [{ ...grant("write"), environmentId }]))
  })

  it("are asked for at environments: what is about a project or a team needs none", () => {
    const project: Target = { type: "project", teamId, plan: "team", projectId, visibility: "granted" }
    const may = (target: Target, action: Actions.Action) => tag(Policy.decide({ ...as("member"), target, action }))
    for (const action of ["secrets:run", "secrets:read_values", "secrets:write"] as const) {
      assert.strictEqual(may(granted, action), "ENVIRONMENT_NOT_GRANTED")
      assert.strictEqual(may(project, action), "yes")
      assert.strictEqual(may(teamItself, action), "yes")
    }
    assert.strictEqual(may(project, "projects:read"), "yes")
  })
})

describe("who decides", () => {
  it("about access: owners, admins and the approvers; about their own nobody, and nobody above their own standing", () => {
    assert.deepStrictEqual(
      byRole((role) => Policy.decidesRequests(role, ada, [])),
      [false, false, true, true]
    )
    assert.isTrue(Policy.decidesRequests("viewer", ada, [grace, ada]))
    const may = (
      { caller, team }: ReturnType<typeof as>,
      asked: Partial<{ userId: typeof ada; level: GrantLevel }> = {},
      approvers: ReadonlyArray<typeof ada> = []
    ) => Policy.mayDecide(caller, team, { ...granted, approvers }, { userId: grace, level: "values", ...asked })
    assert.deepStrictEqual(
      byRole((role) => may(as(role))),
      [false, false, true, true]
    )
    assert.isFalse(may(as("owner"), { userId: ada }))
    assert.isFalse(may(as("owner", { user: null })))
    assert.isFalse(may(as(null)))
    assert.isFalse(may(as(null), {}, [ada]), "nobody in the team, though named")
    // An approver, with the level that is asked for.
    assert.isFalse(may(as("member"), {}, [ada]))
    assert.isFalse(may(as("member", { grants: [grant("run")] }), {}, [ada]))
    assert.isTrue(may(as("member", { grants: [grant("values")] }), {}, [ada]))
    assert.isFalse(may(as("viewer", { grants: [grant("values")] }), {}, [ada]), "above the role")
    // Admins give what they would need a grant for themselves.
    assert.isTrue(may(as("admin", {}, { adminsNeedGrants: true })))
  })

  it("about a change: another person than its author, who could write it", () => {
    const may = (
      who: ReturnType<typeof as>,
      at: EnvironmentTarget,
      { approvers = [], author = grace }: { approvers?: ReadonlyArray<typeof ada>; author?: typeof ada } = {}
    ) => tag(Policy.decideApproval(who, at, approvers, author))
    assert.deepStrictEqual(
      byRole((role) => may(as(role), environment())),
      ["FORBIDDEN", "FORBIDDEN", "yes", "yes"]
    )
    assert.strictEqual(may(as("owner"), environment(), { author: ada }), "FORBIDDEN")
    assert.strictEqual(may(as("owner", { user: null }), environment()), "FORBIDDEN")
    assert.strictEqual(may(as(null), environment(), { approvers: [ada] }), "FORBIDDEN")
    // Protection keeps no approver from it, and grants do.
    assert.strictEqual(may(as("member"), guarded, { approvers: [ada] }), "yes")
    assert.strictEqual(may(as("viewer"), guarded, { approvers: [ada] }), "FORBIDDEN")
    assert.strictEqual(may(as("member"), granted, { approvers: [ada] }), "ENVIRONMENT_NOT_GRANTED")
    // A proposal needs another person; an approver writes.
    const proposed = environment({ protected: true, changes: "proposed" })
    assert.strictEqual(may(as("admin"), proposed), "yes")
    assert.strictEqual(may(as("member"), proposed, { approvers: [ada] }), "yes")
    // A token of an admin is held to protection like any token.
    const token = as("admin", { kind: "api_token" })
    assert.strictEqual(may(token, guarded), "API_TOKEN_NOT_SCOPED_TO_PROTECTED_ENVIRONMENT")
  })

  it("by proposal alone: people below admin, where the environment says so", () => {
    const proposed = environment({ changes: "proposed" })
    const proposes = ({ caller, team }: ReturnType<typeof as>, at: Target = proposed) =>
      Policy.proposes(caller, team, at)
    assert.deepStrictEqual(
      byRole((role) => proposes(as(role))),
      [true, true, false, false]
    )
    assert.isFalse(proposes(as("member"), environment()))
    assert.isFalse(proposes(as("member"), teamItself))
    assert.isFalse(proposes(as("member", { user: null })))
    assert.isFalse(proposes(as(null)))
    // It is the writing that is proposed: the environment itself is not managed that way.
    const open = environment({ protected: true, changes: "proposed" })
    assert.strictEqual(tag(Policy.decide({ ...as("member"), target: open, action: "secrets:write" })), "yes")
    assert.strictEqual(
      tag(Policy.decide({ ...as("member"), target: open, action: "environments:manage" })),
      "FORBIDDEN"
    )
  })
})

describe("copies", () => {
  it("need a right to values where they come from", () => {
    const may = (
      role: Role,
      at: EnvironmentTarget,
      caller: Partial<Caller> = {},
      scopes: ReadonlyArray<Scope> | null = null
    ) => Policy.mayHaveValues(as(role, caller, { scopes }).caller, at)
    assert.deepStrictEqual(
      byRole((role) => may(role, environment())),
      [false, true, true, true]
    )
    assert.isTrue(may("member", environment(), {}, ["secrets:run"]))
    assert.isTrue(may("member", environment(), {}, ["secrets:read_values"]))
    assert.isFalse(may("member", environment(), {}, ["secrets:read", "secrets:write"]))
    assert.isFalse(may("owner", environment({ teamId: TeamIdOut.make("another") })))
    const into = environment()
    const copies = (who: ReturnType<typeof as>, from: EnvironmentTarget) => tag(Policy.decideCopy(who, from, into))
    assert.strictEqual(copies(as("member"), environment()), "yes")
    assert.strictEqual(copies(as("member"), granted), "ENVIRONMENT_NOT_GRANTED")
    assert.strictEqual(copies(as("viewer"), environment()), "FORBIDDEN")
    assert.strictEqual(copies(as("member", {}, { scopes: ["secrets:write"] }), environment()), "SCOPE_MISSING")
  })

  it("leave protection by owners and admins only", () => {
    const copies = (from: EnvironmentTarget, into: EnvironmentTarget) =>
      byRole((role) => tag(Policy.decideCopy(as(role), from, into))).slice(1)
    assert.deepStrictEqual(copies(guarded, environment()), ["FORBIDDEN", "yes", "yes"])
    assert.deepStrictEqual(copies(guarded, guarded), ["yes", "yes", "yes"])
    assert.deepStrictEqual(copies(environment(), guarded), ["yes", "yes", "yes"])
  })
})

describe("the second factor", () => {
  /** The effect of each action, read off the sentences of docs/contract/credentials.md ("Asking again"). */
  const expectedEffects = {
    plain: [
      ...allScopes,
      "projects:manage",
      "environments:manage",
      "access:manage",
      "access:decide",
      "tokens:manage",
      "members:read",
      "members:manage",
      "team:manage",
      "audit-trail:read",
      "management:begin"
    ],
    widens: [
      "projects:open",
      "environments:open",
      "access:grant",
      "access:approve",
      "changes:approve",
      "sealing-keys:manage",
      "tokens:issue",
      "webhooks:direct",
      "members:raise",
      "team-rules:manage"
    ],
    destroys: ["projects:delete", "environments:delete", "plan:manage"]
  } as const

  it("has an effect for every action", () => {
    for (const [effect, expected] of Object.entries(expectedEffects)) {
      assert.sameMembers(
        Actions.actions.filter((action) => Actions.effectOf(action) === effect),
        [...expected],
        effect
      )
    }
  })

  it("is asked for again by each action that widens or destroys, and by values of protected environments", () => {
    const asks = (action: Actions.Action, target: Target, factorIsOld = true) =>
      tag(Policy.needsStepUp({ ...as("owner", {}, { factorIsOld }), action, target }))
    for (const action of [...expectedEffects.widens, ...expectedEffects.destroys]) {
      for (const target of [teamItself, environment(), guarded]) {
        assert.strictEqual(asks(action, target), "STEP_UP_REQUIRED", action)
        assert.strictEqual(asks(action, target, false), "yes", action)
      }
    }
    const values: ReadonlyArray<Actions.Action> = ["secrets:read_values", "secrets:run"]
    for (const action of expectedEffects.plain) {
      assert.strictEqual(asks(action, guarded), values.includes(action) ? "STEP_UP_REQUIRED" : "yes", action)
      assert.strictEqual(asks(action, environment()), "yes", action)
      assert.strictEqual(asks(action, teamItself), "yes", action)
    }
  })

  it("or the sign-in was proven lately for 15 minutes, to the millisecond", () => {
    const [signedIn, proven] = [new Date(1_000_000), new Date(2_000_000)]
    const recent = (factorAt: Date | null, now: number) =>
      Policy.hasRecentProof({ createdAt: signedIn, factorAt, provedAt: null }, now)
    assert.isTrue(recent(null, 1_000_000 + 900_000))
    assert.isFalse(recent(null, 1_000_000 + 900_001))
    assert.isTrue(recent(proven, 2_000_000 + 900_000))
    assert.isFalse(recent(proven, 2_000_000 + 900_001))
  })

  it("that is too old stops the approval of a login for the teams that ask for it", () => {
    const { caller, team } = as("member")
    const old = { ...team, id: TeamIdOut.make("old"), factorIsOld: true }
    const strict = { ...caller, teams: [team, old] }
    const first = (...ids: ReadonlyArray<CallerTeam["id"]>) =>
      Policy.firstWithOldFactor(
        strict,
        ids.map((teamId) => ({ teamId }))
      )
    assert.strictEqual(first(team.id, old.id), old)
    assert.isUndefined(first(team.id))
    assert.isUndefined(first())
  })
})

describe("sign-ins", () => {
  const team = {
    id: teamId,
    role: "member" as Role,
    signInOnly: null as ReadonlyArray<string> | null,
    breakGlass: false
  }
  const password = { issuer: null, onlyTeam: null, closedTeams: null, confirmedTeams: null }
  const issued = { issuer: "https://issuer", onlyTeam: null, closedTeams: null, confirmedTeams: null }

  it("by a password are let into teams that take it, and of others let in owners who may break the glass", () => {
    const closed = { ...team, signInOnly: ["https://another", "https://issuer"] }
    assert.isTrue(Policy.letsIn(password, team))
    assert.isFalse(Policy.letsIn(password, closed))
    assert.isTrue(Policy.letsIn(issued, closed))
    assert.isFalse(Policy.letsIn({ ...issued, issuer: "https://third" }, closed))
    assert.isFalse(Policy.letsIn(issued, { ...closed, signInOnly: [] }))
    const owner = { ...closed, role: "owner" as Role, breakGlass: true }
    assert.isTrue(Policy.letsIn(password, owner))
    assert.isTrue(Policy.breaksGlass(password, owner))
    for (const entrance of [
      { ...owner, role: "admin" as Role },
      { ...owner, breakGlass: false }
    ]) {
      assert.isFalse(Policy.letsIn(password, entrance))
      assert.isFalse(Policy.breaksGlass(password, entrance))
    }
    // Where a password is taken anyway, or none was used, no glass breaks.
    assert.isFalse(Policy.breaksGlass(password, { ...owner, signInOnly: null }))
    assert.isFalse(Policy.breaksGlass(issued, owner))
    assert.isFalse(Policy.letsIn({ ...issued, issuer: "https://third" }, owner))
  })

  it("by a team's own issuer are good for this team alone", () => {
    assert.isTrue(Policy.letsIn({ ...issued, onlyTeam: teamId }, team))
    assert.isFalse(Policy.letsIn({ ...issued, onlyTeam: TeamIdOut.make("another") }, team))
  })

  it("create teams as the operator chose", () => {
    const { caller, team: own } = as("owner")
    const mixed = { ...caller, teams: [{ ...own, role: "member" as Role }, own] }
    const { caller: member } = as("member")
    const may = (who: Caller) =>
      (["everyone", "owners", "operators"] as const).map((creation) => Policy.mayCreateTeam(who, creation))
    assert.deepStrictEqual(may(mixed), [true, true, false])
    assert.deepStrictEqual(may(member), [true, false, false])
  })
})

describe("a granted project", () => {
  it("is seen with a grant in it that the credential reaches", () => {
    const at = { teamId, projectId, environmentIds: [environmentId], visibility: "granted" as const }
    const sees = (caller: Partial<Caller>, role: Role | null = "member", where = at) =>
      Policy.projectVisible(as(role, caller).caller, where)
    assert.isFalse(sees({}))
    assert.isTrue(sees({}, "admin"))
    assert.isTrue(sees({}, null))
    assert.isFalse(sees({}, "admin", { ...at, teamId: TeamIdOut.make("another") }))
    assert.isTrue(sees({ grants: [grant("names")] }))
    assert.isFalse(sees({ grants: [{ ...grant("names"), projectId: ProjectIdOut.make("p2") }] }))
    const narrowed = { projectIds: null, environmentIds: [environmentId] }
    const elsewhere = { ...grant("names"), environmentId: EnvironmentIdOut.make("e2") }
    assert.isTrue(sees({ grants: [elsewhere] }))
    assert.isTrue(sees({ grants: [elsewhere, { ...elsewhere, environmentId }], restrictions: narrowed }))
    assert.isFalse(sees({ grants: [elsewhere], restrictions: narrowed }))
    assert.isTrue(sees({ grants: [grant("names")], restrictions: narrowed }))
  })
})

/**
 * The rules of access a second time, in Cedar (https://docs.cedarpolicy.com): who sees a project or an environment, and
 * who may do what there. Written from docs/contract; it shares nothing with the rules of the server nor with the oracle.
 */
import { assert } from "@effect/vitest"
import * as cedar from "@cedar-policy/cedar-wasm/nodejs"
import type { Scope } from "#schema/Scopes.ts"
import type { Place } from "./AccessOracle.ts"
import { atMcp, type Built, type ScenePerson, type Way } from "./Scene.ts"

/** A scope, or what owners and admins do over a session; of the team, what they do there, and what it tells of itself. */
export type CedarAction = Scope | "manage" | "manage the team" | "tell of the team" | "raise in the team"

/** The person, or the creator of the token, bounds the credential. */
const bounded = `(principal.kind != "api_token" || context.mcp || resource.team.tokensFollowCreators)`
/** Grants decide who has values there. */
const closed = `(resource is Environment && (resource.readers == "granted" || resource.project.visibility == "granted"))`
const heldScopes = `(principal has scopes && (principal.kind != "api_token" || context.mcp))`
const values = `[Action::"secrets:read_values", Action::"secrets:run", Action::"secrets:write"]`
const names = `[Action::"secrets:read", Action::"projects:read", Action::"identity:read"]`
const anyName = `[${names.slice(1, -1)}, ${values.slice(1, -1)}]`

const permits = {
  "members see what is not granted": `
    permit (principal, action == Action::"see", resource) when {
      ${bounded} && principal.person in Role::"viewer" && resource.project.visibility == "team" };`,
  "admins see everything": `
    permit (principal, action == Action::"see", resource) when { ${bounded} && principal.person in Role::"admin" };`,
  "a token sees its own reach": `
    permit (principal, action == Action::"see", resource) when { !${bounded} };`,
  "viewers read names": `
    permit (principal, action in ${names}, resource) when { ${bounded} && principal.person in Role::"viewer" };`,
  "members have values where no grant decides": `
    permit (principal, action in ${values}, resource) when {
      ${bounded} && principal.person in Role::"member" && !${closed} };`,
  "admins have values, unless the team binds them": `
    permit (principal, action in ${values}, resource) when {
      ${bounded} && principal.person in Role::"admin" && !resource.team.adminsNeedGrants };`,
  "admins manage": `
    permit (principal, action == Action::"manage", resource) when {
      (principal.kind == "session" || principal.kind == "management") && principal.person in Role::"admin" };`,
  "admins read who was handed what, and who reaches it": `
    permit (principal, action == Action::"audit:read", resource) when {
      principal.kind != "api_token" && principal.person in Role::"admin" };`,
  "a token reads it by a scope, where its creator may": `
    permit (principal, action == Action::"audit:read", resource) when {
      principal.kind == "api_token" && principal.scopes.contains("audit:read") &&
      (!${bounded} || principal.person in Role::"admin") };`,
  "members see their team": `
    permit (principal, action == Action::"see the team", resource) when { principal.person in Role::"viewer" };`,
  "admins manage the team": `
    permit (principal, action == Action::"manage the team", resource) when {
      principal.kind == "session" && principal.person in Role::"admin" };`,
  "admins raise others, from a browser or a management session": `
    permit (principal, action == Action::"raise in the team", resource) when {
      ["session", "management"].contains(principal.kind) && principal.person in Role::"admin" };`,
  "where no second person is required, a person acts alone": `
    permit (principal, action == Action::"act alone", resource) when { !resource.secondPerson };`,
  "admins see the team, from anywhere": `
    permit (principal, action == Action::"tell of the team", resource) when {
      ["session", "cli_grant"].contains(principal.kind) && principal.person in Role::"admin" };`,
  "a token does what its own reach holds": `
    permit (principal, action in ${anyName}, resource) when { !${bounded} };`
}

const scopeForbids = (scope: Scope) => `
  forbid (principal, action == Action::"${scope}", resource) when {
    ${heldScopes} && !principal.scopes.contains("${scope}") };`

const forbids = {
  "a management session manages, and does nothing else": `
    forbid (principal, action, resource) when {
      principal.kind == "management" &&
      !(action in [Action::"manage", Action::"see", Action::"see the team", Action::"raise in the team", Action::"act alone"]) };`,
  "a credential that is narrowed to projects has no other": `
    forbid (principal, action == Action::"see", resource) when {
      principal has projects && !principal.projects.contains(resource.project) };`,
  "a credential that is narrowed to environments has no other": `
    forbid (principal, action == Action::"see", resource is Environment) when {
      principal has environments && !principal.environments.contains(resource) };`,
  "a project without a reached environment is hidden": `
    forbid (principal, action == Action::"see", resource is Project) when {
      principal has environments && !principal.environments.containsAny(resource.environments) };`,
  "a read token never writes": `
    forbid (principal, action == Action::"secrets:write", resource) when {
      principal.kind == "api_token" && principal.level == "read" };`,
  "a token writes a protected environment that it names": `
    forbid (principal, action == Action::"secrets:write", resource is Environment) when {
      principal.kind == "api_token" && resource.protected }
    unless { principal has environments && principal.environments.contains(resource) };`,
  "people below admin do not write protected environments, unless what they write waits": `
    forbid (principal, action == Action::"secrets:write", resource is Environment) when {
      ${bounded} && resource.protected && !(principal.person in Role::"admin") }
    unless { resource.proposed && principal.kind != "api_token" };`,
  "what waits for no approval is not for people below admin where changes wait": `
    forbid (principal, action == Action::"secrets:write", resource is Environment) when {
      context.direct && resource.proposed && principal.kind != "api_token" && !(principal.person in Role::"admin") };`,
  "a CLI grant reads who was handed what, and who reaches it, with names in its reach": `
    forbid (principal, action == Action::"audit:read", resource) when {
      principal.kind == "cli_grant" && !principal.scopes.contains("secrets:read") };`,
  "a login that is restricted to a part is not told of the whole": `
    forbid (principal, action == Action::"tell of the team", resource) when {
      principal has projects || principal has environments };`,
  "a CLI grant sees the team with names in its reach": `
    forbid (principal, action == Action::"tell of the team", resource) when {
      principal.kind == "cli_grant" && !principal.scopes.contains("secrets:read") };`,
  "scope secrets:read": scopeForbids("secrets:read"),
  "scope secrets:read_values": scopeForbids("secrets:read_values"),
  "scope secrets:run": scopeForbids("secrets:run"),
  "scope secrets:write": scopeForbids("secrets:write"),
  "scope projects:read": scopeForbids("projects:read")
}

const ofLevel = {
  names: [],
  run: ["secrets:run"],
  values: ["secrets:run", "secrets:read_values"],
  write: ["secrets:run", "secrets:read_values", "secrets:write"]
} as const

/** Each grant is a policy of its own. */
const grantPolicies = ({ scene, start }: Built) =>
  scene.people.flatMap(({ grants, key }) =>
    grants.flatMap(({ environment, level, project, until }, i) => {
      const reached = environment === null ? `Project::"${project}"` : `Environment::"${environment}"`
      const inForce = until === null ? "" : ` && context.now < ${start + until}`
      const holder = `principal.person == Person::"${key}" && ${bounded} && principal.person in Role::"viewer"${inForce}`
      const named = ofLevel[level].map((action) => `Action::"${action}"`).join(", ")
      const environmentIsReached = `
        (!(principal has environments) || principal.environments.contains(Environment::"${environment}"))`
      return [
        [
          `${key} sees by grant ${i}`,
          `permit (principal, action == Action::"see", resource in ${reached}) when { ${holder} };`
        ],
        ...(environment === null
          ? []
          : [
              [
                `${key} sees the project by grant ${i}`,
                `permit (principal, action == Action::"see", resource == Project::"${project}") when {
                  ${holder} && ${environmentIsReached} };`
              ]
            ]),
        ...(named === ""
          ? []
          : [
              [
                `${key} has values by grant ${i}`,
                `permit (principal, action in [${named}], resource in ${reached}) when {
                  ${holder} && principal.person in Role::"member" };`
              ]
            ])
      ]
    })
  )

type Uid = { readonly type: string; readonly id: string }
const uid = (type: string, id: string) => ({ type, id })
const ref = (type: string, id: string) => ({ __entity: uid(type, id) })
const entity = (of: Uid, attrs: cedar.EntityJson["attrs"], parents: ReadonlyArray<Uid> = []): cedar.EntityJson => ({
  uid: of,
  attrs,
  parents: [...parents]
})
const refs = (type: string, ids: ReadonlyArray<string>) => ids.map((id) => ref(type, id))

/** Each role may what the one before it may. */
const roleEntities = [
  entity(uid("Role", "owner"), {}, [uid("Role", "admin")]),
  entity(uid("Role", "admin"), {}, [uid("Role", "member")]),
  entity(uid("Role", "member"), {}, [uid("Role", "viewer")]),
  entity(uid("Role", "viewer"), {})
]

const teamEntities = ({ scene }: Built) => [
  entity(uid("Team", "T"), {
    adminsNeedGrants: scene.adminsNeedGrants,
    tokensFollowCreators: scene.tokensFollowCreators,
    secondPerson: scene.secondPerson
  }),
  ...scene.projects.flatMap(({ environments, key, visibility }) => [
    entity(uid("Project", key), {
      project: ref("Project", key),
      team: ref("Team", "T"),
      visibility,
      environments: refs(
        "Environment",
        environments.map((one) => one.key)
      )
    }),
    ...environments.map((one) =>
      entity(
        uid("Environment", one.key),
        {
          project: ref("Project", key),
          team: ref("Team", "T"),
          readers: one.readers,
          protected: one.protected,
          proposed: one.proposed
        },
        [uid("Project", key)]
      )
    )
  ])
]

/** Limits of a credential beside its person; a session has none. */
interface Holding {
  readonly projects?: ReadonlyArray<string> | null
  readonly environments?: ReadonlyArray<string> | null
  readonly level?: string
  readonly scopes?: ReadonlyArray<Scope>
  /** Of an API token, at `/mcp`. */
  readonly mcpScopes?: ReadonlyArray<Scope>
}

const credentialEntity = ({ agent, cli, key, token }: ScenePerson, way: Way) => {
  const holdings: Record<Way, Holding> = {
    session: {},
    management: {},
    cli_grant: cli,
    oauth_token: agent,
    api_token: token,
    "api_token at /mcp": token
  }
  const { environments, level, mcpScopes, projects, scopes = mcpScopes } = holdings[way]
  return entity(uid("Credential", "presented"), {
    kind: way.startsWith("api_token") ? "api_token" : way,
    person: ref("Person", key),
    ...(level === undefined ? {} : { level }),
    ...(scopes === undefined ? {} : { scopes: [...scopes] }),
    ...(projects === undefined || projects === null ? {} : { projects: refs("Project", projects) }),
    ...(environments === undefined || environments === null ? {} : { environments: refs("Environment", environments) })
  })
}

interface Moment {
  readonly now: number
  /** The action waits for no approval. */
  readonly direct: boolean
}

let scenes = 0

/** Cedar's verdict on a scene, cell by cell. */
export const judge = (built: Built) => {
  const name = `scene-${scenes++}`
  const staticPolicies = Object.fromEntries([...Object.entries({ ...permits, ...forbids }), ...grantPolicies(built)])
  const parsed = cedar.preparsePolicySet(name, { staticPolicies })
  if (parsed.type === "failure") assert.fail(JSON.stringify(parsed.errors))
  const entities = [...roleEntities, ...teamEntities(built)]

  const allows = (
    person: ScenePerson,
    way: Way,
    action: CedarAction | "see" | "see the team" | "act alone",
    resource: Uid,
    { direct, now }: Moment
  ): boolean => {
    const answer = cedar.statefulIsAuthorized({
      principal: uid("Credential", "presented"),
      action: uid("Action", action),
      resource,
      context: { mcp: atMcp(way), now, direct },
      preparsedPolicySetId: name,
      entities: [
        ...entities,
        // A deactivated person has no role. No policy looks at an address: several accounts may have one.
        entity(
          uid("Person", person.key),
          { address: person.provisional ? "the owner's" : person.key, vouched: !person.provisional },
          person.active ? [uid("Role", person.role)] : []
        ),
        credentialEntity(person, way)
      ]
    })
    if (answer.type === "failure") return assert.fail(JSON.stringify(answer.errors))
    const { decision, diagnostics } = answer.response
    assert.deepStrictEqual(diagnostics.errors, [], "a policy that cannot be evaluated decides nothing")
    return decision === "allow"
  }
  return (
    person: ScenePerson,
    way: Way,
    action: CedarAction,
    place: Place,
    on: "team" | "project" | "environment",
    moment: Moment
  ) => {
    if (on === "team") {
      const team = uid("Team", String(place.team))
      return {
        sees: allows(person, way, "see the team", team, moment),
        may: allows(person, way, action, team, moment),
        alone: allows(person, way, "act alone", team, moment)
      }
    }
    const resource = uid(on === "project" ? "Project" : "Environment", String(place[on]))
    return {
      sees: allows(person, way, "see", resource, moment),
      may: allows(person, way, action, resource, moment),
      alone: true
    }
  }
}

/**
 * Every action of the service, with its effect and the roles that may do it. The type `Action` comes from this table: an
 * action without an effect does not exist.
 */
import type { Role, Scope } from "#schema/Scopes.ts"

/**
 * `widens`: afterwards more people, credentials or servers reach more. `destroys`: something ends that no person can
 * restore. Both need a recent proof of the second factor, as values of a protected environment do. `plain`: the rest.
 */
export type ActionEffect = "plain" | "widens" | "destroys"

/**
 * The first block is the contract's scopes; only people, in dashboard sessions and management sessions, have the others.
 * Ending something that can be made again is plain: an owner who ends a thief's access is not asked first.
 */
const effects = {
  "identity:read": "plain",
  "projects:read": "plain",
  "secrets:read": "plain",
  "secrets:read_values": "plain",
  "secrets:write": "plain",
  "secrets:run": "plain",
  "audit:read": "plain",
  "projects:manage": "plain",
  /** Shows a granted project to the whole team. */
  "projects:open": "widens",
  "projects:delete": "destroys",
  "environments:manage": "plain",
  /** Lowers a protection of an environment: protection, readers, approvers, approvals, changes. */
  "environments:open": "widens",
  "environments:delete": "destroys",
  /** Lists and ends grants. */
  "access:manage": "plain",
  "access:grant": "widens",
  /** Denies requests. */
  "access:decide": "plain",
  "access:approve": "widens",
  "changes:approve": "widens",
  /** A file sealed with a retired key opens no more; a new key decides who reads later files. */
  "sealing-keys:manage": "widens",
  /** Lists, renames, narrows and ends tokens, rules and webhooks. */
  "tokens:manage": "plain",
  "tokens:issue": "widens",
  /** Decides where events go, and which secret signs them. */
  "webhooks:direct": "widens",
  "members:read": "plain",
  "members:manage": "plain",
  /** Raises roles, lets people back in, invites admins and owners, makes links for a password. */
  "members:raise": "widens",
  "team:manage": "plain",
  /** A smaller plan deletes earlier versions. */
  "plan:manage": "destroys",
  "team-rules:manage": "widens",
  "audit-trail:read": "plain",
  /** Gives nothing: the approval in the browser asks for the proof. */
  "management:begin": "plain"
} as const satisfies Record<Scope, ActionEffect> & Readonly<Record<string, ActionEffect>>

export type Action = keyof typeof effects
export const actions = Object.keys(effects) as ReadonlyArray<Action>

export const effectOf = (action: Action): ActionEffect => effects[action]

const projectActions = [
  "projects:manage",
  "projects:open",
  "projects:delete",
  "environments:manage",
  "environments:open",
  "environments:delete"
] as const satisfies ReadonlyArray<Action>
const tokenActions = ["tokens:manage", "tokens:issue"] as const satisfies ReadonlyArray<Action>
const memberActions = ["members:manage", "members:raise"] as const satisfies ReadonlyArray<Action>

/** Actions of each role (docs/contract/session-routes.md, "Teams and members"). */
const viewer: ReadonlyArray<Action> = [
  "identity:read",
  "projects:read",
  "secrets:read",
  "members:read",
  "access:decide",
  "access:approve"
]
const member: ReadonlyArray<Action> = [
  ...viewer,
  "secrets:read_values",
  "secrets:run",
  "secrets:write",
  "changes:approve"
]
const admin: ReadonlyArray<Action> = [
  ...member,
  "audit:read",
  "audit-trail:read",
  ...projectActions,
  "access:manage",
  "access:grant",
  "sealing-keys:manage",
  ...tokenActions,
  "webhooks:direct",
  ...memberActions,
  "team:manage",
  "management:begin"
]
const owner: ReadonlyArray<Action> = [...admin, "plan:manage", "team-rules:manage"]
export const byRole: Readonly<Record<Role, ReadonlySet<Action>>> = {
  viewer: new Set(viewer),
  member: new Set(member),
  admin: new Set(admin),
  owner: new Set(owner)
}

const scopes: ReadonlyArray<Scope> = [
  "identity:read",
  "projects:read",
  "secrets:read",
  "secrets:read_values",
  "secrets:write",
  "secrets:run",
  "audit:read"
]
/** The scope of an action; none of those that only people have. */
export const scopeOf: ReadonlyMap<Action, Scope> = new Map(scopes.map((scope) => [scope, scope]))

/** Actions that a read token never does, and that protected environments leave to owners and admins. */
export const changingActions: ReadonlySet<Action> = new Set<Action>([
  "secrets:write",
  ...projectActions,
  "access:manage",
  "access:grant",
  "sealing-keys:manage",
  ...tokenActions,
  "webhooks:direct",
  ...memberActions,
  "team:manage",
  "plan:manage",
  "team-rules:manage"
])

/** Actions of a management session. Values, names, the team's rules and the trail are not among them. */
export const managementActions: ReadonlySet<Action> = new Set<Action>([
  ...projectActions,
  ...tokenActions,
  "members:read",
  ...memberActions
])

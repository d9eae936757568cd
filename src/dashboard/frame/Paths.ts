/** Addresses of pages. */
import type { IncidentId, ProjectId, RuleId, SecretId, TeamId, TokenId, UserId, WebhookId } from "#schema/Ids.ts"

export type EnvironmentPath = { readonly projectId: ProjectId; readonly slug: string }

export const home = "/app"
export const signIn = "/app/sign-in"
export const signInWith = (issuer: string) => `/app/sign-in/with/${issuer}` as const
export const signInCode = "/app/sign-in/code"
export const signInRecovery = "/app/sign-in/recovery"
export const signInPasskey = "/app/sign-in/passkey"
export const confirm = "/app/confirm"
export const confirmBefore = "/app/confirm/before"
export const signOut = "/app/sign-out"
export const account = "/app/account"
export const accountEmail = "/app/account/email"
export const accountName = "/app/account/name"
export const addressLink = "/app/account/address/link"
export const addressConfirm = "/app/account/address/confirm"
export const factors = "/app/account/second-factor"
export const waysIn = "/app/account/ways-in"
export const signIns = "/app/account/sign-ins"
export const linkWith = (issuer: string) => `${signIns}/with/${issuer}` as const
export const confirmWith = (issuer: string) => `/app/confirm/with/${issuer}` as const
export const sessions = "/app/account/sessions"
export const factorApp = `${factors}/app` as const
export const passkeys = `${factors}/passkeys` as const
export const recoveryCodes = `${factors}/recovery-codes` as const
export const grants = "/app/grants"
export const connections = "/app/connections"
export const connect = (uid: string) => `/app/connect/${uid}` as const
export const provide = (code: string) => `/app/provide/${code}` as const
export const start = "/app/start"
export const theme = "/app/theme"
export const search = "/app/search"
export const waiting = "/app/waiting"
export const secondPerson = "/app/waiting/second-person"
export const newTeam = "/app/teams/new"
export const device = "/device"

export const team = (id: TeamId) => `/app/teams/${id}` as const
export const tokens = (id: TeamId) => `${team(id)}/tokens` as const
export const token = (id: TeamId, token: TokenId) => `${tokens(id)}/${token}` as const
export const members = (id: TeamId) => `${team(id)}/members` as const
export const member = (id: TeamId, user: UserId) => `${members(id)}/${user}` as const
export const teamAccess = (id: TeamId) => `${team(id)}/access` as const
export const incidents = (id: TeamId) => `${team(id)}/incidents` as const
export const incident = (id: TeamId, incident: IncidentId) => `${incidents(id)}/${incident}` as const
export const audit = (id: TeamId) => `${team(id)}/audit` as const
export const auditEntry = (id: TeamId, entry: string) => `${audit(id)}/${entry}` as const
export const settings = (id: TeamId) => `${team(id)}/settings` as const
export const teamSignIn = (id: TeamId) => `${team(id)}/sign-in` as const
export const rules = (id: TeamId) => `${team(id)}/ci` as const
export const rule = (id: TeamId, rule: RuleId) => `${rules(id)}/${rule}` as const
export const webhooks = (id: TeamId) => `${team(id)}/webhooks` as const
export const webhook = (id: TeamId, webhook: WebhookId) => `${webhooks(id)}/${webhook}` as const

export const project = (id: ProjectId) => `/app/projects/${id}` as const
export const projectSettings = (id: ProjectId) => `${project(id)}/settings` as const
export const compare = (id: ProjectId) => `${project(id)}/compare` as const
export const activity = (id: ProjectId) => `${project(id)}/activity` as const
export const exposure = (id: ProjectId) => `${project(id)}/exposure` as const
export const environment = ({ projectId, slug }: EnvironmentPath) => `${project(projectId)}/env/${slug}` as const
/** The page of a secret, by its key. */
export const key = (path: EnvironmentPath, key: string) => `${environment(path)}/key/${key}` as const
export const secret = (path: EnvironmentPath, id: SecretId) => `${environment(path)}/secrets/${id}` as const

export const withQuery = (path: string, members: Readonly<Record<string, string>>): string => {
  const search = new URLSearchParams(members).toString()
  return search === "" ? path : `${path}?${search}`
}

/** True for pages about the person's sign-in, which work without a second factor. */
export const isOfAccount = (path: string): boolean =>
  path === signOut ||
  path === confirm ||
  path.startsWith(`${confirm}/`) ||
  path === account ||
  path.startsWith(`${account}/`)

/** True for a page of this dashboard that no browser can read as another host; only these may follow a sign-in. */
export const isOwnPage = (path: string): boolean =>
  /^\/(?:app|device|invite)(?:[/?][\w./?=&%~-]*)?$/.test(path) && !path.includes("//")

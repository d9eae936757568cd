/** Pages of the documentation (`src/docs`) that the dashboard leads to. `test/docs/site.test.ts` finds a dead one. */
import type { InProject, Section } from "./Rail.tsx"

const ofSection: Record<Section, string> = {
  projects: "/docs",
  access: "/docs/contract/access",
  members: "/docs/contract/credentials",
  audit: "/docs/audit-trail",
  settings: "/docs/contract/second-person",
  webhooks: "/docs/webhooks",
  account: "/docs/contract/credentials",
  factors: "/docs/contract/credentials",
  signIn: "/docs/sign-in",
  signIns: "/docs/sign-in",
  sessions: "/docs/contract/credentials",
  grants: "/docs/contract/device-authorization",
  connections: "/docs/agents",
  start: "/docs",
  waiting: "/docs/command-line/access",
  none: "/docs"
}

const ofView: Record<InProject["view"], string> = {
  secrets: "/docs/command-line/values",
  activity: "/docs/audit-trail",
  compare: "/docs/command-line/values",
  exposure: "/docs/command-line/who-has-a-value",
  settings: "/docs/contract/access"
}

export const pageOf = (section: Section, view: InProject["view"] | undefined): string =>
  view === undefined ? ofSection[section] : ofView[view]

/** Page of an error code. */
export const pageOfCode = (code: string): string => `/docs/errors#${code}`

export const allPages: ReadonlyArray<string> = [...Object.values(ofSection), ...Object.values(ofView)]

/** Results of a search, as titles with addresses, for its page and for the palette. They hold only names. */
import { fitting, type Found, maxFound, wordsOf } from "#src/secrets/Search.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { may, mayCreateTeam, type Visit } from "#src/dashboard/frame/Visit.ts"

export const kinds = ["key", "project", "environment", "person", "token", "page"] as const
export type Kind = (typeof kinds)[number]

export interface Item {
  readonly kind: Kind
  readonly title: string
  /** Place or description of the object. */
  readonly about: string
  readonly href: string
}
export interface SearchResults {
  readonly items: ReadonlyArray<Item>
}

type Page = readonly [title: string, href: string]

const ofTeam = (visit: Visit): ReadonlyArray<Page> => {
  const { team } = visit
  if (team === null) return []
  return [
    ...(may(visit, "projects:manage") ? [["New project", `${Paths.home}?panel=new`] as const] : []),
    ...(may(visit, "tokens:manage")
      ? ([
          ["New API token", `${Paths.tokens(team.id)}/new`],
          ["API tokens", Paths.tokens(team.id)],
          ["Access: all credentials", Paths.teamAccess(team.id)],
          ["CI identities", Paths.rules(team.id)],
          ["New CI identity", `${Paths.rules(team.id)}/new`],
          ["Webhooks", Paths.webhooks(team.id)],
          ["New webhook", `${Paths.webhooks(team.id)}/new`],
          ["Incidents", Paths.incidents(team.id)]
        ] as const)
      : []),
    ["Members", Paths.members(team.id)],
    ...(may(visit, "members:manage") ? [["Invite a person", `${Paths.members(team.id)}?panel=invite`] as const] : []),
    ...(may(visit, "audit-trail:read") ? [["Audit", Paths.audit(team.id)] as const] : []),
    ["Team settings", Paths.settings(team.id)]
  ]
}

const pagesFor = (visit: Visit): ReadonlyArray<Page> => [
  ["Projects", Paths.home],
  ...ofTeam(visit),
  ["Requests", Paths.waiting],
  ...(mayCreateTeam(visit) ? [["New team", Paths.newTeam] as const] : []),
  ["CLI logins", Paths.grants],
  ["Connected agents", Paths.connections],
  ["Change your name", Paths.account],
  ["Change the password", Paths.account],
  ["Second factor", Paths.factors],
  ["Where you are signed in", Paths.sessions],
  ["Getting started", Paths.start]
]

const placeOf = (names: ReadonlyArray<string>) => names.join(", ")

/** The best matches, grouped by kind. `matches` belongs to the same words. */
export const itemsOf = (visit: Visit, matches: Found, text: string): ReadonlyArray<Item> => {
  const words = wordsOf(text)
  const keys = matches.keys.map(({ environments, key, project }): Item => ({
    kind: "key",
    title: key,
    about: `${project.slug} / ${placeOf(environments.map(({ name }) => name))}`,
    href: Paths.key({ projectId: project.id, slug: environments[0].slug }, key)
  }))
  const projects = matches.projects.map((project): Item => ({
    kind: "project",
    title: project.name,
    about: project.slug,
    href: Paths.project(project.id)
  }))
  const environments = matches.environments.map(({ environment, project }): Item => ({
    kind: "environment",
    title: `${project.name} / ${environment.name}`,
    about: environment.protected ? "protected" : "",
    href: Paths.environment({ projectId: project.id, slug: environment.slug })
  }))
  const people = matches.people.map(({ email, name, teamId, userId }): Item => ({
    kind: "person",
    title: name,
    about: email,
    href: Paths.member(teamId, userId)
  }))
  const tokens = matches.tokens.map(({ name, teamId, tokenId }): Item => ({
    kind: "token",
    title: name,
    about: "",
    href: Paths.token(teamId, tokenId)
  }))
  const pages = fitting(pagesFor(visit), ([title]) => title, words).map(([title, href]): Item => ({
    kind: "page",
    title,
    about: "",
    href
  }))
  return [
    ...keys,
    ...projects.slice(0, words.length === 0 ? 5 : maxFound),
    ...environments,
    ...people,
    ...tokens,
    ...pages
  ]
}

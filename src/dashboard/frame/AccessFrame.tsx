/** Frame of the pages about access to a team: all credentials, or one kind with its own details. */
import type { ComponentChildren } from "preact"
import type { TeamId } from "#schema/Ids.ts"
import type { PersonAccess } from "#src/projects/PersonAccess.ts"
import type * as Effect from "effect/Effect"
import * as Ui from "./Components.tsx"
import { Layout } from "./Layout.tsx"
import * as Paths from "./Paths.ts"
import { SearchField } from "./SearchField.tsx"
import type { TeamVisit } from "./Routes.ts"

export type Credential = Effect.Effect.Success<ReturnType<PersonAccess["everything"]>>[number]
export type Kind = Credential["type"]

export const kinds: Readonly<Record<Kind, readonly [one: string, several: string]>> = {
  api_token: ["API token", "API tokens"],
  machine_rule: ["CI identity", "CI identities"],
  oauth_grant: ["connected agent", "Agents"],
  cli_grant: ["login of the command line", "CLI logins"],
  session: ["browser", "Browsers"]
}
export const isKind = (text: string): text is Kind => Object.hasOwn(kinds, text)

/** Tokens and CI identities have separate addresses, since their pages can also create them. */
const pathOf = (team: TeamId, kind: Kind) =>
  kind === "api_token"
    ? Paths.tokens(team)
    : kind === "machine_rule"
      ? Paths.rules(team)
      : Paths.withQuery(Paths.teamAccess(team), { kind })

/** Crumbs of a page about one credential. */
export const crumbsOf = (team: TeamId, kind: Kind) => [
  { href: Paths.teamAccess(team), label: "Access" },
  { href: pathOf(team, kind), label: kinds[kind][1] }
]

const Kinds = ({
  current,
  team,
  words
}: {
  readonly team: TeamId
  readonly current: Kind | undefined
  words: string
}) => {
  const link = (href: string) => {
    if (words === "") return href
    return `${href}${href.includes("?") ? "&" : "?"}q=${encodeURIComponent(words)}`
  }
  return (
    <nav class="segments" aria-label="Kind">
      <a href={link(Paths.teamAccess(team))} aria-current={current === undefined ? "page" : undefined}>
        All
      </a>
      {Object.entries(kinds).map(([kind, [, title]]) =>
        isKind(kind) ? (
          <a href={link(pathOf(team, kind))} aria-current={current === kind ? "page" : undefined}>
            {title}
          </a>
        ) : null
      )}
    </nav>
  )
}

/** True if a name contains the words of the filter. */
export const fits = (words: string, ...names: ReadonlyArray<string>): boolean =>
  names.some((name) => name.toLowerCase().includes(words.toLowerCase()))

export const AccessFrame = ({
  children,
  kind,
  lead,
  visit,
  words
}: {
  readonly visit: TeamVisit
  readonly kind: Kind | undefined
  readonly words: string
  readonly lead: ComponentChildren
  readonly children: ComponentChildren
}) => {
  const team = visit.team.id
  const isTable = kind === undefined || kind === "api_token" || kind === "machine_rule"
  return (
    <Layout
      visit={visit}
      section="access"
      title={kind === undefined ? "Access" : `${kinds[kind][1]}, access`}
      heading="Access"
      lead={lead}
      wide
      actions={
        <>
          <Ui.LinkButton href={`${Paths.rules(team)}/new`}>New CI identity</Ui.LinkButton>
          <Ui.AddButton href={`${Paths.tokens(team)}/new`}>New API token</Ui.AddButton>
        </>
      }
    >
      <form class="toolbar" method="get">
        <SearchField label="Filter by name or person" placeholder="Filter" value={words} />
        {isTable ? null : <input type="hidden" name="kind" value={kind} />}
        <Kinds current={kind} team={team} words={words} />
      </form>
      {children}
    </Layout>
  )
}

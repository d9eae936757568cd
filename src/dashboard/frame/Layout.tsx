/** Frame of every page. */
import type { ComponentChildren } from "preact"
import type { AnyApiError } from "#schema/ApiError.ts"
import * as Help from "./Help.ts"
import * as Icons from "./Icons.tsx"
import { Mark } from "./Mark.tsx"
import { noticeOf } from "./Notices.ts"
import * as Paths from "./Paths.ts"
import * as Problem from "./Problem.ts"
import { type InProject, Rail, type Section } from "./Rail.tsx"
import { isVisit, mayCreateTeam, type UiSettings, type Visit, type Visitor } from "./Visit.ts"

const Document = ({
  bare = false,
  children,
  title,
  ui
}: {
  readonly title: string
  readonly ui: UiSettings
  readonly bare?: boolean
  readonly children: ComponentChildren
}) => (
  <html lang="en" data-theme={ui.theme}>
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content={ui.theme ?? "light dark"} />
      <meta name="robots" content="noindex" />
      <title>{`${title} · Ampoule`}</title>
      <link rel="icon" type="image/svg+xml" href={ui.icon} />
      <link rel="stylesheet" href={ui.style} />
      <script src={ui.script} defer />
      {bare ? null : <script src={ui.islands} defer />}
    </head>
    <body class={bare ? "bare" : undefined}>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      {children}
      <div class="hidden" role="status" aria-live="polite" id="announce" />
    </body>
  </html>
)

const Notice = ({ more, visitor }: { readonly visitor: Visitor; readonly more?: ComponentChildren }) => {
  const notice = noticeOf(visitor.notice)
  return notice === undefined ? null : (
    <div class="notice" role="status">
      <Icons.Check />
      <span>{notice}</span>
      {more}
      <button type="button" class="tool notice-close needs-script" data-close-notice aria-label="Close the notice">
        <Icons.Cross />
      </button>
    </div>
  )
}

/** Tabs between the pages of one subject. */
export const Tabs = ({
  current,
  label,
  of
}: {
  readonly label: string
  readonly current: string
  readonly of: ReadonlyArray<readonly [name: string, href: string, title: string]>
}) => (
  <nav class="tabs" aria-label={label}>
    {of.map(([name, href, title]) => (
      <a href={href} aria-current={name === current ? "page" : undefined}>
        {title}
      </a>
    ))}
  </nav>
)

const TeamMenu = ({ visit }: { readonly visit: Visit }) => (
  <details class="menu">
    <summary>
      <span class="menu-name">{visit.team?.name ?? "No team"}</span> <Icons.Chevron />
      <span class="hidden">Switch team</span>
    </summary>
    <div class="menu-panel">
      {visit.caller.teams.map((team) => (
        <form method="post" action={`${Paths.team(team.id)}/choose`}>
          <button class="menu-item" aria-current={team.id === visit.team?.id ? "true" : undefined}>
            <span class="menu-name">{team.name}</span>
            <span class="hint">{team.role}</span>
          </button>
        </form>
      ))}
      {mayCreateTeam(visit) ? (
        <a class="menu-item" href={Paths.newTeam}>
          <Icons.Plus /> New team
        </a>
      ) : null}
    </div>
  </details>
)

const account = [
  ["account", Paths.account, <Icons.Person />, "Name, address and password"],
  ["factors", Paths.factors, <Icons.Fingerprint />, "Passkeys and codes"],
  ["signIns", Paths.signIns, <Icons.Link />, "Linked sign-ins"],
  ["sessions", Paths.sessions, <Icons.Screen />, "Where you are signed in"],
  ["start", Paths.start, <Icons.Start />, "Getting started"]
] as const

/** Pages of everything that acts for a person: one entry of the menu, and tabs of one page. */
const ownAccess = [
  ["sessions", Paths.sessions, "Browsers"],
  ["grants", Paths.grants, "CLI logins"],
  ["connections", Paths.connections, "Connected agents"]
] as const
const entryOf = (section: Section) => (ownAccess.some(([name]) => name === section) ? "sessions" : section)

export const OwnAccessTabs = ({ current }: { readonly current: (typeof ownAccess)[number][0] }) => (
  <Tabs label="Access in your name" current={current} of={ownAccess} />
)

const themes = [
  ["system", "System"],
  ["light", "Light"],
  ["dark", "Dark"]
] as const

const AccountMenu = ({
  help,
  section,
  visit
}: {
  readonly visit: Visit
  readonly section: Section
  /** Page of the documentation about this page. */
  readonly help: string
}) => (
  <details class="menu menu-right">
    <summary>
      <Icons.Person /> <span class="menu-name wide-only">{visit.user.name}</span> <Icons.Chevron />
      <span class="hidden">Your account</span>
    </summary>
    <div class="menu-panel">
      <p class="menu-who">
        {visit.user.name}
        <span class="hint">{visit.user.email}</span>
      </p>
      {account.map(([name, href, icon, title]) => (
        <a class="menu-item" href={href} aria-current={entryOf(section) === name ? "page" : undefined}>
          {icon} {title}
        </a>
      ))}
      <a class="menu-item" href={help}>
        <Icons.Help /> Documentation
      </a>
      <form method="post" action={Paths.theme} class="themes" aria-label="Colours">
        {themes.map(([name, title]) => (
          <button name="theme" value={name} aria-pressed={(visit.ui.theme ?? "system") === name}>
            {title}
          </button>
        ))}
      </form>
      <form method="post" action={Paths.signOut}>
        <button class="menu-item">
          <Icons.SignOut /> Sign out
        </button>
      </form>
    </div>
  </details>
)

/** Link to the search; a script opens it over the page. */
const Jump = () => (
  <a class="jump" href={Paths.search} data-palette>
    <Icons.Search />
    <span class="jump-words">
      Search<span class="jump-more"> or jump to …</span>
    </span>
    <kbd class="needs-script">⌘K</kbd>
  </a>
)

interface Crumb {
  readonly href: string
  readonly label: string
}

/** A page for a signed-in person. Without `heading`, `title` is also the heading. */
export const Layout = ({
  actions,
  children,
  crumbs = [],
  heading,
  inProject,
  lead,
  notice,
  section,
  tabs,
  title,
  visit,
  wide = false
}: {
  readonly visit: Visit
  readonly section: Section
  /** The page's project. */
  readonly inProject?: InProject | undefined
  readonly title: string
  /** Uses the width of the screen up to a limit, for wide tables. */
  readonly wide?: boolean
  /** Shown beside the notice about a change, such as its undo button. */
  readonly notice?: ComponentChildren
  readonly tabs?: ComponentChildren
  readonly heading?: ComponentChildren
  readonly lead?: ComponentChildren
  readonly actions?: ComponentChildren
  readonly crumbs?: ReadonlyArray<Crumb>
  readonly children: ComponentChildren
}) => (
  <Document title={title} ui={visit.ui}>
    <header class="top">
      <div class="top-row">
        <a class="brand" href={Paths.home}>
          <Mark /> <span class="wide-only">Ampoule</span>
          <span class="hidden narrow-only">Ampoule</span>
        </a>
        <TeamMenu visit={visit} />
        <Jump />
        <a class="help wide-only" href={Help.pageOf(section, inProject?.view)}>
          <Icons.Help /> Docs
        </a>
        <AccountMenu visit={visit} section={section} help={Help.pageOf(section, inProject?.view)} />
      </div>
    </header>
    <div class="frame">
      <Rail visit={visit} section={section} inProject={inProject} />
      <main id="main" class={wide ? "wide" : undefined}>
        <Notice visitor={visit} more={notice} />
        {crumbs.length === 0 ? null : (
          <nav class="crumbs" aria-label="Where you are">
            <ol>
              {crumbs.map(({ href, label }) => (
                <li>
                  <a href={href}>
                    <bdi>{label}</bdi>
                  </a>
                </li>
              ))}
            </ol>
          </nav>
        )}
        {tabs}
        <div class="head">
          <div class="head-words">
            <h1>{heading ?? title}</h1>
            {lead === undefined ? null : <p class="lead">{lead}</p>}
          </div>
          {actions === undefined ? null : <div class="head-actions">{actions}</div>}
        </div>
        {children}
      </main>
    </div>
  </Document>
)

/** A page with one task, such as a sign-in or a decision. */
export const Card = ({
  children,
  lead,
  title,
  wide = false,
  visitor
}: {
  readonly visitor: Visitor
  readonly title: string
  readonly lead?: ComponentChildren
  readonly wide?: boolean
  readonly children: ComponentChildren
}) => (
  <Document title={title} ui={visitor.ui} bare>
    <main id="main" class={wide ? "card card-wide" : "card"}>
      <p class="card-brand">
        <Mark /> Ampoule
      </p>
      <Notice visitor={visitor} />
      <h1>{title}</h1>
      {lead === undefined ? null : <p class="lead">{lead}</p>}
      {children}
      {isVisit(visitor) ? (
        <p class="card-foot">
          Signed in as <strong>{visitor.user.email}</strong>. <a href={Paths.home}>Dashboard</a>{" "}
          <a href="/docs">Documentation</a>
        </p>
      ) : (
        <p class="card-foot">
          <a href="/docs">Documentation</a>
        </p>
      )}
    </main>
  </Document>
)

/** Page for a problem without a form that could show it. */
export const ProblemPage = ({ problem, visit }: { readonly visit: Visitor; readonly problem: AnyApiError }) => {
  const { detail, title } = Problem.explain(problem)
  return (
    <Card visitor={visit} title={title} lead={detail === "" ? undefined : detail}>
      <p>
        <a class="button button-plain" href={Paths.home}>
          {visit.caller === null ? "Go to the sign-in page" : "Go to your projects"}
        </a>{" "}
        <a href={Help.pageOfCode(problem._tag)}>About this error</a>
      </p>
    </Card>
  )
}

export const SettingsFrame = ({
  actions,
  children,
  crumbs,
  lead,
  title,
  view,
  visit
}: {
  readonly visit: Visit
  readonly view: "team" | "signIn" | "access" | "webhooks"
  readonly title: string
  readonly lead?: ComponentChildren
  readonly actions?: ComponentChildren
  /** Present on a page below a tab. */
  readonly crumbs?: ReadonlyArray<Crumb>
  readonly children: ComponentChildren
}) => {
  if (visit.team === null) return null
  return (
    <Layout
      visit={visit}
      section={view === "team" ? "settings" : view}
      title={title}
      lead={lead}
      actions={actions}
      {...(crumbs === undefined ? {} : { crumbs })}
    >
      {children}
    </Layout>
  )
}

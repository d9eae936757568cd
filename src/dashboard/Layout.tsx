/** The frame of every page. */
import type { ComponentChildren } from "preact"
import type { AnyApiError } from "#schema/ApiError.ts"
import * as Icons from "./Icons.tsx"
import { noticeOf } from "./Notices.ts"
import * as Paths from "./Paths.ts"
import * as Problem from "./Problem.ts"
import { isVisit, may, mayCreateTeam, type Ui, type Visit, type Visitor } from "./Visit.ts"

const Document = ({
  bare = false,
  children,
  title,
  ui
}: {
  readonly title: string
  readonly ui: Ui
  readonly bare?: boolean
  readonly children: ComponentChildren
}) => (
  <html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content="light dark" />
      <meta name="robots" content="noindex" />
      <title>{`${title} · Ampoule`}</title>
      <link rel="icon" href="data:," />
      <link rel="stylesheet" href={ui.style} />
      <script src={ui.script} defer />
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

const Notice = ({ who }: { readonly who: Visitor }) => {
  const notice = noticeOf(who.notice)
  return notice === undefined ? null : (
    <div class="notice" role="status">
      <Icons.Check /> {notice}
    </div>
  )
}

export type Section =
  | "projects"
  | "tokens"
  | "members"
  | "audit"
  | "settings"
  | "account"
  | "grants"
  | "connections"
  | "start"
  | "none"

const NavLink = ({
  children,
  current,
  href
}: {
  readonly href: string
  readonly current: boolean
  readonly children: ComponentChildren
}) => (
  <a href={href} aria-current={current ? "page" : undefined}>
    {children}
  </a>
)

const Navigation = ({ section, visit }: { readonly visit: Visit; readonly section: Section }) => {
  const { team } = visit
  if (team === null) return null
  return (
    <nav class="nav" aria-label="Team">
      <NavLink href={Paths.home} current={section === "projects"}>
        Projects
      </NavLink>
      {may(visit, "tokens:manage") ? (
        <NavLink href={Paths.tokens(team.id)} current={section === "tokens"}>
          API tokens
        </NavLink>
      ) : null}
      <NavLink href={Paths.members(team.id)} current={section === "members"}>
        Members
      </NavLink>
      {may(visit, "audit-trail:read") ? (
        <NavLink href={Paths.audit(team.id)} current={section === "audit"}>
          Audit
        </NavLink>
      ) : null}
      <NavLink href={Paths.settings(team.id)} current={section === "settings"}>
        Settings
      </NavLink>
    </nav>
  )
}

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

const AccountMenu = ({ section, visit }: { readonly visit: Visit; readonly section: Section }) => (
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
      <a class="menu-item" href={Paths.grants} aria-current={section === "grants" ? "page" : undefined}>
        <Icons.Terminal /> CLI logins
      </a>
      <a class="menu-item" href={Paths.connections} aria-current={section === "connections" ? "page" : undefined}>
        <Icons.Terminal /> Connected agents
      </a>
      <a class="menu-item" href={Paths.account} aria-current={section === "account" ? "page" : undefined}>
        <Icons.Key /> Password
      </a>
      <a class="menu-item" href={Paths.start} aria-current={section === "start" ? "page" : undefined}>
        <Icons.Info /> Getting started
      </a>
      <form method="post" action={Paths.signOut}>
        <button class="menu-item">Sign out</button>
      </form>
    </div>
  </details>
)

export interface Crumb {
  readonly href: string
  readonly label: string
}

/** A page of a signed-in person. `title` is the heading as well, unless `heading` says it better. */
export const Layout = ({
  actions,
  children,
  crumbs = [],
  heading,
  lead,
  section,
  tabs,
  title,
  visit
}: {
  readonly visit: Visit
  readonly section: Section
  readonly title: string
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
          <Icons.Mark /> <span class="wide-only">Ampoule</span>
          <span class="hidden narrow-only">Ampoule</span>
        </a>
        <TeamMenu visit={visit} />
        <AccountMenu visit={visit} section={section} />
      </div>
      <Navigation visit={visit} section={section} />
    </header>
    <main id="main">
      <Notice who={visit} />
      {crumbs.length === 0 ? null : (
        <nav class="crumbs" aria-label="Where you are">
          <ol>
            {crumbs.map(({ href, label }) => (
              <li>
                <a href={href}>{label}</a>
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
  </Document>
)

/** A page with one thing to do: signing in, a link with a code, a decision. */
export const Card = ({
  children,
  lead,
  title,
  wide = false,
  who
}: {
  readonly who: Visitor
  readonly title: string
  readonly lead?: ComponentChildren
  readonly wide?: boolean
  readonly children: ComponentChildren
}) => (
  <Document title={title} ui={who.ui} bare>
    <main id="main" class={wide ? "card card-wide" : "card"}>
      <p class="card-brand">
        <Icons.Mark /> Ampoule
      </p>
      <Notice who={who} />
      <h1>{title}</h1>
      {lead === undefined ? null : <p class="lead">{lead}</p>}
      {children}
      {isVisit(who) ? (
        <p class="card-foot">
          Signed in as <strong>{who.user.email}</strong>. <a href={Paths.home}>Dashboard</a>
        </p>
      ) : null}
    </main>
  </Document>
)

/** A page that could not be shown, or a change that was refused and has no form to show it. */
export const ProblemPage = ({ problem, visit }: { readonly visit: Visitor; readonly problem: AnyApiError }) => {
  const { detail, title } = Problem.explain(problem)
  return (
    <Card who={visit} title={title} lead={detail === "" ? undefined : detail}>
      <p>
        <a class="button button-plain" href={Paths.home}>
          {visit.caller === null ? "Go to the sign-in page" : "Go to your projects"}
        </a>
      </p>
    </Card>
  )
}

type SettingsView = "team" | "ci" | "webhooks"

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
  readonly view: SettingsView
  readonly title: string
  readonly lead?: ComponentChildren
  readonly actions?: ComponentChildren
  /** With crumbs it is a page below a tab, which leads back by them. */
  readonly crumbs?: ReadonlyArray<Crumb>
  readonly children: ComponentChildren
}) => {
  const { team } = visit
  if (team === null) return null
  const tab = (name: SettingsView, href: string, label: string) => (
    <a href={href} aria-current={view === name ? "page" : undefined}>
      {label}
    </a>
  )
  return (
    <Layout
      visit={visit}
      section="settings"
      title={title}
      lead={lead}
      actions={actions}
      {...(crumbs === undefined ? {} : { crumbs })}
      tabs={
        crumbs === undefined && may(visit, "tokens:manage") ? (
          <nav class="tabs" aria-label="Parts of the settings">
            {tab("team", Paths.settings(team.id), "Team")}
            {tab("ci", Paths.rules(team.id), "CI identities")}
            {tab("webhooks", Paths.webhooks(team.id), "Webhooks")}
          </nav>
        ) : undefined
      }
    >
      {children}
    </Layout>
  )
}

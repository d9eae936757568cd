/** Navigation of a project and a team: left of each page, or above it on narrow screens. */
import type { ComponentChildren } from "preact"
import type { ProjectId } from "#schema/Ids.ts"
import * as Ui from "./Components.tsx"
import * as Icons from "./Icons.tsx"
import * as Paths from "./Paths.ts"
import { may, type Visit } from "./Visit.ts"

/** Pages of the team and of the person. */
export type Section =
  | "projects"
  | "access"
  | "members"
  | "audit"
  | "settings"
  | "webhooks"
  | "account"
  | "factors"
  | "signIn"
  | "signIns"
  | "sessions"
  | "grants"
  | "connections"
  | "start"
  | "waiting"
  | "none"

/** The project of a page, and the page's place in it. */
export interface InProject {
  readonly id: ProjectId
  readonly name: string
  readonly view: "secrets" | "activity" | "compare" | "exposure" | "settings"
  /** The page's environment. */
  readonly slug?: string
}

const Entry = ({
  children,
  href,
  icon,
  isCurrent
}: {
  readonly href: string
  readonly icon: ComponentChildren
  readonly isCurrent: boolean
  readonly children: ComponentChildren
}) => (
  <a href={href} aria-current={isCurrent ? "page" : undefined}>
    {icon}
    <span>{children}</span>
  </a>
)

const ProjectEntries = ({ in: { id, name, slug, view }, visit }: { readonly in: InProject; readonly visit: Visit }) => (
  <nav class="rail-group" aria-label="Project">
    <p class="rail-title">
      <bdi>{name}</bdi>
    </p>
    <Entry href={Paths.project(id)} icon={<Icons.Key />} isCurrent={view === "secrets"}>
      Secrets
    </Entry>
    <Entry
      href={Paths.withQuery(Paths.compare(id), slug === undefined ? {} : { from: slug })}
      icon={<Icons.Columns />}
      isCurrent={view === "compare"}
    >
      Compare
    </Entry>
    {may(visit, "audit:read") ? (
      <Entry href={Paths.exposure(id)} icon={<Icons.Eye />} isCurrent={view === "exposure"}>
        Who has it
      </Entry>
    ) : null}
    {may(visit, "audit-trail:read") && visit.team !== null ? (
      <Entry href={Paths.activity(id)} icon={<Icons.Clock />} isCurrent={view === "activity"}>
        Activity
      </Entry>
    ) : null}
    <Entry href={Paths.projectSettings(id)} icon={<Icons.Sliders />} isCurrent={view === "settings"}>
      Project settings
    </Entry>
  </nav>
)

const TeamEntries = ({
  inProject,
  section,
  visit
}: {
  readonly visit: Visit
  readonly section: Section
  readonly inProject: boolean
}) => {
  const { team } = visit
  if (team === null) return null
  const entry = (name: Section, href: string, icon: ComponentChildren, title: ComponentChildren) => (
    <Entry href={href} icon={icon} isCurrent={section === name && !inProject}>
      {title}
    </Entry>
  )
  const manages = may(visit, "tokens:manage")
  return (
    <nav class="rail-group" aria-label="Team">
      {inProject ? <p class="rail-title">Team</p> : null}
      {entry("projects", Paths.home, <Icons.Box />, "Projects")}
      {entry("members", Paths.members(team.id), <Icons.People />, "Members")}
      {may(visit, "members:manage") ? entry("access", Paths.teamAccess(team.id), <Icons.Lock />, "Access") : null}
      {manages ? entry("webhooks", Paths.webhooks(team.id), <Icons.Webhook />, "Webhooks") : null}
      {may(visit, "audit-trail:read") ? entry("audit", Paths.audit(team.id), <Icons.Trail />, "Audit") : null}
      {may(visit, "team-rules:manage") ? entry("signIn", Paths.teamSignIn(team.id), <Icons.SignIn />, "Sign-in") : null}
      {entry("settings", Paths.settings(team.id), <Icons.Sliders />, "Settings")}
      {visit.waiting > 0 || section === "waiting"
        ? entry(
            "waiting",
            Paths.waiting,
            <Icons.Waiting />,
            <>
              Requests <Ui.Badge tone="accent">{visit.waiting}</Ui.Badge>
            </>
          )
        : null}
    </nav>
  )
}

export const Rail = ({
  inProject,
  section,
  visit
}: {
  readonly visit: Visit
  readonly section: Section
  readonly inProject: InProject | undefined
}) =>
  visit.team === null ? null : (
    <div class="rail">
      {inProject === undefined ? null : <ProjectEntries in={inProject} visit={visit} />}
      <TeamEntries visit={visit} section={section} inProject={inProject !== undefined} />
    </div>
  )

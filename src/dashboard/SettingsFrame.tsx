/** The frame of what belongs to a team as a whole: one entry of the navigation, a tab for each of its parts. */
import type { ComponentChildren } from "preact"
import { type Crumb, Layout } from "./Layout.tsx"
import * as Paths from "./Paths.ts"
import { may, type Visit } from "./Visit.ts"

export type SettingsView = "team" | "ci" | "webhooks"

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

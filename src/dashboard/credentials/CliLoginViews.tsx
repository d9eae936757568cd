/** Views of the CLI logins that act for a person. */
import type { CliGrant } from "#schema/DeviceApi.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as CopyText from "#src/dashboard/frame/CopyText.tsx"
import type { Restrictable } from "#src/dashboard/frame/ReachFields.tsx"
import { Layout, OwnAccessTabs } from "#src/dashboard/frame/Layout.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import type { Visit } from "#src/dashboard/frame/Visit.ts"

/** Names of projects and environments by id, limited to those that the person can still see. */
export type Names = ReadonlyMap<string, string>
export const namesOf = ({ environments, projects }: Restrictable): Names =>
  new Map<string, string>(
    projects.flatMap((project) => [
      [project.id, project.name] as const,
      ...(environments.get(project.id) ?? []).map(({ id, slug }) => [id, `${project.slug} / ${slug}`] as const)
    ])
  )
const listOf = (names: Names, ids: ReadonlyArray<string>) => {
  const visible = ids.flatMap((id) => names.get(id) ?? [])
  const hidden = ids.length - visible.length
  return [...visible, ...(hidden === 0 ? [] : [`${hidden} that no longer ${hidden === 1 ? "exists" : "exist"}`])].join(
    ", "
  )
}

const GrantFacts = ({
  grant,
  names,
  now
}: {
  readonly grant: CliGrant
  readonly names: Names
  readonly now: number
}) => {
  const { environmentIds, projectIds } = grant.restrictions
  return (
    <dl class="facts facts-small">
      <Ui.Fact name="Since">
        <Ui.Ago at={grant.createdAt} now={now} />, expires <Ui.Until at={grant.expiresAt} now={now} />
      </Ui.Fact>
      <Ui.Fact name="Last use">
        {grant.lastUsedAt === null ? (
          "never"
        ) : (
          <>
            <Ui.Ago at={grant.lastUsedAt} now={now} />
            {grant.lastUsedIp === null ? "" : ` from ${grant.lastUsedIp}`}
          </>
        )}
      </Ui.Fact>
      {projectIds === null ? null : <Ui.Fact name="Projects" is={listOf(names, projectIds)} />}
      {environmentIds === null ? null : <Ui.Fact name="Environments" is={listOf(names, environmentIds)} />}
      {grant.teams.map((team) => (
        <>
          <Ui.Fact name={team.name}>
            <Ui.Keys of={team.scopes} />
          </Ui.Fact>
        </>
      ))}
    </dl>
  )
}

const Grant = ({ grant, ...props }: { readonly grant: CliGrant; readonly names: Names; readonly now: number }) => {
  const claims = [grant.host?.hostname, grant.host?.os].filter((text) => text !== undefined && text !== "")
  const { environmentIds, projectIds } = grant.restrictions
  return (
    <li class="project">
      <div>
        <h2>{claims.length === 0 ? "Unnamed device" : claims.join(", ")}</h2>
        <span class="badges">
          {grant.machine ? <Ui.Badge tone="amber">unattended</Ui.Badge> : null}
          {grant.credentialProtection === "plaintext_local" ? (
            <Ui.Badge tone="amber">stored as plain text</Ui.Badge>
          ) : null}
          {projectIds === null && environmentIds === null ? null : <Ui.Badge tone="accent">restricted</Ui.Badge>}
        </span>
      </div>
      <GrantFacts grant={grant} {...props} />
      <Ui.Confirm action={`${Paths.grants}/${grant.id}/revoke`} label="Revoke" verb="Revoke this login">
        <p>It stops working with its next request. To use the device again, log in again.</p>
      </Ui.Confirm>
    </li>
  )
}

export const GrantsPage = ({
  items,
  names,
  visit
}: {
  readonly visit: Visit
  readonly items: ReadonlyArray<CliGrant>
  readonly names: Names
}) => (
  <Layout
    visit={visit}
    section="grants"
    title="CLI logins"
    tabs={<OwnAccessTabs current="grants" />}
    lead="Command lines and agents that act for you. A revoked login stops working with its next request."
  >
    {items.length === 0 ? (
      <Ui.Empty title="No logins">
        <p>To log in, run this in your terminal:</p>
        <div class="narrow center">
          <CopyText.Command>{`ampoule login --url ${visit.ui.baseUrl}`}</CopyText.Command>
        </div>
      </Ui.Empty>
    ) : (
      <ul class="cards">
        {items.map((grant) => (
          <Grant grant={grant} names={names} now={visit.now} />
        ))}
      </ul>
    )}
  </Layout>
)

/** Consent page for a client: its facts, and the choice of scopes, teams, projects and environments. */
import type { CallerTeam } from "#schema/Caller.ts"
import type { Project } from "#schema/ProjectsApi.ts"
import type { Scope } from "#schema/Scopes.ts"
import * as Actions from "#src/access/Actions.ts"
import type { ConsentRequest } from "#src/oauth/Consent.ts"
import type { OAuthGrant } from "#src/oauth/OAuthGrants.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import { Card } from "#src/dashboard/frame/Layout.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { everywhere, isAboutReach, ReachFields, type Restrictable } from "#src/dashboard/frame/ReachFields.tsx"
import type { AtPerson, Attempt } from "#src/dashboard/frame/Routes.ts"

/** The scope that lets values reach the client's model. The page offers it apart from the others. */
export const plaintext: Scope = "secrets:read_values"

/** Descriptions of scopes for the consent, shown beside their names. */
export const consentWords: Readonly<Record<Scope, string>> = {
  "identity:read": "See your name, e-mail address and teams",
  "projects:read": "List projects and environments",
  "secrets:read": "List secrets by name, without values",
  "secrets:read_values":
    "Read values in plain text. They become part of the conversation and its copies. Few programs need this",
  "secrets:write":
    "Create, change and delete secrets. It copies values between environments only if you also allow it to read values or to run programs",
  "secrets:run":
    "Run programs with the values of an environment. The values reach the program and not the conversation",
  "audit:read": "Read the audit trail"
}

export interface AtConsent extends AtPerson {
  readonly uid: string
  readonly client: ConsentRequest
  /** The current grant of this client, which this decision replaces. */
  readonly earlier: OAuthGrant | undefined
  /** Number of connections of the same client from other browsers, which stay unchanged. */
  readonly elsewhere: number
  readonly redirectOrigin: string
}

/**
 * Preselection for a client with an earlier grant. Undefined if none of its projects or environments can be offered, so
 * that the person must choose again.
 */
const preselection = (
  { environmentIds, projectIds, scopes, teams }: OAuthGrant,
  { environments, projects }: Restrictable
): Form.Form | undefined => {
  const offered = new Set<string>(projects.flatMap(({ id }) => [id, ...(environments.get(id) ?? []).map((e) => e.id)]))
  const restrictions = [projectIds, environmentIds].map((ids) => ids?.filter((id) => offered.has(id)))
  if (restrictions.some((ids) => ids?.length === 0)) return undefined
  const [inProjects = [], inEnvironments = []] = restrictions
  return new Form.Form([
    ...(projectIds === null && environmentIds === null ? [[everywhere, "yes"] as const] : []),
    ...scopes.map((scope) => ["scopes", scope] as const),
    ...teams.map(({ id }) => ["teamIds", id] as const),
    ...inProjects.map((id) => ["projectIds", id] as const),
    ...inEnvironments.map((id) => ["environmentIds", id] as const)
  ])
}

const isTicked = (form: Form.Form, name: string, value: string) => form.all(name).includes(value)

const ClientFacts = ({ client }: { readonly client: ConsentRequest }) => (
  <>
    <p class="lead">
      <strong>{client.clientName}</strong> <Ui.Badge tone="amber">name not verified</Ui.Badge> wants to work with your
      secrets on your behalf.
    </p>
    <dl class="facts section-small">
      <Ui.Fact name="Returns to">
        <code>{client.redirectHost}</code>
        {client.onThisMachine ? " on your own machine" : ""}
      </Ui.Fact>
      {client.documentedAt === null ? null : <Ui.Fact name="Published at" is={<code>{client.documentedAt}</code>} />}
    </dl>
    {client.onThisMachine ? (
      <Ui.Callout tone="warning">
        <p>
          Any program on your machine can claim to be this one. Continue only if you started it yourself a moment ago.
        </p>
      </Ui.Callout>
    ) : null}
  </>
)

interface ScopeChoiceProps {
  readonly client: ConsentRequest
  readonly earlier: OAuthGrant | undefined
  readonly form: Form.Form
  readonly teams: ReadonlyArray<CallerTeam>
}

const ScopeTick = ({ earlier, form, scope, teams }: Omit<ScopeChoiceProps, "client"> & { readonly scope: Scope }) =>
  teams.some(({ role }) => Actions.byRole[role ?? "viewer"].has(scope)) ? (
    <Ui.CheckBox name="scopes" value={scope} checked={isTicked(form, "scopes", scope)} hint={<code>{scope}</code>}>
      {consentWords[scope]} {scope === plaintext ? <Ui.Badge tone="amber">values can reach the model</Ui.Badge> : null}{" "}
      {earlier?.scopes.includes(scope) === true ? <Ui.Badge>already granted</Ui.Badge> : null}
    </Ui.CheckBox>
  ) : (
    <p class="hint">
      {consentWords[scope]} (<code>{scope}</code>): requested, but your role does not allow it.
    </p>
  )

const ScopeGroup = ({
  name,
  scopes,
  ...choice
}: Omit<ScopeChoiceProps, "client"> & { readonly name: string; readonly scopes: ReadonlyArray<Scope> }) =>
  scopes.length === 0 ? null : (
    <section class="part">
      <h2>{name}</h2>
      <fieldset>
        <legend class="hidden">{name}</legend>
        <div class="checks">
          {scopes.map((scope) => (
            <ScopeTick {...choice} scope={scope} />
          ))}
        </div>
      </fieldset>
    </section>
  )

const ScopeChoice = ({ client, ...choice }: ScopeChoiceProps) => (
  <>
    <ScopeGroup {...choice} name="What it may do" scopes={client.scopes.filter((scope) => scope !== plaintext)} />
    <ScopeGroup {...choice} name="Values in plain text" scopes={client.scopes.filter((scope) => scope === plaintext)} />
  </>
)

/**
 * Choice for clients with a document: they have one name on all machines, so the person says if this is another one.
 */
const MachineChoice = ({
  client,
  earlier,
  elsewhere,
  form
}: Pick<AtConsent, "client" | "earlier" | "elsewhere"> & { readonly form: Form.Form }) => (
  <>
    {elsewhere === 0 ? null : (
      <p class="hint">
        {elsewhere === 1
          ? "A connection of this program from another browser stays unchanged."
          : `${elsewhere} connections of this program from other browsers stay unchanged.`}
      </p>
    )}
    {earlier === undefined || client.documentedAt === null ? null : (
      <div class="checks">
        <Ui.CheckBox name="another" value="yes" checked={isTicked(form, "another", "yes")}>
          This is another machine: keep the earlier connection too
        </Ui.CheckBox>
      </div>
    )}
  </>
)

export const ConsentPage = ({
  client,
  earlier,
  elsewhere,
  form: typed,
  problem,
  restrictable,
  visit
}: AtConsent & Attempt & { readonly restrictable: Restrictable }) => {
  const { teams } = visit.caller
  const before = earlier === undefined ? undefined : preselection(earlier, restrictable)
  const form = before === undefined || problem !== undefined ? typed : before
  const labelOf = ({ slug, teamId }: Project) =>
    teams.length > 1 ? `${teams.find(({ id }) => id === teamId)?.name ?? ""} / ${slug}` : slug
  return (
    <Card visitor={visit} title="Connect this program?" wide>
      {isAboutReach(problem) ? null : <Ui.ProblemNote problem={problem} />}
      <ClientFacts client={client} />
      {earlier === undefined ? null : (
        <p class="hint">
          You connected it <Ui.Ago at={earlier.createdAt.toISOString()} now={visit.now} />. Your new choice replaces its
          access{form === before ? ", which is preselected" : ""}.
        </p>
      )}
      <form method="post" action={`${Paths.connect(client.uid)}/approve`} data-leaves>
        <ScopeChoice client={client} earlier={earlier} form={form} teams={teams} />
        <section class="part">
          <h2>For which teams</h2>
          <fieldset>
            <legend class="hidden">Teams</legend>
            <div class="checks">
              {teams.map((team) => (
                <Ui.CheckBox name="teamIds" value={team.id} checked={isTicked(form, "teamIds", team.id)}>
                  {team.name} <span class="hint">you are {team.role}</span>
                </Ui.CheckBox>
              ))}
            </div>
          </fieldset>
        </section>
        <ReachFields form={form} restrictable={restrictable} labelOf={labelOf} problem={problem} />
        <MachineChoice client={client} earlier={earlier} elsewhere={elsewhere} form={form} />
        <div class="buttons">
          <button class="button button-primary" data-decides>
            Connect
          </button>
          <button class="button button-danger-quiet" formaction={`${Paths.connect(client.uid)}/deny`} data-decides>
            Refuse
          </button>
        </div>
      </form>
      <p class="card-foot">
        The connection can never do more than you can. It ends after 30 days, and you can revoke it at any time.
      </p>
    </Card>
  )
}

/**
 * The page on which a person decides about a client that wants to act for them over MCP, and the list of connections. A
 * GET never approves.
 */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { isApiError } from "#schema/ApiError.ts"
import type { CallerTeam } from "#schema/Caller.ts"
import { ValidationFailed } from "#schema/Errors.ts"
import { EnvironmentId, ProjectId, TeamId, uuidPattern } from "#schema/Ids.ts"
import type { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import { Scope } from "#schema/Scopes.ts"
import * as Policy from "#src/access/Policy.ts"
import type { ConsentRequest } from "#src/oauth/Consent.ts"
import type { OAuthGrant } from "#src/oauth/OAuthGrants.ts"
import * as Ui from "./Components.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import { Card, Layout } from "./Layout.tsx"
import * as Paths from "./Paths.ts"
import {
  action,
  type AtPerson,
  type Attempt,
  button,
  type Guard,
  page,
  person,
  screen,
  to,
  withIds,
  within
} from "./Routes.ts"
import type { Visit } from "./Visit.ts"
import * as UseCases from "./UseCases.ts"

/** Projects that the page offers for a restriction. */
const maxOffered = 100

/** Scopes by which a value can reach the model that the client talks to. */
const plaintext: ReadonlySet<Scope> = new Set<Scope>(["secrets:read_values", "secrets:run"])

/** What a person agrees to; the page shows the scope's name beside it. */
export const consentWords: Readonly<Record<Scope, string>> = {
  "identity:read": "See your name, e-mail address and teams",
  "projects:read": "List projects and environments",
  "secrets:read": "List secrets by name, without values",
  "secrets:read_values": "Read values of secrets",
  "secrets:write":
    "Create, change and delete secrets. It copies values between environments only if you also allow it to read values or to run programs",
  "secrets:run": "Get all values of an environment, to run programs with them",
  "audit:read": "Read the audit trail"
}

const Uid = Schema.String.pipe(Schema.pattern(/^[\w-]{20,64}$/))
const OAuthGrantId = Schema.String.pipe(Schema.filter((s) => uuidPattern.test(s)))
const ConsentForm = Schema.Struct({
  scopes: Schema.Array(Scope),
  teamIds: Schema.Array(TeamId),
  projectIds: Schema.NullOr(Schema.Array(ProjectId)),
  environmentIds: Schema.NullOr(Schema.Array(EnvironmentId))
})

interface AtConsent extends AtPerson {
  readonly uid: string
  readonly client: ConsentRequest
  readonly redirectOrigin: string
}

/** What the person can restrict the connection to. */
interface Restrictable {
  readonly projects: ReadonlyArray<Project>
  readonly environments: ReadonlyMap<ProjectId, ReadonlyArray<ProjectEnvironment>>
}

/** What the person ticked; nothing is ticked before. */
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

const ScopeChoice = ({
  client,
  form,
  teams
}: {
  readonly client: ConsentRequest
  readonly form: Form.Form
  readonly teams: ReadonlyArray<CallerTeam>
}) => (
  <section class="part">
    <h2>What it may do</h2>
    <fieldset>
      <legend class="hidden">Scopes</legend>
      <div class="checks">
        {client.scopes.map((scope) =>
          teams.some(({ role }) => Policy.roleAllows(role ?? "viewer", scope)) ? (
            <Ui.CheckBox
              name="scopes"
              value={scope}
              checked={isTicked(form, "scopes", scope)}
              hint={<code>{scope}</code>}
            >
              {consentWords[scope]}{" "}
              {plaintext.has(scope) ? <Ui.Badge tone="amber">values can reach the model</Ui.Badge> : null}
            </Ui.CheckBox>
          ) : (
            <p class="hint">
              {consentWords[scope]} (<code>{scope}</code>): requested, but your role does not allow it.
            </p>
          )
        )}
      </div>
    </fieldset>
  </section>
)

const RestrictionChoice = ({
  form,
  restrictable: { environments, projects },
  teams
}: {
  readonly form: Form.Form
  readonly restrictable: Restrictable
  readonly teams: ReadonlyArray<CallerTeam>
}) => {
  const teamName = ({ teamId }: Project) =>
    teams.length > 1 ? `${teams.find(({ id }) => id === teamId)?.name ?? ""} / ` : null
  return (
    <details class="disclosure section-small" open={form.has("projectIds") || form.has("environmentIds")}>
      <summary>Only some projects or environments</summary>
      <p class="hint">
        None chosen: everything in the teams above, later projects and environments included. With projects and
        environments chosen, only what is in both.
      </p>
      <fieldset class="part">
        <legend>Projects</legend>
        <div class="checks">
          {projects.map((project) => (
            <Ui.CheckBox name="projectIds" value={project.id} checked={isTicked(form, "projectIds", project.id)}>
              {project.name}{" "}
              <span class="hint">
                {teamName(project)}
                <code>{project.slug}</code>
              </span>
            </Ui.CheckBox>
          ))}
        </div>
      </fieldset>
      <fieldset class="part">
        <legend>Environments</legend>
        <div class="checks">
          {projects.flatMap((project) =>
            (environments.get(project.id) ?? []).map((environment) => (
              <Ui.CheckBox
                name="environmentIds"
                value={environment.id}
                checked={isTicked(form, "environmentIds", environment.id)}
              >
                {teamName(project)}
                {project.slug} / {environment.slug}{" "}
                {environment.protected ? <Ui.Badge tone="amber">protected</Ui.Badge> : null}
              </Ui.CheckBox>
            ))
          )}
        </div>
      </fieldset>
    </details>
  )
}

const ConsentPage = ({
  client,
  form,
  problem,
  restrictable,
  visit
}: AtConsent & Attempt & { readonly restrictable: Restrictable }) => {
  const { teams } = visit.caller
  return (
    <Card who={visit} title="Connect this program?" wide>
      <Ui.ProblemNote problem={problem} />
      <ClientFacts client={client} />
      <form method="post" action={`${Paths.connect(client.uid)}/approve`}>
        <ScopeChoice client={client} form={form} teams={teams} />
        <section class="part">
          <h2>Where</h2>
          <fieldset>
            <legend>Teams</legend>
            <div class="checks">
              {teams.map((team) => (
                <Ui.CheckBox name="teamIds" value={team.id} checked={isTicked(form, "teamIds", team.id)}>
                  {team.name} <span class="hint">you are {team.role}</span>
                </Ui.CheckBox>
              ))}
            </div>
          </fieldset>
          {restrictable.projects.length === 0 ? null : (
            <RestrictionChoice form={form} restrictable={restrictable} teams={teams} />
          )}
        </section>
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

const listOf = (names: ReadonlyArray<string>, none: string) => (names.length === 0 ? none : names.join(", "))

const Connection = ({ grant, visit }: { readonly grant: OAuthGrant; readonly visit: Visit }) => (
  <li class="project">
    <div>
      <h2>{grant.clientName}</h2>
      <span class="badges">
        {grant.projects === null && grant.environments === null ? null : <Ui.Badge tone="accent">restricted</Ui.Badge>}
        {grant.scopes.some((scope) => plaintext.has(scope)) ? (
          <Ui.Badge tone="amber">values can reach the model</Ui.Badge>
        ) : null}
      </span>
    </div>
    <dl class="facts facts-small">
      <Ui.Fact name="Returns to" is={<code>{grant.redirectHost}</code>} />
      <Ui.Fact name="Since">
        <Ui.Ago at={grant.createdAt.toISOString()} now={visit.now} />, expires{" "}
        <Ui.Until at={grant.expiresAt.toISOString()} now={visit.now} />
      </Ui.Fact>
      <Ui.Fact
        name="Last use"
        is={grant.lastUsedAt === null ? "never" : <Ui.Ago at={grant.lastUsedAt.toISOString()} now={visit.now} />}
      />
      <Ui.Fact name="Teams">
        {listOf(
          grant.teams.map(({ name }) => name),
          "none any more, because your membership changed"
        )}
      </Ui.Fact>
      {grant.projects === null ? null : <Ui.Fact name="Projects" is={listOf(grant.projects, "none any more")} />}
      {grant.environments === null ? null : (
        <Ui.Fact name="Environments" is={listOf(grant.environments, "none any more")} />
      )}
      <Ui.Fact name="May" is={<Ui.Keys of={grant.scopes} />} />
    </dl>
    <Ui.Confirm action={`${Paths.connections}/${grant.id}/revoke`} label="Revoke" verb="Revoke this connection">
      <p>It stops working with its next request. To connect again, the program has to ask you again.</p>
    </Ui.Confirm>
  </li>
)

const ConnectionsPage = ({ items, visit }: { readonly visit: Visit; readonly items: ReadonlyArray<OAuthGrant> }) => (
  <Layout
    visit={visit}
    section="connections"
    title="Connected agents"
    lead="Programs that work with your secrets over MCP. One that you revoke stops working with its next request."
  >
    {items.length === 0 ? (
      <Ui.Empty title="No connections">
        <p>Give an agent this address. A page like this one then asks you what it may do:</p>
        <div class="narrow center">
          <Ui.Command>{`claude mcp add --transport http ampoule ${visit.ui.baseUrl}/mcp`}</Ui.Command>
        </div>
      </Ui.Empty>
    ) : (
      <ul class="cards">
        {items.map((grant) => (
          <Connection grant={grant} visit={visit} />
        ))}
      </ul>
    )}
  </Layout>
)

const cookies = Effect.map(HttpServerRequest.HttpServerRequest, ({ headers }) => headers["cookie"])

const request = withIds(person, Schema.Struct({ uid: Uid }))

const waiting = within(request, ({ uid }) => Effect.flatMap(cookies, (cookie) => UseCases.consent.show(uid, cookie)))
/**
 * The browser follows the redirect of the form's response to the client, and the policy of the form's page covers that.
 */
const consent: Guard<AtConsent> = (handler) =>
  waiting((at) => Effect.map(handler(at), (response) => Html.withFormActions(response, [at.redirectOrigin])))

const ask = screen(
  (at: AtConsent) =>
    Effect.gen(function* () {
      const projects = yield* UseCases.projects.list()
      const environments = yield* UseCases.environments.byProject("all")
      const restrictable: Restrictable = { projects: projects.slice(0, maxOffered), environments }
      return { ...at, restrictable }
    }),
  ConsentPage
)

/** What is wrong with the choice is for the person to mend in the form. */
const mendable: ReadonlyMap<string, string> = new Map([
  ["TEAM_NOT_FOUND", "A team that you chose does not exist any more"],
  ["PROJECT_NOT_FOUND", "A project that you chose does not exist in these teams"],
  ["ENVIRONMENT_NOT_FOUND", "An environment that you chose does not exist in these teams"],
  ["FORBIDDEN", "Your role in these teams does not allow what you chose"]
])
const asChoice = (error: unknown) => {
  const message = isApiError(error) ? mendable.get(error._tag) : undefined
  return message === undefined ? error : new ValidationFailed({ message })
}

const approve = action(consent, {
  decode: (form) =>
    Form.decode(ConsentForm)({
      scopes: form.all("scopes"),
      teamIds: form.all("teamIds"),
      projectIds: form.has("projectIds") ? form.all("projectIds") : null,
      environmentIds: form.has("environmentIds") ? form.all("environmentIds") : null
    }),
  run: (decision, { uid }) =>
    Effect.flatMap(cookies, (cookie) => UseCases.consent.approve(uid, cookie, decision)).pipe(
      Effect.mapError(asChoice)
    ),
  done: (next) => Html.seeOther(next),
  again: ask
})

const deny = button(request, {
  run: ({ uid }) => Effect.flatMap(cookies, (cookie) => UseCases.consent.deny(uid, cookie)),
  done: (next) => Html.seeOther(next)
})

const list = screen(
  ({ visit }: AtPerson) => Effect.map(UseCases.oauthGrants.list(), (items) => ({ items, visit })),
  ConnectionsPage
)

const revoke = button(withIds(person, Schema.Struct({ grantId: OAuthGrantId })), {
  run: ({ grantId }) => UseCases.oauthGrants.revoke(grantId),
  done: () => to(Paths.connections, "connection-revoked")
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/connect/:uid", page(consent, ask)),
  HttpRouter.post("/app/connect/:uid/approve", approve),
  HttpRouter.post("/app/connect/:uid/deny", deny),
  HttpRouter.get(Paths.connections, page(person, list)),
  HttpRouter.post("/app/connections/:grantId/revoke", revoke)
)

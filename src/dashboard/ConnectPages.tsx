/** Deciding about a client that wants to act for a person over MCP, and the connections that came of it. Looking never approves. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { AnyApiError } from "#schema/ApiError.ts"
import { ProjectId, TeamId, uuidPattern } from "#schema/Ids.ts"
import type { Project } from "#schema/ProjectsApi.ts"
import { Scope } from "#schema/Scopes.ts"
import * as Policy from "#src/access/Policy.ts"
import { type Asking, Consent } from "#src/oauth/Consent.ts"
import { type OAuthGrant, OAuthGrants } from "#src/oauth/OAuthGrants.ts"
import { Projects } from "#src/projects/Projects.ts"
import { Ago, Badge, Callout, CheckBox, Command, Confirm, Empty, ProblemNote, Until } from "./Components.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import { Card, Layout } from "./Layout.tsx"
import { withNotice } from "./Notices.ts"
import { attempt, type Pages, param } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import type { Visit } from "./Visit.ts"

/** Projects whose names the page offers for a restriction. */
const maxOffered = 100

/** Scopes by which a value can reach the model that the client talks to. */
const plaintext: ReadonlySet<Scope> = new Set<Scope>(["secrets:read_values", "secrets:run"])

/** What a person agrees to, in their words; the scope's name stands below. */
export const consentWords: Readonly<Record<Scope, string>> = {
  "identity:read": "See your name, e-mail address and teams",
  "projects:read": "List projects and environments",
  "secrets:read": "List secrets by name, without values",
  "secrets:read_values": "Read values of secrets",
  "secrets:write": "Create, change and delete secrets",
  "secrets:run": "Get all values of an environment, to run programs with",
  "audit:read": "Read the audit trail"
}

const Uid = Schema.String.pipe(Schema.pattern(/^[\w-]{20,64}$/))
const OAuthGrantId = Schema.String.pipe(Schema.filter((s) => uuidPattern.test(s)))
const Body = Schema.Struct({
  scopes: Schema.Array(Scope),
  teamIds: Schema.Array(TeamId),
  projectIds: Schema.NullOr(Schema.Array(ProjectId))
})

const ConsentPage = ({
  asking,
  form,
  offered,
  problem,
  visit
}: {
  readonly visit: Visit
  readonly asking: Asking
  readonly offered: ReadonlyArray<Project>
  readonly form?: Form.Form | undefined
  readonly problem?: AnyApiError | undefined
}) => {
  const teams = visit.caller.teams
  const projects = offered.slice(0, maxOffered)
  // Nothing is ticked that the person did not tick.
  const picked = (name: string, value: string) => form?.all(name).includes(value) === true
  const able = (scope: Scope) => teams.some(({ role }) => Policy.roleAllows(role ?? "viewer", scope))
  return (
    <Card who={visit} title="Connect this program?" wide>
      <ProblemNote problem={problem} />
      <p class="lead">
        <strong>{asking.clientName}</strong> <Badge tone="amber">calls itself so</Badge> wants to work with your secrets
        in your name.
      </p>
      <dl class="facts section-small">
        <dt>Answers go to</dt>
        <dd>
          <code>{asking.redirectHost}</code>
          {asking.onThisMachine ? " on your own machine" : ""}
        </dd>
        {asking.documentedAt === null ? null : (
          <>
            <dt>Published at</dt>
            <dd>
              <code>{asking.documentedAt}</code>
            </dd>
          </>
        )}
      </dl>
      {asking.onThisMachine ? (
        <Callout tone="warning">
          <p>
            Any program on your machine can say that it is this one. Go on only if you started it yourself a moment ago.
          </p>
        </Callout>
      ) : null}
      <form method="post" action={`${Paths.connect(asking.uid)}/approve`}>
        <section class="part">
          <h2>What it may do</h2>
          <fieldset>
            <legend class="hidden">Scopes</legend>
            <div class="checks">
              {asking.scopes.map((scope) =>
                able(scope) ? (
                  <CheckBox name="scopes" value={scope} checked={picked("scopes", scope)} hint={<code>{scope}</code>}>
                    {consentWords[scope]}{" "}
                    {plaintext.has(scope) ? <Badge tone="amber">values can reach the model</Badge> : null}
                  </CheckBox>
                ) : (
                  <p class="hint">
                    {consentWords[scope]} (<code>{scope}</code>): asked for, but your role does not allow it.
                  </p>
                )
              )}
            </div>
          </fieldset>
        </section>
        <section class="part">
          <h2>Where</h2>
          <fieldset>
            <legend>Teams</legend>
            <div class="checks">
              {teams.map((team) => (
                <CheckBox name="teamIds" value={team.id} checked={picked("teamIds", team.id)}>
                  {team.name} <span class="hint">you are {team.role}</span>
                </CheckBox>
              ))}
            </div>
          </fieldset>
          {projects.length === 0 ? null : (
            <details class="disclosure section-small" open={form?.has("projectIds") === true}>
              <summary>Only some projects</summary>
              <p class="hint">None chosen: all projects of the teams above.</p>
              <fieldset>
                <legend class="hidden">Projects</legend>
                <div class="checks">
                  {projects.map((project) => (
                    <CheckBox name="projectIds" value={project.id} checked={picked("projectIds", project.id)}>
                      {project.name}{" "}
                      <span class="hint">
                        {teams.length > 1 ? `${teams.find(({ id }) => id === project.teamId)?.name ?? ""} / ` : null}
                        <code>{project.slug}</code>
                      </span>
                    </CheckBox>
                  ))}
                </div>
              </fieldset>
            </details>
          )}
        </section>
        <div class="buttons">
          <button class="button button-primary" data-decides>
            Connect
          </button>
          <button class="button button-danger-quiet" formaction={`${Paths.connect(asking.uid)}/deny`} data-decides>
            Refuse
          </button>
        </div>
      </form>
      <p class="card-foot">
        The connection can never do more than you, ends after 30 days, and can be revoked at any time.
      </p>
    </Card>
  )
}

const ConnectionsPage = ({ items, visit }: { readonly visit: Visit; readonly items: ReadonlyArray<OAuthGrant> }) => (
  <Layout
    visit={visit}
    section="connections"
    title="Connected agents"
    lead="Programs that work with your secrets over MCP. Each can be revoked; it stops with its next request."
  >
    {items.length === 0 ? (
      <Empty title="No connections">
        <p>Point an agent at this address; it asks you here what it may do:</p>
        <div class="narrow center">
          <Command>{`claude mcp add --transport http ampoule ${visit.ui.baseUrl}/mcp`}</Command>
        </div>
      </Empty>
    ) : (
      <ul class="cards">
        {items.map((grant) => (
          <li class="project">
            <div>
              <h2>{grant.clientName}</h2>
              <span class="badges">
                {grant.projects === null ? null : <Badge tone="accent">restricted</Badge>}
                {grant.scopes.some((scope) => plaintext.has(scope)) ? (
                  <Badge tone="amber">values can reach the model</Badge>
                ) : null}
              </span>
            </div>
            <dl class="facts facts-small">
              <dt>Answers go to</dt>
              <dd>
                <code>{grant.redirectHost}</code>
              </dd>
              <dt>Since</dt>
              <dd>
                <Ago at={grant.createdAt.toISOString()} now={visit.now} />, expires{" "}
                <Until at={grant.expiresAt.toISOString()} now={visit.now} />
              </dd>
              <dt>Last use</dt>
              <dd>
                {grant.lastUsedAt === null ? "never" : <Ago at={grant.lastUsedAt.toISOString()} now={visit.now} />}
              </dd>
              <dt>Teams</dt>
              <dd>
                {grant.teams.length === 0
                  ? "none any more: your standing there changed"
                  : grant.teams.map(({ name }) => name).join(", ")}
              </dd>
              {grant.projects === null ? null : (
                <>
                  <dt>Projects</dt>
                  <dd>{grant.projects.join(", ")}</dd>
                </>
              )}
              <dt>May</dt>
              <dd>
                <ul class="keys">
                  {grant.scopes.map((scope) => (
                    <li>
                      <code>{scope}</code>
                    </li>
                  ))}
                </ul>
              </dd>
            </dl>
            <Confirm action={`${Paths.connections}/${grant.id}/revoke`} label="Revoke" verb="Revoke this connection">
              <p>It stops with its next request. The program has to ask again.</p>
            </Confirm>
          </li>
        ))}
      </ul>
    )}
  </Layout>
)

export const routes = (pages: Pages["Type"]) =>
  Effect.gen(function* () {
    const consent = yield* Consent
    const grants = yield* OAuthGrants
    const projects = yield* Projects

    const cookies = Effect.map(HttpServerRequest.HttpServerRequest, ({ headers }) => headers["cookie"])

    const ask = Effect.fnUntraced(function* (visit: Visit, uid: string, form?: Form.Form, problem?: AnyApiError) {
      const { asking, redirectOrigin } = yield* consent.show(uid, yield* cookies)
      const offered = yield* projects.list()
      return Html.page(
        <ConsentPage visit={visit} asking={asking} offered={offered} form={form} problem={problem} />,
        // The browser follows the form's answer to the client, and checks that too.
        { formActions: [redirectOrigin], ...(problem === undefined ? {} : { status: 400 }) }
      )
    })

    const view = pages.person((visit) => Effect.flatMap(param("uid", Uid), (uid) => ask(visit, uid)))

    const approve = pages.person((visit) =>
      Effect.gen(function* () {
        const uid = yield* param("uid", Uid)
        const form = yield* Form.read
        const cookie = yield* cookies
        const done = yield* attempt(
          Effect.gen(function* () {
            const decision = yield* Form.decode(Body)({
              scopes: form.all("scopes"),
              teamIds: form.all("teamIds"),
              projectIds: form.has("projectIds") ? form.all("projectIds") : null
            })
            return yield* consent.approve(visit.caller, uid, cookie, decision)
          })
        )
        return Either.isRight(done) ? Html.seeOther(done.right) : yield* ask(visit, uid, form, done.left)
      })
    )

    const deny = pages.person((visit) =>
      Effect.gen(function* () {
        const uid = yield* param("uid", Uid)
        return Html.seeOther(yield* consent.deny(visit.caller, uid, yield* cookies))
      })
    )

    const list = pages.person((visit) =>
      Effect.map(grants.list(visit.user.id), (items) => Html.page(<ConnectionsPage visit={visit} items={items} />))
    )
    const revoke = pages.person((visit) =>
      Effect.gen(function* () {
        yield* grants.revoke(visit.user.id, yield* param("grantId", OAuthGrantId))
        return Html.seeOther(withNotice(Paths.connections, "connection-revoked"))
      })
    )

    return HttpRouter.empty.pipe(
      HttpRouter.get("/app/connect/:uid", view),
      HttpRouter.post("/app/connect/:uid/approve", approve),
      HttpRouter.post("/app/connect/:uid/deny", deny),
      HttpRouter.get(Paths.connections, list),
      HttpRouter.post("/app/connections/:grantId/revoke", revoke)
    )
  })

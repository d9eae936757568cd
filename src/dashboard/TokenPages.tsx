/** API tokens of a team: made with every option, shown once, narrowed, replaced, ended. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { AnyApiError } from "#schema/ApiError.ts"
import {
  type ApiToken,
  type ApiTokenWithValue,
  CreateApiToken,
  Lifetime,
  UpdateApiToken
} from "#schema/ApiTokensApi.ts"
import { TokenId } from "#schema/Ids.ts"
import { allScopes, type Scope } from "#schema/Scopes.ts"
import { Tokens } from "#src/credentials/Tokens.ts"
import * as Plans from "#src/limits/Plans.ts"
import {
  Act,
  Ago,
  Badge,
  Callout,
  CheckBox,
  Command,
  Confirm,
  Empty,
  exact,
  Once,
  ProblemNote,
  Select,
  Table,
  TextField,
  Until
} from "./Components.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import * as Icons from "./Icons.tsx"
import { Layout } from "./Layout.tsx"
import { withNotice } from "./Notices.ts"
import { attempt, type Pages, param, shown } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import * as Problem from "./Problem.ts"
import { chosen, Level, type Offered, offers, picked, Reach, ReachFields } from "./Reach.tsx"
import type { Visit } from "./Visit.ts"

const lifetimes: Readonly<Record<Lifetime, string>> = {
  "1d": "1 day",
  "7d": "7 days",
  "30d": "30 days",
  "90d": "90 days",
  "1y": "1 year"
}

export const scopeWords: Readonly<Record<Scope, string>> = {
  "identity:read": "who it is and its teams",
  "projects:read": "list projects and environments",
  "secrets:read": "list secrets and metadata, no values",
  "secrets:read_values": "read values",
  "secrets:write": "create, change and delete secrets",
  "secrets:run": "resolve whole environments, to run programs with",
  "audit:read": "read the audit trail"
}

const Expiry = ({ now, token }: { readonly token: ApiToken; readonly now: number }) =>
  token.expiresAt === null ? (
    <Badge tone="danger">never</Badge>
  ) : Date.parse(token.expiresAt) <= now ? (
    <Badge tone="danger">expired</Badge>
  ) : (
    <Until at={token.expiresAt} now={now} />
  )

const TokensPage = ({ items, visit }: { readonly visit: Visit; readonly items: ReadonlyArray<ApiToken> }) => {
  const team = visit.team
  if (team === null) return null
  const add = (
    <a class="button button-primary" href={`${Paths.tokens(team.id)}/new`}>
      <Icons.Plus /> New token
    </a>
  )
  return (
    <Layout
      visit={visit}
      section="tokens"
      title="API tokens"
      lead={
        <>
          For deployments and other programs. Each belongs to the team, and reaches what it was made for. A job of
          GitHub Actions or GitLab needs none: see <a href={Paths.rules(team.id)}>CI identities</a>.
        </>
      }
      actions={items.length === 0 ? undefined : add}
    >
      {items.length === 0 ? (
        <Empty title="No API tokens">
          <p>People sign in here or with the command line; programs use a token.</p>
          <div class="buttons">{add}</div>
        </Empty>
      ) : (
        <Table label="API tokens" head={["Token", "Reaches", "Created by", "Expires", "Last use"]}>
          {items.map((token) => (
            <tr>
              <th scope="row">
                <a href={Paths.token(team.id, token.id)}>{token.name}</a>{" "}
                <span class="badges">
                  <Level level={token.accessLevel} />
                  {token.mcpOnly ? (
                    <Badge tone="accent">MCP only</Badge>
                  ) : token.mcpScopes.length > 0 ? (
                    <Badge tone="accent">MCP</Badge>
                  ) : null}
                </span>
              </th>
              <td data-label="Reaches">
                <Reach of={token} />
              </td>
              <td data-label="Created by" class="hint">
                {token.createdBy.email}
              </td>
              <td data-label="Expires">
                <Expiry token={token} now={visit.now} />
              </td>
              <td data-label="Last use" class="hint">
                {token.lastUsedAt === null ? "never" : <Ago at={token.lastUsedAt} now={visit.now} />}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Layout>
  )
}

const ScopeChecks = ({
  checked,
  name,
  offered
}: {
  readonly name: string
  readonly offered: ReadonlyArray<Scope>
  readonly checked: (scope: Scope) => boolean
}) => (
  <div class="checks">
    {offered.map((scope) => (
      <CheckBox name={name} value={scope} checked={checked(scope)} hint={scopeWords[scope]}>
        <code>{scope}</code>
      </CheckBox>
    ))}
  </div>
)

/** Where a token with MCP scopes works. Only `/mcp` is preselected; without a scope the choice has no effect. */
const mcpUse = "mcpUse"
const mcpOnlyIn = (form: Form.Form): boolean => form.has("mcpScopes") && form.filled(mcpUse) !== "everywhere"

const McpFields = ({ form, problem }: { readonly form: Form.Form; readonly problem: string | undefined }) => {
  const everywhere = form.filled(mcpUse) === "everywhere"
  return (
    <fieldset class="part mcp-fields">
      <legend>For AI agents (MCP)</legend>
      <p class="hint">None chosen: the token does not work at /mcp.</p>
      <ScopeChecks name="mcpScopes" offered={allScopes} checked={(scope) => picked(form, "mcpScopes", scope)} />
      {problem === undefined ? null : <p class="error">{problem}</p>}
      <fieldset class="part mcp-use">
        <legend>Where a token with MCP scopes works</legend>
        <CheckBox
          type="radio"
          name={mcpUse}
          value="mcp"
          checked={!everywhere}
          hint="An agent that holds the token can do what the scopes above allow, and nothing else."
        >
          At /mcp only
        </CheckBox>
        <CheckBox
          type="radio"
          name={mcpUse}
          value="everywhere"
          checked={everywhere}
          hint="The scopes above bound /mcp only: over the REST API the token reads every value in its reach."
        >
          At /mcp and over the REST API
        </CheckBox>
      </fieldset>
    </fieldset>
  )
}

const NewTokenPage = ({
  form = new Form.Form([]),
  offered,
  problem,
  visit
}: {
  readonly visit: Visit
  readonly offered: Offered
  readonly form?: Form.Form
  readonly problem?: AnyApiError | undefined
}) => {
  const team = visit.team
  if (team === null) return null
  const lifetimesOffered = Lifetime.literals.filter((lifetime) => Plans.lifetimeAllowed(team.plan, lifetime))
  const scopesProblem = Problem.about(problem, "mcpScopes")
  const shownAtField =
    ["name", "lifetime"].includes(problem?.field ?? "") ||
    scopesProblem !== undefined ||
    Problem.about(problem, "environments") !== undefined
  return (
    <Layout
      visit={visit}
      section="tokens"
      title="New API token"
      crumbs={[{ href: Paths.tokens(team.id), label: "API tokens" }]}
    >
      <form method="post" action={`${Paths.tokens(team.id)}/new`} class="panel narrow">
        {shownAtField ? null : <ProblemNote problem={problem} />}
        <TextField
          name="name"
          label="Name"
          value={form.text("name")}
          focus
          hint="Where it is used: ci, staging server, …"
          problem={problem}
        />
        <ReachFields form={form} offered={offered} problem={problem} />
        <Select
          name="lifetime"
          label="Works for"
          choices={lifetimesOffered.map((value) => ({ value, label: lifetimes[value] }))}
          value={form.filled("lifetime") ?? (lifetimesOffered.includes("90d") ? "90d" : lifetimesOffered.at(-1))}
          problem={problem}
        />
        <McpFields form={form} problem={scopesProblem} />
        <div class="buttons">
          <button class="button button-primary">Create the token</button>
          <a class="button button-plain" href={Paths.tokens(team.id)}>
            Cancel
          </a>
        </div>
      </form>
    </Layout>
  )
}

const ShownOnce = ({
  replaced,
  token,
  visit
}: {
  readonly visit: Visit
  readonly token: ApiTokenWithValue
  readonly replaced: boolean
}) => (
  <Layout
    visit={visit}
    section="tokens"
    title={replaced ? `${token.name} is replaced` : `${token.name} is created`}
    crumbs={[{ href: Paths.tokens(token.teamId), label: "API tokens" }]}
  >
    <div class="narrow stack">
      {replaced ? <p>The old token stopped working. Put the new one in its place.</p> : null}
      <Once label="The token: this is the only time it is shown" text={token.value} />
      <p>Give it to a program as environment variable, and run:</p>
      <Command>{"ampoule run -- npm start"}</Command>
      <p class="hint">
        The variables are <code>AMPOULE_URL={visit.ui.baseUrl}</code> and <code>AMPOULE_API_TOKEN</code>.
      </p>
      <p>
        <a class="button button-plain" href={Paths.tokens(token.teamId)}>
          I have saved it
        </a>
      </p>
    </div>
  </Layout>
)

/** What the scopes bound, and what they do not. */
const McpReach = ({ token }: { readonly token: ApiToken }) => (
  <>
    {token.mcpScopes.length === 0 ? (
      <span class="hint">none</span>
    ) : (
      <ul class="keys">
        {token.mcpScopes.map((scope) => (
          <li>
            <code>{scope}</code>
          </li>
        ))}
      </ul>
    )}
    {token.mcpOnly ? (
      <p class="hint">The token works at /mcp only: these scopes bound all that it can do.</p>
    ) : token.mcpScopes.length === 0 ? null : (
      <p class="error">
        MCP scopes do not bound the REST API: there this token reads every value in its reach
        {token.accessLevel === "write" ? ", and changes secrets" : ""}.
      </p>
    )}
  </>
)

const TokenPage = ({
  problem,
  token,
  visit
}: {
  readonly visit: Visit
  readonly token: ApiToken
  readonly problem?: AnyApiError | undefined
}) => {
  const here = Paths.token(token.teamId, token.id)
  return (
    <Layout
      visit={visit}
      section="tokens"
      title={token.name}
      lead={<Level level={token.accessLevel} />}
      crumbs={[{ href: Paths.tokens(token.teamId), label: "API tokens" }]}
    >
      <div class="columns">
        <div>
          <section class="panel" aria-label="Facts">
            <dl class="facts">
              <dt>Reaches</dt>
              <dd>
                <Reach of={token} />
              </dd>
              <dt>MCP scopes</dt>
              <dd>
                <McpReach token={token} />
              </dd>
              <dt>Created</dt>
              <dd>
                <Ago at={token.createdAt} now={visit.now} /> by {token.createdBy.email}
              </dd>
              <dt>Expires</dt>
              <dd>
                <Expiry token={token} now={visit.now} />
                {token.expiresAt === null ? null : <span class="hint"> {exact(token.expiresAt)}</span>}
              </dd>
              <dt>Last use</dt>
              <dd>
                {token.lastUsedAt === null ? (
                  "never"
                ) : (
                  <>
                    <Ago at={token.lastUsedAt} now={visit.now} /> from {token.lastUsedIp ?? "unknown"}
                    <span class="refs hint">{token.lastUsedUserAgent ?? ""}</span>
                  </>
                )}
              </dd>
            </dl>
          </section>
          <form method="post" action={here} class="panel">
            <h2>Change</h2>
            {problem?.field === "name" ? null : <ProblemNote problem={problem} />}
            <TextField name="name" label="Name" value={token.name} problem={problem} />
            {token.mcpScopes.length === 0 ? null : (
              <fieldset class="part">
                <legend>MCP scopes</legend>
                <p class="hint">They can be taken away, not added.</p>
                <ScopeChecks
                  name="mcpScopes"
                  offered={allScopes.filter((scope) => token.mcpScopes.includes(scope))}
                  checked={() => true}
                />
              </fieldset>
            )}
            <div class="buttons">
              <button class="button button-primary">Save</button>
            </div>
          </form>
        </div>
        <div>
          <section class="panel">
            <h2>Rotate</h2>
            <p class="hint section-small">
              A new token with the same name, reach and expiry takes its place; this one stops working at once. You
              become its creator.
            </p>
            <div class="buttons">
              <Confirm action={`${here}/rotate`} label="Rotate" tone="plain" verb="Replace the token now">
                <p>Whoever uses the present token is refused from now on.</p>
              </Confirm>
            </div>
          </section>
          {token.accessLevel === "write" ? (
            <section class="panel">
              <h2>Make read-only</h2>
              <p class="hint section-small">Holds from the next request, and cannot be taken back.</p>
              <div class="buttons">
                <Act action={`${here}/read-only`}>Make read-only</Act>
              </div>
            </section>
          ) : null}
          <section class="panel panel-danger">
            <h2>End</h2>
            <div class="stack section-small">
              <Confirm action={`${here}/revoke`} label="Revoke" verb="Revoke the token">
                <p>It stops working with the next request, for good.</p>
              </Confirm>
              <Confirm action={`${here}/delete`} label="Delete" verb="Delete the token">
                <p>It stops working, and leaves the records. The audit trail still names it.</p>
              </Confirm>
            </div>
          </section>
        </div>
      </div>
      {visit.caller.user?.id === token.createdBy.id ? null : (
        <Callout>
          The token is revoked when {token.createdBy.email} leaves the team, changes role, or gets a new password.
        </Callout>
      )}
    </Layout>
  )
}

export const routes = (pages: Pages["Type"]) =>
  Effect.gen(function* () {
    const tokens = yield* Tokens
    const offered = yield* offers
    const tokenParam = param("tokenId", TokenId)

    const list = pages.team((teamId, visit) =>
      Effect.map(tokens.list(teamId), (items) => Html.page(<TokensPage visit={visit} items={items} />))
    )

    const form = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        yield* tokens.mayCreate(teamId)
        return Html.page(<NewTokenPage visit={visit} offered={yield* offered(teamId)} />)
      })
    )
    const create = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        const form = yield* Form.read
        const created = yield* attempt(
          Effect.flatMap(
            Form.decode(CreateApiToken)({
              name: form.text("name"),
              accessLevel: form.text("accessLevel"),
              lifetime: form.text("lifetime"),
              ...chosen(form, "projects", "environments", "mcpScopes"),
              mcpOnly: mcpOnlyIn(form)
            }),
            (body) => tokens.create(teamId, body)
          )
        )
        return Either.isRight(created)
          ? Html.page(<ShownOnce visit={visit} token={created.right} replaced={false} />)
          : shown(
              <NewTokenPage visit={visit} offered={yield* offered(teamId)} form={form} problem={created.left} />,
              created.left
            )
      })
    )

    const view = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        return Html.page(<TokenPage visit={visit} token={yield* tokens.get(teamId, yield* tokenParam)} />)
      })
    )
    const update = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        const id = yield* tokenParam
        const token = yield* tokens.get(teamId, id)
        const form = yield* Form.read
        const done = yield* attempt(
          Effect.flatMap(
            Form.decode(UpdateApiToken)({
              name: form.text("name"),
              ...(token.mcpScopes.length === 0 ? {} : { mcpScopes: form.all("mcpScopes") })
            }),
            (body) => tokens.update(teamId, id, body)
          )
        )
        return Either.isRight(done)
          ? Html.seeOther(withNotice(Paths.token(teamId, id), "token-changed"))
          : shown(<TokenPage visit={visit} token={token} problem={done.left} />, done.left)
      })
    )
    const readOnly = pages.team((teamId) =>
      Effect.gen(function* () {
        const id = yield* tokenParam
        yield* tokens.update(teamId, id, { accessLevel: "read" })
        return Html.seeOther(withNotice(Paths.token(teamId, id), "token-read-only"))
      })
    )
    const rotate = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        const token = yield* tokens.rotate(teamId, yield* tokenParam)
        return Html.page(<ShownOnce visit={visit} token={token} replaced />)
      })
    )
    const revoke = pages.team((teamId) =>
      Effect.gen(function* () {
        yield* tokens.revoke(teamId, yield* tokenParam)
        return Html.seeOther(withNotice(Paths.tokens(teamId), "token-revoked"))
      })
    )
    const remove = pages.team((teamId) =>
      Effect.gen(function* () {
        yield* tokens.remove(teamId, yield* tokenParam)
        return Html.seeOther(withNotice(Paths.tokens(teamId), "token-deleted"))
      })
    )

    return HttpRouter.empty.pipe(
      HttpRouter.get("/app/teams/:teamId/tokens", list),
      HttpRouter.get("/app/teams/:teamId/tokens/new", form),
      HttpRouter.post("/app/teams/:teamId/tokens/new", create),
      HttpRouter.get("/app/teams/:teamId/tokens/:tokenId", view),
      HttpRouter.post("/app/teams/:teamId/tokens/:tokenId", update),
      HttpRouter.post("/app/teams/:teamId/tokens/:tokenId/read-only", readOnly),
      HttpRouter.post("/app/teams/:teamId/tokens/:tokenId/rotate", rotate),
      HttpRouter.post("/app/teams/:teamId/tokens/:tokenId/revoke", revoke),
      HttpRouter.post("/app/teams/:teamId/tokens/:tokenId/delete", remove)
    )
  })

/** API tokens of a team: the list, one token, and the page that shows a new token once. */
import type { ApiToken, ApiTokenWithValue } from "#schema/ApiTokensApi.ts"
import { allScopes } from "#schema/Scopes.ts"
import {
  Act,
  AddButton,
  Ago,
  Badge,
  Callout,
  Command,
  Confirm,
  Empty,
  Fact,
  Keys,
  LinkButton,
  Once,
  ProblemNote,
  Submit,
  Table,
  TextField,
  Until,
  exact
} from "./Components.tsx"
import { Layout } from "./Layout.tsx"
import * as Paths from "./Paths.ts"
import type { Attempt, TeamVisit } from "./Routes.ts"
import { AccessLevelBadge, AccessSummary } from "./TokenAccess.tsx"
import { ScopeChecks } from "./TokenForm.tsx"

const Expiry = ({ now, token }: { readonly token: ApiToken; readonly now: number }) =>
  token.expiresAt === null ? (
    <Badge tone="danger">never</Badge>
  ) : Date.parse(token.expiresAt) <= now ? (
    <Badge tone="danger">expired</Badge>
  ) : (
    <Until at={token.expiresAt} now={now} />
  )

const TokenRow = ({ token, visit }: { readonly visit: TeamVisit; readonly token: ApiToken }) => (
  <tr>
    <th scope="row">
      <a href={Paths.token(visit.team.id, token.id)}>{token.name}</a>{" "}
      <span class="badges">
        <AccessLevelBadge level={token.accessLevel} />
        {token.mcpOnly ? (
          <Badge tone="accent">MCP only</Badge>
        ) : token.mcpScopes.length > 0 ? (
          <Badge tone="accent">MCP</Badge>
        ) : null}
      </span>
    </th>
    <td data-label="Access to">
      <AccessSummary of={token} />
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
)

export const TokensPage = ({
  items,
  visit
}: {
  readonly visit: TeamVisit
  readonly items: ReadonlyArray<ApiToken>
}) => {
  const { team } = visit
  const add = <AddButton href={`${Paths.tokens(team.id)}/new`}>New token</AddButton>
  return (
    <Layout
      visit={visit}
      section="tokens"
      title="API tokens"
      lead={
        <>
          For deployments and other programs. A token belongs to the team and has access only to what you choose. Jobs
          of GitHub Actions and GitLab do not need one: see <a href={Paths.rules(team.id)}>CI identities</a>.
        </>
      }
      actions={items.length === 0 ? undefined : add}
    >
      {items.length === 0 ? (
        <Empty title="No API tokens">
          <p>People sign in here or with the command line. Programs use a token.</p>
          <div class="buttons">{add}</div>
        </Empty>
      ) : (
        <Table label="API tokens" head={["Token", "Access to", "Created by", "Expires", "Last use"]}>
          {items.map((token) => (
            <TokenRow visit={visit} token={token} />
          ))}
        </Table>
      )}
    </Layout>
  )
}

/** A command that works with this token. */
const commandOf = ({ environments, projects }: ApiToken) => {
  const project = projects?.at(0)?.id ?? "my-project"
  const environment = environments?.at(0)?.slug ?? "production"
  return `ampoule run --project ${project} --env ${environment} -- npm start`
}

export const TokenOnce = ({
  replaced,
  token,
  visit
}: {
  readonly visit: TeamVisit
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
      {replaced ? <p>The old token no longer works. Use the new one instead.</p> : null}
      <Once label="The token: this is the only time it is shown" text={token.value} />
      {token.mcpOnly ? null : (
        <>
          <p>
            Set the environment variables <code>AMPOULE_URL={visit.ui.baseUrl}</code> and <code>AMPOULE_API_TOKEN</code>
            , then run your program:
          </p>
          <Command>{commandOf(token)}</Command>
        </>
      )}
      <p>
        <LinkButton href={Paths.tokens(token.teamId)}>I have saved it</LinkButton>
      </p>
    </div>
  </Layout>
)

/** What the scopes limit, and what they do not. */
const McpScopes = ({ token }: { readonly token: ApiToken }) => (
  <>
    {token.mcpScopes.length === 0 ? <span class="hint">none</span> : <Keys of={token.mcpScopes} />}
    {token.mcpOnly ? (
      <p class="hint">The token works at /mcp only, so these scopes limit everything that it can do.</p>
    ) : token.mcpScopes.length === 0 ? null : (
      <p class="error">
        MCP scopes do not limit the REST API: there, this token can read every value of its projects and environments
        {token.accessLevel === "write" ? " and change secrets" : ""}.
      </p>
    )}
  </>
)

const LastUse = ({ now, token }: { readonly token: ApiToken; readonly now: number }) =>
  token.lastUsedAt === null ? (
    <>never</>
  ) : (
    <>
      <Ago at={token.lastUsedAt} now={now} /> from {token.lastUsedIp ?? "unknown"}
      <span class="refs hint">{token.lastUsedUserAgent ?? ""}</span>
    </>
  )

const Facts = ({ now, token }: { readonly token: ApiToken; readonly now: number }) => (
  <section class="panel" aria-label="Facts">
    <dl class="facts">
      <Fact name="Access to" is={<AccessSummary of={token} />} />
      <Fact name="MCP scopes" is={<McpScopes token={token} />} />
      <Fact name="Created">
        <Ago at={token.createdAt} now={now} /> by {token.createdBy.email}
      </Fact>
      <Fact name="Expires">
        <Expiry token={token} now={now} />
        {token.expiresAt === null ? null : <span class="hint"> {exact(token.expiresAt)}</span>}
      </Fact>
      <Fact name="Last use" is={<LastUse token={token} now={now} />} />
    </dl>
  </section>
)

const EditForm = ({ form, problem, token }: Attempt & { readonly token: ApiToken }) => (
  <form method="post" action={Paths.token(token.teamId, token.id)} class="panel">
    <h2>Edit</h2>
    {problem?.field === "name" ? null : <ProblemNote problem={problem} />}
    <TextField
      name="name"
      label="Name"
      value={problem === undefined ? token.name : form.text("name")}
      problem={problem}
    />
    {token.mcpScopes.length === 0 ? null : (
      <fieldset class="part">
        <legend>MCP scopes</legend>
        <p class="hint">You can remove scopes, but not add any.</p>
        <ScopeChecks
          name="mcpScopes"
          scopes={allScopes.filter((scope) => token.mcpScopes.includes(scope))}
          checked={(scope) => problem === undefined || form.all("mcpScopes").includes(scope)}
        />
      </fieldset>
    )}
    <Submit>Save</Submit>
  </form>
)

const Rotate = ({ here }: { readonly here: string }) => (
  <section class="panel">
    <h2>Rotate</h2>
    <p class="hint section-small">
      Replaces the token by a new one with the same name, access and expiry. You become its creator.
    </p>
    <div class="buttons">
      <Confirm action={`${here}/rotate`} label="Rotate" tone="plain" verb="Replace the token now">
        <p>The current token stops working at once.</p>
      </Confirm>
    </div>
  </section>
)

const ReadOnly = ({ here }: { readonly here: string }) => (
  <section class="panel">
    <h2>Make read-only</h2>
    <p class="hint section-small">Takes effect with the next request. You cannot undo it.</p>
    <div class="buttons">
      <Act action={`${here}/read-only`}>Make read-only</Act>
    </div>
  </section>
)

const End = ({ here }: { readonly here: string }) => (
  <section class="panel panel-danger">
    <h2>Revoke or delete</h2>
    <div class="stack section-small">
      <Confirm action={`${here}/revoke`} label="Revoke" verb="Revoke the token">
        <p>The token stops working with its next request. You cannot undo it.</p>
      </Confirm>
      <Confirm action={`${here}/delete`} label="Delete" verb="Delete the token">
        <p>The token stops working and its record is removed. The audit trail keeps its name.</p>
      </Confirm>
    </div>
  </section>
)

export const TokenPage = ({
  token,
  visit,
  ...attempt
}: Attempt & { readonly visit: TeamVisit; readonly token: ApiToken }) => {
  const here = Paths.token(token.teamId, token.id)
  return (
    <Layout
      visit={visit}
      section="tokens"
      title={token.name}
      lead={<AccessLevelBadge level={token.accessLevel} />}
      crumbs={[{ href: Paths.tokens(token.teamId), label: "API tokens" }]}
    >
      <div class="columns">
        <div>
          <Facts token={token} now={visit.now} />
          <EditForm token={token} {...attempt} />
        </div>
        <div>
          <Rotate here={here} />
          {token.accessLevel === "write" ? <ReadOnly here={here} /> : null}
          <End here={here} />
        </div>
      </div>
      {visit.user.id === token.createdBy.id ? null : (
        <Callout>
          The token is revoked when {token.createdBy.email} leaves the team, gets another role, or gets a new password.
        </Callout>
      )}
    </Layout>
  )
}

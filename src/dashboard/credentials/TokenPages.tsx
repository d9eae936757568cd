/** Pages and forms of a team's API tokens. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type ApiToken, CreateApiToken, UpdateApiToken } from "#schema/ApiTokensApi.ts"
import { TokenId } from "#schema/Ids.ts"
import { allScopes } from "#schema/Scopes.ts"
import { AccessFrame, crumbsOf, fits } from "#src/dashboard/frame/AccessFrame.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import { query } from "#src/dashboard/frame/Pages.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import {
  action,
  type AtTeam,
  type Attempt,
  button,
  page,
  screen,
  team,
  type TeamVisit,
  to,
  withIds
} from "#src/dashboard/frame/Routes.ts"
import { AccessLevelBadge, accessOf, AccessSummary, ticksOf, restrictable } from "./TokenAccess.tsx"
import { mcpOnlyIn, NewTokenPage, ScopeChecks } from "./TokenForm.tsx"
import { TokenOnce, withPlace } from "./TokenOnce.tsx"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

const Expiry = ({ now, token }: { readonly token: ApiToken; readonly now: number }) =>
  token.expiresAt === null ? (
    <Ui.Badge tone="danger">never</Ui.Badge>
  ) : Date.parse(token.expiresAt) <= now ? (
    <Ui.Badge tone="danger">expired</Ui.Badge>
  ) : (
    <Ui.Until at={token.expiresAt} now={now} />
  )

const TokenRow = ({ token, visit }: { readonly visit: TeamVisit; readonly token: ApiToken }) => (
  <tr>
    <th scope="row">
      <a href={Paths.token(visit.team.id, token.id)}>{token.name}</a>{" "}
      <span class="badges">
        <AccessLevelBadge level={token.accessLevel} />
        {token.mcpOnly ? (
          <Ui.Badge tone="accent">MCP only</Ui.Badge>
        ) : token.mcpScopes.length > 0 ? (
          <Ui.Badge tone="accent">MCP</Ui.Badge>
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
      {token.lastUsedAt === null ? "never" : <Ui.Ago at={token.lastUsedAt} now={visit.now} />}
    </td>
  </tr>
)

const TokensPage = ({
  items,
  visit,
  words
}: {
  readonly visit: TeamVisit
  readonly items: ReadonlyArray<ApiToken>
  readonly words: string
}) => {
  const matches = items.filter(({ createdBy, name }) => fits(words, name, createdBy.email))
  return (
    <AccessFrame
      visit={visit}
      kind="api_token"
      words={words}
      lead={
        <>
          For deployments and other programs. A token belongs to the team and has access only to what you choose. Jobs
          of GitHub Actions and GitLab do not need one: see <a href={Paths.rules(visit.team.id)}>CI identities</a>.
        </>
      }
    >
      {items.length === 0 ? (
        <Ui.Empty title="No API tokens">
          <p>People sign in here or with the command line. Programs use a token.</p>
        </Ui.Empty>
      ) : matches.length === 0 ? (
        <Ui.Empty title="No matches" />
      ) : (
        <Ui.Table label="API tokens" head={["Token", "Access to", "Created by", "Expires", "Last use"]}>
          {matches.map((token) => (
            <TokenRow visit={visit} token={token} />
          ))}
        </Ui.Table>
      )}
    </AccessFrame>
  )
}

/** MCP scopes of a token, with a note about their limits. */
const McpScopes = ({ token }: { readonly token: ApiToken }) => (
  <>
    {token.mcpScopes.length === 0 ? <span class="hint">none</span> : <Ui.Keys of={token.mcpScopes} />}
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
      <Ui.Ago at={token.lastUsedAt} now={now} /> from {token.lastUsedIp ?? "unknown"}
      <span class="refs hint">{token.lastUsedUserAgent ?? ""}</span>
    </>
  )

const Facts = ({ now, token }: { readonly token: ApiToken; readonly now: number }) => (
  <section class="panel" aria-label="Facts">
    <dl class="facts">
      <Ui.Fact name="Access to" is={<AccessSummary of={token} />} />
      <Ui.Fact name="MCP scopes" is={<McpScopes token={token} />} />
      <Ui.Fact name="Allowed IP addresses" is={token.addresses === null ? "any" : <Ui.Keys of={token.addresses} />} />
      <Ui.Fact name="Created">
        <Ui.Ago at={token.createdAt} now={now} /> by {token.createdBy.email}
      </Ui.Fact>
      <Ui.Fact name="Expires">
        <Expiry token={token} now={now} />
        {token.expiresAt === null ? null : <span class="hint"> {Ui.exact(token.expiresAt)}</span>}
      </Ui.Fact>
      <Ui.Fact name="Last use" is={<LastUse token={token} now={now} />} />
    </dl>
  </section>
)

const EditForm = ({ form, problem, token }: Attempt & { readonly token: ApiToken }) => (
  <form method="post" action={Paths.token(token.teamId, token.id)} class="panel">
    <h2>Edit</h2>
    {problem?.field === "name" || problem?.field === "addresses" ? null : <Ui.ProblemNote problem={problem} />}
    <Ui.TextField
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
    <Ui.TextField
      name="addresses"
      label="Allowed IP addresses"
      value={problem === undefined ? (token.addresses ?? []).join(", ") : form.text("addresses")}
      optional
      mono
      hint="Addresses or blocks such as 192.0.2.0/24, separated by commas. Leave empty to allow any."
      problem={problem}
    />
    <Ui.Submit>Save</Ui.Submit>
  </form>
)

const Rotate = ({ here }: { readonly here: string }) => (
  <section class="panel">
    <h2>Rotate</h2>
    <p class="hint section-small">
      Replaces the token with a new one that has the same name, access and expiry. You become its creator.
    </p>
    <div class="buttons">
      <Ui.Confirm action={`${here}/rotate`} label="Rotate" tone="plain" verb="Replace the token now">
        <p>The current token stops working at once.</p>
      </Ui.Confirm>
    </div>
  </section>
)

const ReadOnly = ({ here }: { readonly here: string }) => (
  <section class="panel">
    <h2>Make read-only</h2>
    <p class="hint section-small">Takes effect with the next request. You cannot undo it.</p>
    <div class="buttons">
      <Ui.Act action={`${here}/read-only`}>Make read-only</Ui.Act>
    </div>
  </section>
)

const End = ({ here }: { readonly here: string }) => (
  <section class="panel panel-danger">
    <h2>Revoke or delete</h2>
    <div class="stack section-small">
      <Ui.Confirm action={`${here}/revoke`} label="Revoke" verb="Revoke the token">
        <p>The token stops working with its next request. You cannot undo it.</p>
      </Ui.Confirm>
      <Ui.Confirm action={`${here}/delete`} label="Delete" verb="Delete the token">
        <p>The token stops working and its record is removed. The audit trail keeps its name.</p>
      </Ui.Confirm>
    </div>
  </section>
)

const TokenPage = ({ token, visit, ...attempt }: Attempt & { readonly visit: TeamVisit; readonly token: ApiToken }) => {
  const here = Paths.token(token.teamId, token.id)
  return (
    <Layout
      visit={visit}
      section="access"
      title={token.name}
      lead={<AccessLevelBadge level={token.accessLevel} />}
      crumbs={crumbsOf(token.teamId, "api_token")}
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
        <Ui.Callout>
          The token is revoked when {token.createdBy.email} leaves the team, gets another role, or gets a new password.
        </Ui.Callout>
      )}
    </Layout>
  )
}

interface AtToken extends AtTeam {
  readonly tokenId: TokenId
}
const token = withIds(team, Schema.Struct({ tokenId: TokenId }))

const list = screen(
  ({ teamId }: AtTeam) =>
    Effect.gen(function* () {
      return { items: yield* UseCases.tokens.list(teamId), words: (yield* query).text("q").trim() }
    }),
  TokensPage
)

const newToken = screen(
  ({ teamId }: AtTeam) =>
    Effect.gen(function* () {
      yield* UseCases.tokens.mayCreate(teamId)
      return { restrictable: yield* restrictable(teamId), preset: yield* query }
    }),
  NewTokenPage
)

const create = action(team, {
  decode: (form) =>
    Effect.flatMap(accessOf(form), (access) =>
      Form.decode(CreateApiToken)({
        name: form.text("name"),
        lifetime: form.text("lifetime"),
        ...access,
        ...ticksOf(form, "mcpScopes"),
        mcpOnly: mcpOnlyIn(form),
        ...(form.filled("addresses") === undefined ? {} : { addresses: Form.listItems(form.text("addresses")) })
      })
    ),
  run: (input, { teamId }) => Effect.flatMap(UseCases.tokens.create(teamId, input), withPlace),
  done: (created, { visit }) => Html.page(<TokenOnce visit={visit} {...created} replaced={false} />),
  again: newToken
})

const load = ({ teamId, tokenId }: AtToken) => UseCases.tokens.get(teamId, tokenId)
const details = screen((at: AtToken) => Effect.map(load(at), (token) => ({ token })), TokenPage)

/** Addresses only if they changed, because changing them needs more rights than changing the name. */
const addressesIn = (form: Form.Form, before: ReadonlyArray<string> | null) => {
  const typed = Form.listItems(form.text("addresses"))
  const isSame = !form.has("addresses") || typed.join() === (before ?? []).join()
  return isSame ? {} : { addresses: typed.length === 0 ? null : typed }
}

const update = action(token, {
  decode: (form, at) =>
    Effect.flatMap(load(at), ({ addresses, mcpScopes }) =>
      Form.decode(UpdateApiToken)({
        name: form.text("name"),
        ...(mcpScopes.length === 0 ? {} : { mcpScopes: form.all("mcpScopes") }),
        ...addressesIn(form, addresses)
      })
    ),
  run: (input, { teamId, tokenId }) => UseCases.tokens.update(teamId, tokenId, input),
  done: (_, { teamId, tokenId }) => to(Paths.token(teamId, tokenId), "token-changed"),
  again: details
})

const readOnly = button(token, {
  run: ({ teamId, tokenId }) => UseCases.tokens.update(teamId, tokenId, { accessLevel: "read" }),
  done: (_, { teamId, tokenId }) => to(Paths.token(teamId, tokenId), "token-read-only")
})

const rotate = button(token, {
  run: ({ teamId, tokenId }) => Effect.flatMap(UseCases.tokens.rotate(teamId, tokenId), withPlace),
  done: (rotated, { visit }) => Html.page(<TokenOnce visit={visit} {...rotated} replaced />)
})

const revoke = button(token, {
  run: ({ teamId, tokenId }) => UseCases.tokens.revoke(teamId, tokenId),
  done: (_, { teamId }) => to(Paths.tokens(teamId), "token-revoked")
})

const remove = button(token, {
  run: ({ teamId, tokenId }) => UseCases.tokens.remove(teamId, tokenId),
  done: (_, { teamId }) => to(Paths.tokens(teamId), "token-deleted")
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/teams/:teamId/tokens", page(team, list)),
  HttpRouter.get("/app/teams/:teamId/tokens/new", page(team, newToken)),
  HttpRouter.post("/app/teams/:teamId/tokens/new", create),
  HttpRouter.get("/app/teams/:teamId/tokens/:tokenId", page(token, details)),
  HttpRouter.post("/app/teams/:teamId/tokens/:tokenId", update),
  HttpRouter.post("/app/teams/:teamId/tokens/:tokenId/read-only", readOnly),
  HttpRouter.post("/app/teams/:teamId/tokens/:tokenId/rotate", rotate),
  HttpRouter.post("/app/teams/:teamId/tokens/:tokenId/revoke", revoke),
  HttpRouter.post("/app/teams/:teamId/tokens/:tokenId/delete", remove)
)

/** API tokens of a team: pages and forms. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { CreateApiToken, UpdateApiToken } from "#schema/ApiTokensApi.ts"
import { TokenId } from "#schema/Ids.ts"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import * as Paths from "./Paths.ts"
import { action, type AtTeam, button, page, screen, team, to, withIds } from "./Routes.ts"
import { accessOf, chosen, restrictable } from "./TokenAccess.tsx"
import { mcpOnlyIn, NewTokenPage } from "./TokenForm.tsx"
import { TokenOnce, TokenPage, TokensPage } from "./TokenViews.tsx"
import * as UseCases from "./UseCases.ts"

interface AtToken extends AtTeam {
  readonly tokenId: TokenId
}
const token = withIds(team, Schema.Struct({ tokenId: TokenId }))

const list = screen(
  ({ teamId }: AtTeam) => Effect.map(UseCases.tokens.list(teamId), (items) => ({ items })),
  TokensPage
)

const newToken = screen(
  ({ teamId }: AtTeam) =>
    Effect.gen(function* () {
      yield* UseCases.tokens.mayCreate(teamId)
      return { restrictable: yield* restrictable(teamId) }
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
        ...chosen(form, "mcpScopes"),
        mcpOnly: mcpOnlyIn(form)
      })
    ),
  run: (input, { teamId }) => UseCases.tokens.create(teamId, input),
  done: (created, { visit }) => Html.page(<TokenOnce visit={visit} token={created} replaced={false} />),
  again: newToken
})

const load = ({ teamId, tokenId }: AtToken) => UseCases.tokens.get(teamId, tokenId)
const details = screen((at: AtToken) => Effect.map(load(at), (token) => ({ token })), TokenPage)

const update = action(token, {
  decode: (form, at) =>
    Effect.flatMap(load(at), ({ mcpScopes }) =>
      Form.decode(UpdateApiToken)({
        name: form.text("name"),
        ...(mcpScopes.length === 0 ? {} : { mcpScopes: form.all("mcpScopes") })
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
  run: ({ teamId, tokenId }) => UseCases.tokens.rotate(teamId, tokenId),
  done: (rotated, { visit }) => Html.page(<TokenOnce visit={visit} token={rotated} replaced />)
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

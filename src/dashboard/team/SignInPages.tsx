/** Pages of a team's sign-in, for owners: issuers, join rules, and the use of passwords. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { uuidPattern } from "#schema/Ids.ts"
import { CreateIssuer, CreateSignInRule, RequireSignIn, UpdateIssuer } from "#schema/SignInApi.ts"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { action, type AtTeam, button, page, screen, team, to, withIds } from "#src/dashboard/frame/Routes.ts"
import { TeamSignInPage } from "./SignInViews.tsx"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

const Id = Schema.String.pipe(Schema.filter((text) => uuidPattern.test(text)))

/** `editing` names the refused form of the page. */
const settings = (editing?: "issuer" | "rule" | "only") =>
  screen(
    ({ teamId }: AtTeam) =>
      Effect.gen(function* () {
        const signIn = yield* UseCases.teamSignIn.get(teamId)
        const members = yield* UseCases.members.list(teamId)
        const { items: alarms } = yield* UseCases.auditTrail.list(teamId, {
          action: "session.break_glass",
          limit: 5
        })
        return { signIn, owners: members.filter(({ active, role }) => active && role === "owner"), alarms }
      }),
    (props) => <TeamSignInPage {...props} editing={editing} />
  )

const words = (text: string) => text.split(/[\s,]+/).filter((word) => word !== "")

const createIssuer = action(team, {
  decode: (form) => {
    const clientSecret = form.filled("clientSecret")
    const scopes = form.filled("scopes")
    return Form.decode(CreateIssuer)({
      name: form.text("name"),
      issuer: form.text("issuer").trim(),
      clientId: form.text("clientId").trim(),
      ...(clientSecret === undefined ? {} : { clientSecret }),
      ...(scopes === undefined ? {} : { scopes: words(scopes).join(" ") }),
      factors: words(form.text("factors"))
    })
  },
  run: (input, { teamId }) => UseCases.teamSignIn.createIssuer(teamId, input),
  done: (_, { teamId }) => to(Paths.teamSignIn(teamId), "issuer-created"),
  again: settings("issuer")
})

const issuer = withIds(team, Schema.Struct({ issuerId: Id }))
const updateIssuer = action(issuer, {
  decode: (form) => Form.decode(UpdateIssuer)({ enabled: form.text("enabled") === "true" }),
  run: (input, { issuerId, teamId }) => UseCases.teamSignIn.updateIssuer(teamId, issuerId, input),
  done: (_, { teamId }) => to(Paths.teamSignIn(teamId), "issuer-changed"),
  again: settings()
})
const deleteIssuer = button(issuer, {
  run: ({ issuerId, teamId }) => UseCases.teamSignIn.deleteIssuer(teamId, issuerId),
  done: (_, { teamId }) => to(Paths.teamSignIn(teamId), "issuer-deleted"),
  again: settings()
})

const createRule = action(team, {
  decode: (form) =>
    Form.decode(CreateSignInRule)({
      issuer: form.text("issuer"),
      claim: form.text("claim").trim(),
      value: form.text("value").trim(),
      role: form.text("role")
    }),
  run: (input, { teamId }) => UseCases.teamSignIn.createRule(teamId, input),
  done: (_, { teamId }) => to(Paths.teamSignIn(teamId), "join-rule-created"),
  again: settings("rule")
})
const deleteRule = button(withIds(team, Schema.Struct({ ruleId: Id })), {
  run: ({ ruleId, teamId }) => UseCases.teamSignIn.deleteRule(teamId, ruleId),
  done: (_, { teamId }) => to(Paths.teamSignIn(teamId), "join-rule-deleted")
})

const require = action(team, {
  decode: (form) =>
    Form.decode(RequireSignIn)({
      only: form.all("only").length === 0 ? null : form.all("only"),
      breakGlass: form.all("breakGlass")
    }),
  run: (input, { teamId }) => UseCases.teamSignIn.require(teamId, input),
  done: (_, { teamId }) => to(Paths.teamSignIn(teamId), "sign-in-required"),
  again: settings("only")
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/teams/:teamId/sign-in", page(team, settings())),
  HttpRouter.post("/app/teams/:teamId/sign-in/issuers", createIssuer),
  HttpRouter.post("/app/teams/:teamId/sign-in/issuers/:issuerId", updateIssuer),
  HttpRouter.post("/app/teams/:teamId/sign-in/issuers/:issuerId/delete", deleteIssuer),
  HttpRouter.post("/app/teams/:teamId/sign-in/rules", createRule),
  HttpRouter.post("/app/teams/:teamId/sign-in/rules/:ruleId/delete", deleteRule),
  HttpRouter.post("/app/teams/:teamId/sign-in/only", require)
)

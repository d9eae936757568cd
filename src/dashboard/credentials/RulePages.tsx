/** Pages and forms of trust rules. A preview shows a rule in words before its creation. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { GrantNotFound, ValidationFailed } from "#schema/Errors.ts"
import { RuleId } from "#schema/Ids.ts"
import { CreateMachineRule } from "#schema/MachineIdentityApi.ts"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { query } from "#src/dashboard/frame/Pages.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { action, type AtTeam, button, page, screen, team, to, withIds } from "#src/dashboard/frame/Routes.ts"
import { NewRulePage } from "./RuleForm.tsx"
import { RulePage, RulesPage, type RuleTerms } from "./RuleViews.tsx"
import * as Words from "./RuleWords.ts"
import { accessOf, restrictable } from "./TokenAccess.tsx"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

interface AtRule extends AtTeam {
  readonly ruleId: RuleId
}
const rule = withIds(team, Schema.Struct({ ruleId: RuleId }))

const rulesOf = (teamId: AtTeam["teamId"]) => UseCases.rules.list(teamId)

const list = screen(
  ({ teamId }: AtTeam) =>
    Effect.gen(function* () {
      return { items: yield* rulesOf(teamId), words: (yield* query).text("q").trim() }
    }),
  RulesPage
)

const newRule = (preview?: RuleTerms) =>
  screen(
    ({ teamId }: AtTeam) =>
      Effect.gen(function* () {
        yield* UseCases.rules.mayCreate(teamId)
        return { restrictable: yield* restrictable(teamId), inQuery: (yield* query).text("kind") }
      }),
    ({ inQuery, ...props }) => {
      const kind = props.form.filled("kind") ?? inQuery
      return <NewRulePage {...props} kind={Words.isKind(kind) ? kind : "github"} preview={preview} />
    }
  )

const decodeRule = Effect.fnUntraced(function* (form: Form.Form) {
  const kind = form.text("kind")
  const claims = Words.claimsOf(form, Words.isKind(kind) ? kind : "other")
  if (claims === undefined) {
    return yield* new ValidationFailed({
      field: "claims",
      message: "Write one claim per line, as name = value, and each name once."
    })
  }
  const audience = form.filled("audience")?.trim()
  return yield* Form.decode(CreateMachineRule)({
    name: form.text("name"),
    issuer: kind === "github" ? Words.githubIssuer : form.text("issuer").trim(),
    ...(audience === undefined ? {} : { audience }),
    claims,
    lifetimeSeconds: Number(form.text("lifetimeSeconds")),
    ...(yield* accessOf(form))
  })
})

const preview = Effect.fnUntraced(function* (at: AtTeam, form: Form.Form, input: CreateMachineRule) {
  yield* UseCases.rules.check(at.teamId, input)
  const { accessLevel = "read", audience = at.visit.ui.baseUrl, claims, issuer, lifetimeSeconds = 900 } = input
  const terms: RuleTerms = { issuer, audience, claims, accessLevel, lifetimeSeconds }
  return Html.page(yield* newRule(terms)(at, { form, problem: undefined }))
})

const create = action(team, {
  decode: (form) => Effect.map(decodeRule(form), (input) => ({ input, form })),
  run: ({ form, input }, at) =>
    form.text("step") === "preview"
      ? preview(at, form, input)
      : Effect.map(UseCases.rules.create(at.teamId, input), ({ id }) => to(Paths.rule(at.teamId, id), "rule-created")),
  done: (response) => response,
  again: newRule()
})

const details = screen(
  ({ ruleId, teamId }: AtRule) =>
    Effect.gen(function* () {
      const rule = (yield* rulesOf(teamId)).find(({ id }) => id === ruleId)
      if (rule === undefined) return yield* new GrantNotFound({ message: "No such trust rule." })
      const { projects } = yield* restrictable(teamId)
      const first = rule.projects?.at(0)?.id
      return { rule, project: projects.find(({ id }) => first === undefined || id === first)?.slug }
    }),
  RulePage
)

const remove = button(rule, {
  run: ({ ruleId, teamId }) => UseCases.rules.remove(teamId, ruleId),
  done: (_, { teamId }) => to(Paths.rules(teamId), "rule-deleted")
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/teams/:teamId/ci", page(team, list)),
  HttpRouter.get("/app/teams/:teamId/ci/new", page(team, newRule())),
  HttpRouter.post("/app/teams/:teamId/ci/new", create),
  HttpRouter.get("/app/teams/:teamId/ci/:ruleId", page(rule, details)),
  HttpRouter.post("/app/teams/:teamId/ci/:ruleId/delete", remove)
)

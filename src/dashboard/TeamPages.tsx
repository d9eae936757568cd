/** The team itself: its name and plan, another team, and how to begin. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import { ValidationFailed } from "#schema/Errors.ts"
import { CreateTeam, UpdateTeam } from "#schema/TeamsApi.ts"
import * as Form from "./Form.ts"
import * as Paths from "./Paths.ts"
import { action, type AtPerson, type AtTeam, page, person, plain, screen, team, to } from "./Routes.ts"
import { NewTeamPage, StartPage, TeamSettingsPage } from "./TeamViews.tsx"
import * as UseCases from "./UseCases.ts"

const settings = screen(({ teamId }: AtTeam) => Effect.as(UseCases.teams.get(teamId), {}), TeamSettingsPage)

const decodeTeam = Effect.fnUntraced(function* (form: Form.Form, { visit }: AtTeam) {
  const plan = form.filled("plan")
  const changes = plan !== undefined && plan !== visit.team.plan
  if (changes && plan === "developer" && !form.has("deleteVersions")) {
    return yield* new ValidationFailed({
      field: "plan",
      message: "To change to the Developer plan, confirm that all earlier versions are deleted."
    })
  }
  return yield* Form.decode(UpdateTeam)({ name: form.text("name"), ...(changes ? { plan } : {}) })
})

const update = action(team, {
  decode: decodeTeam,
  run: (input, { teamId }) => UseCases.teams.update(teamId, input),
  done: (_, { teamId }) => to(Paths.settings(teamId), "team-changed"),
  again: settings
})

const newTeam = plain<AtPerson>(NewTeamPage)

const create = action(person, {
  decode: (form) => Form.decode(CreateTeam)({ name: form.text("name") }),
  run: ({ name }, { visit: { caller } }) =>
    Effect.gen(function* () {
      const { id } = yield* UseCases.teams.create(name)
      // The caller of this request does not know the new team yet.
      const created = { id, name, role: "owner", plan: "developer", scopes: null } as const
      const owner = { ...caller, teams: [...caller.teams, created] }
      yield* UseCases.sessions.chooseTeam(owner, id)
    }),
  done: () => to(Paths.home, "team-created"),
  again: newTeam
})

const start = screen(
  ({ visit }: AtPerson) =>
    Effect.map(UseCases.projects.list(), (all) => ({
      slug: all.find((project) => project.teamId === visit.team?.id)?.slug
    })),
  StartPage
)

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get(Paths.newTeam, page(person, newTeam)),
  HttpRouter.post(Paths.newTeam, create),
  HttpRouter.get("/app/teams/:teamId/settings", page(team, settings)),
  HttpRouter.post("/app/teams/:teamId/settings", update),
  HttpRouter.get(Paths.start, page(person, start))
)

/**
 * Where a login or a connection of a person works: some projects and environments, or everything. Nothing is chosen
 * before, and "everything" is a choice of its own, so that the least work does not give the widest reach.
 */
import * as Effect from "effect/Effect"
import type { AnyApiError } from "#schema/ApiError.ts"
import { ValidationFailed } from "#schema/Errors.ts"
import type { ProjectId } from "#schema/Ids.ts"
import type { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import * as Ui from "./Components.tsx"
import type * as Form from "./Form.ts"
import * as Problem from "./Problem.ts"

/** Projects that a page offers for a restriction. */
export const maxOffered = 100

/** What the person can restrict it to. */
export interface Restrictable {
  readonly projects: ReadonlyArray<Project>
  readonly environments: ReadonlyMap<ProjectId, ReadonlyArray<ProjectEnvironment>>
}

/** Name of the box that chooses everything. */
export const everywhere = "everywhere"

/** The lists that were chosen; undefined for one that narrows nothing. Fails when nothing at all is chosen. */
export const reachOf = (form: Form.Form) => {
  const chosen = (name: string) => (form.has(name) ? form.all(name) : undefined)
  const reach = { projectIds: chosen("projectIds"), environmentIds: chosen("environmentIds") }
  const narrowed = reach.projectIds !== undefined || reach.environmentIds !== undefined
  return narrowed || form.has(everywhere)
    ? Effect.succeed(reach)
    : Effect.fail(
        new ValidationFailed({ field: everywhere, message: "Choose projects or environments, or choose everything." })
      )
}

/** Whether the problem is shown beside these fields. */
export const isAboutReach = (problem: AnyApiError | undefined) => Problem.about(problem, everywhere) !== undefined

export const ReachFields = ({
  form,
  labelOf,
  problem,
  restrictable: { environments, projects }
}: {
  readonly form: Form.Form | undefined
  /** How a project is told from one of the same slug in another team. */
  readonly labelOf: (project: Project) => string
  readonly problem: AnyApiError | undefined
  readonly restrictable: Restrictable
}) => {
  const listed = projects.slice(0, maxOffered)
  const ticked = (name: string, value: string) => form?.all(name).includes(value) === true
  const error = Problem.about(problem, everywhere)
  return (
    <section class="part">
      <h2>Where it works</h2>
      {error === undefined ? null : (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      <Ui.CheckBox
        name={everywhere}
        checked={form?.has(everywhere) === true}
        hint="Protected environments too, and each project and environment that is added later. What you choose below narrows it."
      >
        Everything in the teams above
      </Ui.CheckBox>
      {listed.length === 0 ? null : (
        <>
          <fieldset class="part">
            <legend>Only these projects</legend>
            <div class="checks">
              {listed.map((project) => (
                <Ui.CheckBox name="projectIds" value={project.id} checked={ticked("projectIds", project.id)}>
                  <bdi>{project.name}</bdi> <code class="hint">{labelOf(project)}</code>
                </Ui.CheckBox>
              ))}
            </div>
          </fieldset>
          <fieldset class="part">
            <legend>Only these environments</legend>
            <p class="hint">If you choose projects and environments, it works only in what is in both.</p>
            <div class="checks">
              {listed.flatMap((project) =>
                (environments.get(project.id) ?? []).map((environment) => (
                  <Ui.CheckBox
                    name="environmentIds"
                    value={environment.id}
                    checked={ticked("environmentIds", environment.id)}
                  >
                    {labelOf(project)} / {environment.slug}{" "}
                    {environment.protected ? <Ui.Badge tone="amber">protected</Ui.Badge> : null}
                  </Ui.CheckBox>
                ))
              )}
            </div>
          </fieldset>
        </>
      )}
    </section>
  )
}

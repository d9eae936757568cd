/**
 * Fields for the reach of a login or a connection: some projects and environments, or everything. Nothing is
 * preselected, and "everything" is an explicit choice, so that the least effort does not grant the widest reach.
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

/** Projects and environments that the person can choose. */
export interface Restrictable {
  readonly projects: ReadonlyArray<Project>
  readonly environments: ReadonlyMap<ProjectId, ReadonlyArray<ProjectEnvironment>>
}

/** Name of the box that chooses everything. */
export const everywhere = "everywhere"

/** The chosen lists; undefined for a list without a choice. Fails without any choice. */
export const reachOf = (form: Form.Form) => {
  const values = (name: string) => (form.has(name) ? form.all(name) : undefined)
  const reach = { projectIds: values("projectIds"), environmentIds: values("environmentIds") }
  const narrowed = reach.projectIds !== undefined || reach.environmentIds !== undefined
  return narrowed || form.has(everywhere)
    ? Effect.succeed(reach)
    : Effect.fail(
        new ValidationFailed({ field: everywhere, message: "Choose projects or environments, or choose everything." })
      )
}

/** True if these fields show the problem. */
export const isAboutReach = (problem: AnyApiError | undefined) => Problem.about(problem, everywhere) !== undefined

export const ReachFields = ({
  form,
  labelOf,
  problem,
  restrictable: { environments, projects }
}: {
  readonly form: Form.Form | undefined
  /** Label that distinguishes projects with the same slug in different teams. */
  readonly labelOf: (project: Project) => string
  readonly problem: AnyApiError | undefined
  readonly restrictable: Restrictable
}) => {
  const offered = projects.slice(0, maxOffered)
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
        hint="Includes protected environments, and projects and environments that are added later. Choices below narrow it."
      >
        Everything in the teams above
      </Ui.CheckBox>
      {offered.length === 0 ? null : (
        <>
          <fieldset class="part">
            <legend>Only these projects</legend>
            <div class="checks">
              {offered.map((project) => (
                <Ui.CheckBox name="projectIds" value={project.id} checked={ticked("projectIds", project.id)}>
                  <bdi>{project.name}</bdi> <code class="hint">{labelOf(project)}</code>
                </Ui.CheckBox>
              ))}
            </div>
          </fieldset>
          <fieldset class="part">
            <legend>Only these environments</legend>
            <p class="hint">If you choose both projects and environments, it works only where both apply.</p>
            <div class="checks">
              {offered.flatMap((project) =>
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

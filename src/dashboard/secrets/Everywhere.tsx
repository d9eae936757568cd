/** A key in the other environments of its project, and the form for a generated value. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { ChangeSecrets } from "#schema/ProjectChangesApi.ts"
import type { ProjectEnvironment } from "#schema/ProjectsApi.ts"
import { EnvironmentSlug, SecretKey } from "#schema/Values.ts"
import { charsets } from "#schema/ValueSource.ts"
import { maxMatrixColumns } from "#src/secrets/SecretStore.ts"
import { here, type SecretDetails } from "./AtSecret.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { rightsAt } from "#src/dashboard/frame/EnvironmentFrame.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { SecretValue } from "./Value.tsx"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

export interface Elsewhere {
  readonly environment: ProjectEnvironment
  readonly isThere: boolean
}

/** The other environments, and whether they have the key. */
export const elsewhereOf = Effect.fnUntraced(function* ({ location, node }: SecretDetails) {
  const { environment, environments, project } = location
  const key = Schema.decodeSync(SecretKey)(node.key)
  const others = environments.filter(({ id }) => id !== environment.id).slice(0, maxMatrixColumns)
  return yield* Effect.forEach(others, (one) =>
    Effect.map(
      UseCases.secretReads.check({ projectId: project.id, environment: EnvironmentSlug.make(one.slug), keys: [key] }),
      ({ present }): Elsewhere => ({ environment: one, isThere: present.length > 0 })
    )
  )
})

const There = ({ of: { environment }, details }: { readonly of: Elsewhere; readonly details: SecretDetails }) => {
  const { location, node } = details
  const path = { projectId: location.project.id, slug: environment.slug }
  return rightsAt(location.visit, location.project, environment).readsValues ? (
    <SecretValue action={`${Paths.environment(path)}/reveal`} secretKey={node.key} />
  ) : (
    <span class="hint">not readable by you</span>
  )
}

const NotThere = ({ of: { environment }, details }: { readonly of: Elsewhere; readonly details: SecretDetails }) => {
  const { location, node } = details
  const path = { projectId: location.project.id, slug: environment.slug }
  return rightsAt(location.visit, location.project, environment).writes ? (
    <a href={`${Paths.environment(path)}?panel=add&key=${node.key}`}>
      + Add<span class="hidden"> {`${node.key} to ${environment.name}`}</span>
    </a>
  ) : (
    <span class="hint">missing</span>
  )
}

export const ElsewherePanel = ({
  elsewhere,
  ...details
}: SecretDetails & { readonly elsewhere: ReadonlyArray<Elsewhere> }) =>
  elsewhere.length === 0 ? null : (
    <section class="panel" aria-labelledby="elsewhere">
      <h2 id="elsewhere">In the other environments</h2>
      <dl class="facts">
        {elsewhere.map((one) => (
          <Ui.Fact
            name={
              one.isThere ? (
                <a
                  href={Paths.key(
                    { projectId: details.location.project.id, slug: one.environment.slug },
                    details.node.key
                  )}
                >
                  <bdi>{one.environment.name}</bdi>
                </a>
              ) : (
                <bdi>{one.environment.name}</bdi>
              )
            }
          >
            {one.isThere ? (
              <div data-secret>
                <There of={one} details={details} />
              </div>
            ) : (
              <NotThere of={one} details={details} />
            )}
          </Ui.Fact>
        ))}
      </dl>
      <p class="hint">
        <a href={`${Paths.environment(details.location.path)}/access`}>
          Who can read it in {details.location.environment.name}
        </a>
      </p>
    </section>
  )

const lengths = ["16", "24", "32", "48", "64", "128"]

export const GenerateForm = (details: SecretDetails) => (
  <details class="confirm">
    <summary class="button button-plain">Generate a value</summary>
    <form method="post" action={`${here(details)}/generate`} class="confirm-panel confirm-plain">
      <p>
        The server generates a random value and saves it as a new version. The value stays hidden until you reveal it.
      </p>
      <input type="hidden" name="expectedVersion" value={String(details.currentVersion)} />
      <Ui.Select
        name="length"
        label="Characters"
        choices={lengths.map((value) => ({ value, label: value }))}
        value="32"
      />
      <Ui.Select
        name="charset"
        label="Alphabet"
        choices={Object.keys(charsets).map((value) => ({ value, label: value }))}
        value="alphanumeric"
      />
      <Ui.Submit>Generate and save</Ui.Submit>
    </form>
  </details>
)

export const decodeGenerate = (form: Form.Form, { location, node }: SecretDetails) =>
  Form.decode(ChangeSecrets)({
    entries: [
      {
        environment: location.environment.slug,
        key: node.key,
        op: "set",
        generate: { length: Number(form.text("length")), charset: form.text("charset") },
        expectedVersion: Number(form.text("expectedVersion"))
      }
    ]
  })

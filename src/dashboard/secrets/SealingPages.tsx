/** Pages and forms of the keypair that seals files of an environment. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { EnvironmentKeypair } from "#schema/SealedApi.ts"
import { SealingKeyId } from "#schema/Values.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as CopyText from "#src/dashboard/frame/CopyText.tsx"
import {
  type AtEnvironment,
  environment,
  EnvironmentFrame,
  type Location
} from "#src/dashboard/frame/EnvironmentFrame.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { button, page, screen, to, withIds } from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import { may } from "#src/dashboard/frame/Visit.ts"

type SealingKey = EnvironmentKeypair & { readonly state: "active" | "open_only" | "retired" }

const State = ({ state }: { readonly state: SealingKey["state"] }) =>
  state === "active" ? (
    <Ui.Badge tone="ok">active</Ui.Badge>
  ) : state === "open_only" ? (
    <Ui.Badge tone="amber">opens only</Ui.Badge>
  ) : (
    <Ui.Badge>retired</Ui.Badge>
  )

const PublicKey = ({ active }: { readonly active: EnvironmentKeypair }) => (
  <section class="panel">
    <h2>Public key</h2>
    <p class="hint">Anyone who has it can seal values for this environment. Only this server can open them.</p>
    <dl class="facts section-small">
      <Ui.Fact name="Key" is={<code>{active.keyId}</code>} />
      <Ui.Fact name="Public half" is={<code>{active.publicKey}</code>} />
      <Ui.Fact name="Environment" is={<code>{active.environmentId}</code>} />
      <Ui.Fact name="Algorithm" is={<code>{active.algorithm}</code>} />
    </dl>
  </section>
)

const Usage = ({ location: { environment, project } }: { readonly location: Location }) => (
  <section class="panel">
    <h2>Usage</h2>
    <p>Seal a .env file, commit it, and run a program with it:</p>
    <div class="stack section-small">
      <CopyText.Command>{`ampoule seal --project ${project.slug} --env ${environment.slug} .env > .env.sealed`}</CopyText.Command>
      <CopyText.Command>{"ampoule run --sealed .env.sealed -- npm start"}</CopyText.Command>
    </div>
    <p class="hint section-small">
      A sealed value does not show who sealed it: review changes to sealed files as you review code.
    </p>
  </section>
)

const Keys = ({ keys, location }: { readonly location: Location; readonly keys: ReadonlyArray<SealingKey> }) => {
  const here = `${Paths.environment(location.path)}/sealing`
  const manages = may(location.visit, "sealing-keys:manage")
  return (
    <section class="section">
      <h2>Keys</h2>
      <Ui.Table label="Keys" head={["Key", "State", "Since", ""]}>
        {keys.map((key) => (
          <tr>
            <th scope="row">
              <code>{key.keyId}</code>
            </th>
            <td data-label="State">
              <State state={key.state} />
            </td>
            <td data-label="Since">
              <Ui.Ago at={key.createdAt} now={location.visit.now} />
            </td>
            <td class="end">
              {manages && key.state === "open_only" ? (
                <Ui.Confirm action={`${here}/${key.keyId}/retire`} label="Retire" verb={`Retire ${key.keyId}`}>
                  <p>Files that are still sealed with this key can no longer be opened. Seal them again first.</p>
                </Ui.Confirm>
              ) : null}
            </td>
          </tr>
        ))}
      </Ui.Table>
      {manages ? (
        <div class="section">
          <Ui.Confirm action={`${here}/rotate`} label="Rotate the key" tone="plain" verb="Create a new key">
            <p>New values are sealed with the new key. The current key still opens files until you retire it.</p>
          </Ui.Confirm>
        </div>
      ) : (
        <Ui.Callout>Owners and admins can rotate and retire keys.</Ui.Callout>
      )}
    </section>
  )
}

const SealingPage = ({
  active,
  keys,
  location
}: {
  readonly location: Location
  readonly active: EnvironmentKeypair
  readonly keys: ReadonlyArray<SealingKey>
}) => (
  <EnvironmentFrame location={location} view="sealing" title="Sealed files">
    <div class="columns">
      <PublicKey active={active} />
      <Usage location={location} />
    </div>
    <Keys location={location} keys={keys} />
  </EnvironmentFrame>
)

const key = withIds(environment, Schema.Struct({ keyId: SealingKeyId }))

const keys = screen(
  ({ location: { environment } }: AtEnvironment) =>
    Effect.gen(function* () {
      // Runs first, because the first visit creates the keypair.
      const active = yield* UseCases.sealingKeys.keypair(environment.id)
      return { active, keys: yield* UseCases.sealingKeys.list(environment.id) }
    }),
  SealingPage
)

const here = ({ location }: AtEnvironment) => `${Paths.environment(location.path)}/sealing`

const rotate = button(environment, {
  run: ({ location: { environment } }) => UseCases.sealingKeys.rotate(environment.id),
  done: (_, at) => to(here(at), "key-rotated")
})

const retire = button(key, {
  run: ({ keyId, location: { environment } }) => UseCases.sealingKeys.retire(environment.id, keyId),
  done: (_, at) => to(here(at), "key-retired")
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/projects/:projectId/env/:slug/sealing", page(environment, keys)),
  HttpRouter.post("/app/projects/:projectId/env/:slug/sealing/rotate", rotate),
  HttpRouter.post("/app/projects/:projectId/env/:slug/sealing/:keyId/retire", retire)
)

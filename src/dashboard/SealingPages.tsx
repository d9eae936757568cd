/** The keypair that seals files of an environment (decisions 5): what to commit, and how the key changes. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import type { EnvironmentKeypair } from "#schema/SealedApi.ts"
import { SealingKeyId } from "#schema/Values.ts"
import { SealingKeys } from "#src/projects/SealingKeys.ts"
import { Ago, Badge, Callout, Command, Confirm, Table } from "./Components.tsx"
import * as Html from "./Html.ts"
import { withNotice } from "./Notices.ts"
import { type Pages, param } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import { make as makePlace, type Place, PlacePage } from "./Place.tsx"
import { may } from "./Visit.ts"

type Listed = EnvironmentKeypair & { readonly state: "active" | "open_only" | "retired" }

const State = ({ state }: { readonly state: Listed["state"] }) =>
  state === "active" ? (
    <Badge tone="ok">active</Badge>
  ) : state === "open_only" ? (
    <Badge tone="amber">opens only</Badge>
  ) : (
    <Badge>retired</Badge>
  )

const SealingPage = ({
  active,
  keys,
  place
}: {
  readonly place: Place
  readonly active: EnvironmentKeypair
  readonly keys: ReadonlyArray<Listed>
}) => {
  const here = `${Paths.environment(place.at)}/sealing`
  const manages = may(place.visit, "sealing-keys:manage")
  return (
    <PlacePage place={place} view="sealing" title="Sealed files">
      <div class="columns">
        <section class="panel">
          <h2>Public key</h2>
          <p class="hint">Whoever has it can seal values for this environment. Only this server can open them.</p>
          <dl class="facts section-small">
            <dt>Key</dt>
            <dd>
              <code>{active.keyId}</code>
            </dd>
            <dt>Public half</dt>
            <dd>
              <code>{active.publicKey}</code>
            </dd>
            <dt>Environment</dt>
            <dd>
              <code>{active.environmentId}</code>
            </dd>
            <dt>Algorithm</dt>
            <dd>
              <code>{active.algorithm}</code>
            </dd>
          </dl>
        </section>
        <section class="panel">
          <h2>Use</h2>
          <p>Seal a .env file, commit it, and run with it:</p>
          <div class="stack section-small">
            <Command>{`ampoule seal --project ${place.project.slug} --env ${place.at.slug} .env > .env.sealed`}</Command>
            <Command>{"ampoule run --sealed .env.sealed -- npm start"}</Command>
          </div>
          <p class="hint section-small">
            Sealing proves nothing about who sealed a value: review changes of sealed files like code.
          </p>
        </section>
      </div>
      <section class="section">
        <h2>Keys</h2>
        <Table label="Keys" head={["Key", "State", "Since", ""]}>
          {keys.map((key) => (
            <tr>
              <th scope="row">
                <code>{key.keyId}</code>
              </th>
              <td data-label="State">
                <State state={key.state} />
              </td>
              <td data-label="Since">
                <Ago at={key.createdAt} now={place.visit.now} />
              </td>
              <td class="end">
                {manages && key.state === "open_only" ? (
                  <Confirm action={`${here}/${key.keyId}/retire`} label="Retire" verb={`Retire ${key.keyId}`}>
                    <p>Files that are still sealed with it cannot be opened any more. Seal them again first.</p>
                  </Confirm>
                ) : null}
              </td>
            </tr>
          ))}
        </Table>
        {manages ? (
          <div class="section">
            <Confirm action={`${here}/rotate`} label="Rotate the key" tone="plain" verb="Make a new key">
              <p>
                A new key becomes the one that seals. Files sealed with the present one still open, until you retire it.
              </p>
            </Confirm>
          </div>
        ) : (
          <Callout>Owners and admins rotate and retire keys.</Callout>
        )}
      </section>
    </PlacePage>
  )
}

export const routes = (pages: Pages["Type"]) =>
  Effect.gen(function* () {
    const sealingKeys = yield* SealingKeys
    const placeOf = yield* makePlace(pages)

    const view = pages.person((visit) =>
      Effect.gen(function* () {
        const place = yield* placeOf(visit)
        const active = yield* sealingKeys.keypair(place.environment.id)
        const keys = yield* sealingKeys.list(place.environment.id)
        return Html.page(<SealingPage place={place} active={active} keys={keys} />)
      })
    )
    const rotate = pages.person((visit) =>
      Effect.gen(function* () {
        const place = yield* placeOf(visit)
        yield* sealingKeys.rotate(place.environment.id)
        return Html.seeOther(withNotice(`${Paths.environment(place.at)}/sealing`, "key-rotated"))
      })
    )
    const retire = pages.person((visit) =>
      Effect.gen(function* () {
        const place = yield* placeOf(visit)
        const keyId = yield* param("keyId", SealingKeyId)
        yield* sealingKeys.retire(place.environment.id, keyId)
        return Html.seeOther(withNotice(`${Paths.environment(place.at)}/sealing`, "key-retired"))
      })
    )

    return HttpRouter.empty.pipe(
      HttpRouter.get("/app/projects/:projectId/env/:slug/sealing", view),
      HttpRouter.post("/app/projects/:projectId/env/:slug/sealing/rotate", rotate),
      HttpRouter.post("/app/projects/:projectId/env/:slug/sealing/:keyId/retire", retire)
    )
  })

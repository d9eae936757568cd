/** One secret: its value, its text, what it uses and what uses it, its history, its end; and deleted ones. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { AnyApiError } from "#schema/ApiError.ts"
import { SecretNotFound, ValidationFailed } from "#schema/Errors.ts"
import { SecretId } from "#schema/Ids.ts"
import {
  type DeletedSecretList,
  RollbackSecret,
  type SecretCompositionGraph,
  type SecretVersionList,
  UpdateSecret
} from "#schema/SecretsApi.ts"
import { Disposition } from "#schema/Values.ts"
import { Secrets } from "#src/secrets/Secrets.ts"
import {
  Act,
  Ago,
  Badge,
  CheckBox,
  Empty,
  KeyName,
  ProblemNote,
  Select,
  Table,
  TextArea,
  Until
} from "./Components.tsx"
import { asJson, kinds, revealed } from "./EnvironmentPages.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import { Layout } from "./Layout.tsx"
import { withNotice } from "./Notices.ts"
import { attempt, type Pages, param, shown, wantsJson } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import { make as makePlace, type Place, PlacePage } from "./Place.tsx"
import { type Revealed, SecretValue } from "./SecretValue.tsx"

interface Shown {
  readonly place: Place
  readonly id: SecretId
  readonly graph: SecretCompositionGraph
  readonly versions: SecretVersionList["items"]
  readonly revealed?: Revealed | undefined
  /** Which form the problem belongs to. */
  readonly doing?: "edit" | "rollback" | "delete"
  readonly problem?: AnyApiError | undefined
}

const KeyLinks = ({
  graph,
  keys,
  place
}: {
  readonly place: Place
  readonly graph: SecretCompositionGraph
  readonly keys: ReadonlyArray<string>
}) => (
  <ul class="keys">
    {keys.map((key) => {
      const id = graph.nodes.find((node) => node.key === key)?.id
      return (
        <li>
          {id === undefined ? (
            <code>{key}</code>
          ) : (
            <a href={Paths.secret(place.at, id)}>
              <code>{key}</code>
            </a>
          )}
        </li>
      )
    })}
  </ul>
)

const SecretPage = ({ doing, graph, id, place, problem, revealed, versions }: Shown) => {
  const node = graph.nodes.find((one) => one.id === id)
  const [current] = versions
  if (node === undefined || current === undefined) return <p>There is no such secret.</p>
  const { key } = node
  const here = Paths.secret(place.at, id)
  const uses = graph.edges.filter((edge) => edge.from === key).map((edge) => edge.to)
  const usedBy = graph.edges.filter((edge) => edge.to === key).map((edge) => edge.from)
  const editing = doing === "edit" ? problem : undefined
  const source = revealed?.representation === "source" ? revealed.text : undefined
  return (
    <Layout
      visit={place.visit}
      section="projects"
      title={key}
      heading={
        <span class="key">
          <KeyName name={key} />
        </span>
      }
      lead={
        <span class="badges">
          {node.kind === "template" ? <Badge tone="accent">template</Badge> : <Badge>plain text</Badge>}
          <Badge>version {current.version}</Badge>
          {place.environment.protected ? <Badge tone="amber">protected environment</Badge> : null}
        </span>
      }
      crumbs={[
        { href: Paths.home, label: "Projects" },
        { href: Paths.project(place.project.id), label: place.project.name },
        { href: Paths.environment(place.at), label: place.environment.name }
      ]}
    >
      <div class="columns" data-secret>
        <div>
          <section class="panel" aria-label="Value">
            <h2>{node.kind === "template" ? "Value, references expanded" : "Value"}</h2>
            {place.readsValues ? (
              <SecretValue
                action={`${here}/reveal`}
                secretKey={key}
                revealed={revealed?.representation === "materialized" ? revealed : undefined}
              />
            ) : (
              <p class="hint">Your role in this team reads names only.</p>
            )}
          </section>
          {place.writes ? (
            <section class="panel" aria-labelledby="edit">
              <h2 id="edit">Edit</h2>
              {editing?.field === "value" || editing?.field === "kind" ? null : <ProblemNote problem={editing} />}
              {/* The text as written is a value as well: it is asked for like one. */}
              <form method="post" action={`${here}/reveal`} data-source-form class="buttons-top">
                <input type="hidden" name="key" value={key} />
                <input type="hidden" name="representation" value="source" />
                <button class="button button-plain without-script">Show the current text in the field</button>
                <button type="button" class="button button-plain needs-script" data-load-into="f-value">
                  Load the current text
                </button>
              </form>
              <form method="post" action={`${here}/edit`}>
                <input type="hidden" name="expectedVersion" value={String(current.version)} />
                <TextArea
                  name="value"
                  label="New text"
                  rows={4}
                  optional
                  value={source}
                  hint={
                    editing === undefined
                      ? "Replaces the text and makes a new version; the earlier one stays in the history."
                      : "What was typed is not sent back to the page. Please enter it again."
                  }
                  problem={editing}
                />
                <CheckBox name="empty">The text shall be empty</CheckBox>
                <Select name="kind" label="Kind" choices={kinds} value="" problem={editing} />
                <div class="buttons">
                  <button class="button button-primary">Save a new version</button>
                </div>
              </form>
            </section>
          ) : null}
        </div>
        <div>
          <section class="panel" aria-labelledby="references">
            <h2 id="references">References</h2>
            <dl class="facts">
              <dt>Uses</dt>
              <dd>
                {uses.length === 0 ? (
                  <span class="hint">nothing</span>
                ) : (
                  <KeyLinks place={place} graph={graph} keys={uses} />
                )}
              </dd>
              <dt>Used by</dt>
              <dd>
                {usedBy.length === 0 ? (
                  <span class="hint">nothing</span>
                ) : (
                  <KeyLinks place={place} graph={graph} keys={usedBy} />
                )}
              </dd>
            </dl>
          </section>
          <section class="panel" aria-labelledby="history">
            <h2 id="history">History</h2>
            {doing === "rollback" ? <ProblemNote problem={problem} /> : null}
            <ol class="history">
              {versions.map((version, i) => (
                <li>
                  <div>
                    <strong>v{version.version}</strong> {i === 0 ? <Badge tone="ok">current</Badge> : null}{" "}
                    {version.kind === "template" ? <Badge tone="accent">template</Badge> : null}{" "}
                    {version.deleted ? <Badge tone="danger">deleted</Badge> : null}
                    <span class="refs hint">
                      <Ago at={version.createdAt} now={place.visit.now} /> by{" "}
                      {version.createdBy.name ?? version.createdBy.type}
                    </span>
                  </div>
                  {place.writes && i > 0 && !version.deleted ? (
                    <Act
                      action={`${here}/rollback`}
                      fields={{ version: String(version.version), expectedVersion: String(current.version) }}
                      kind="quiet"
                    >
                      Roll back<span class="hidden"> to version {version.version}</span>
                    </Act>
                  ) : null}
                </li>
              ))}
            </ol>
            {place.visit.team?.plan === "developer" ? (
              <p class="hint">On the Developer plan only the current version is kept.</p>
            ) : null}
          </section>
        </div>
      </div>
      {place.writes ? (
        <section class="section panel panel-danger" aria-labelledby="delete">
          <h2 id="delete">Delete</h2>
          {doing === "delete" ? <ProblemNote problem={problem} /> : null}
          <details class="confirm" open={doing === "delete"}>
            <summary class="button button-danger-quiet">Delete this secret</summary>
            <form method="post" action={`${here}/delete`} class="confirm-panel">
              {usedBy.length === 0 ? (
                <p>No other secret uses it. It can be restored for 30 days.</p>
              ) : (
                <>
                  <p>{usedBy.length === 1 ? "One secret uses it:" : `${usedBy.length} secrets use it:`}</p>
                  <KeyLinks place={place} graph={graph} keys={usedBy} />
                  <fieldset>
                    <legend>What happens to them?</legend>
                    <CheckBox
                      type="radio"
                      name="disposition"
                      value="flatten"
                      checked
                      hint="The present value of this secret is written into them in place of the reference."
                    >
                      Keep them, with their current text
                    </CheckBox>
                    <CheckBox type="radio" name="disposition" value="cascade" hint="And whatever uses them in turn.">
                      Delete them too
                    </CheckBox>
                  </fieldset>
                </>
              )}
              <button class="button button-danger">Delete {key}</button>
            </form>
          </details>
        </section>
      ) : null}
    </Layout>
  )
}

const DeletedPage = ({
  items,
  place,
  problem
}: {
  readonly place: Place
  readonly items: DeletedSecretList["items"]
  readonly problem?: AnyApiError | undefined
}) => (
  <PlacePage place={place} view="deleted" title="Deleted secrets">
    <ProblemNote problem={problem} />
    {items.length === 0 ? (
      <Empty title="Nothing deleted">
        <p>Deleted secrets stay here for 30 days and can be restored.</p>
      </Empty>
    ) : (
      <Table label="Deleted secrets" head={["Key", "Deleted", "Gone for good", ""]}>
        {items.map((item) => (
          <tr>
            <th scope="row">
              <span class="key">
                <KeyName name={item.key} />
              </span>{" "}
              <span class="hint">v{item.version}</span>
            </th>
            <td data-label="Deleted">
              <Ago at={item.deletedAt} now={place.visit.now} />
            </td>
            <td data-label="Gone for good">
              <Until at={item.purgeAt} now={place.visit.now} />
            </td>
            <td class="end">
              {place.writes ? (
                <Act action={`${Paths.environment(place.at)}/deleted/${item.id}/restore`}>
                  Restore<span class="hidden"> {item.key}</span>
                </Act>
              ) : null}
            </td>
          </tr>
        ))}
      </Table>
    )}
  </PlacePage>
)

export const routes = (pages: Pages["Type"]) =>
  Effect.gen(function* () {
    const secrets = yield* Secrets
    const placeOf = yield* makePlace(pages)
    const secretId = param("secretId", SecretId)

    /** The place in the path and the secret must belong together. */
    const load = Effect.fnUntraced(function* (place: Place) {
      const id = yield* secretId
      const graph = yield* secrets.composition(place.query)
      if (!graph.nodes.some((node) => node.id === id)) return yield* new SecretNotFound()
      const { items } = yield* secrets.versions(id)
      return { place, id, graph, versions: items }
    })

    const view = pages.person((visit) =>
      Effect.gen(function* () {
        return Html.page(<SecretPage {...yield* load(yield* placeOf(visit))} />)
      })
    )

    const reveal = pages.person((visit) =>
      Effect.gen(function* () {
        const place = yield* placeOf(visit)
        const answer = yield* revealed(secrets, place, yield* Form.read)
        return (yield* wantsJson) ? asJson(answer) : Html.page(<SecretPage {...yield* load(place)} revealed={answer} />)
      })
    )

    const edit = pages.person((visit) =>
      Effect.gen(function* () {
        const place = yield* placeOf(visit)
        const id = yield* secretId
        const form = yield* Form.read
        const kind = form.filled("kind")
        const value = form.text("value")
        // A field that was left empty by mistake must not empty the secret; with a kind it means the text that stands.
        const written = value !== "" || form.has("empty")
        const done = yield* attempt(
          Effect.gen(function* () {
            if (!written && kind === undefined) {
              return yield* new ValidationFailed({
                field: "value",
                message: "Enter a text, or say that it shall be empty"
              })
            }
            const body = yield* Form.decode(UpdateSecret)({
              ...(written ? { value } : {}),
              ...(kind === undefined ? {} : { kind }),
              expectedVersion: Number(form.text("expectedVersion"))
            })
            return yield* secrets.update(id, body)
          })
        )
        return Either.isRight(done)
          ? Html.seeOther(withNotice(Paths.secret(place.at, id), "secret-changed"))
          : shown(<SecretPage {...yield* load(place)} doing="edit" problem={done.left} />, done.left)
      })
    )

    const rollback = pages.person((visit) =>
      Effect.gen(function* () {
        const place = yield* placeOf(visit)
        const id = yield* secretId
        const form = yield* Form.read
        const done = yield* attempt(
          Form.decode(RollbackSecret)({
            version: Number(form.text("version")),
            expectedVersion: Number(form.text("expectedVersion"))
          }).pipe(Effect.flatMap((body) => secrets.rollback(id, body)))
        )
        return Either.isRight(done)
          ? Html.seeOther(withNotice(Paths.secret(place.at, id), "secret-rolled-back"))
          : shown(<SecretPage {...yield* load(place)} doing="rollback" problem={done.left} />, done.left)
      })
    )

    const remove = pages.person((visit) =>
      Effect.gen(function* () {
        const place = yield* placeOf(visit)
        const id = yield* secretId
        const form = yield* Form.read
        const disposition = form.filled("disposition")
        const done = yield* attempt(
          Effect.gen(function* () {
            const chosen = disposition === undefined ? undefined : yield* Form.decode(Disposition)(disposition)
            return yield* secrets.remove(id, chosen)
          })
        )
        return Either.isRight(done)
          ? Html.seeOther(withNotice(Paths.environment(place.at), "secret-deleted"))
          : shown(<SecretPage {...yield* load(place)} doing="delete" problem={done.left} />, done.left)
      })
    )

    const deleted = pages.person((visit) =>
      Effect.gen(function* () {
        const place = yield* placeOf(visit)
        const { items } = yield* secrets.listDeleted(place.query)
        return Html.page(<DeletedPage place={place} items={items} />)
      })
    )

    const restore = pages.person((visit) =>
      Effect.gen(function* () {
        const place = yield* placeOf(visit)
        const id = yield* secretId
        const done = yield* attempt(secrets.restore(id))
        if (Either.isRight(done)) return Html.seeOther(withNotice(Paths.secret(place.at, id), "secret-restored"))
        const { items } = yield* secrets.listDeleted(place.query)
        return shown(<DeletedPage place={place} items={items} problem={done.left} />, done.left)
      })
    )

    return HttpRouter.empty.pipe(
      HttpRouter.get("/app/projects/:projectId/env/:slug/secrets/:secretId", view),
      HttpRouter.post("/app/projects/:projectId/env/:slug/secrets/:secretId/reveal", reveal),
      HttpRouter.post("/app/projects/:projectId/env/:slug/secrets/:secretId/edit", edit),
      HttpRouter.post("/app/projects/:projectId/env/:slug/secrets/:secretId/rollback", rollback),
      HttpRouter.post("/app/projects/:projectId/env/:slug/secrets/:secretId/delete", remove),
      HttpRouter.get("/app/projects/:projectId/env/:slug/deleted", deleted),
      HttpRouter.post("/app/projects/:projectId/env/:slug/deleted/:secretId/restore", restore)
    )
  })

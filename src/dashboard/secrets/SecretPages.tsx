/** One secret, and the deleted ones of an environment: pages and forms. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { AnyApiError } from "#schema/ApiError.ts"
import { ValidationFailed } from "#schema/Errors.ts"
import type { SecretId } from "#schema/Ids.ts"
import { UpdateSecret } from "#schema/SecretRequests.ts"
import type { DeletedSecretList, DescribedSecret } from "#schema/SecretResponses.ts"
import { Disposition } from "#schema/Values.ts"
import { type AtSecret, here, load, secret, type SecretDetails, usedBy, versionBefore } from "./AtSecret.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import {
  type AtEnvironment,
  environment,
  EnvironmentFrame,
  type Location
} from "#src/dashboard/frame/EnvironmentFrame.tsx"
import { asJson, reveal } from "./EnvironmentPages.tsx"
import { ExposurePanel, sentenceOf } from "./ExposurePages.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import { wantsJson } from "#src/dashboard/frame/Pages.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { action, type Attempt, button, page, screen, to, untouched } from "#src/dashboard/frame/Routes.ts"
import { AboutPanel, decodeAbout } from "./SecretAbout.tsx"
import { decodeGenerate, type Elsewhere, ElsewherePanel, elsewhereOf, GenerateForm } from "./SecretEverywhere.tsx"
import { EnterAgain, kinds } from "./SecretForms.tsx"
import { decodeRename, RenamePanel } from "./SecretRename.tsx"
import { HistoryPanel, Undo } from "./SecretVersions.tsx"
import { type RevealedValue, SecretValue } from "./SecretValue.tsx"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

/** Which form of the page was refused. */
type Editing = "about" | "edit" | "rename" | "delete"

interface Shown extends SecretDetails {
  /** Who was handed it; undefined: not for this person. */
  readonly exposure: string | undefined
  readonly elsewhere: ReadonlyArray<Elsewhere>
  readonly about: DescribedSecret
  readonly revealed?: RevealedValue | undefined
  readonly editing?: Editing | undefined
  readonly attempt: Attempt
}

const problemOf = ({ attempt, editing }: Shown, form: Editing): AnyApiError | undefined =>
  editing === form ? attempt.problem : undefined

const KeyLinks = ({ graph, keys, location }: SecretDetails & { readonly keys: ReadonlyArray<string> }) => {
  const idOf = (key: string): SecretId | undefined => graph.nodes.find((node) => node.key === key)?.id
  return (
    <ul class="keys">
      {keys.map((key) => {
        const id = idOf(key)
        return (
          <li>
            {id === undefined ? (
              <code>{key}</code>
            ) : (
              <a href={Paths.secret(location.path, id)}>
                <code>{key}</code>
              </a>
            )}
          </li>
        )
      })}
    </ul>
  )
}

const ValuePanel = (shown: Shown) => {
  const { location, node, revealed } = shown
  return (
    <section class="panel" aria-label="Value">
      <h2>{node.kind === "template" ? "Value, references expanded" : "Value"}</h2>
      {location.readsValues ? (
        <SecretValue
          action={`${here(shown)}/reveal`}
          secretKey={node.key}
          revealed={revealed?.representation === "materialized" ? revealed : undefined}
        />
      ) : (
        <p class="hint">Your role in this team can read names, but not values.</p>
      )}
    </section>
  )
}

const EditPanel = (shown: Shown) => {
  const { attempt, currentVersion, node, revealed } = shown
  const problem = problemOf(shown, "edit")
  return (
    <section class="panel" aria-labelledby="edit">
      <h2 id="edit">Edit</h2>
      {/* The text as written is a value too, so it comes through a recorded reveal. */}
      <form method="post" action={`${here(shown)}/reveal`} data-source-form class="buttons-top">
        <input type="hidden" name="key" value={node.key} />
        <input type="hidden" name="representation" value="source" />
        <button class="button button-plain without-script">Show the current text in the field</button>
        <button type="button" class="button button-plain needs-script" data-load-into="f-value">
          Load the current text
        </button>
      </form>
      <form method="post" action={`${here(shown)}/edit`} id="edit-form">
        {problem?.field === "value" || problem?.field === "kind" ? null : <Ui.ProblemNote problem={problem} />}
        <input type="hidden" name="expectedVersion" value={String(currentVersion)} />
        <Ui.TextArea
          name="value"
          label="New text"
          rows={4}
          optional
          value={revealed?.representation === "source" ? revealed.text : undefined}
          hint={
            problem === undefined ? (
              "Saving replaces the text and creates a new version. The earlier version stays in the history."
            ) : (
              <EnterAgain />
            )
          }
          problem={problem}
        />
        <Ui.CheckBox name="empty" checked={problem !== undefined && attempt.form.has("empty")}>
          Save an empty text
        </Ui.CheckBox>
        <Ui.Select
          name="kind"
          label="Kind"
          choices={kinds}
          value={problem === undefined ? "" : attempt.form.text("kind")}
          problem={problem}
        />
        <Ui.Submit>Save a new version</Ui.Submit>
      </form>
      <GenerateForm {...shown} />
    </section>
  )
}

const ReferencesPanel = (shown: Shown) => {
  const uses = shown.graph.edges.filter(({ from }) => from === shown.node.key).map(({ to }) => to)
  const users = usedBy(shown)
  const links = (keys: ReadonlyArray<string>) =>
    keys.length === 0 ? <span class="hint">nothing</span> : <KeyLinks {...shown} keys={keys} />
  return (
    <section class="panel" aria-labelledby="references">
      <h2 id="references">References</h2>
      <dl class="facts">
        <Ui.Fact name="Uses" is={links(uses)} />
        <Ui.Fact name="Used by" is={links(users)} />
      </dl>
      {uses.length + users.length === 0 ? null : (
        <p class="section-small">
          <a href={Paths.withQuery(`${Paths.environment(shown.location.path)}/graph`, { from: shown.node.key })}>
            Show them as a picture
          </a>
        </p>
      )}
    </section>
  )
}

const DeletePanel = (shown: Shown) => {
  const { attempt, node } = shown
  const users = usedBy(shown)
  const cascades = shown.editing === "delete" && attempt.form.text("disposition") === "cascade"
  return (
    <section class="section panel panel-danger" aria-labelledby="delete">
      <h2 id="delete">Delete</h2>
      <Ui.ProblemNote problem={problemOf(shown, "delete")} />
      <details class="confirm" open={shown.editing === "delete"}>
        <summary class="button button-danger-quiet">Delete this secret</summary>
        <form method="post" action={`${here(shown)}/delete`} class="confirm-panel">
          {users.length === 0 ? (
            <p>No other secret uses it. You can restore it for 30 days.</p>
          ) : (
            <>
              <p>{users.length === 1 ? "One secret uses it:" : `${users.length} secrets use it:`}</p>
              <KeyLinks {...shown} keys={users} />
              <fieldset>
                <legend>What happens to the secrets that use it?</legend>
                <Ui.CheckBox
                  type="radio"
                  name="disposition"
                  value="flatten"
                  checked={!cascades}
                  hint="The current value of this secret replaces the reference in each of them."
                >
                  Keep them, with their current text
                </Ui.CheckBox>
                <Ui.CheckBox
                  type="radio"
                  name="disposition"
                  value="cascade"
                  checked={cascades}
                  hint="This also deletes the secrets that use them in turn."
                >
                  Delete them too
                </Ui.CheckBox>
              </fieldset>
            </>
          )}
          <button class="button button-danger">Delete {node.key}</button>
        </form>
      </details>
    </section>
  )
}

const SecretPage = (shown: Shown) => {
  const { currentVersion, location, node } = shown
  return (
    <Layout
      visit={location.visit}
      section="projects"
      title={node.key}
      inProject={{
        id: location.project.id,
        name: location.project.name,
        view: "secrets",
        slug: location.environment.slug
      }}
      notice={<Undo {...shown} />}
      heading={
        <span class="key">
          <Ui.KeyName name={node.key} />
        </span>
      }
      lead={
        <span class="badges">
          {node.kind === "template" ? <Ui.Badge tone="accent">template</Ui.Badge> : <Ui.Badge>plain text</Ui.Badge>}
          <Ui.Badge>version {currentVersion}</Ui.Badge>
          {location.environment.protected ? <Ui.Badge tone="amber">protected environment</Ui.Badge> : null}
        </span>
      }
      crumbs={[
        { href: Paths.home, label: "Projects" },
        { href: Paths.project(location.project.id), label: location.project.name },
        { href: Paths.environment(location.path), label: location.environment.name }
      ]}
    >
      <div class="columns" data-secret>
        <div>
          <ValuePanel {...shown} />
          <ElsewherePanel {...shown} />
          {location.writes ? <EditPanel {...shown} /> : null}
        </div>
        <div>
          <AboutPanel {...shown} problem={problemOf(shown, "about")} />
          <ReferencesPanel {...shown} />
          <ExposurePanel sentence={shown.exposure} href={`${here(shown)}/exposure`} />
          <HistoryPanel {...shown} />
        </div>
      </div>
      {location.writes ? <RenamePanel {...shown} problem={problemOf(shown, "rename")} /> : null}
      {location.writes ? <DeletePanel {...shown} /> : null}
    </Layout>
  )
}

const DeletedPage = ({
  items,
  location,
  problem
}: Attempt & { readonly location: Location; readonly items: DeletedSecretList["items"] }) => (
  <EnvironmentFrame
    location={location}
    view="deleted"
    title="Deleted secrets"
    actions={
      location.writes ? (
        <Ui.LinkButton href={`${Paths.environment(location.path)}/restore`}>Back to a moment</Ui.LinkButton>
      ) : undefined
    }
  >
    <Ui.ProblemNote problem={problem} />
    {items.length === 0 ? (
      <Ui.Empty title="No deleted secrets">
        <p>Deleted secrets are listed here for 30 days. You can restore them until then.</p>
      </Ui.Empty>
    ) : (
      <Ui.Table label="Deleted secrets" head={["Key", "Deleted", "Removed for good", ""]}>
        {items.map((item) => (
          <tr>
            <th scope="row">
              <span class="key">
                <Ui.KeyName name={item.key} />
              </span>{" "}
              <span class="hint">v{item.version}</span>
            </th>
            <td data-label="Deleted">
              <Ui.Ago at={item.deletedAt} now={location.visit.now} />
            </td>
            <td data-label="Removed for good">
              <Ui.Until at={item.purgeAt} now={location.visit.now} />
            </td>
            <td class="end">
              {location.writes ? (
                <Ui.Act action={`${Paths.environment(location.path)}/deleted/${item.id}/restore`}>
                  Restore<span class="hidden"> {item.key}</span>
                </Ui.Act>
              ) : null}
            </td>
          </tr>
        ))}
      </Ui.Table>
    )}
  </EnvironmentFrame>
)

const shown = Effect.fnUntraced(function* (at: AtSecret) {
  const details = yield* load(at)
  const exposure = yield* sentenceOf(details)
  const elsewhere = yield* elsewhereOf(details)
  return { ...details, exposure, elsewhere, about: yield* UseCases.secretReads.described(at.secretId) }
})

const details = (editing?: Editing) =>
  screen(shown, ({ form, problem, ...shown }) => (
    <SecretPage {...shown} attempt={{ form, problem }} editing={editing} />
  ))

const revealOne = secret((at) =>
  Effect.gen(function* () {
    const revealed = yield* reveal(at.location.query, yield* Form.read)
    return (yield* wantsJson)
      ? asJson(revealed)
      : Html.page(<SecretPage {...yield* shown(at)} attempt={untouched} revealed={revealed} />)
  })
)

const decodeEdit = Effect.fnUntraced(function* (form: Form.Form) {
  const kind = form.filled("kind")
  const value = form.text("value")
  // A field that is left empty by mistake must not empty the secret; with a kind, the current text is kept.
  const written = value !== "" || form.has("empty")
  if (!written && kind === undefined) {
    return yield* new ValidationFailed({
      field: "value",
      message: "Enter a text, or choose to save an empty text"
    })
  }
  return yield* Form.decode(UpdateSecret)({
    ...(written ? { value } : {}),
    ...(kind === undefined ? {} : { kind }),
    expectedVersion: Number(form.text("expectedVersion"))
  })
})

const edit = action(secret, {
  decode: decodeEdit,
  run: (input, { secretId }) => UseCases.secretWrites.update(secretId, input),
  done: ({ version }, { location, secretId }, { expectedVersion }) =>
    to(Paths.secret(location.path, secretId), "secret-changed", versionBefore(version, expectedVersion)),
  again: details("edit")
})

/** A random value that the server makes: it is in no request and in no answer. */
const generate = action(secret, {
  decode: (form, at) => Effect.flatMap(load(at), (details) => decodeGenerate(form, details)),
  run: (input, { location }) => UseCases.secretWrites.change(location.project.id, input),
  done: ({ environments }, { location, secretId }) =>
    to(
      Paths.secret(location.path, secretId),
      environments.some(({ request }) => request !== null) ? "change-waits" : "secret-changed"
    ),
  again: details("edit")
})

const describe = action(secret, {
  decode: decodeAbout,
  run: (input, { secretId }) => UseCases.secretWrites.describe(secretId, input),
  done: (_, { location, secretId }) => to(Paths.secret(location.path, secretId), "secret-described"),
  again: details("about")
})

const rename = action(secret, {
  decode: decodeRename,
  run: (input, { secretId }) => UseCases.secretWrites.rename(secretId, input),
  done: (_, { location, secretId }) => to(Paths.secret(location.path, secretId), "secret-renamed"),
  again: details("rename")
})

const remove = action(secret, {
  decode: (form) => Form.decode(Schema.UndefinedOr(Disposition))(form.filled("disposition")),
  run: (disposition, { secretId }) => UseCases.secretWrites.remove(secretId, disposition),
  // What else was changed or deleted with it does not come back with it.
  done: ({ cascaded, flattened, id }, { location }) =>
    to(Paths.environment(location.path), "secret-deleted", cascaded.length + flattened.length === 0 ? id : undefined),
  again: details("delete")
})

const deleted = screen(({ location }: AtEnvironment) => UseCases.secretReads.deleted(location.query), DeletedPage)

const restore = button(secret, {
  run: ({ secretId }) => UseCases.secretWrites.restore(secretId),
  done: (_, { location, secretId }) => to(Paths.secret(location.path, secretId), "secret-restored"),
  again: deleted
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/projects/:projectId/env/:slug/secrets/:secretId", page(secret, details())),
  HttpRouter.post("/app/projects/:projectId/env/:slug/secrets/:secretId/reveal", revealOne),
  HttpRouter.post("/app/projects/:projectId/env/:slug/secrets/:secretId/edit", edit),
  HttpRouter.post("/app/projects/:projectId/env/:slug/secrets/:secretId/generate", generate),
  HttpRouter.post("/app/projects/:projectId/env/:slug/secrets/:secretId/about", describe),
  HttpRouter.post("/app/projects/:projectId/env/:slug/secrets/:secretId/rename", rename),
  HttpRouter.post("/app/projects/:projectId/env/:slug/secrets/:secretId/delete", remove),
  HttpRouter.get("/app/projects/:projectId/env/:slug/deleted", page(environment, deleted)),
  HttpRouter.post("/app/projects/:projectId/env/:slug/deleted/:secretId/restore", restore)
)

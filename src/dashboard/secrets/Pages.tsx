/** Pages and forms of one secret, and of the deleted secrets of an environment. */
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
import { AboutPanel, decodeAbout } from "./About.tsx"
import { decodeGenerate, type Elsewhere, ElsewherePanel, elsewhereOf, GenerateForm } from "./Everywhere.tsx"
import { EnterAgain, kinds } from "./Forms.tsx"
import * as LineBreaks from "./LineBreaks.ts"
import { decodeRename, RenamePanel } from "./Rename.tsx"
import { HistoryPanel, Undo } from "./Versions.tsx"
import { type RevealedValue, SecretValue } from "./Value.tsx"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

/** Name of the refused form. */
type Editing = "about" | "edit" | "rename" | "delete"

interface SecretProps extends SecretDetails {
  /** Sentence about its holders; undefined if the person may not see it. */
  readonly exposure: string | undefined
  readonly elsewhere: ReadonlyArray<Elsewhere>
  readonly about: DescribedSecret
  readonly revealed?: RevealedValue | undefined
  readonly editing?: Editing | undefined
  readonly attempt: Attempt
}

const problemOf = ({ attempt, editing }: SecretProps, form: Editing): AnyApiError | undefined =>
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

const ValuePanel = (props: SecretProps) => {
  const { location, node, revealed } = props
  return (
    <section class="panel" aria-label="Value">
      <h2>{node.kind === "template" ? "Value, references expanded" : "Value"}</h2>
      {location.readsValues ? (
        <SecretValue
          action={`${here(props)}/reveal`}
          secretKey={node.key}
          revealed={revealed?.representation === "materialized" ? revealed : undefined}
        />
      ) : (
        <p class="hint">Your role in this team can read names, but not values.</p>
      )}
    </section>
  )
}

const EditPanel = (props: SecretProps) => {
  const { attempt, currentVersion, node, revealed } = props
  const problem = problemOf(props, "edit")
  const sourceText = revealed?.representation === "source" ? revealed.text : undefined
  const breaks = sourceText === undefined ? attempt.form.text(LineBreaks.lineBreaks) : LineBreaks.of(sourceText)
  return (
    <section class="panel" aria-labelledby="edit">
      <h2 id="edit">Edit</h2>
      {/* A template's text is a value too, so the trail records its reveal. */}
      <form method="post" action={`${here(props)}/reveal`} data-source-form class="buttons-top">
        <input type="hidden" name="key" value={node.key} />
        <input type="hidden" name="representation" value="source" />
        <button class="button button-plain without-script">Show the current text in the field</button>
        <button
          type="button"
          class="button button-plain needs-script"
          data-load-into="f-value"
          data-line-breaks="f-line-breaks"
        >
          Load the current text
        </button>
      </form>
      <form method="post" action={`${here(props)}/edit`} id="edit-form">
        {problem?.field === "value" || problem?.field === "kind" ? null : <Ui.ProblemNote problem={problem} />}
        <input type="hidden" name="expectedVersion" value={String(currentVersion)} />
        <input type="hidden" id="f-line-breaks" name={LineBreaks.lineBreaks} value={breaks} />
        <Ui.TextArea
          name="value"
          label="New text"
          rows={4}
          optional
          value={sourceText}
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
      <GenerateForm {...props} />
    </section>
  )
}

const ReferencesPanel = (props: SecretProps) => {
  const uses = props.graph.edges.filter(({ from }) => from === props.node.key).map(({ to }) => to)
  const users = usedBy(props)
  const links = (keys: ReadonlyArray<string>) =>
    keys.length === 0 ? <span class="hint">nothing</span> : <KeyLinks {...props} keys={keys} />
  return (
    <section class="panel" aria-labelledby="references">
      <h2 id="references">References</h2>
      <dl class="facts">
        <Ui.Fact name="Uses" is={links(uses)} />
        <Ui.Fact name="Used by" is={links(users)} />
      </dl>
      {uses.length + users.length === 0 ? null : (
        <p class="section-small">
          <a href={Paths.withQuery(`${Paths.environment(props.location.path)}/graph`, { from: props.node.key })}>
            Show the graph
          </a>
        </p>
      )}
    </section>
  )
}

const DeletePanel = (props: SecretProps) => {
  const { attempt, node } = props
  const users = usedBy(props)
  const cascades = props.editing === "delete" && attempt.form.text("disposition") === "cascade"
  return (
    <section class="section panel panel-danger" aria-labelledby="delete">
      <h2 id="delete">Delete</h2>
      <Ui.ProblemNote problem={problemOf(props, "delete")} />
      <details class="confirm" open={props.editing === "delete"}>
        <summary class="button button-danger-quiet">Delete this secret</summary>
        <form method="post" action={`${here(props)}/delete`} class="confirm-panel">
          {users.length === 0 ? (
            <p>No other secret uses it. You can restore it for 30 days.</p>
          ) : (
            <>
              <p>{users.length === 1 ? "One secret uses it:" : `${users.length} secrets use it:`}</p>
              <KeyLinks {...props} keys={users} />
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

const SecretPage = (props: SecretProps) => {
  const { currentVersion, location, node } = props
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
      notice={<Undo {...props} />}
      heading={
        <span class="key">
          <Ui.KeyName name={node.key} />
        </span>
      }
      lead={
        <span class="badges">
          {node.kind === "template" ? <Ui.Badge tone="accent">template</Ui.Badge> : null}
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
          <ValuePanel {...props} />
          <ElsewherePanel {...props} />
          {location.writes ? <EditPanel {...props} /> : null}
        </div>
        <div>
          <AboutPanel {...props} problem={problemOf(props, "about")} />
          <ReferencesPanel {...props} />
          <ExposurePanel sentence={props.exposure} href={`${here(props)}/exposure`} />
          <HistoryPanel {...props} />
        </div>
      </div>
      {location.writes ? <RenamePanel {...props} problem={problemOf(props, "rename")} /> : null}
      {location.writes ? <DeletePanel {...props} /> : null}
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
        <Ui.LinkButton href={`${Paths.environment(location.path)}/restore`}>Restore a moment</Ui.LinkButton>
      ) : undefined
    }
  >
    <Ui.ProblemNote problem={problem} />
    {items.length === 0 ? (
      <Ui.Empty title="No deleted secrets">
        <p>This page lists deleted secrets for 30 days. Until then, you can restore them.</p>
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

const loadPage = Effect.fnUntraced(function* (at: AtSecret) {
  const details = yield* load(at)
  const exposure = yield* sentenceOf(details)
  const elsewhere = yield* elsewhereOf(details)
  return { ...details, exposure, elsewhere, about: yield* UseCases.secretReads.described(at.secretId) }
})

const details = (editing?: Editing) =>
  screen(loadPage, ({ form, problem, ...props }) => (
    <SecretPage {...props} attempt={{ form, problem }} editing={editing} />
  ))

const revealOne = secret((at) =>
  Effect.gen(function* () {
    const revealed = yield* reveal(at.location.query, yield* Form.read)
    return (yield* wantsJson)
      ? asJson(revealed)
      : Html.page(<SecretPage {...yield* loadPage(at)} attempt={untouched} revealed={revealed} />)
  })
)

const decodeEdit = Effect.fnUntraced(function* (form: Form.Form) {
  const kind = form.filled("kind")
  const value = LineBreaks.restored(form.text("value"), form.text(LineBreaks.lineBreaks))
  // A field left empty by mistake must not empty the secret. With only a kind, the current text stays.
  const hasText = value !== "" || form.has("empty")
  if (!hasText && kind === undefined) {
    return yield* new ValidationFailed({
      field: "value",
      message: "Enter a text, or choose to save an empty text"
    })
  }
  return yield* Form.decode(UpdateSecret)({
    ...(hasText ? { value } : {}),
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

/** Saves a random value of the server, which no request or response contains. */
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
  // No undo if dependents changed too, because it would restore only this secret.
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

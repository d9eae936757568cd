/** Forms that add one secret or import many. */
import type { AnyApiError } from "#schema/ApiError.ts"
import { maxImported } from "#schema/SecretRequests.ts"
import { danger, isDangerous } from "#src/formats/DangerousNames.ts"
import type { Refusal } from "#src/formats/ImportPlan.ts"
import type * as Preview from "#src/formats/Preview.ts"
import type { ComponentChildren } from "preact"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import type { Location } from "#src/dashboard/frame/EnvironmentFrame.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import type { Attempt } from "#src/dashboard/frame/Routes.ts"

export const kinds = [
  { value: "", label: "Automatic: ${KEY} is a reference" },
  { value: "literal", label: "Always plain text" },
  { value: "template", label: "Template" }
]

/** Note for pages without a script; a script keeps the text in its field. */
export const EnterAgain = () => (
  <span class="without-script">The server does not send values back to the page. Please enter it again.</span>
)

/** Warning about keys that decide which code a program runs or where its traffic goes, each with the reason. */
export const DangerousNames = ({
  children,
  keys
}: {
  readonly children?: ComponentChildren
  readonly keys: ReadonlyArray<string>
}) => {
  const dangerous = keys.filter(isDangerous)
  return dangerous.length === 0 ? null : (
    <Ui.Callout
      tone="warning"
      role="alert"
      title={dangerous.length === 1 ? "This name is dangerous" : "These names are dangerous"}
    >
      <ul>
        {dangerous.map((key) => (
          <li>
            <code>{key}</code> {danger(key)}.
          </li>
        ))}
      </ul>
      <p>
        Programs react to such a variable. Anyone who can write it can run code in them or redirect their traffic. The
        command line passes it on only with --allow.
      </p>
      {children}
    </Ui.Callout>
  )
}

/** Name of the tick box. Its value is the dangerous key, so that another dangerous key needs another tick. */
export const anyway = "anyway"

export const AddSecret = ({ form, location, problem }: Attempt & { readonly location: Location }) => {
  const here = Paths.environment(location.path)
  const atField = ["key", "value", "kind", anyway].some((field) => problem?.field === field)
  const key = form.text("key").trim().toUpperCase()
  return (
    <form method="post" action={`${here}/add`} class="panel" id="add">
      <h2>Add a secret</h2>
      {atField ? null : <Ui.ProblemNote problem={problem} />}
      <div class="fields">
        <Ui.TextField
          name="key"
          label="Key"
          mono
          capitals
          value={form.text("key")}
          focus={problem === undefined || problem.field === "key"}
          hint="A–Z, 0–9 and _, starting with a letter"
          problem={problem}
        />
        <Ui.Select name="kind" label="Kind" choices={kinds} value={form.text("kind")} problem={problem} />
      </div>
      <Ui.TextArea
        name="value"
        label="Value"
        rows={3}
        optional
        focus={problem !== undefined && problem.field !== "key"}
        hint={problem === undefined ? "Write ${KEY} to use another secret of this environment." : <EnterAgain />}
        problem={problem}
      />
      {problem?.field === anyway || form.has(anyway) ? (
        <DangerousNames keys={[key]}>
          <Ui.CheckBox name={anyway} value={key} checked={form.text(anyway) === key}>
            Save it anyway
          </Ui.CheckBox>
        </DangerousNames>
      ) : null}
      <Ui.Submit cancel={here}>Add</Ui.Submit>
    </form>
  )
}

/** Preview of a paste. `notes`: the source of a value, by its key. */
export interface PastePreview extends Preview.Preview {
  readonly remarks: ReadonlyArray<string>
  readonly notes: ReadonlyMap<string, string>
  /** Reason why a save would be refused. */
  readonly refused: Refusal | undefined
}

const Keys = ({
  keys,
  notes,
  title,
  tone
}: {
  readonly notes: ReadonlyMap<string, string>
  readonly title: string
  readonly keys: ReadonlyArray<string>
  readonly tone: "ok" | "accent"
}) =>
  keys.length === 0 ? null : (
    <div>
      <h3>
        {title} <Ui.Badge tone={tone}>{keys.length}</Ui.Badge>
      </h3>
      <ul class="keys">
        {keys.map((key) => (
          <li>
            <code>{key}</code>
            {notes.has(key) ? <span class="hint"> {notes.get(key)}</span> : null}
            {isDangerous(key) ? (
              <>
                {" "}
                <Ui.Badge tone="amber">dangerous name</Ui.Badge>
              </>
            ) : null}
          </li>
        ))}
      </ul>
    </div>
  )

const countOf = ({ create, update }: PastePreview) => create.length + update.length

const PreviewNotes = ({ preview }: { readonly preview: PastePreview }) => {
  const count = countOf(preview)
  return (
    <>
      <Keys title="Will be created" keys={preview.create} notes={preview.notes} tone="ok" />
      <Keys title="Will be updated if the value differs" keys={preview.update} notes={preview.notes} tone="accent" />
      <DangerousNames keys={[...preview.create, ...preview.update]} />
      {preview.refused === undefined ? null : (
        <Ui.Callout tone="danger" title={preview.refused.message}>
          <p>{preview.refused.hint}</p>
        </Ui.Callout>
      )}
      {preview.remarks.length === 0 ? null : (
        <Ui.Callout tone="warning" title="Read this before you save">
          <ul>
            {preview.remarks.map((remark) => (
              <li>{remark}</li>
            ))}
          </ul>
        </Ui.Callout>
      )}
      {preview.invalidKeys.length === 0 ? null : (
        <Ui.Callout tone="danger" title="These names cannot be keys of secrets">
          <ul>
            {preview.invalidKeys.map(({ line, name }) => (
              <li>
                Line {line}: <code>{name}</code>
              </li>
            ))}
          </ul>
          <p>Keys consist of A–Z, 0–9 and _, and start with a letter. Change or remove these lines.</p>
        </Ui.Callout>
      )}
      {count > maxImported ? (
        <Ui.Callout tone="danger" title={`This text has ${count} secrets. Import at most ${maxImported} at a time.`} />
      ) : null}
      {count === 0 && preview.invalidKeys.length === 0 ? (
        <Ui.Callout tone="warning" title="This text has no secrets." />
      ) : null}
    </>
  )
}

const PasteButtons = ({ here, preview }: { readonly here: string; readonly preview: PastePreview | undefined }) => {
  const count = preview === undefined ? 0 : countOf(preview)
  const applies =
    preview !== undefined &&
    preview.refused === undefined &&
    preview.invalidKeys.length === 0 &&
    count > 0 &&
    count <= maxImported
  return (
    <div class="buttons">
      {applies ? (
        <button class="button button-primary" name="step" value="apply">
          Save {count} {count === 1 ? "secret" : "secrets"}
        </button>
      ) : null}
      <button class={`button ${applies ? "button-plain" : "button-primary"}`} name="step" value="preview">
        {preview === undefined ? "Preview the changes" : "Preview again"}
      </button>
      <Ui.LinkButton href={here}>Cancel</Ui.LinkButton>
    </div>
  )
}

/**
 * Two steps: a preview, then the change. The server never sends pasted text back. The script keeps it in its field
 * during the preview; without a script, the person pastes it again.
 */
export const PasteSecrets = ({
  failure,
  location,
  preview,
  problem
}: {
  readonly location: Location
  readonly preview?: PastePreview | undefined
  readonly failure?: string | undefined
  readonly problem?: AnyApiError | undefined
}) => {
  const here = Paths.environment(location.path)
  return (
    <form method="post" action={`${here}/paste`} class="panel" id="paste">
      <h2>Import secrets</h2>
      <Ui.TextArea
        name="text"
        label="Text"
        rows={8}
        focus
        placeholder={"DATABASE_URL=postgres://…\nAPI_KEY='…'"}
        hint={
          <>
            The text of a .env, JSON, YAML or CSV file, with at most {maxImported} secrets.{" "}
            <span class="needs-script">You can drop the file here.</span>
          </>
        }
        takesFiles
      />
      <div id="preview">
        <div class="stack section-small" role="status">
          <Ui.ProblemNote problem={problem} />
          {failure === undefined ? null : <Ui.Callout tone="danger" title={`The text cannot be read: ${failure}.`} />}
          {preview === undefined ? null : <PreviewNotes preview={preview} />}
          {preview === undefined && failure === undefined && problem === undefined ? null : (
            <p>
              <EnterAgain />
            </p>
          )}
        </div>
        <PasteButtons here={here} preview={preview} />
      </div>
    </form>
  )
}

/** Review of all changes before they are saved: by environment, with warnings about the texts. */
import { useState } from "preact/hooks"
import { danger, isDangerous } from "#src/formats/DangerousNames.ts"
import * as Icons from "#src/dashboard/frame/Icons.tsx"
import { Dialog } from "./Dialog.tsx"
import * as Server from "./Server.ts"
import { drop, hiddenIn, idOf, keepMine, missingFor, type Pending, place, type State, type Store } from "./State.ts"

const kindOf = ({ op, version }: Pending) => (op === "delete" ? "removed" : version === 0 ? "added" : "changed")
const signs = new Map([
  ["added", "+"],
  ["changed", "~"],
  ["removed", "−"]
])

const textOf = (state: State, { copyFrom, op, value }: Pending) => {
  if (op === "delete") return ""
  return copyFrom === undefined ? value : `as in ${state.data.columns[copyFrom].name}`
}

const Warnings = ({ one, state }: { one: Pending; state: State }) => {
  const missing = missingFor(state, one)
  const reasons = [
    ...(missing.length === 0
      ? []
      : [`It uses ${missing.join(", ")}, which does not exist in ${state.data.columns[one.column].name}.`]),
    ...(one.op === "set" && one.copyFrom === undefined ? hiddenIn(one.value) : []),
    ...(one.kind === "literal" ? ["It is text, although it looks like a reference."] : []),
    ...(one.op === "set" && one.remark !== undefined ? [one.remark] : []),
    ...(one.op === "set" && isDangerous(one.key) ? [`This name ${danger(one.key)}.`] : [])
  ]
  return reasons.length === 0 ? null : <p class="change-warning">{reasons.join(" ")}</p>
}

/** A conflict with another person's change: shows theirs, and lets the person overwrite it or keep it. */
const Conflict = ({ one, state, store }: { one: Pending; state: State; store: Store }) => {
  const { theirs } = one
  if (theirs === undefined) return null
  const is =
    theirs === 0 ? "was deleted meanwhile" : `is now at version ${theirs}; you saw version ${one.version || "none"}`
  return (
    <div class="change-problem" role="alert">
      {one.key} {is}.{" "}
      <button type="button" class="button button-quiet" onClick={() => keepMine(store, one)}>
        {one.op === "delete" ? "Delete it" : "Overwrite with mine"}
      </button>
      <button type="button" class="button button-quiet" onClick={() => drop(store, [idOf(one)])}>
        Keep theirs
      </button>
      {theirs > 0 && state.data.columns[one.column].reads ? <Theirs one={one} state={state} /> : null}
    </div>
  )
}

const Theirs = ({ one, state }: { one: Pending; state: State }) => {
  const [text, show] = useState<string>()
  const look = async () => {
    const answer = await Server.valueOf(state, one, "source")
    show("text" in answer ? `Theirs: ${answer.text}` : answer.failure)
  }
  return text === undefined ? (
    <button type="button" class="button button-quiet" onClick={() => void look()}>
      Show theirs
    </button>
  ) : (
    <p class="mono change-text">{text}</p>
  )
}

const Change = ({ one, state, store }: { one: Pending; state: State; store: Store }) => (
  <li class={`change change-${kindOf(one)}`}>
    <p class="change-line">
      <span aria-hidden="true">{signs.get(kindOf(one))}</span> <strong class="mono">{one.key}</strong>
      <span class="hidden"> {kindOf(one)}</span> <span class="mono change-text">{textOf(state, one)}</span>
      <button
        type="button"
        class="tool"
        aria-label={`Do not save ${one.key} in ${state.data.columns[one.column].name}`}
        onClick={() => drop(store, [idOf(one)])}
      >
        <Icons.Cross />
      </button>
    </p>
    <Warnings one={one} state={state} />
    {one.problem === undefined ? null : <p class="change-problem">{one.problem}</p>}
    <Conflict one={one} state={state} store={store} />
  </li>
)

/** Environments that the pasted entries go into. */
const Into = ({ state, store }: { state: State; store: Store }) => {
  const { data, imported, pending } = state
  if (imported.length === 0) return null
  return (
    <fieldset class="into">
      <legend>
        {imported.length} {imported.length === 1 ? "secret" : "secrets"} into
      </legend>
      {data.columns.map(({ name, slug, writes }, column) =>
        writes ? (
          <label class="check" key={slug}>
            <input
              type="checkbox"
              checked={imported.some(({ key }) => pending.has(idOf({ key, column })))}
              onChange={({ currentTarget }) => place(store, imported, column, currentTarget.checked)}
            />
            <span>{name}</span>
          </label>
        ) : null
      )}
    </fieldset>
  )
}

const countOf = (n: number) => `${n} ${n === 1 ? "change" : "changes"}`

/** The form around the changes: the reason, and the typed names of protected environments. */
export const Review = ({ state, store }: { state: State; store: Store }) => {
  const [reason, setReason] = useState("")
  const [names, setNames] = useState<ReadonlyMap<string, string>>(new Map())
  const [problem, setProblem] = useState("")
  const all = [...state.pending.values()]
  const columns = state.data.columns.map((column, i) => ({ ...column, of: all.filter((one) => one.column === i) }))
  const used = columns.filter(({ of }) => of.length > 0)
  const guarded = used.filter((column) => column.protected)
  const close = () => store.set({ sheet: undefined })
  const submit = (event: Event) => {
    event.preventDefault()
    const missing = guarded.find(({ slug }) => names.get(slug)?.trim() !== slug)
    setProblem(missing === undefined ? "" : `Type ${missing.slug} to write to a protected environment.`)
    if (missing === undefined && all.length > 0 && !state.saving) void Server.save(store, reason)
  }
  return (
    <Dialog label={`Review ${countOf(all.length)}`} close={close}>
      <form class="sheet-form" onSubmit={submit}>
        <h2>Review {countOf(all.length)}</h2>
        <Into state={state} store={store} />
        {used.map(({ name, of, slug, ...column }) => (
          <section key={slug} class="stack">
            <h3>
              {name} {column.protected ? <span class="badge badge-amber">protected</span> : null}
              {column.waits ? <span class="badge">waits for an approval</span> : null}
            </h3>
            <ul class="changes">
              {of.map((one) => (
                <Change key={idOf(one)} one={one} state={state} store={store} />
              ))}
            </ul>
          </section>
        ))}
        <label class="field">
          Why (for the audit trail)
          <input maxLength={500} value={reason} onInput={({ currentTarget }) => setReason(currentTarget.value)} />
        </label>
        {guarded.map(({ slug }) => (
          <label class="field" key={slug}>
            <span>
              Type <code>{slug}</code> to write to a protected environment
            </span>
            <input
              class="mono"
              autocomplete="off"
              value={names.get(slug) ?? ""}
              onInput={({ currentTarget }) => setNames(new Map(names).set(slug, currentTarget.value))}
            />
          </label>
        ))}
        <p class="error" role="alert">
          {problem || state.failure}
        </p>
        <div class="buttons buttons-end">
          <button class="button button-primary" disabled={state.saving || all.length === 0}>
            Save {countOf(all.length)}
          </button>
          <button type="button" class="button button-plain" onClick={close}>
            Back
          </button>
        </div>
      </form>
    </Dialog>
  )
}

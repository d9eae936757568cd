/** Form for a new key in one or more environments. */
import { useState } from "preact/hooks"
import { Dialog } from "./Dialog.tsx"
import { keyPattern, place, type State, type Store, versionAt } from "./State.ts"

const problemOf = (state: State, key: string, into: ReadonlySet<number>) => {
  if (!keyPattern.test(key)) return "Keys consist of A–Z, 0–9 and _, and start with a letter."
  if (into.size === 0) return "Choose an environment."
  const there = [...into].filter((column) => versionAt(state, { key, column }) > 0)
  const names = there.map((column) => state.data.columns[column].name)
  return names.length === 0 ? "" : `This key already exists in ${names.join(", ")}. Change it in its cell.`
}

const Environments = ({
  into,
  setInto,
  state
}: {
  state: State
  into: ReadonlySet<number>
  setInto: (into: ReadonlySet<number>) => void
}) => (
  <fieldset class="into">
    <legend>Environments</legend>
    {state.data.columns.map((column, i) =>
      column.writes ? (
        <label class="check" key={column.slug}>
          <input
            type="checkbox"
            checked={into.has(i)}
            onChange={({ currentTarget }) => {
              const next = new Set(into)
              if (currentTarget.checked) next.add(i)
              else next.delete(i)
              setInto(next)
            }}
          />
          <span>{column.name}</span>
        </label>
      ) : null
    )}
  </fieldset>
)

export const Add = ({ state, store }: { state: State; store: Store }) => {
  const [key, setKey] = useState("")
  const [value, setValue] = useState("")
  const [problem, setProblem] = useState("")
  const [into, setInto] = useState<ReadonlySet<number>>(
    new Set(state.data.columns.flatMap(({ writes }, i) => (writes ? [i] : [])))
  )
  const close = () => store.set({ sheet: undefined })
  const submit = (event: Event) => {
    event.preventDefault()
    const fault = problemOf(state, key, into)
    setProblem(fault)
    if (fault !== "") return
    for (const column of into) place(store, [{ key, value }], column, true)
    store.set({ sheet: "review", imported: [] })
  }
  return (
    <Dialog label="Add a secret" close={close}>
      <form class="sheet-form" onSubmit={submit}>
        <h2>Add a secret</h2>
        <label class="field">
          Key
          <input
            class="mono"
            autocomplete="off"
            spellcheck={false}
            value={key}
            onInput={({ currentTarget }) => setKey(currentTarget.value.trim().toUpperCase())}
          />
        </label>
        <label class="field">
          Value
          <textarea
            class="mono"
            rows={3}
            autocomplete="off"
            spellcheck={false}
            value={value}
            onInput={({ currentTarget }) => setValue(currentTarget.value)}
          />
        </label>
        <p class="hint">{"Write ${KEY} to use another secret of the same environment."}</p>
        <Environments state={state} into={into} setInto={setInto} />
        <p class="error" role="alert">
          {problem}
        </p>
        <div class="buttons">
          <button class="button button-primary">Review</button>
          <button type="button" class="button button-plain" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  )
}

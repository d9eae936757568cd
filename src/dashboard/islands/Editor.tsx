/** Text field in a cell. Enter keeps the text, Escape discards it, Tab keeps it and moves right. */
import { useLayoutEffect, useRef } from "preact/hooks"
import * as Act from "./Act.ts"
import type { Place, State, Store } from "./State.ts"

export const Editor = ({ at, state, store }: { at: Place; state: State; store: Store }) => {
  const field = useRef<HTMLTextAreaElement>(null)
  // Focused before the next key arrives, because that key belongs to the text.
  useLayoutEffect(() => {
    field.current?.focus()
    field.current?.setSelectionRange(0, field.current.value.length)
  }, [])
  const text = state.editing?.text ?? ""
  return (
    <textarea
      ref={field}
      class="editor mono"
      rows={Math.min(8, text.split("\n").length)}
      value={text}
      aria-label={`New value of ${at.key} in ${state.data.columns[at.column].name}`}
      placeholder="New value"
      autocomplete="off"
      autocapitalize="off"
      spellcheck={false}
      onInput={({ currentTarget }) =>
        store.set({ editing: { ...at, text: currentTarget.value, before: state.editing?.before } })
      }
      onBlur={() => Act.commit(store)}
      onClick={(event) => event.stopPropagation()}
      onDblClick={(event) => event.stopPropagation()}
      onKeyDown={(event) => {
        event.stopPropagation()
        if (event.isComposing) return
        if (event.key === "Escape") Act.cancel(store)
        else if (event.key === "Enter" && !event.shiftKey) Act.commit(store, "down")
        else if (event.key === "Tab") Act.commit(store, event.shiftKey ? "left" : "right")
        else return
        event.preventDefault()
      }}
    />
  )
}

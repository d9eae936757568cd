/** The matrix of a project, which replaces the server's table: the same tasks, faster. */
import { useLayoutEffect, useMemo, useState } from "preact/hooks"
import * as Icons from "#src/dashboard/frame/Icons.tsx"
import { differs, isMissing, type MatrixData } from "#src/dashboard/secrets/Matrix.ts"
import * as Act from "./Act.ts"
import { Add } from "./Add.tsx"
import { Drawer } from "./Drawer.tsx"
import { Grid } from "./Grid.tsx"
import { Review } from "./Review.tsx"
import { Steps } from "./Steps.tsx"
import { DropZone, Ways } from "./Ways.tsx"
import { allRows, drop, initial, type State, type Store } from "./State.ts"

/** Views with their counts. Counted when rows change, not at each keystroke. */
const useViews = ({ data: { rows }, pending }: State) => {
  const missing = useMemo(() => rows.filter(isMissing).length, [rows])
  const differing = useMemo(() => rows.filter(differs).length, [rows])
  return [
    ["all", `All ${rows.length}`],
    ["missing", `Missing ${missing}`],
    ["differs", `Differs ${differing}`],
    ["changed", `Changed ${new Set([...pending.values()].map(({ key }) => key)).size}`]
  ] as const
}

const Toolbar = ({ formats, state, store }: { state: State; store: Store; formats: string }) => {
  const views = useViews(state)
  return (
    <div class="toolbar">
      <div class="search">
        <Icons.Search />
        <input
          id="matrix-filter"
          type="search"
          aria-label="Filter by key or tag"
          placeholder="Filter by key or #tag"
          autocomplete="off"
          spellcheck={false}
          value={state.words}
          onInput={({ currentTarget }) => store.set({ words: currentTarget.value })}
          onKeyDown={(event) => {
            if (event.key === "ArrowDown" || event.key === "Enter") Act.enter(store)
          }}
        />
        <kbd class="needs-script">/</kbd>
      </div>
      <div class="segments" role="group" aria-label="Keys to show">
        {views.map(([show, title]) => (
          <button key={show} type="button" aria-pressed={state.show === show} onClick={() => store.set({ show })}>
            {title}
          </button>
        ))}
      </div>
      <div class="push">
        <Ways state={state} store={store} formats={formats} />
      </div>
    </div>
  )
}

/** Actions on the ticked rows. */
const Ticked = ({ state, store }: { state: State; store: Store }) => {
  const { columns } = state.data
  const writable = columns.flatMap(({ writes }, i) => (writes ? [i] : []))
  const [from, setFrom] = useState(0)
  const [to, setTo] = useState(writable.find((i) => i > 0) ?? 0)
  const [tag, setTag] = useState("")
  if (state.ticked.size === 0 || writable.length === 0) return null
  const choice = (label: string, value: number, among: ReadonlyArray<number>, set: (i: number) => void) => (
    <label>
      {label}{" "}
      <select value={String(value)} onChange={({ currentTarget }) => set(Number(currentTarget.value))}>
        {among.map((i) => (
          <option value={String(i)}>{columns[i].name}</option>
        ))}
      </select>
    </label>
  )
  return (
    <div class="ticked" role="group" aria-label="Ticked keys">
      <strong>{state.ticked.size} ticked</strong>
      {choice(
        "in",
        from,
        columns.map((_, i) => i),
        setFrom
      )}
      {choice("copy to", to, writable, setTo)}
      <button
        type="button"
        class="button button-plain"
        disabled={from === to}
        onClick={() => Act.copyTicked(store, from, to)}
      >
        <Icons.Copy /> Copy
      </button>
      {columns[from].reads ? (
        <button type="button" class="button button-plain" onClick={() => void Act.exportTicked(store, from)}>
          Export
        </button>
      ) : null}
      {columns[from].writes ? (
        <button type="button" class="button button-danger-quiet" onClick={() => Act.deleteTicked(store, from)}>
          Delete…
        </button>
      ) : null}
      {writable.some((i) => !columns[i].waits) ? (
        <form
          class="ticked-tag"
          onSubmit={(event) => {
            event.preventDefault()
            void Act.tagTicked(store, tag, "add")
          }}
        >
          <input
            aria-label="Tag"
            placeholder="tag"
            maxLength={40}
            autocomplete="off"
            spellcheck={false}
            value={tag}
            onInput={({ currentTarget }) => setTag(currentTarget.value)}
          />
          <button class="button button-plain">Tag</button>
          <button type="button" class="button button-quiet" onClick={() => void Act.tagTicked(store, tag, "remove")}>
            Remove tag
          </button>
        </form>
      ) : null}
      <button type="button" class="button button-quiet" onClick={() => store.set({ ticked: new Set() })}>
        Untick
      </button>
    </div>
  )
}

/** Unsaved changes. */
const Tray = ({ state, store }: { state: State; store: Store }) => {
  const all = [...state.pending.values()]
  if (all.length === 0) return null
  const environments = new Set(all.map(({ column }) => column)).size
  return (
    <div class="tray" role="group" aria-label="Unsaved changes">
      <span>
        <strong>
          {all.length} {all.length === 1 ? "change" : "changes"}
        </strong>{" "}
        in {environments} {environments === 1 ? "environment" : "environments"}
      </span>
      <span class="push">
        <button
          type="button"
          class="button button-plain"
          onClick={() => {
            drop(store, [...state.pending.keys()])
            store.set({ imported: [] })
          }}
        >
          Discard
        </button>
        <button type="button" class="button button-primary" onClick={() => store.set({ sheet: "review" })}>
          Review and save <kbd>⌘S</kbd>
        </button>
      </span>
    </div>
  )
}

/** Handles pastes, drops and keys on the whole page, and warns before unsaved changes are lost. */
const usePage = (store: Store, formats: string) =>
  useLayoutEffect(() => {
    const isField = (target: EventTarget | null) =>
      target instanceof Element && target.closest("input, textarea, select, dialog") !== null
    const onPaste = (event: ClipboardEvent) => {
      const text = event.clipboardData?.getData("text/plain") ?? ""
      if (isField(event.target) || text.trim() === "") return
      event.preventDefault()
      void Act.importText(store, "", text, formats)
    }
    const { dataset } = document.body
    const onOver = (event: DragEvent) => {
      event.preventDefault()
      dataset["dragging"] = ""
    }
    const onOut = ({ relatedTarget }: DragEvent) => {
      // Without a related target, the pointer left the window.
      if (relatedTarget === null) delete dataset["dragging"]
    }
    const onDrop = async (event: DragEvent) => {
      event.preventDefault()
      delete dataset["dragging"]
      const file = event.dataTransfer?.files[0]
      if (file !== undefined) await Act.importText(store, file.name, await file.text(), formats)
    }
    const onLeave = (event: BeforeUnloadEvent) => {
      if (store.get().pending.size > 0) event.preventDefault()
    }
    const listeners = new AbortController()
    const { signal } = listeners
    document.addEventListener("paste", onPaste, { signal })
    document.addEventListener("dragover", onOver, { signal })
    document.addEventListener("dragleave", onOut, { signal })
    document.addEventListener("drop", (event) => void onDrop(event), { signal })
    document.addEventListener("keydown", (event) => Act.onPageKey(store, event), { signal })
    addEventListener("beforeunload", onLeave, { signal })
    return () => listeners.abort()
  }, [])

export const MatrixIsland = ({ data, formats }: { data: MatrixData; formats: string }) => {
  const [store] = useState<{ state: State }>({ state: initial(data, new URLSearchParams(location.search)) })
  const [, redraw] = useState(0)
  const [handle] = useState<Store>(() => ({
    get: () => store.state,
    set: (change) => {
      store.state = { ...store.state, ...change }
      redraw((n) => n + 1)
    }
  }))
  usePage(handle, formats)
  const { state } = store
  const isEmpty = allRows(state).length === 0
  return (
    <>
      {isEmpty ? (
        <DropZone>
          <Ways state={state} store={handle} formats={formats} />
        </DropZone>
      ) : (
        <Toolbar state={state} store={handle} formats={formats} />
      )}
      <Steps state={state} store={handle} />
      <Ticked state={state} store={handle} />
      {isEmpty ? null : (
        <>
          <Grid state={state} store={handle} />
          <p class="hint keys-help">
            <kbd>Enter</kbd> edit · <kbd>r</kbd> reveal · <kbd>c</kbd> copy · <kbd>h</kbd> details · <kbd>d</kbd> delete
            · <kbd>x</kbd> tick · <kbd>n</kbd> new · <kbd>/</kbd> filter · paste or drop a file anywhere
          </p>
        </>
      )}
      <p class="hint" role="status">
        {state.message}
      </p>
      <Tray state={state} store={handle} />
      {state.sheet === "review" ? <Review state={state} store={handle} /> : null}
      {state.drawer === undefined ? null : <Drawer href={state.drawer} store={handle} />}
      {state.sheet === "add" ? <Add state={state} store={handle} /> : null}
    </>
  )
}

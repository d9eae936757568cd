/** Actions of the matrix's keys and buttons. */
import * as LineBreaks from "#src/dashboard/secrets/LineBreaks.ts"
import { cellsOf } from "#src/dashboard/secrets/Matrix.ts"
import * as Server from "./Server.ts"
import {
  cellAt,
  copyHere,
  drop,
  type Entry,
  idOf,
  keyPattern,
  markDeleted,
  place,
  type Place,
  put,
  type State,
  type Store,
  targetColumn,
  visibleLines
} from "./State.ts"

const visibleFor = 60_000
let hiding: ReturnType<typeof setTimeout> | undefined

export const stand = ({ get, set }: Store, at: Place) => {
  if (get().editing === undefined || idOf(at) !== idOf(get().at ?? at)) set({ at })
}

const visibleKeys = (state: State) => visibleLines(state).flatMap((line) => ("row" in line ? [line.row[0]] : []))

const placeAfter = (state: State, rows: number, columns: number): Place | undefined => {
  const keys = visibleKeys(state)
  if (keys.length === 0) return undefined
  const last = state.data.columns.length - 1
  const from = state.at === undefined ? -1 : keys.indexOf(state.at.key)
  if (from < 0) return { key: keys[0], column: 0 }
  return {
    key: keys[Math.max(0, Math.min(keys.length - 1, from + rows))],
    column: Math.max(0, Math.min(last, (state.at?.column ?? 0) + columns))
  }
}
const go = ({ get, set }: Store, rows: number, columns: number) => {
  const at = placeAfter(get(), rows, columns)
  if (at !== undefined) set({ at })
}
/** Moves the keyboard to the first cell, unless it is in the grid already. */
export const enter = (store: Store) => {
  if (store.get().at === undefined) go(store, 0, 0)
}

// --- typing ---

export const edit = ({ get, set }: Store, at: Place, firstText?: string) => {
  const state = get()
  const { name, writes } = state.data.columns[at.column]
  if (!writes) return set({ at, message: `You may not change secrets of ${name}.` })
  const pending = state.pending.get(idOf(at))
  const cell = cellAt(state, at)
  // Never starts from a template's expanded text, because saving it would remove the references.
  const isVisible = cell !== 0 && cell[1] === 0 && idOf(state.revealed ?? { key: "", column: -1 }) === idOf(at)
  const visibleText = isVisible ? state.revealed?.text : undefined
  const pendingText = pending?.op === "set" && pending.copyFrom === undefined ? pending.value : undefined
  const before = pendingText ?? visibleText
  set({ at, editing: { ...at, text: firstText ?? before ?? "", before }, message: "" })
}

/** Keeps the typed text. An empty text in a cell without a pending change changes nothing. */
export const commit = (store: Store, towards?: "down" | "left" | "right") => {
  const { get, set } = store
  const { editing, pending } = get()
  if (editing === undefined) return
  set({ editing: undefined })
  // The field turns every line break into LF.
  const { before } = editing
  const text = before === undefined ? editing.text : LineBreaks.restored(editing.text, LineBreaks.of(before))
  if (text !== before && (text !== "" || pending.has(idOf(editing)))) put(store, editing, text)
  if (towards === "down") go(store, 1, 0)
  if (towards === "left" || towards === "right") {
    go(store, 0, towards === "right" ? 1 : -1)
    const { at } = get()
    if (at !== undefined && idOf(at) !== idOf(editing)) edit(store, at)
  }
}
export const cancel = ({ set }: Store) => set({ editing: undefined })

// --- values ---

const hide = ({ set }: Store) => {
  clearTimeout(hiding)
  set({ revealed: undefined, message: "" })
}

export const reveal = async (store: Store, at: Place) => {
  const { get, set } = store
  const { data, revealed } = get()
  if (cellAt(get(), at) === 0) return
  if (revealed !== undefined && idOf(revealed) === idOf(at)) return hide(store)
  if (!data.columns[at.column].reads) return set({ message: "You may not read values here." })
  const answer = await Server.valueOf(get(), at)
  if ("failure" in answer) return set({ message: answer.failure })
  clearTimeout(hiding)
  hiding = setTimeout(() => hide(store), visibleFor)
  set({ revealed: { ...at, text: answer.text }, message: "The value is shown for a minute." })
}

export const copyValue = async ({ get, set }: Store, at: Place) => {
  if (cellAt(get(), at) === 0) return
  const answer = await Server.valueOf(get(), at)
  if ("failure" in answer) return set({ message: answer.failure })
  await navigator.clipboard.writeText(answer.text)
  set({ message: `The value of ${at.key} is copied.` })
}

/** Opens the page of a secret over this one. */
export const details = ({ get, set }: Store, at: Place) => {
  if (cellAt(get(), at) !== 0) set({ drawer: Server.pageOf(get(), at) })
}

/** Copies a key from another environment, inside the server. */
export const bring = (store: Store, at: Place, from: number) => copyHere(store, [at], from)

// --- rows ---

const toggled = (set: ReadonlySet<string>, one: string) => {
  const next = new Set(set)
  if (!next.delete(one)) next.add(one)
  return next
}
export const tick = ({ get, set }: Store, key: string) => set({ ticked: toggled(get().ticked, key) })
export const fold = ({ get, set }: Store, group: string) => set({ folded: toggled(get().folded, group) })

const rowsTicked = ({ data, ticked }: State) => data.rows.filter(([key]) => ticked.has(key))
export const copyTicked = (store: Store, from: number, to: number) => {
  const { get, set } = store
  const rows = rowsTicked(get()).filter((row) => cellsOf(row)[from] !== 0)
  copyHere(
    store,
    rows.map(([key]) => ({ key, column: to })),
    from
  )
  set({ ticked: new Set(), sheet: rows.length > 0 ? "review" : undefined })
}
export const deleteTicked = (store: Store, column: number) => {
  const { get, set } = store
  const rows = rowsTicked(get()).filter((row) => cellsOf(row)[column] !== 0)
  markDeleted(
    store,
    rows.map(([key]) => ({ key, column }))
  )
  set({ ticked: new Set(), sheet: rows.length > 0 ? "review" : undefined })
}

/** Saves a file of the ticked keys. The trail records the read first. */
export const exportTicked = async (store: Store, column: number) => {
  const { get, set } = store
  const rows = rowsTicked(get()).filter((row) => cellsOf(row)[column] !== 0)
  const { name, slug } = get().data.columns[column]
  if (rows.length === 0) return set({ message: `${name} has none of these keys.` })
  const answer = await Server.fileOf(
    get(),
    slug,
    rows.map(([key]) => key)
  )
  if (typeof answer === "string") return set({ message: answer })
  const link = document.createElement("a")
  link.href = URL.createObjectURL(answer)
  link.download = `${slug}.env`
  link.click()
  URL.revokeObjectURL(link.href)
  set({ message: `${rows.length} values of ${name} are in the file ${slug}.env.` })
}

/** Tags without a review, because a tag is no part of a value and creates no version. */
export const tagTicked = async ({ get, set }: Store, typed: string, op: "add" | "remove") => {
  const tag = typed.trim().toLowerCase()
  if (tag === "") return set({ message: "Type a tag first." })
  const keys = rowsTicked(get()).map(([key]) => key)
  const answer = await Server.changeTag(get(), keys, tag, op)
  if (typeof answer === "string") return set({ message: answer })
  const many = keys.length === 1 ? "1 key" : `${keys.length} keys`
  set({ data: answer, message: op === "add" ? `${many} tagged ${tag}.` : `${tag} removed from ${many}.` })
}

const toggleDeleted = (store: Store, at: Place) => {
  const { data, pending } = store.get()
  if (!data.columns[at.column].writes) return
  if (pending.has(idOf(at))) drop(store, [idOf(at)])
  else markDeleted(store, [at])
}

// --- pasted or dropped files ---

/** Adds the entries of a file as changes of one column. The review offers other columns. */
const importEntries = (store: Store, entries: ReadonlyArray<Entry>) => {
  const column = targetColumn(store.get())
  if (column < 0) return store.set({ message: "You may not change secrets of this project." })
  store.set({ imported: entries })
  place(store, entries, column, true)
  store.set({ sheet: "review" })
}

export const importText = async (store: Store, name: string, text: string, formats: string) => {
  const { set } = store
  const { readFile } = (await import(formats)) as typeof import("./formats.ts")
  const { entries, failure } = readFile(name, text)
  const wrong = entries.find(({ key }) => !keyPattern.test(key))
  const { at, data } = store.get()
  const isOneValue = name === "" && (failure !== undefined || wrong !== undefined) && !text.trim().includes("\n")
  if (isOneValue && at !== undefined && data.columns[at.column].writes) return edit(store, at, text)
  if (failure !== undefined) return set({ message: `The text cannot be read. ${failure}` })
  if (wrong !== undefined) {
    return set({
      message: `The name in line ${wrong.line} cannot be a key. Keys consist of A–Z, 0–9 and _, and start with a letter.`
    })
  }
  if (entries.length === 0) return set({ message: "The text has no secrets." })
  importEntries(store, entries)
}

// --- the keyboard ---

const byLetter: ReadonlyMap<string, (store: Store, at: Place) => void> = new Map([
  ["Enter", (store, at) => edit(store, at)],
  ["F2", (store, at) => edit(store, at)],
  ["r", (store, at) => void reveal(store, at)],
  ["c", (store, at) => void copyValue(store, at)],
  ["h", details],
  ["d", toggleDeleted],
  ["Delete", toggleDeleted],
  ["x", (store, { key }) => tick(store, key)]
])
const byArrow: ReadonlyMap<string, readonly [rows: number, columns: number]> = new Map([
  ["ArrowUp", [-1, 0]],
  ["ArrowDown", [1, 0]],
  ["ArrowLeft", [0, -1]],
  ["ArrowRight", [0, 1]],
  ["PageUp", [-15, 0]],
  ["PageDown", [15, 0]],
  ["Home", [0, -100]],
  ["End", [0, 100]]
] as const)

const isField = (target: EventTarget | null) =>
  target instanceof Element && target.closest("input, textarea, select") !== null

export const onKey = (store: Store, event: KeyboardEvent) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isField(event.target)) return
  const { at, revealed } = store.get()
  const arrow = byArrow.get(event.key)
  const act = byLetter.get(event.key)
  if (event.key === "Escape" && revealed !== undefined) hide(store)
  else if (arrow !== undefined) go(store, ...arrow)
  else if (act !== undefined && at !== undefined && !(event.target instanceof HTMLButtonElement)) act(store, at)
  else return
  event.preventDefault()
}

/** Keys that work everywhere on the page. */
export const onPageKey = (store: Store, event: KeyboardEvent) => {
  const { get, set } = store
  const saves = (event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "s"
  if (saves && get().pending.size > 0) {
    event.preventDefault()
    commit(store)
    return set({ sheet: "review" })
  }
  if (event.ctrlKey || event.metaKey || event.altKey || isField(event.target) || get().sheet !== undefined) return
  if (get().drawer !== undefined) return
  if (event.key === "n" && targetColumn(get()) >= 0) set({ sheet: "add" })
  else if (event.key === "/") document.querySelector<HTMLInputElement>("#matrix-filter")?.focus()
  else return
  event.preventDefault()
}

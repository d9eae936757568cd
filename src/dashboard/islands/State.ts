/** State of the matrix: unsaved changes, and the server's problems with them. */
import { keysIn } from "#src/secrets/TemplateScan.ts"
import {
  type Cell,
  cellsOf,
  type FirstSteps,
  fits,
  type Line,
  linesOf,
  type MatrixData,
  type Row,
  type Show,
  shows,
  tagsOf
} from "#src/dashboard/secrets/Matrix.ts"

/** An unsaved change. `version` is the one that the page showed, 0 for a new key. */
export interface Pending {
  readonly key: string
  readonly column: number
  readonly op: "set" | "delete"
  readonly value: string
  /** Present for text that looks like a template. */
  readonly kind?: "literal"
  /** A note of the source file that deserves a look. */
  readonly remark?: string
  /** The column that the server copies the value from; the page never sees it. */
  readonly copyFrom?: number
  readonly version: number
  /** Sentence about the server's refusal of this change. */
  readonly problem?: string
  /** Version that another person wrote meanwhile. */
  readonly theirs?: number
}
export interface Place {
  readonly key: string
  readonly column: number
}
export interface Entry {
  readonly key: string
  readonly value: string
  readonly kind?: "literal"
  readonly remark?: string
}

export interface State {
  readonly data: MatrixData
  readonly words: string
  readonly show: Show | "changed"
  readonly folded: ReadonlySet<string>
  readonly at: Place | undefined
  readonly hover: Place | undefined
  /** `before`: the text that the field began with, whose line breaks the kept text gets back. */
  readonly editing: (Place & { readonly text: string; readonly before: string | undefined }) | undefined
  readonly pending: ReadonlyMap<string, Pending>
  readonly revealed: (Place & { readonly text: string }) | undefined
  readonly ticked: ReadonlySet<string>
  readonly sheet: "review" | "add" | undefined
  /** Address of the secret whose page is open over this one. */
  readonly drawer: string | undefined
  /** Entries of the last pasted or dropped file, for the choice of more environments. */
  readonly imported: ReadonlyArray<Entry>
  /** Undefined if the page shows no first steps. */
  readonly steps: FirstSteps | undefined
  readonly message: string
  /** Sentence about the last failed save. */
  readonly failure: string
  readonly saving: boolean
}

/** `parameters` come from the page's address: filter and view. */
export const initial = (data: MatrixData, parameters: URLSearchParams): State => ({
  data,
  words: parameters.get("q") ?? "",
  show: shows.find((one) => one === parameters.get("show")) ?? "all",
  folded: new Set(),
  at: undefined,
  hover: undefined,
  editing: undefined,
  pending: new Map(),
  revealed: undefined,
  ticked: new Set(),
  sheet: undefined,
  drawer: undefined,
  imported: [],
  steps: data.steps,
  message: "",
  failure: "",
  saving: false
})

export interface Store {
  readonly get: () => State
  readonly set: (change: Partial<State>) => void
}

export const keyPattern = /^[A-Z][A-Z0-9_]{0,254}$/
export const idOf = ({ column, key }: Place) => `${column} ${key}`
export const isAt = (place: Place | undefined, key: string, column: number) =>
  place?.key === key && place.column === column

export const cellAt = ({ data }: State, { column, key }: Place): Cell => {
  const row = data.rows.find(([name]) => name === key)
  return row === undefined ? 0 : cellsOf(row)[column]
}
export const versionAt = (state: State, place: Place) => {
  const cell = cellAt(state, place)
  return cell === 0 ? 0 : cell[0]
}

/** All rows, including unsaved new keys, which have no version in any environment. */
export const allRows = ({ data, pending }: State): ReadonlyArray<Row> => {
  const saved = new Set(data.rows.map(([key]) => key))
  const unsaved = new Set([...pending.values()].map(({ key }) => key).filter((key) => !saved.has(key)))
  if (unsaved.size === 0) return data.rows
  const rows = [...data.rows, ...[...unsaved].map((key): Row => [key, ...data.columns.map(() => 0 as const)])]
  return rows.sort(([a], [b]) => (a < b ? -1 : 1))
}

export const visibleLines = (state: State): ReadonlyArray<Line> => {
  const { folded, pending, show, words } = state
  const changed = new Set([...pending.values()].map(({ key }) => key))
  const tags = tagsOf(state.data)
  const rows = allRows(state).filter((row) => fits(row, words, show === "changed" ? "all" : show, tags))
  let group = ""
  return linesOf(show === "changed" ? rows.filter(([key]) => changed.has(key)) : rows).filter((line) => {
    if ("group" in line) group = line.group
    return "group" in line || !folded.has(group) || !line.row[0].startsWith(`${group}_`)
  })
}

// --- changes ---

const withPending = (state: State, changes: ReadonlyArray<Pending>) => {
  const pending = new Map(state.pending)
  for (const change of changes) pending.set(idOf(change), change)
  return pending
}

const setting = (state: State, place: Place, value: string): Pending => ({
  key: place.key,
  column: place.column,
  op: "set",
  value,
  version: versionAt(state, place)
})

export const put = ({ get, set }: Store, place: Place, value: string) =>
  set({ pending: withPending(get(), [setting(get(), place, value)]), failure: "" })

export const copyHere = ({ get, set }: Store, places: ReadonlyArray<Place>, copyFrom: number) =>
  set({
    pending: withPending(
      get(),
      places.map((place) => ({ ...setting(get(), place, ""), copyFrom }))
    ),
    failure: ""
  })

export const markDeleted = ({ get, set }: Store, places: ReadonlyArray<Place>) => {
  const state = get()
  const there = places.filter((place) => versionAt(state, place) > 0)
  set({
    pending: withPending(
      state,
      there.map((place) => ({ ...setting(state, place, ""), op: "delete" }))
    )
  })
}

/** The change without the server's refusal. */
export const untried = (one: Pending): Pending => {
  const { problem: _, ...rest } = one
  return rest
}

export const drop = ({ get, set }: Store, ids: ReadonlyArray<string>) => {
  const pending = new Map(get().pending)
  for (const id of ids) pending.delete(id)
  set({ pending, failure: "" })
}

/** Rebases my change on the other person's version, so that it overwrites theirs. */
export const keepMine = ({ get, set }: Store, mine: Pending) => {
  const { problem: _, theirs = mine.version, ...rest } = mine
  set({ pending: withPending(get(), [{ ...rest, version: theirs }]), failure: "" })
}

/** Adds entries to a column, or removes them. */
export const place = (store: Store, entries: ReadonlyArray<Entry>, column: number, into: boolean) => {
  const { get, set } = store
  if (!into)
    return drop(
      store,
      entries.map(({ key }) => idOf({ key, column }))
    )
  set({
    pending: withPending(
      get(),
      entries.map(({ key, kind, remark, value }) => ({
        ...setting(get(), { key, column }, value),
        ...(kind === undefined ? {} : { kind }),
        ...(remark === undefined ? {} : { remark })
      }))
    ),
    failure: ""
  })
}

/** Keys that a text refers to and that its environment will lack after the save. */
export const missingFor = (state: State, { column, copyFrom, kind, op, value }: Pending): ReadonlyArray<string> => {
  if (op === "delete" || copyFrom !== undefined || kind === "literal") return []
  return keysIn(value).filter((key) => {
    const pending = state.pending.get(idOf({ column, key }))
    return pending === undefined ? cellAt(state, { column, key }) === 0 : pending.op === "delete"
  })
}

/** The column for pasted entries: the current one, else the first writable one. */
export const targetColumn = ({ at, data }: State): number => {
  if (at !== undefined && data.columns[at.column]?.writes === true) return at.column
  return data.columns.findIndex(({ writes }) => writes)
}

const invisible =
  // eslint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/
/** Warnings about invisible parts of a text. */
export const hiddenIn = (text: string): ReadonlyArray<string> => [
  ...(text === "" ? ["It is empty."] : []),
  ...(invisible.test(text) ? ["It has invisible characters."] : []),
  ...(/^\s/.test(text) ? ["It begins with a space or an empty line."] : []),
  ...(/\s$/.test(text) ? ["It ends with a space or an empty line."] : [])
]

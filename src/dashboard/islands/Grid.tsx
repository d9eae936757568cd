/** Rows of the matrix; draws only the visible ones. */
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks"
import { type Cell, cellsOf, type Line, markOf, type Row, type Tags, tagsOf } from "#src/dashboard/secrets/Matrix.ts"
import * as Icons from "#src/dashboard/frame/Icons.tsx"
import * as Act from "./Act.ts"
import { Editor } from "./Editor.tsx"
import { idOf, isAt, type Pending, type State, type Store, visibleLines } from "./State.ts"

const rowHeight = 36
const overscan = 6

const pendingText = (state: State, { copyFrom, op, value }: Pending) => {
  if (op === "delete") return "deleted"
  if (copyFrom !== undefined) return `as in ${state.data.columns[copyFrom].name}`
  return value === "" ? "(empty)" : value.split("\n", 1)[0]
}

/** Label of a cell for screen readers. */
const labelOf = (state: State, row: Row, column: number, cell: Cell, pending: Pending | undefined) => {
  const { columns } = state.data
  const place = `${row[0]} in ${columns[column].name}`
  if (pending !== undefined) return `${place}: not saved yet, ${pendingText(state, pending)}`
  if (cell === 0) return `${place}: missing${columns[column].writes ? ", + Add" : ""}`
  if (isAt(state.revealed, row[0], column)) return `${place}: ${state.revealed?.text || "(empty)"}`
  const mark = markOf(row, column)
  const likes =
    mark === undefined
      ? ""
      : mark.sign === "≠"
        ? ", differs"
        : `, equal to ${mark.like.map((i) => columns[i].name).join(", ")}`
  return `${place}: ${columns[column].reads ? "value" : "not readable"}${cell[1] === 1 ? ", uses other secrets" : ""}${likes}`
}

interface At {
  readonly store: Store
  readonly state: State
  readonly row: Row
  readonly column: number
  readonly cell: Cell
}

const Tool = ({ act, children, title }: { act: () => void; children: preact.ComponentChildren; title: string }) => (
  <button
    type="button"
    class="tool"
    tabIndex={-1}
    title={title}
    aria-label={title}
    onClick={(event) => {
      event.stopPropagation()
      act()
    }}
  >
    {children}
  </button>
)

/** Buttons of the current cell and of the cell under the pointer. */
const Tools = ({ cell, column, row, state, store }: At) => {
  const at = { key: row[0], column }
  const { columns } = state.data
  const source = cellsOf(row).findIndex((one, i) => one !== 0 && columns[i].reads)
  return (
    <span class="tools">
      {cell !== 0 && columns[column].reads ? (
        <>
          <Tool title="Reveal (r)" act={() => void Act.reveal(store, at)}>
            <Icons.Eye />
          </Tool>
          <Tool title="Copy the value (c)" act={() => void Act.copyValue(store, at)}>
            <Icons.Copy />
          </Tool>
        </>
      ) : null}
      {cell === 0 && source >= 0 && columns[column].writes ? (
        <Tool title={`Copy from ${columns[source].name}`} act={() => Act.bring(store, at, source)}>
          <Icons.Copy />
        </Tool>
      ) : null}
      {cell === 0 ? null : (
        <Tool title="Details and history (h)" act={() => Act.details(store, at)}>
          <Icons.Clock />
        </Tool>
      )}
    </span>
  )
}

const Content = ({ cell, column, row, state }: At) => {
  const pending = state.pending.get(idOf({ key: row[0], column }))
  if (pending !== undefined) return <span class={`typed typed-${pending.op}`}>{pendingText(state, pending)}</span>
  if (cell === 0) return <span>{state.data.columns[column].writes ? "+ Add" : "missing"}</span>
  const mark = markOf(row, column)
  const text = isAt(state.revealed, row[0], column) ? state.revealed?.text : undefined
  return (
    <>
      {text === undefined ? (
        <span class="value-mask">{state.data.columns[column].reads ? "••••••••" : "not readable"}</span>
      ) : (
        <span class="value-text">{text === "" ? "(empty)" : text}</span>
      )}
      {cell[1] === 1 ? <span class="mark mark-template">{"${ }"}</span> : null}
      {mark === undefined ? null : (
        <span class={mark.sign === "=" ? "mark" : "mark mark-differs"}>
          {mark.sign}
          {mark.letter}
        </span>
      )}
    </>
  )
}

const GridCell = (at: At) => {
  const { cell, column, row, state, store } = at
  const [key] = row
  const isCurrent = isAt(state.at, key, column)
  const pending = state.pending.get(idOf({ key, column }))
  const isEdited = isAt(state.editing, key, column)
  const looks = [
    "cell",
    cell === 0 && pending === undefined ? "cell-missing" : "",
    pending === undefined ? "" : "cell-changed",
    pending?.theirs !== undefined || pending?.problem !== undefined ? "cell-refused" : "",
    state.data.columns[column].protected ? "guarded" : ""
  ]
  return (
    <div
      role="gridcell"
      class={looks.join(" ")}
      tabIndex={isCurrent ? 0 : -1}
      aria-label={labelOf(state, row, column, cell, pending)}
      data-at={isCurrent ? "" : undefined}
      onClick={() => Act.stand(store, { key, column })}
      onDblClick={() => Act.edit(store, { key, column })}
      onPointerEnter={() => store.set({ hover: { key, column } })}
    >
      {isEdited ? (
        <Editor store={store} state={state} at={{ key, column }} />
      ) : (
        <>
          <Content {...at} />
          {isCurrent || isAt(state.hover, key, column) ? <Tools {...at} /> : null}
        </>
      )}
    </div>
  )
}

/** Tags of one row; the page of the secret shows all. */
const maxTags = 2

const RowTags = ({ of, store }: { of: ReadonlyArray<string>; store: Store }) =>
  of.length === 0 ? null : (
    <span class="tags" title={of.join(", ")}>
      {of.slice(0, maxTags).map((tag) => (
        <button
          key={tag}
          type="button"
          class="tag"
          tabIndex={-1}
          aria-label={`Filter by the tag ${tag}`}
          onClick={() => store.set({ words: `#${tag}` })}
        >
          {tag}
        </button>
      ))}
      {of.length > maxTags ? <span class="hint">+{of.length - maxTags}</span> : null}
    </span>
  )

interface RowAt {
  readonly store: Store
  readonly state: State
  readonly row: Row
  readonly index: number
  readonly tags: Tags
}

const GridRow = ({ index, row, state, store, tags }: RowAt) => (
  <div role="row" class="row" aria-rowindex={index + 2} style={{ top: `${index * rowHeight}px` }}>
    <div role="rowheader" class="cell cell-key">
      <input
        type="checkbox"
        aria-label={`Tick ${row[0]}`}
        tabIndex={-1}
        checked={state.ticked.has(row[0])}
        onChange={() => Act.tick(store, row[0])}
      />
      <span class="key" title={row[0]}>
        {row[0]}
      </span>
      <RowTags of={tags.get(row[0]) ?? []} store={store} />
    </div>
    {cellsOf(row).map((cell, column) => (
      <GridCell key={column} store={store} state={state} row={row} column={column} cell={cell} />
    ))}
  </div>
)

const GroupRow = ({
  count,
  group,
  index,
  state,
  store
}: { [K in "count" | "index"]: number } & {
  group: string
  state: State
  store: Store
}) => (
  <div role="row" class="row key-group" aria-rowindex={index + 2} style={{ top: `${index * rowHeight}px` }}>
    <div role="rowheader" class="cell cell-key" aria-colspan={state.data.columns.length + 1}>
      <button
        type="button"
        class="fold"
        aria-expanded={!state.folded.has(group)}
        onClick={() => Act.fold(store, group)}
      >
        <Icons.Chevron /> {group} <span class="hint">{count}</span>
      </button>
    </div>
  </div>
)

const HeadRow = ({ state }: { state: State }) => {
  const { columns, rows } = state.data
  const counts = useMemo(() => columns.map((_, i) => rows.filter((row) => row[i + 1] !== 0).length), [columns, rows])
  return (
    <div role="row" class="row row-head" aria-rowindex={1}>
      <div role="columnheader" class="cell cell-key">
        Key
      </div>
      {columns.map(({ name, protected: guarded, slug }, i) => (
        <div role="columnheader" key={slug} class={guarded ? "cell guarded" : "cell"}>
          <a href={`${state.data.here}/env/${slug}`}>
            <bdi>{name}</bdi>
          </a>
          {guarded ? (
            <span class="badge badge-amber" title="protected">
              <Icons.Lock /> <span class="badge-word">protected</span>
            </span>
          ) : null}
          <span class="hint count">{counts[i]}</span>
        </div>
      ))}
    </div>
  )
}

/** The visible lines; scrolls the current one into view. */
const useWindow = (lines: ReadonlyArray<Line>, state: State) => {
  const scroller = useRef<HTMLDivElement>(null)
  // The height of the stylesheet, so that the first drawing is already right.
  const [viewport, setViewport] = useState({ top: 0, height: Math.max(320, innerHeight - 320) })
  const look = () => {
    const { current } = scroller
    if (current === null) return
    const { clientHeight: height, scrollTop: top } = current
    setViewport((before) => (before.top === top && before.height === height ? before : { top, height }))
  }
  useLayoutEffect(() => {
    look()
    addEventListener("resize", look)
    return () => removeEventListener("resize", look)
  }, [])
  const current =
    state.at === undefined ? -1 : lines.findIndex((line) => "row" in line && line.row[0] === state.at?.key)
  const place = `${state.at?.key} ${state.at?.column}`
  useLayoutEffect(() => {
    const box = scroller.current
    if (box === null || current < 0) return
    const top = current * rowHeight
    const room = box.clientHeight - 2 * rowHeight
    if (top < box.scrollTop) box.scrollTop = top
    else if (top > box.scrollTop + room) box.scrollTop = top - room
    look()
  }, [current, place])
  // Focuses the current cell once it is drawn, unless another element takes the input.
  useLayoutEffect(() => {
    const cell = scroller.current?.querySelector<HTMLElement>("[data-at]")
    if (state.sheet === undefined && state.drawer === undefined && state.editing === undefined)
      cell?.focus({ preventScroll: false })
  }, [place, viewport.top, state.editing === undefined, state.sheet === undefined])
  const first = Math.max(0, Math.floor(viewport.top / rowHeight) - overscan)
  return { scroller, look, first, last: Math.ceil((viewport.top + viewport.height) / rowHeight) + overscan }
}

export const Grid = ({ state, store }: { state: State; store: Store }) => {
  const { data, folded, pending, show, words } = state
  const lines = useMemo(() => visibleLines(state), [data, folded, pending, show, words])
  const tags = useMemo(() => tagsOf(data), [data])
  const { first, last, look, scroller } = useWindow(lines, state)
  const { columns } = state.data
  const widths = { "--columns": String(columns.length) } as preact.JSX.CSSProperties
  return (
    <div
      ref={scroller}
      class="grid"
      role="grid"
      aria-label="Keys by environment"
      aria-rowcount={lines.length + 1}
      aria-colcount={columns.length + 1}
      style={widths}
      tabIndex={state.at === undefined ? 0 : -1}
      onScroll={look}
      onKeyDown={(event) => Act.onKey(store, event)}
      onPointerLeave={() => store.set({ hover: undefined })}
      onFocus={(event) => {
        if (event.target === event.currentTarget) Act.enter(store)
      }}
    >
      <HeadRow state={state} />
      <div role="rowgroup" class="rows" style={{ height: `${lines.length * rowHeight}px` }}>
        {lines
          .slice(first, last)
          .map((line, i) =>
            "group" in line ? (
              <GroupRow key={`group ${line.group}`} {...line} index={first + i} state={state} store={store} />
            ) : (
              <GridRow key={line.row[0]} row={line.row} index={first + i} state={state} store={store} tags={tags} />
            )
          )}
      </div>
      {lines.length === 0 ? <p class="hint nothing">No key matches.</p> : null}
    </div>
  )
}

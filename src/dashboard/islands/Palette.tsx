/** Search or jump to: results of the search page during typing. Opens over every page, and leads to a page. */
import { useEffect, useRef, useState } from "preact/hooks"
import * as Icons from "#src/dashboard/frame/Icons.tsx"
import type { SearchResults, Item } from "#src/dashboard/home/SearchItems.ts"
import { Dialog } from "./Dialog.tsx"

const kinds: Readonly<Record<Item["kind"], string>> = {
  key: "secret",
  project: "project",
  environment: "environment",
  person: "person",
  token: "token",
  page: "page"
}

interface Results extends SearchResults {
  readonly words: string
}

/** Results of the server, or a sentence about the failure. */
const ask = async (words: string, signal: AbortSignal): Promise<Results | string> => {
  try {
    const answer = await fetch(`/app/search?q=${encodeURIComponent(words)}`, {
      headers: { accept: "application/json" },
      cache: "no-store",
      redirect: "error",
      signal
    })
    if (answer.ok) return { ...((await answer.json()) as SearchResults), words }
    return answer.status === 401
      ? "You are signed out."
      : answer.status === 429
        ? "Wait a moment, then continue typing."
        : "The server refused this."
  } catch {
    return signal.aborted ? "" : "The server does not answer."
  }
}

const go = ({ href }: Item) => location.assign(href)

const Option = ({ at, item, onChoose }: { item: Item; at: boolean; onChoose: () => void }) => (
  // Only the pointer reaches an option, because the field keeps the focus and the keyboard.
  <li role="option" id={at ? "palette-at" : undefined} aria-selected={at} onClick={onChoose}>
    <span class={item.kind === "key" ? "key" : "palette-title"}>
      <bdi>{item.title}</bdi>
    </span>
    <span class="hint">
      <bdi>{item.about}</bdi>
    </span>
    <span class="hint push">{kinds[item.kind]}</span>
  </li>
)

/** Fetches results during typing. */
const useResults = (words: string, onResults: (results: Results) => void) => {
  const [results, setResults] = useState<Results>({ items: [], words: " " })
  const [message, setMessage] = useState("")
  useEffect(() => {
    const asking = new AbortController()
    const look = async () => {
      const answer = await ask(words, asking.signal)
      if (asking.signal.aborted) return
      if (typeof answer === "string") return setMessage(answer)
      setMessage("")
      setResults(answer)
      onResults(answer)
    }
    const wait = setTimeout(() => void look(), words === "" ? 0 : 60)
    return () => {
      clearTimeout(wait)
      asking.abort()
    }
  }, [words])
  return { results, message }
}

const Palette = ({ close }: { close: () => void }) => {
  const [words, setWords] = useState("")
  const [at, setAt] = useState(0)
  const list = useRef<HTMLUListElement>(null)
  // Enter was pressed before the results arrived, so the first of them opens.
  const opensFirst = useRef(false)
  const { message, results } = useResults(words, ({ items: [first] }) => {
    setAt(0)
    if (opensFirst.current && first !== undefined) go(first)
    opensFirst.current = false
  })
  useEffect(
    () => list.current?.querySelector("[aria-selected='true']")?.scrollIntoView({ block: "nearest" }),
    [at, results]
  )
  const { items } = results
  const isCurrent = results.words === words
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt(Math.min(items.length - 1, at + 1))
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1))
    else if (event.key === "Enter" && isCurrent && items[at] !== undefined) go(items[at])
    else if (event.key === "Enter") opensFirst.current = !isCurrent
    else return
    event.preventDefault()
  }
  const count = items.length === 1 ? "1 result" : `${items.length} results`
  return (
    <Dialog label="Search or jump to" kind="palette" close={close}>
      <div class="palette-field">
        <Icons.Search />
        <input
          type="text"
          role="combobox"
          aria-label="Search or jump to"
          aria-expanded={items.length > 0}
          aria-controls="palette-list"
          aria-activedescendant={items.length > 0 ? "palette-at" : undefined}
          aria-autocomplete="list"
          placeholder="Search or jump to …"
          autocomplete="off"
          spellcheck={false}
          value={words}
          onInput={({ currentTarget }) => {
            opensFirst.current = false
            setWords(currentTarget.value)
          }}
          onKeyDown={onKeyDown}
        />
      </div>
      <ul id="palette-list" role="listbox" aria-label="Results" ref={list} hidden={items.length === 0}>
        {items.map((item, i) => (
          <Option key={`${item.kind} ${item.href}`} item={item} at={i === at} onChoose={() => go(item)} />
        ))}
      </ul>
      {items.length === 0 && isCurrent ? (
        <p class="hint palette-none">
          No results. Words can come from a key, its project and its environment together: data shop prod.
        </p>
      ) : null}
      <p class={message === "" ? "hidden" : "error palette-none"} role="status">
        {message !== "" ? message : isCurrent ? count : ""}
      </p>
    </Dialog>
  )
}

export const palette = (close: () => void) => <Palette close={close} />

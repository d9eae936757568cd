/** Script of documentation pages: the search, and a button that copies a command. Pages read without it. */
import MiniSearch from "minisearch"
import { searchOptions } from "./SearchOptions.ts"

document.documentElement.classList.add("scripted")

/** Results that are shown. */
const maxResults = 12

const form = document.querySelector<HTMLFormElement>("[data-docs-search]")
const input = form?.querySelector("input")
const panel = form?.querySelector<HTMLElement>("[data-docs-results]")
const count = panel?.querySelector("[data-docs-count]")
const list = panel?.querySelector("ul")

let index: Promise<MiniSearch> | undefined
/** Fetched once, when the reader first turns to the search. A failed fetch is tried again. */
const loadIndex = (address: string): Promise<MiniSearch> => {
  index ??= fetch(address)
    .then((response) => (response.ok ? response.text() : Promise.reject(new Error(String(response.status)))))
    .then((text) => MiniSearch.loadJSON(text, searchOptions))
    .catch((error: unknown) => {
      index = undefined
      throw error
    })
  return index
}

const result = ({ heading, id, title }: { readonly heading: string; readonly title: string; readonly id: string }) => {
  const item = document.createElement("li")
  const link = document.createElement("a")
  link.href = id
  const words = document.createElement("span")
  words.textContent = heading
  link.append(words)
  if (heading !== title) {
    const page = document.createElement("span")
    page.className = "hint"
    page.textContent = title
    link.append(page)
  }
  item.append(link)
  return item
}

const say = (text: string) => {
  if (count) count.textContent = text
}

const countOf = (results: number): string => {
  if (results === 0) return "No page has these words."
  if (results > maxResults) return `The first ${maxResults} of ${results} results`
  return results === 1 ? "1 result" : `${results} results`
}

const search = async (query: string, address: string) => {
  if (!panel || !list) return
  panel.hidden = query === ""
  if (query === "") return
  try {
    const results = (await loadIndex(address)).search(query)
    // A later key stroke has its own results.
    if (input?.value.trim() !== query) return
    list.replaceChildren(
      ...results
        .slice(0, maxResults)
        .map(({ heading, id, title }) => result({ heading: String(heading), id: String(id), title: String(title) }))
    )
    say(countOf(results.length))
  } catch {
    list.replaceChildren()
    say("The search index cannot be loaded. All pages are in the list beside the text.")
  }
}

const links = () => [...(list?.querySelectorAll("a") ?? [])]

const move = (step: 1 | -1, event: KeyboardEvent) => {
  const all = links()
  const place = all.findIndex((link) => link === document.activeElement)
  event.preventDefault()
  const next = place + step
  if (next < 0) input?.focus()
  else all[Math.min(next, all.length - 1)]?.focus()
}

const close = () => {
  if (panel) panel.hidden = true
}

if (form && input) {
  const address = form.dataset["index"] ?? ""
  input.addEventListener("focus", () => void loadIndex(address).catch(() => undefined))
  input.addEventListener("input", () => void search(input.value.trim(), address))
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    links()[0]?.click()
  })
  form.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") move(1, event)
    if (event.key === "ArrowUp") move(-1, event)
    if (event.key !== "Escape") return
    close()
    input.focus()
  })
  addEventListener("click", (event) => {
    if (event.target instanceof Node && !form.contains(event.target)) close()
    // A result on the same page only moves there.
    if (event.target instanceof Element && event.target.closest("[data-docs-results] a") !== null) close()
  })
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return
    if (document.activeElement instanceof HTMLInputElement) return
    event.preventDefault()
    input.focus()
  })
}

// --- a button beside each block of code ---

for (const block of document.querySelectorAll<HTMLElement>("pre.code")) {
  const button = document.createElement("button")
  button.type = "button"
  button.className = "docs-copy"
  button.textContent = "Copy"
  button.addEventListener("click", () => {
    const text = block.querySelector("code")?.textContent ?? ""
    void navigator.clipboard.writeText(text).then(
      () => (button.textContent = "Copied"),
      () => (button.textContent = "Cannot copy")
    )
    setTimeout(() => (button.textContent = "Copy"), 2_000)
  })
  const wrapper = document.createElement("div")
  wrapper.className = "docs-code"
  block.replaceWith(wrapper)
  wrapper.append(block, button)
}

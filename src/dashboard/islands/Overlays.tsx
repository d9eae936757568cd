/** Overlays of every page for signed-in people, one at a time: the search, and the list of keys. */
import { type ComponentChild, render } from "preact"
import { keys } from "./Keys.tsx"
import { palette } from "./Palette.tsx"

type Overlay = (close: () => void) => ComponentChild

let place: HTMLElement | undefined
let current: Overlay | undefined
const close = () => {
  if (place === undefined) return
  render(null, place)
  place.remove()
  place = undefined
  current = undefined
}
const open = (overlay: Overlay) => {
  close()
  place = document.body.appendChild(document.createElement("div"))
  current = overlay
  render(overlay(close), place)
}
const toggle = (overlay: Overlay) => (current === overlay ? close() : open(overlay))

const isField = (target: EventTarget | null) =>
  target instanceof Element && target.closest("input, textarea, select") !== null

/** The overlay that a key opens. */
const overlayOf = (event: KeyboardEvent): Overlay | undefined => {
  if (event.altKey) return undefined
  if ((event.metaKey || event.ctrlKey) && !event.shiftKey && event.key.toLowerCase() === "k") return palette
  return event.key === "?" && !isField(event.target) && document.querySelector("dialog[open]") === null
    ? keys
    : undefined
}

/** Starts to listen, before the rest of the page is drawn. */
export const listen = () => {
  const isHere = () => document.querySelector("[data-palette]") !== null
  addEventListener("keydown", (event) => {
    const overlay = overlayOf(event)
    if (overlay === undefined || !isHere()) return
    event.preventDefault()
    toggle(overlay)
  })
  addEventListener("click", (event) => {
    const isPlain = !event.metaKey && !event.ctrlKey && !event.shiftKey && event.button === 0
    if (!isPlain || !(event.target instanceof Element) || event.target.closest("[data-palette]") === null) return
    event.preventDefault()
    open(palette)
  })
}

/** The page of a secret as a sheet over the matrix, under its own address. Its forms answer inside of it. */
import { useLayoutEffect, useRef, useState } from "preact/hooks"
import * as Icons from "#src/dashboard/frame/Icons.tsx"
import { Dialog } from "./Dialog.tsx"
import * as Server from "./Server.ts"
import type { Store } from "./State.ts"

/** What a page shows below its frame, and its own address; a sentence when it cannot be had. */
const contentOf = async (href: string) => {
  try {
    const answer = await fetch(href, { cache: "no-store" })
    const page = new DOMParser().parseFromString(await answer.text(), "text/html")
    const main = page.querySelector("main")
    if (!answer.ok || main === null || main.classList.contains("card")) return "The server refused this."
    return { main, url: answer.url, title: page.title }
  } catch {
    return "The server does not answer."
  }
}

/** The address is of the secret while it is shown: a reload opens its page, and Back leads here. */
const useAddress = (close: () => void) => {
  const before = useRef({ title: document.title, pushed: false })
  useLayoutEffect(() => {
    const onBack = () => {
      before.current.pushed = false
      close()
    }
    addEventListener("popstate", onBack)
    return () => {
      removeEventListener("popstate", onBack)
      document.title = before.current.title
      if (before.current.pushed) history.back()
    }
  }, [])
  return (url: string, title: string) => {
    history.pushState(null, "", url)
    before.current.pushed = true
    document.title = title
  }
}

export const Drawer = ({ href, store }: { href: string; store: Store }) => {
  const place = useRef<HTMLDivElement>(null)
  const [message, setMessage] = useState("Loading …")
  const close = () => store.set({ drawer: undefined })
  const goTo = useAddress(close)
  useLayoutEffect(() => {
    let isOpen = true
    // A form of the page was answered: what the matrix shows may be old.
    const onSaved = async () => {
      const data = await Server.fetched(store.get())
      if (data !== undefined) store.set({ data })
    }
    const shown = place.current
    shown?.addEventListener("saved", onSaved)
    void contentOf(href).then((content) => {
      if (!isOpen) return
      if (typeof content === "string") return setMessage(content)
      setMessage("")
      shown?.replaceChildren(...document.adoptNode(content.main).childNodes)
      goTo(content.url, content.title)
    })
    return () => {
      isOpen = false
      shown?.removeEventListener("saved", onSaved)
    }
  }, [])
  return (
    <Dialog label="Details of the secret" kind="sheet drawer" close={close}>
      <button type="button" class="tool drawer-close" aria-label="Close" onClick={close}>
        <Icons.Cross />
      </button>
      <p class={message === "" ? "hidden" : "hint"} role="status">
        {message}
      </p>
      <div ref={place} class="drawer-page" data-drawer />
    </Dialog>
  )
}

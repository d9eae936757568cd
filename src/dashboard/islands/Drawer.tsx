/** The page of a secret as a sheet over the matrix, with its own address. Responses to its forms appear inside. */
import { useLayoutEffect, useRef, useState } from "preact/hooks"
import * as Icons from "#src/dashboard/frame/Icons.tsx"
import { Dialog } from "./Dialog.tsx"
import * as Server from "./Server.ts"
import type { Store } from "./State.ts"

/** Content and address of a page, or a sentence about the failure. */
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

/** Shows the secret's address while the drawer is open: a reload opens its page, and Back closes it. */
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
    // After a saved form, the matrix may be outdated.
    const onSaved = async () => {
      const data = await Server.fetchMatrix(store.get())
      if (data !== undefined) store.set({ data })
    }
    const element = place.current
    element?.addEventListener("saved", onSaved)
    void contentOf(href).then((content) => {
      if (!isOpen) return
      if (typeof content === "string") return setMessage(content)
      setMessage("")
      element?.replaceChildren(...document.adoptNode(content.main).childNodes)
      goTo(content.url, content.title)
    })
    return () => {
      isOpen = false
      element?.removeEventListener("saved", onSaved)
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

/** A sheet over the page. The browser keeps the focus in it, and gives it back. */
import type { ComponentChildren } from "preact"
import { useLayoutEffect, useRef } from "preact/hooks"

export const Dialog = ({
  children,
  close,
  kind = "sheet",
  label
}: {
  readonly label: string
  readonly kind?: "sheet" | "sheet drawer" | "palette"
  readonly close: () => void
  readonly children: ComponentChildren
}) => {
  const dialog = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => {
    const shown = dialog.current
    shown?.showModal()
    // Not only taken out of the page: closing it gives the focus back.
    return () => shown?.close()
  }, [])
  return (
    <dialog
      ref={dialog}
      class={kind}
      aria-label={label}
      onCancel={(event) => {
        event.preventDefault()
        close()
      }}
      onClick={(event) => {
        if (event.target === event.currentTarget) close()
      }}
    >
      {children}
    </dialog>
  )
}

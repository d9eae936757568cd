/** A sheet over the page. The browser keeps the focus inside, and restores it afterwards. */
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
    const element = dialog.current
    element?.showModal()
    // Closed before its removal, because only closing restores the focus.
    return () => element?.close()
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

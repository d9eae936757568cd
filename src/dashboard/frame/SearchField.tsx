/** Field `q` of the forms that search, or that filter a list. */
import type { ComponentChildren } from "preact"
import * as Icons from "./Icons.tsx"

export const SearchField = ({
  autofocus = false,
  children,
  filter,
  label,
  placeholder,
  value
}: {
  readonly label: string
  readonly placeholder: string
  readonly value: string
  readonly autofocus?: boolean
  /** The browser filters the page while the person types; `partial`: the list has further pages. */
  readonly filter?: "whole" | "partial" | undefined
  readonly children?: ComponentChildren
}) => (
  <div class="search">
    <Icons.Search />
    <input
      type="search"
      name="q"
      value={value}
      aria-label={label}
      placeholder={placeholder}
      autocomplete="off"
      spellcheck={false}
      autofocus={autofocus}
      data-filter={filter === undefined ? undefined : ""}
      data-filter-partial={filter === "partial" ? "" : undefined}
    />
    {children}
  </div>
)

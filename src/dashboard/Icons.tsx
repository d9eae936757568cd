/**
 * Icons as shapes in the page: attributes only, since the policy of pages allows no inline style. Decorative: words
 * stand beside them.
 */
import type { ComponentChildren } from "preact"

const Icon = ({ children }: { readonly children: ComponentChildren }) => (
  <svg
    class="icon"
    viewBox="0 0 16 16"
    width="16"
    height="16"
    fill="none"
    stroke="currentColor"
    stroke-width="1.5"
    stroke-linecap="round"
    stroke-linejoin="round"
    aria-hidden="true"
    focusable="false"
  >
    {children}
  </svg>
)

export const Eye = () => (
  <Icon>
    <path d="M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8Z" />
    <circle cx="8" cy="8" r="2" />
  </Icon>
)
export const Copy = () => (
  <Icon>
    <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
    <path d="M10.5 5.5v-2a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h2" />
  </Icon>
)
export const Plus = () => (
  <Icon>
    <path d="M8 3v10M3 8h10" />
  </Icon>
)
export const Paste = () => (
  <Icon>
    <rect x="3" y="3" width="10" height="11" rx="1.5" />
    <path d="M6 3V2h4v1M5.5 7h5M5.5 10h3.5" />
  </Icon>
)
export const Lock = () => (
  <Icon>
    <rect x="3.5" y="7" width="9" height="6.5" rx="1.5" />
    <path d="M5.5 7V5a2.5 2.5 0 0 1 5 0v2" />
  </Icon>
)
export const Search = () => (
  <Icon>
    <circle cx="7" cy="7" r="4.5" />
    <path d="m10.5 10.5 3 3" />
  </Icon>
)
export const Check = () => (
  <Icon>
    <path d="m3 8.5 3.5 3.5L13 5" />
  </Icon>
)
export const Warning = () => (
  <Icon>
    <path d="M8 2 1.5 13.5h13Z" />
    <path d="M8 6.5v3M8 11.6v.1" />
  </Icon>
)
export const Info = () => (
  <Icon>
    <circle cx="8" cy="8" r="6" />
    <path d="M8 7.5v3.5M8 5v.1" />
  </Icon>
)
export const Chevron = () => (
  <Icon>
    <path d="m4 6 4 4 4-4" />
  </Icon>
)
export const Up = () => (
  <Icon>
    <path d="M8 13V3M4 7l4-4 4 4" />
  </Icon>
)
export const Down = () => (
  <Icon>
    <path d="M8 3v10M4 9l4 4 4-4" />
  </Icon>
)
export const Key = () => (
  <Icon>
    <circle cx="5" cy="8" r="3" />
    <path d="M8 8h6.5v2.5M12 8v2" />
  </Icon>
)
export const Terminal = () => (
  <Icon>
    <rect x="1.5" y="2.5" width="13" height="11" rx="1.5" />
    <path d="m4.5 6 2 2-2 2M8.5 10h3" />
  </Icon>
)
export const Person = () => (
  <Icon>
    <circle cx="8" cy="5.5" r="2.5" />
    <path d="M3 13.5c.6-2.6 2.5-4 5-4s4.4 1.4 5 4" />
  </Icon>
)

/** A sealed glass vial. */
export const Mark = () => (
  <svg class="brand-mark" viewBox="0 0 24 24" width="24" height="24" aria-hidden="true" focusable="false">
    <path
      class="mark-glass"
      fill="none"
      stroke="currentColor"
      stroke-width="1.6"
      stroke-linejoin="round"
      d="M12 1.5 10.4 5v2.2c0 .9-.4 1.4-1 2.1C8.5 10.2 8 11.2 8 12.5V20a2.5 2.5 0 0 0 2.5 2.5h3A2.5 2.5 0 0 0 16 20v-7.5c0-1.3-.5-2.3-1.4-3.2-.6-.7-1-1.2-1-2.1V5Z"
    />
    <path class="mark-fill" d="M9.6 14h4.8v5.8a1.2 1.2 0 0 1-1.2 1.2h-2.4a1.2 1.2 0 0 1-1.2-1.2Z" />
  </svg>
)
export const Clock = () => (
  <Icon>
    <circle cx="8" cy="8" r="6" />
    <path d="M8 4.5V8l2.5 1.5" />
  </Icon>
)
export const Cross = () => (
  <Icon>
    <path d="m4 4 8 8M12 4l-8 8" />
  </Icon>
)
export const Columns = () => (
  <Icon>
    <rect x="2.5" y="3" width="11" height="10" rx="1.5" />
    <path d="M8 3v10" />
  </Icon>
)
export const Sliders = () => (
  <Icon>
    <path d="M2.5 5h6M11.5 5h2M2.5 11h2M7.5 11h6" />
    <circle cx="10" cy="5" r="1.5" />
    <circle cx="6" cy="11" r="1.5" />
  </Icon>
)
export const Box = () => (
  <Icon>
    <path d="M2.5 5 8 2.5 13.5 5v6L8 13.5 2.5 11ZM2.5 5 8 7.5 13.5 5M8 7.5v6" />
  </Icon>
)
export const Bell = () => (
  <Icon>
    <path d="M4 11V7a4 4 0 0 1 8 0v4l1 1H3ZM7 14h2" />
  </Icon>
)

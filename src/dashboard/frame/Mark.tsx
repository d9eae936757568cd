/** The logo, a sealed glass vial. Attributes only, since the policy of pages allows no inline style. */
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

/** A picture for the camera of a phone, drawn into the page: it is fetched from nowhere. */
import { modulesOf } from "./QrModules.ts"

/** Light modules around it that readers need (ISO/IEC 18004, 6.3.8). */
const quiet = 4

/** Black on white whatever the page's colours are: many readers know no other. Nothing for a text that is too long. */
export const QrCode = ({ label, text }: { readonly text: string; readonly label: string }) => {
  const rows = modulesOf(text)
  if (rows === undefined) return null
  const dark = rows.flatMap((row, y) => row.flatMap((is, x) => (is ? [`M${x + quiet} ${y + quiet}h1v1h-1z`] : [])))
  const size = rows.length + 2 * quiet
  return (
    <svg class="qr" viewBox={`0 0 ${size} ${size}`} role="img" aria-label={label} shape-rendering="crispEdges">
      <rect width={size} height={size} fill="#fff" />
      <path d={dark.join("")} fill="#000" />
    </svg>
  )
}

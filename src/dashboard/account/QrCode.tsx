/** A QR code for a phone's camera, drawn into the page without any request. */
import { modulesOf } from "./QrModules.ts"

/** Light modules around the code, which readers need (ISO/IEC 18004, 6.3.8). */
const quiet = 4

/** Always black on white, since many readers know no other colours. Renders nothing if the text is too long. */
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

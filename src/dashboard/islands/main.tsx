/** Finds the places of a page that script draws anew. A page works without this file. */
import { render } from "preact"
import type { MatrixData } from "#src/dashboard/secrets/Matrix.ts"
import { MatrixIsland } from "./MatrixIsland.tsx"
import * as Overlays from "./Overlays.tsx"

// First of all, and at once: a person may press its keys as soon as they see the page.
Overlays.listen()

const place = document.getElementById("matrix")
const { formats, matrix } = place?.dataset ?? {}
if (place !== null && matrix !== undefined && formats !== undefined) {
  // Written by the server of this page, from the same type.
  const data = JSON.parse(matrix) as MatrixData
  delete place.dataset["matrix"]
  place.replaceChildren()
  render(<MatrixIsland data={data} formats={formats} />, place)
}

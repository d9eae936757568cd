/** Starts the islands of a page. A page works without this file. */
import { render } from "preact"
import type { MatrixData } from "#src/dashboard/secrets/Matrix.ts"
import { MatrixIsland } from "./Matrix.tsx"
import * as Overlays from "./Overlays.tsx"

// Runs first, because a person may press keys as soon as the page is visible.
Overlays.listen()

const place = document.getElementById("matrix")
const { formats, matrix } = place?.dataset ?? {}
if (place !== null && matrix !== undefined && formats !== undefined) {
  // The server wrote this data from the same type.
  const data = JSON.parse(matrix) as MatrixData
  delete place.dataset["matrix"]
  place.replaceChildren()
  render(<MatrixIsland data={data} formats={formats} />, place)
}

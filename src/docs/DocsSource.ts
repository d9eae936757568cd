/**
 * The documentation, rendered from the repository when the program runs from its sources. The build renders it once and
 * replaces this file with `PackedDocs.ts` (`src/bundle.mjs`).
 */
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import { fileURLToPath } from "node:url"
import * as OpenApi from "#schema/OpenApi.ts"
import type { ApiDocument } from "./ApiReference.ts"
import type { Site } from "./Site.ts"
import { renderSite } from "./SiteRenderer.ts"

/** `repository`: path or address of its folder, with a slash at the end. */
export const siteOf = (repository: string): Site =>
  renderSite({
    read: (file) => {
      const whole = `${repository}${file}`
      return fs.statSync(whole, { throwIfNoEntry: false })?.isFile() === true ? fs.readFileSync(whole) : undefined
    },
    // OpenAPI documents are JSON, and the reference reads optional members of theirs.
    contract: OpenApi.contractDocument as unknown as ApiDocument,
    dashboard: OpenApi.dashboardDocument as unknown as ApiDocument
  })

export const load: Effect.Effect<Site> = Effect.sync(() => siteOf(fileURLToPath(new URL("../../", import.meta.url))))

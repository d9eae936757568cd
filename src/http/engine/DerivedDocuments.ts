/**
 * The two OpenAPI documents, derived from the declarations when the program runs from its sources. Deriving takes 0.4
 * s, so the build does it once and replaces this file with `PackedDocuments.ts` (`src/bundle.mjs`).
 */
import * as Effect from "effect/Effect"
import * as OpenApi from "#schema/OpenApi.ts"
import { type DocumentTexts, textOf } from "./DocumentText.ts"

export const load: Effect.Effect<DocumentTexts> = Effect.sync(() => ({
  contract: textOf(OpenApi.contractDocument),
  dashboard: textOf(OpenApi.dashboardDocument)
}))

/**
 * The two OpenAPI documents, derived from the declarations where the program runs from its sources. That takes 0.4 s of
 * a start, so the build does it once and puts `PackedDocuments.ts` in the place of this file (`src/bundle.mjs`).
 */
import * as Effect from "effect/Effect"
import * as OpenApi from "#schema/OpenApi.ts"
import { type DocumentTexts, textOf } from "./DocumentText.ts"

export const load: Effect.Effect<DocumentTexts> = Effect.sync(() => ({
  contract: textOf(OpenApi.contractDocument),
  dashboard: textOf(OpenApi.dashboardDocument)
}))

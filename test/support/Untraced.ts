/** Tests in which nothing is traced, as in a server without a collector: how a statement runs depends on it (`layers/PgDirect.ts`). */
import { it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

export const scopedLive = <A, E>(name: string, test: () => Effect.Effect<A, E, Scope.Scope>, timeout?: number) =>
  it.scopedLive(name, () => Effect.withTracerEnabled(test(), false), timeout)

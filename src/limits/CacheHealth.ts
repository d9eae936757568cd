import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** State of the shared cache, for readiness: `in-process` when none is configured (ReadinessResponse). */
export class CacheHealth extends Context.Reference<CacheHealth>()("limits/CacheHealth", {
  defaultValue: (): Effect.Effect<"up" | "down" | "in-process"> => Effect.succeed("in-process")
}) {}

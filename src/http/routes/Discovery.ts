import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ServerApi } from "#schema/ServerApi.ts"
import { Probe } from "#src/trail/Probe.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Vault } from "#src/crypto/Vault.ts"
import { CacheHealth } from "#src/limits/CacheHealth.ts"
import * as DerivedDocuments from "#src/http/engine/DerivedDocuments.ts"
import { at, type DocumentTexts } from "#src/http/engine/DocumentText.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

/** Readiness responds within 2 s, even when a dependency hangs (docs/contract/outages.md). */
const deadline = "1700 millis"

/** Reports a check that does not answer as down, without waiting for its interruption. */
const up = <E, R>(check: Effect.Effect<unknown, E, R>) =>
  check.pipe(
    Effect.as({ status: "up" }),
    Effect.disconnect,
    Effect.timeout(deadline),
    Effect.catchAllCause(() => Effect.succeed({ status: "down" }))
  )

/** Made at the first request, and cached from then on. */
const published = (baseUrl: string, name: keyof DocumentTexts) =>
  Effect.cached(Effect.map(DerivedDocuments.load, (texts) => at(baseUrl, texts[name]))).pipe(
    Effect.map(Effect.map((text) => HttpServerResponse.text(text, { contentType: "application/json" })))
  )

const health = Endpoints.group(ServerApi, "discovery", (handlers) =>
  Effect.gen(function* () {
    const trail = yield* Probe
    const vault = yield* Vault
    const cacheHealth = yield* CacheHealth
    const { baseUrl } = yield* AppConfig

    const cache = Effect.map(cacheHealth, (status) => ({ status })).pipe(
      Effect.disconnect,
      Effect.timeout(deadline),
      Effect.catchAllCause(() => Effect.succeed({ status: "down" }))
    )
    const checks = Effect.all(
      { database: up(trail.check), cache, vault: up(vault.status) },
      { concurrency: "unbounded" }
    )
    const document = yield* published(baseUrl, "contract")

    return handlers
      .handle("live", () => Effect.succeed({ status: "ok" }))
      .handle("ready", () =>
        Effect.map(checks, (checks) =>
          Object.values(checks).some(({ status }) => status === "down")
            ? { status: "unavailable" as const, checks }
            : { status: "ready" as const, checks }
        )
      )
      .handle("openApi", () => document)
  })
)

const dashboardDocument = Endpoints.group(ServerApi, "dashboardDocument", (handlers) =>
  Effect.gen(function* () {
    const { baseUrl } = yield* AppConfig
    const document = yield* published(baseUrl, "dashboard")
    return handlers.handle("openApi", () => document)
  })
)

export const layer = Layer.merge(health, dashboardDocument)

import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { RunPlans } from "#src/secrets/RunPlans.ts"
import { SecretReads } from "#src/secrets/SecretReads.ts"
import { Proposed, SecretWrites } from "#src/secrets/SecretWrites.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

/**
 * Answers that are kept sealed by revision leave as they were kept: encoded once per snapshot. All headers are given
 * here: what the platform adds to them makes a hidden class for each answer (docs/architecture.md, "The hot path").
 */
const json = ({ bytes }: { readonly bytes: Uint8Array }, etag?: string) =>
  HttpServerResponse.uint8Array(bytes, {
    headers: { "content-type": "application/json", "content-length": String(bytes.length), etag }
  })

/** A write that waits for an approval answers 202 with its request. */
const waiting = <A, E, R>(write: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    write,
    (error): error is Extract<E, Proposed> => error instanceof Proposed,
    ({ request }) => Effect.succeed(request)
  )

export const layer = Endpoints.group(ServerApi, "secrets", (handlers) =>
  Effect.map(Effect.all([SecretReads, SecretWrites, RunPlans]), ([reads, writes, plans]) =>
    handlers
      .handle("create", ({ headers, payload }) => waiting(writes.create(payload, headers["idempotency-key"])))
      .handle("list", ({ urlParams }) => {
        const { lastRead, ...query } = urlParams
        return lastRead === "true" ? reads.list(urlParams) : Effect.map(reads.listed(query), (answer) => json(answer))
      })
      .handle("createBulk", ({ headers, payload }) => waiting(writes.createBulk(payload, headers["idempotency-key"])))
      .handle("listWithValues", ({ urlParams }) => Effect.map(reads.withValues(urlParams), (answer) => json(answer)))
      .handle("readValue", ({ urlParams }) => Effect.map(reads.value(urlParams), (answer) => json(answer)))
      .handle("inject", ({ headers, urlParams }) =>
        Effect.map(reads.inject(urlParams, headers["if-none-match"]), ({ answer, etag }) =>
          answer === undefined ? HttpServerResponse.empty({ status: 304, headers: { etag } }) : json(answer, etag)
        )
      )
      .handle("reportRun", ({ payload }) => plans.report(payload))
      .handle("diff", ({ urlParams }) => reads.diff(urlParams))
      .handle("remove", ({ path, urlParams }) => waiting(writes.remove(path.secretId, urlParams.disposition)))
      .handle("deleteBulk", ({ headers, payload }) => waiting(writes.deleteBulk(payload, headers["idempotency-key"])))
      .handle("composition", ({ urlParams }) => reads.composition(urlParams))
      .handle("update", ({ path, payload }) => waiting(writes.update(path.secretId, payload)))
      .handle("rollback", ({ path, payload }) => waiting(writes.rollback(path.secretId, payload)))
      .handle("restore", ({ path }) => waiting(writes.restore(path.secretId)))
      .handle("versions", ({ path }) => reads.versions(path.secretId))
      .handle("listDeleted", ({ urlParams }) => reads.deleted(urlParams))
      .handle("change", ({ path, payload }) => writes.change(path.projectId, payload))
      .handle("described", ({ path }) => reads.described(path.secretId))
      .handle("describe", ({ path, payload }) => writes.describe(path.secretId, payload))
      .handle("rename", ({ path, payload }) => writes.rename(path.secretId, payload))
      .handle("restoreEnvironment", ({ path, payload }) => waiting(writes.restoreEnvironment(path.envId, payload)))
  )
)

import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { RunPlans } from "#src/secrets/RunPlans.ts"
import { Proposed, SecretStore } from "#src/secrets/SecretStore.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

/**
 * Sends a cached response as it was encoded, once per snapshot. Sets all headers here, because headers that the
 * platform adds create a hidden class per response (docs/architecture.md, "The hot path").
 */
const json = ({ bytes }: { readonly bytes: Uint8Array }, etag?: string) =>
  HttpServerResponse.uint8Array(bytes, {
    headers: { "content-type": "application/json", "content-length": String(bytes.length), etag }
  })

/** Responds with 202 and the change request if the write needs an approval. */
const acceptProposed = <A, E, R>(write: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    write,
    (error): error is Extract<E, Proposed> => error instanceof Proposed,
    ({ request }) => Effect.succeed(request)
  )

export const layer = Endpoints.group(ServerApi, "secrets", (handlers) =>
  Effect.map(Effect.all([SecretStore, RunPlans]), ([{ reads, writes }, plans]) =>
    handlers
      .handle("create", ({ headers, payload }) => acceptProposed(writes.create(payload, headers["idempotency-key"])))
      .handle("list", ({ urlParams }) => {
        const { lastRead, ...query } = urlParams
        return lastRead === "true" ? reads.list(urlParams) : Effect.map(reads.listed(query), (answer) => json(answer))
      })
      .handle("createBulk", ({ headers, payload }) =>
        acceptProposed(writes.createBulk(payload, headers["idempotency-key"]))
      )
      .handle("listWithValues", ({ urlParams }) => Effect.map(reads.withValues(urlParams), (answer) => json(answer)))
      .handle("readValue", ({ urlParams }) => Effect.map(reads.value(urlParams), (answer) => json(answer)))
      .handle("inject", ({ headers, urlParams }) =>
        Effect.map(reads.inject(urlParams, headers["if-none-match"]), ({ answer, etag }) =>
          answer === undefined ? HttpServerResponse.empty({ status: 304, headers: { etag } }) : json(answer, etag)
        )
      )
      .handle("reportRun", ({ payload }) => plans.report(payload))
      .handle("diff", ({ urlParams }) => reads.diff(urlParams))
      .handle("remove", ({ path, urlParams }) => acceptProposed(writes.remove(path.secretId, urlParams.disposition)))
      .handle("deleteBulk", ({ headers, payload }) =>
        acceptProposed(writes.deleteBulk(payload, headers["idempotency-key"]))
      )
      .handle("composition", ({ urlParams }) => reads.composition(urlParams))
      .handle("update", ({ path, payload }) => acceptProposed(writes.update(path.secretId, payload)))
      .handle("rollback", ({ path, payload }) => acceptProposed(writes.rollback(path.secretId, payload)))
      .handle("restore", ({ path }) => acceptProposed(writes.restore(path.secretId)))
      .handle("versions", ({ path }) => reads.versions(path.secretId))
      .handle("listDeleted", ({ urlParams }) => reads.deleted(urlParams))
      .handle("change", ({ path, payload }) => writes.change(path.projectId, payload))
      .handle("described", ({ path }) => reads.described(path.secretId))
      .handle("describe", ({ path, payload }) => writes.describe(path.secretId, payload))
      .handle("rename", ({ path, payload }) => writes.rename(path.secretId, payload))
      .handle("restoreEnvironment", ({ path, payload }) =>
        acceptProposed(writes.restoreEnvironment(path.envId, payload))
      )
  )
)

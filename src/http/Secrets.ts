import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/Api.ts"
import { Secrets } from "#src/secrets/Secrets.ts"

/** Answers that hold values leave as the bytes that were sealed: encoded once (architecture 4). */
const json = (body: Uint8Array, headers: Record<string, string> = {}) =>
  HttpServerResponse.uint8Array(body, { contentType: "application/json", headers })

export const layer = HttpApiBuilder.group(ServerApi, "secrets", (handlers) =>
  Effect.map(Secrets, (secrets) =>
    handlers
      .handle("create", ({ headers, payload }) => secrets.create(payload, headers["idempotency-key"]))
      .handle("list", ({ urlParams }) => secrets.list(urlParams))
      .handle("createBulk", ({ headers, payload }) => secrets.createBulk(payload, headers["idempotency-key"]))
      .handle("listWithValues", ({ urlParams }) => Effect.map(secrets.listWithValues(urlParams), (body) => json(body)))
      .handle("readValue", ({ urlParams }) => Effect.map(secrets.readValue(urlParams), (body) => json(body)))
      .handle("inject", ({ headers, urlParams }) =>
        Effect.map(secrets.inject(urlParams, headers["if-none-match"]), ({ body, etag }) =>
          body === undefined ? HttpServerResponse.empty({ status: 304, headers: { etag } }) : json(body, { etag })
        )
      )
      .handle("diff", ({ urlParams }) => secrets.diff(urlParams))
      .handle("remove", ({ path, urlParams }) => secrets.remove(path.secretId, urlParams.disposition))
      .handle("deleteBulk", ({ headers, payload }) => secrets.deleteBulk(payload, headers["idempotency-key"]))
      .handle("composition", ({ urlParams }) => secrets.composition(urlParams))
      .handle("update", ({ path, payload }) => secrets.update(path.secretId, payload))
      .handle("rollback", ({ path, payload }) => secrets.rollback(path.secretId, payload))
      .handle("restore", ({ path }) => secrets.restore(path.secretId))
      .handle("versions", ({ path }) => secrets.versions(path.secretId))
      .handle("listDeleted", ({ urlParams }) => secrets.listDeleted(urlParams))
  )
)

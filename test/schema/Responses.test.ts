/**
 * A client built today reads the answers of a later server (docs/contract/README.md): members and enum values that it
 * does not know.
 */
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { Api } from "#schema/Api.ts"
import { DashboardApi } from "#schema/ServerApi.ts"
import { DeviceApi, DeviceApprovalApi, MyGrantsApi } from "#schema/DeviceApi.ts"
import { MetadataApi } from "#schema/DiscoveryApi.ts"
import { SecretNotFound, SecretVersionConflict } from "#schema/Errors.ts"
import { SecretId } from "#schema/Ids.ts"
import { Examples } from "#schema/Operation.ts"
import * as OpenApi from "#schema/OpenApi.ts"
import { SealedApi, SealingKeysApi } from "#schema/SealedApi.ts"
import { optional } from "#schema/Strict.ts"
import { parsed, Texts } from "#test/support/Json.ts"

const Everything = HttpApi.make("everything")
  .addHttpApi(Api)
  .addHttpApi(DashboardApi)
  .add(DeviceApi)
  .add(SealedApi)
  .add(MetadataApi)
  .add(DeviceApprovalApi)
  .add(MyGrantsApi)
  .add(SealingKeysApi)

interface SchemaObject {
  readonly $ref?: string
  readonly "x-extensible-enum"?: ReadonlyArray<string>
  readonly anyOf?: ReadonlyArray<SchemaObject>
  readonly properties?: { readonly [name: string]: SchemaObject }
  readonly items?: SchemaObject
}
const named = <A, I>(value: Schema.Schema<A, I>) => Schema.Record({ key: Schema.String, value })
const SchemaObject: Schema.Schema<SchemaObject> = Schema.Struct({
  $ref: optional(Schema.String),
  "x-extensible-enum": optional(Texts),
  anyOf: optional(Schema.Array(Schema.suspend(() => SchemaObject))),
  properties: optional(named(Schema.suspend(() => SchemaObject))),
  items: optional(Schema.suspend(() => SchemaObject))
})
const Content = named(Schema.Struct({ schema: SchemaObject }))
const Operation = Schema.Struct({ responses: named(Schema.Struct({ content: optional(Content) })) })
const document = parsed(
  Schema.Struct({ paths: named(named(Operation)), components: Schema.Struct({ schemas: named(SchemaObject) }) })
)(JSON.stringify(OpenApi.describe(Everything, { title: "Everything", description: "" }, false)))

/** The example as a later server sends it: one more member in each object, another value for each enumeration. */
const later = (example: unknown, schema: SchemaObject): unknown => {
  if (schema.$ref !== undefined) return later(example, document.components.schemas[schema.$ref.split("/")[3]])
  if (schema.anyOf !== undefined) return example === null ? null : later(example, schema.anyOf[0])
  if (schema["x-extensible-enum"] !== undefined) return "value-of-a-later-server"
  if (Array.isArray(example)) return example.map((item) => later(item, schema.items ?? {}))
  if (typeof example !== "object" || example === null || schema.properties === undefined) return example
  return {
    ...Object.fromEntries(
      Object.entries(example).map(([name, member]) => [name, later(member, schema.properties?.[name] ?? {})])
    ),
    memberOfALaterServer: { nested: [1, "two", null] }
  }
}

const answering = (status: number, body: unknown) =>
  HttpClient.make((request) =>
    Effect.succeed(
      HttpClientResponse.fromWeb(
        request,
        new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json" } })
      )
    )
  )

const routes: Array<{
  readonly name: string
  readonly status: number
  readonly success: Schema.Schema<unknown>
  readonly response: unknown
  readonly shape: SchemaObject
}> = []
HttpApi.reflect(Everything, {
  onGroup: () => undefined,
  onEndpoint: ({ endpoint, group, mergedAnnotations, successes }) => {
    const examples = Option.getOrUndefined(Context.getOption(mergedAnnotations, Examples))
    const path = document.paths[endpoint.path.replace(/:(\w+)/g, "{$1}")][endpoint.method.toLowerCase()]
    for (const [status, { ast }] of successes) {
      const response = status === 202 ? examples?.accepted : examples?.response
      const shape = path.responses[status].content?.["application/json"]?.schema
      if (shape === undefined) continue
      routes.push({
        name: `${group.identifier}.${endpoint.name}`,
        status,
        success: Schema.make(Option.getOrThrow(ast)),
        response: status === 503 ? { ...(response as object), status: "unavailable" } : response,
        shape
      })
    }
  }
})

describe("every answer", () => {
  for (const { name, response, shape, status, success } of routes) {
    it(`of ${name} (${status}) reads its example and writes it back unchanged`, () => {
      const read = Schema.decodeUnknownSync(success)(response)
      assert.deepStrictEqual(Schema.encodeSync(success)(read), response)
    })

    it(`of ${name} (${status}) is read when a later server sends more`, () => {
      const sent = later(response, shape)
      assert.isTrue(Either.isRight(Schema.decodeUnknownEither(success)(sent)))
    })
  }
})

const projectId = "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e"
const secretId = SecretId.make(projectId)

describe("our client", () => {
  it.effect("ignores members and keeps enum values that it does not know", () =>
    Effect.gen(function* () {
      const client = yield* HttpApiClient.makeWith(Api, {
        baseUrl: "http://127.0.0.1:4400",
        httpClient: answering(200, {
          items: [
            {
              id: projectId,
              teamId: projectId,
              name: "Shop",
              slug: "shop",
              createdAt: "",
              updatedAt: "",
              colour: "red"
            }
          ],
          total: 1
        })
      })
      const { items } = yield* client.projects.list()
      assert.deepStrictEqual(Object.keys(items[0]), ["id", "teamId", "name", "slug", "createdAt", "updatedAt"])

      const me = yield* HttpApiClient.makeWith(Api, {
        baseUrl: "http://127.0.0.1:4400",
        httpClient: answering(200, {
          user: { id: projectId, email: "ada@example.com", name: "Ada" },
          teams: [{ id: projectId, name: "Platform", role: "auditor", plan: "galaxy" }],
          activeTeam: null
        })
      })
      const { teams } = yield* me.identity.me()
      assert.strictEqual(teams[0].role, "auditor")
      assert.strictEqual(teams[0].plan, "galaxy")
    })
  )

  it.effect("gets an error back as its class, with its further members", () =>
    Effect.gen(function* () {
      const client = yield* HttpApiClient.makeWith(Api, {
        baseUrl: "http://127.0.0.1:4400",
        httpClient: answering(409, {
          statusCode: 409,
          code: "SECRET_VERSION_CONFLICT",
          message: "Reworded by a later server.",
          currentVersion: 7,
          hint: "of a later server"
        })
      })
      const error = yield* client.secrets.update({ path: { secretId }, payload: { kind: "literal" } }).pipe(Effect.flip)
      assert.instanceOf(error, SecretVersionConflict)
      assert.strictEqual(error._tag === "SECRET_VERSION_CONFLICT" ? error.currentVersion : undefined, 7)
    })
  )

  it.effect("tells errors of one status apart by their code", () =>
    Effect.gen(function* () {
      const client = yield* HttpApiClient.makeWith(Api, {
        baseUrl: "http://127.0.0.1:4400",
        httpClient: answering(404, { statusCode: 404, code: "SECRET_NOT_FOUND", message: "No such secret." })
      })
      const error = yield* client.secrets.versions({ path: { secretId } }).pipe(Effect.flip)
      assert.instanceOf(error, SecretNotFound)
    })
  )

  it.effect("asks with strict queries of its own", () =>
    Effect.gen(function* () {
      const requests: Array<string> = []
      const client = yield* HttpApiClient.makeWith(Api, {
        baseUrl: "http://127.0.0.1:4400",
        httpClient: answering(200, {}).pipe(
          HttpClient.tapRequest((request) =>
            Effect.sync(() => requests.push(`${request.method} ${request.url} ${JSON.stringify(request.urlParams)}`))
          )
        )
      })
      yield* client.secrets.remove({ path: { secretId }, urlParams: { disposition: "flatten" } }).pipe(Effect.ignore)
      assert.deepStrictEqual(requests, [`DELETE /secrets/${projectId} [["disposition","flatten"]]`])
    })
  )
})

describe("readiness", () => {
  const ready = routes.filter(({ name }) => name === "discovery.ready")
  const union = Schema.Union(...ready.map(({ success }) => success))
  const checks = { database: { status: "up" }, cache: { status: "in-process" }, vault: { status: "down" } }

  it("answers 503 for everything that is not ready, and 200 for ready", () => {
    assert.deepStrictEqual(
      ready.map(({ status, success }) => [status, Schema.is(success)({ status: "ready", checks })]),
      [
        [503, false],
        [200, true]
      ]
    )
    assert.deepStrictEqual(Schema.encodeSync(union)({ status: "unavailable", checks }), {
      status: "unavailable",
      checks
    })
  })
})

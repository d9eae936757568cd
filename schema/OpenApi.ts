/**
 * The two documents: `/openapi.json` for the contract, `/dashboard/openapi.json` for the session routes. They derive
 * from the declarations. This file adds what `OpenApi.fromApi` cannot express (docs/architecture.md, O1 to O5): one
 * error shape, security per operation, response headers, examples, closed requests and open responses.
 */
import * as HttpApi from "@effect/platform/HttpApi"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Context from "effect/Context"
import * as Option from "effect/Option"
import { codesOf } from "./ApiError.ts"
import { Api, servesMcp, version } from "./Api.ts"
import { DashboardApi } from "./ServerApi.ts"
import { auditActions } from "./Audit.ts"
import {
  errorCodes,
  errorSchemas,
  failure,
  headerRefs,
  headers,
  type Json,
  type JsonObject,
  ref,
  securitySchemes
} from "./OpenApiComponents.ts"
import { linksOf } from "./OpenApiLinks.ts"
import { mcp } from "./OpenApiMcp.ts"
import { Examples } from "./Operation.ts"
import { RequiredScope } from "./Scopes.ts"

const sentenceOf = new Map(errorCodes.map(({ code, sentence }) => [code, sentence]))

// --- declaration of an operation ---

type Kind = "api_token" | "cli_grant" | "session" | "management" | "device_code"

const schemes: Record<Kind, string> = {
  api_token: "apiToken",
  cli_grant: "cliGrant",
  session: "session",
  management: "management",
  device_code: "deviceCode"
}

interface Declared {
  readonly path: string
  readonly method: string
  readonly kinds: ReadonlyArray<Kind>
  readonly codes: ReadonlyMap<number, ReadonlyArray<string>>
  readonly scope: string | undefined
  readonly request: Json | undefined
  readonly response: Json | undefined
  readonly accepted: Json | undefined
}

const declarations = <Id extends string, Groups extends HttpApiGroup.HttpApiGroup.Any, E, R>(
  api: HttpApi.HttpApi<Id, Groups, E, R>
): ReadonlyArray<Declared> => {
  const all: Array<Declared> = []
  HttpApi.reflect(api, {
    onGroup: () => undefined,
    onEndpoint: ({ endpoint, errors, mergedAnnotations, middleware }) => {
      const examples = Option.getOrUndefined(Context.getOption(mergedAnnotations, Examples))
      const codes = new Map<number, ReadonlyArray<string>>()
      for (const [status, { ast }] of errors) {
        const codesOfStatus = Option.match(ast, { onNone: () => [], onSome: codesOf }).filter((id) =>
          sentenceOf.has(id)
        )
        codes.set(status, [...new Set(codesOfStatus)])
      }
      all.push({
        path: endpoint.path.replace(/:(\w+)/g, "{$1}"),
        method: endpoint.method.toLowerCase(),
        // Every credential tag of Authentication.ts lists its kinds, which HttpApi's types do not express.
        kinds: [...middleware].flatMap((tag) => (tag as unknown as { readonly kinds: ReadonlyArray<Kind> }).kinds),
        codes,
        scope: Option.getOrUndefined(Context.getOption(mergedAnnotations, RequiredScope)),
        request: examples?.request as Json | undefined,
        response: examples?.response as Json | undefined,
        accepted: examples?.accepted as Json | undefined
      })
    }
  })
  return all
}

/** Header names with capitals; HttpApi has them in lower case. */
const headerNames: ReadonlyMap<string, string> = new Map([
  ["idempotency-key", "Idempotency-Key"],
  ["if-none-match", "If-None-Match"],
  ["github-public-key-identifier", "Github-Public-Key-Identifier"],
  ["github-public-key-signature", "Github-Public-Key-Signature"]
])

// --- rewriting ---

const refPrefix = "#/components/schemas/"

const isObject = (json: Json | undefined): json is JsonObject =>
  typeof json === "object" && json !== null && !Array.isArray(json)

const map = (json: Json, f: (object: JsonObject) => JsonObject): Json => {
  if (Array.isArray(json)) return json.map((item) => map(item, f))
  if (!isObject(json)) return json
  return f(Object.fromEntries(Object.entries(json).map(([name, member]) => [name, map(member, f)])))
}

/** Removes the empty `required` and `properties` of records. */
const tidy = (object: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(object).filter(
      ([name, member]) =>
        !(name === "required" && Array.isArray(member) && member.length === 0) &&
        !(name === "properties" && isObject(member) && Object.keys(member).length === 0)
    )
  )

/** Marks integers above 32 bits, since generators default to 32. */
const wide = (object: JsonObject): JsonObject =>
  object["type"] === "integer" && object["enum"] === undefined && !(Number(object["maximum"]) < 2 ** 31)
    ? { ...object, format: "int64" }
    : object

/** Names an open enumeration (Wire.ts), unless a request has a closed one of that name. */
const withVocabulary = (closed: ReadonlySet<string>, into: Record<string, Json>, object: JsonObject): JsonObject => {
  const { title, ...schema } = object
  if (schema["x-extensible-enum"] === undefined || typeof title !== "string") return object
  if (closed.has(title)) return schema
  into[title] = schema
  return ref("schemas", title)
}

const pick = (object: JsonObject, isWanted: (name: string) => boolean): JsonObject =>
  Object.fromEntries(Object.entries(object).filter(([name]) => isWanted(name)))

/**
 * Opens a response, which may grow (docs/contract/README.md). Readiness has one schema in the document
 * (DiscoveryApi.ts).
 */
const open = (object: JsonObject): JsonObject => {
  if (object["$ref"] === `${refPrefix}ReadinessUnavailable`) return ref("schemas", "ReadinessResponse")
  if (object["additionalProperties"] !== false) return object
  const { additionalProperties: _, ...rest } = object
  return rest
}

/** Names of the schemas that a part of the document uses. */
const schemaNames = (part: Json, schemas: JsonObject, names = new Set<string>()): Set<string> => {
  map(part, (object) => {
    const target = object["$ref"]
    if (typeof target === "string" && target.startsWith(refPrefix)) {
      const name = target.slice(refPrefix.length)
      if (!names.has(name) && schemas[name] !== undefined) {
        names.add(name)
        schemaNames(schemas[name], schemas, names)
      }
    }
    return object
  })
  return names
}

const parameter = (draft: JsonObject): JsonObject => {
  const name = headerNames.get(String(draft["name"])) ?? String(draft["name"])
  return { ...draft, name }
}

const withExample = (content: JsonObject, example: Json | undefined): JsonObject =>
  example === undefined
    ? content
    : Object.fromEntries(Object.entries(content).map(([type, media]) => [type, { ...(media as JsonObject), example }]))

/** JSON schema of a request or response body. */
const schemaOf = (holder: Json): JsonObject => {
  const content = isObject(holder) ? holder["content"] : undefined
  const media = isObject(content) ? content["application/json"] : undefined
  const schema = isObject(media) ? media["schema"] : undefined
  return isObject(schema) ? schema : {}
}

const alternatives = (schema: JsonObject): ReadonlyArray<JsonObject> =>
  Array.isArray(schema["anyOf"]) ? schema["anyOf"].filter(isObject) : []

const operationOf = (declared: Declared, generated: JsonObject): JsonObject => {
  const responses: Record<string, JsonObject> = {}
  const limits = declared.kinds.length === 0 ? [] : ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"]
  const parameters = (generated["parameters"] as ReadonlyArray<JsonObject>).map(parameter)
  const notModified = parameters.some(({ name }) => name === "If-None-Match")
  for (const [status, response] of Object.entries(generated["responses"] as JsonObject)) {
    if (declared.codes.has(Number(status)) || !isObject(response)) continue
    responses[status] = {
      ...response,
      headers: headerRefs(...limits, ...(notModified ? ["ETag"] : [])),
      content: withExample(
        response["content"] as JsonObject,
        status === "202" ? declared.accepted : status < "300" ? declared.response : undefined
      )
    }
  }
  if (notModified) {
    responses["304"] = {
      description: "Unchanged since the ETag of If-None-Match. No value was read.",
      headers: headerRefs(...limits, "ETag")
    }
  }
  for (const [status, codes] of declared.codes) responses[status] = failure(status, codes)
  const body = generated["requestBody"]
  return {
    operationId: generated["operationId"] as Json,
    tags: generated["tags"] as Json,
    summary: generated["summary"] as Json,
    description: generated["description"] as Json,
    security: declared.kinds.map((kind) => ({ [schemes[kind]]: [] })),
    ...(declared.scope !== undefined && declared.kinds.includes("cli_grant") ? { "x-cli-scope": declared.scope } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(isObject(body)
      ? {
          requestBody: {
            // A body that may be null may also be missing.
            required: !alternatives(schemaOf(body)).some((one) => one["type"] === "null"),
            content: withExample(body["content"] as JsonObject, declared.request)
          }
        }
      : {}),
    responses
  }
}

const withLinks = (from: JsonObject, responses: JsonObject, operations: ReadonlyArray<JsonObject>): JsonObject =>
  Object.fromEntries(
    Object.entries(responses).map(([status, response]) => {
      const target = schemaOf(response)["$ref"]
      const links =
        status < "300" && typeof target === "string" ? linksOf(from, target.slice(refPrefix.length), operations) : {}
      return [status, Object.keys(links).length === 0 ? response : { ...(response as JsonObject), links }]
    })
  )

// --- the documents ---

const about = { license: { name: "Apache-2.0", identifier: "Apache-2.0" }, contact: { name: "Ampoule" } }

/**
 * Builds the document of an API; the server serves the two below. `fromApi` types its document by interfaces without
 * index signatures. Here it is JSON, and a cast names each member that OpenAPI 3.1 guarantees.
 */
export const describe = <Id extends string, Groups extends HttpApiGroup.HttpApiGroup.Any, E, R>(
  api: HttpApi.HttpApi<Id, Groups, E, R>,
  info: { readonly title: string; readonly description: string },
  listMcp: boolean
): JsonObject => {
  // `fromApi` types its JSON by its own interfaces and returns a cached object, so it is copied (O1).
  const generated = map(JSON.parse(JSON.stringify(OpenApi.fromApi(api))) as JsonObject, tidy) as JsonObject
  const all = declarations(api)
  const operations = all.map((declared) => {
    const path = (generated["paths"] as JsonObject)[declared.path] as JsonObject
    return { ...declared, operation: operationOf(declared, path[declared.method] as JsonObject) }
  })

  const drafts = (generated["components"] as JsonObject)["schemas"] as JsonObject
  const requested = new Set(
    operations.flatMap(({ operation: { parameters, requestBody } }) => [
      ...schemaNames([parameters ?? null, requestBody ?? null], drafts)
    ])
  )
  const vocabularies: Record<string, Json> = {}
  const toResponse = (json: Json) => map(json, (object) => withVocabulary(requested, vocabularies, open(object)))
  const paths: Record<string, JsonObject> = {}
  for (const { method, operation, path } of operations) {
    const responses = toResponse(operation["responses"]) as JsonObject
    const linked = withLinks(
      operation,
      responses,
      operations.map((one) => one.operation)
    )
    paths[path] = { ...paths[path], [method]: { ...operation, responses: linked } }
  }
  const allPaths = { ...paths, ...(listMcp ? mcp.paths : {}) }
  const componentSchemas = Object.entries(drafts).map(
    ([name, draft]) => [name, requested.has(name) ? draft : toResponse(draft)] as const
  )
  const failures = toResponse(errorSchemas) as JsonObject
  const schemas: JsonObject = { ...Object.fromEntries(componentSchemas), ...vocabularies, ...failures, ...mcp.schemas }
  const names = schemaNames(allPaths, schemas)

  const kinds = new Set(all.flatMap((declared) => declared.kinds.map((kind) => schemes[kind])))
  const text = JSON.stringify(allPaths)
  const components = {
    schemas: pick(schemas, (name) => names.has(name)),
    headers: pick(headers, (name) => text.includes(`"#/components/headers/${name}"`)),
    securitySchemes: { ...pick(securitySchemes, (name) => kinds.has(name)), ...(listMcp ? mcp.scheme : {}) }
  }
  return map(
    {
      openapi: "3.1.0",
      info: { title: info.title, version, description: info.description, ...about },
      tags: [...(generated["tags"] as ReadonlyArray<Json>), ...(listMcp ? [mcp.tag] : [])],
      paths: allPaths,
      components,
      "x-audit-actions": auditActions
    },
    wide
  ) as JsonObject
}

const conventions = [
  "Bodies are JSON. Times are ISO 8601 in UTC. Request bodies and queries are strict: an unknown member is a 400 that names it.",
  "Responses list the members of this release. A later release may add members and values; clients ignore those that they do not know.",
  "Every failure carries ErrorResponse, with the codes and members of its status; every response carries X-Request-Id. x-cli-scope is the scope that a CLI grant needs; none: the operation is about the caller itself."
].join("\n\n")

/** `/openapi.json` (docs/contract/README.md). */
export const contractDocument: JsonObject = describe(
  Api,
  {
    title: "Ampoule",
    description: [
      "Secrets management: environment variables, encrypted at rest and passed to processes without a .env file on disk.",
      "**AI agents: use the Model Context Protocol endpoint at `/mcp` in preference to these REST routes.** It offers the same capabilities as typed tools, with a scope per tool and a consent step. `GET /capabilities` returns its address.",
      conventions
    ].join("\n\n")
  },
  servesMcp
)

/** `/dashboard/openapi.json` (docs/contract/session-routes.md). */
export const dashboardDocument: JsonObject = describe(
  DashboardApi,
  {
    title: "Ampoule dashboard",
    description: [
      "Routes of the dashboard and of administration, for the session of a signed-in person. Tokens, CLI grants and agents use the contract at `/openapi.json`; AI agents use `/mcp` in preference to REST.",
      conventions
    ].join("\n\n")
  },
  false
)

/**
 * The two documents: `/openapi.json` for the contract, `/dashboard/openapi.json` for the session routes. They derive
 * from the declarations; what follows says what `OpenApi.fromApi` cannot (docs/architecture.md, O1 to O8): one error
 * shape, security per operation, response headers, examples, requests closed and responses open.
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

// --- what an operation declares ---

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
        const known = Option.match(ast, { onNone: () => [], onSome: codesOf }).filter((id) => sentenceOf.has(id))
        codes.set(status, [...new Set(known)])
      }
      all.push({
        path: endpoint.path.replace(/:(\w+)/g, "{$1}"),
        method: endpoint.method.toLowerCase(),
        // Every credential tag of Authentication.ts lists its kinds; HttpApi's types do not know that.
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

/** Header names as people write them; HttpApi knows them in lower case. */
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

/** A record comes out with empty `required` and `properties`. */
const tidy = (object: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(object).filter(
      ([name, member]) =>
        !(name === "required" && Array.isArray(member) && member.length === 0) &&
        !(name === "properties" && isObject(member) && Object.keys(member).length === 0)
    )
  )

/** An integer that 32 bits may not hold says so: generators take 32 otherwise. */
const wide = (object: JsonObject): JsonObject =>
  object["type"] === "integer" && object["enum"] === undefined && !(Number(object["maximum"]) < 2 ** 31)
    ? { ...object, format: "int64" }
    : object

/** Gives an open enumeration its name (Wire.ts), unless a request has a closed one of that name. */
const named = (closed: ReadonlySet<string>, into: Record<string, Json>, object: JsonObject): JsonObject => {
  const { title, ...schema } = object
  if (schema["x-extensible-enum"] === undefined || typeof title !== "string") return object
  if (closed.has(title)) return schema
  into[title] = schema
  return ref("schemas", title)
}

const pick = (object: JsonObject, wanted: (name: string) => boolean): JsonObject =>
  Object.fromEntries(Object.entries(object).filter(([name]) => wanted(name)))

/**
 * A response may grow (docs/contract/README.md): nothing in it is closed. Readiness is one schema to the world
 * (DiscoveryApi.ts).
 */
const open = (object: JsonObject): JsonObject => {
  if (object["$ref"] === `${refPrefix}ReadinessUnavailable`) return ref("schemas", "ReadinessResponse")
  if (object["additionalProperties"] !== false) return object
  const { additionalProperties: _, ...rest } = object
  return rest
}

/** Names of the schemas that a part of the document reaches. */
const reached = (part: Json, schemas: JsonObject, found = new Set<string>()): Set<string> => {
  map(part, (object) => {
    const target = object["$ref"]
    if (typeof target === "string" && target.startsWith(refPrefix)) {
      const name = target.slice(refPrefix.length)
      if (!found.has(name) && schemas[name] !== undefined) {
        found.add(name)
        reached(schemas[name], schemas, found)
      }
    }
    return object
  })
  return found
}

const parameter = (given: JsonObject): JsonObject => {
  const name = headerNames.get(String(given["name"])) ?? String(given["name"])
  return { ...given, name }
}

const withExample = (content: JsonObject, example: Json | undefined): JsonObject =>
  example === undefined
    ? content
    : Object.fromEntries(Object.entries(content).map(([type, media]) => [type, { ...(media as JsonObject), example }]))

/** The schema of a body or an answer, as it is in JSON. */
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
      description: "Nothing changed since the ETag of If-None-Match. No value was read.",
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
            // What accepts null accepts that nothing is sent.
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
 * A document of an API; the two below are what is served. `fromApi` types its document by interfaces without index
 * signatures; here it is JSON, and a cast names each member that OpenAPI 3.1 says is there.
 */
export const describe = <Id extends string, Groups extends HttpApiGroup.HttpApiGroup.Any, E, R>(
  api: HttpApi.HttpApi<Id, Groups, E, R>,
  info: { readonly title: string; readonly description: string },
  listMcp: boolean
): JsonObject => {
  // A document is JSON by definition; `fromApi` types it by its own interfaces and hands out a cached object (O1).
  const generated = map(JSON.parse(JSON.stringify(OpenApi.fromApi(api))) as JsonObject, tidy) as JsonObject
  const all = declarations(api)
  const operations = all.map((declared) => {
    const path = (generated["paths"] as JsonObject)[declared.path] as JsonObject
    return { ...declared, operation: operationOf(declared, path[declared.method] as JsonObject) }
  })

  const drafts = (generated["components"] as JsonObject)["schemas"] as JsonObject
  const asked = new Set(
    operations.flatMap(({ operation: { parameters, requestBody } }) => [
      ...reached([parameters ?? null, requestBody ?? null], drafts)
    ])
  )
  const vocabularies: Record<string, Json> = {}
  const answer = (json: Json) => map(json, (object) => named(asked, vocabularies, open(object)))
  const paths: Record<string, JsonObject> = {}
  for (const { method, operation, path } of operations) {
    const responses = answer(operation["responses"]) as JsonObject
    const linked = withLinks(
      operation,
      responses,
      operations.map((one) => one.operation)
    )
    paths[path] = { ...paths[path], [method]: { ...operation, responses: linked } }
  }
  const shown = { ...paths, ...(listMcp ? mcp.paths : {}) }
  const own = Object.entries(drafts).map(([name, draft]) => [name, asked.has(name) ? draft : answer(draft)] as const)
  const failures = answer(errorSchemas) as JsonObject
  const schemas: JsonObject = { ...Object.fromEntries(own), ...vocabularies, ...failures, ...mcp.schemas }
  const names = reached(shown, schemas)

  const kinds = new Set(all.flatMap((declared) => declared.kinds.map((kind) => schemes[kind])))
  const text = JSON.stringify(shown)
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
      paths: shown,
      components,
      "x-audit-actions": auditActions
    },
    wide
  ) as JsonObject
}

const conventions = [
  "Bodies are JSON. Times are ISO 8601 in UTC. Request bodies and queries are strict: an unknown member is a 400 that names it.",
  "Responses list the members sent today; a later release may add members and values, and clients ignore what they do not recognise.",
  "Every failure carries ErrorResponse, with the codes and members of its status; every answer carries X-Request-Id. x-cli-scope is the scope that a CLI grant needs; none means that its subject is the caller itself."
].join("\n\n")

/** `/openapi.json` (docs/contract/README.md). */
export const contractDocument: JsonObject = describe(
  Api,
  {
    title: "Ampoule",
    description: [
      "Secrets management: environment variables, encrypted at rest, handed to the process that needs them without a .env file on disk.",
      "**AI agents: use the Model Context Protocol endpoint at `/mcp` in preference to these REST routes.** It exposes the same capabilities as typed tools, with a scope per tool and a consent step. `GET /capabilities` names its address.",
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
      "Routes of the dashboard and of administration: a signed-in person's session. Tokens, CLI grants and agents use the contract at `/openapi.json`; AI agents use `/mcp` in preference to REST.",
      conventions
    ].join("\n\n")
  },
  false
)

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
import * as AST from "effect/SchemaAST"
import { Api, DashboardApi, servesMcp, version } from "./Api.ts"
import { auditActions } from "./Audit.ts"
import {
  errorCodes,
  errorResponse,
  failure,
  headerRefs,
  headers,
  type Json,
  type JsonObject,
  ref,
  securitySchemes
} from "./OpenApiComponents.ts"
import { mcp } from "./OpenApiMcp.ts"
import { Examples } from "./Operation.ts"
import { RequiredScope } from "./Scopes.ts"

const sentenceOf = new Map(errorCodes.map(({ code, sentence }) => [code, sentence]))

// --- what an operation declares ---

type Kind = "api_token" | "cli_grant" | "session" | "device_code"

const schemes: Record<Kind, string> = {
  api_token: "apiToken",
  cli_grant: "cliGrant",
  session: "session",
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
}

const identifiers = (ast: AST.AST): ReadonlyArray<string> =>
  AST.isUnion(ast) ? ast.types.flatMap(identifiers) : Option.toArray(AST.getIdentifierAnnotation(ast))

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
        const known = Option.match(ast, { onNone: () => [], onSome: identifiers }).filter((id) => sentenceOf.has(id))
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
        response: examples?.response as Json | undefined
      })
    }
  })
  return all
}

/** Header names as people write them; HttpApi knows them in lower case. */
const headerNames: ReadonlyMap<string, string> = new Map([
  ["idempotency-key", "Idempotency-Key"],
  ["if-none-match", "If-None-Match"]
])
const headerDescriptions: ReadonlyMap<string, string> = new Map(
  Object.entries({
    "Idempotency-Key":
      "Repeating key and body within 24 hours gives the stored answer; the same key with another body is refused.",
    "If-None-Match": "ETag of an earlier answer."
  })
)

// --- rewriting ---

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

/** A response may grow (docs/contract/README.md): nothing in it is closed. */
const open = (object: JsonObject): JsonObject => {
  if (object["additionalProperties"] !== false) return object
  const { additionalProperties: _, ...rest } = object
  return rest
}

const refPrefix = "#/components/schemas/"

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
  const description = given["description"] ?? headerDescriptions.get(name)
  return { ...given, name, ...(description === undefined ? {} : { description }) }
}

const withExample = (content: JsonObject, example: Json | undefined): JsonObject =>
  example === undefined
    ? content
    : Object.fromEntries(Object.entries(content).map(([type, media]) => [type, { ...(media as JsonObject), example }]))

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
      content: withExample(response["content"] as JsonObject, status < "300" ? declared.response : undefined)
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
      ? { requestBody: { ...body, content: withExample(body["content"] as JsonObject, declared.request) } }
      : {}),
    responses
  }
}

// --- the documents ---

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
  const paths: Record<string, JsonObject> = {}
  for (const declared of all) {
    const path = (generated["paths"] as JsonObject)[declared.path] as JsonObject
    paths[declared.path] = {
      ...paths[declared.path],
      [declared.method]: operationOf(declared, path[declared.method] as JsonObject)
    }
  }

  const drafts = (generated["components"] as JsonObject)["schemas"] as JsonObject
  const operations = Object.values(paths).flatMap((path) => Object.values(path) as ReadonlyArray<JsonObject>)
  const asked = new Set(operations.flatMap((operation) => [...reached(operation["requestBody"] ?? null, drafts)]))
  // Readiness is one schema to the world (DiscoveryApi.ts), and the one 503.
  const shown = map(paths, (object) =>
    object["$ref"] === `${refPrefix}ReadinessUnavailable` ? ref("schemas", "ReadinessResponse") : object
  ) as JsonObject
  const schemas: Record<string, Json> = {}
  for (const name of [...reached(shown, drafts)].sort()) {
    schemas[name] = asked.has(name) ? drafts[name] : map(drafts[name], open)
  }
  const openPaths = Object.fromEntries(
    Object.entries(shown).map(([path, item]) => [
      path,
      Object.fromEntries(
        Object.entries(item as JsonObject).map(([method, operation]) => [
          method,
          { ...(operation as JsonObject), responses: map((operation as JsonObject)["responses"], open) }
        ])
      )
    ])
  )

  const used = new Set(all.flatMap(({ kinds }) => kinds.map((kind) => schemes[kind])))
  return {
    openapi: "3.1.0",
    info: { title: info.title, version, description: info.description },
    tags: [...(generated["tags"] as ReadonlyArray<Json>), ...(listMcp ? [mcp.tag] : [])],
    paths: listMcp ? { ...openPaths, ...mcp.paths } : openPaths,
    components: {
      schemas: {
        ...schemas,
        ErrorResponse: errorResponse,
        AuditAction: {
          type: "string",
          description: "Every action of the audit trail. A later release may add actions.",
          enum: auditActions
        },
        ...(listMcp ? mcp.schemas : {})
      },
      headers,
      securitySchemes: {
        ...Object.fromEntries(Object.entries(securitySchemes).filter(([name]) => used.has(name))),
        ...(listMcp ? mcp.scheme : {})
      }
    }
  }
}

const conventions = [
  "Bodies are JSON. Times are ISO 8601 in UTC. Request bodies and queries are strict: an unknown member is a 400 that names it.",
  "Responses list the members sent today; a later release may add members and values, and clients ignore what they do not recognise.",
  "Every failure carries ErrorResponse; every answer carries X-Request-Id. x-cli-scope is the scope that a CLI grant needs; none means that its subject is the caller itself."
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

/** The document as a server publishes it: with its own address. */
export const at = (baseUrl: string, document: JsonObject): JsonObject => {
  const { openapi, info, ...rest } = document
  return { openapi, info, servers: [{ url: baseUrl }], ...rest }
}

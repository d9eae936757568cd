/**
 * The two documents: `/openapi.json` for the contract, `/dashboard/openapi.json` for the session routes. They derive from
 * the declarations; what follows says what `OpenApi.fromApi` cannot (architecture O1 to O8): one error shape, security
 * per operation, response headers, examples, requests closed and responses open.
 */
import * as HttpApi from "@effect/platform/HttpApi"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Context from "effect/Context"
import * as Option from "effect/Option"
import * as AST from "effect/SchemaAST"
import { Api, DashboardApi, servesMcp, version } from "./Api.ts"
import { auditActions } from "./Audit.ts"
import * as Errors from "./Errors.ts"
import { Examples } from "./Operation.ts"
import { RequiredScope } from "./Scopes.ts"

export type Json = null | boolean | number | string | ReadonlyArray<Json> | JsonObject
export interface JsonObject {
  readonly [member: string]: Json
}

/** Every error code with its status and sentence, in the order of decisions 3. */
export const errorCodes: ReadonlyArray<{ readonly code: string; readonly status: number; readonly sentence: string }> =
  Object.values(Errors).map(({ code, status, sentence }) => ({ code, status, sentence }))

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

// --- pieces shared by both documents ---

const text = { type: "string" }
const texts = { type: "array", items: text }
const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` })

const errorResponse: JsonObject = {
  type: "object",
  description: "Every failure. Clients branch on code, never on message.",
  required: ["statusCode", "code", "message"],
  properties: {
    statusCode: { type: "integer", description: "The HTTP status, repeated." },
    code: {
      type: "string",
      description: "Stable. A later release may add codes.",
      enum: errorCodes.map(({ code }) => code)
    },
    message: { type: "string", description: "For people; wording may change. Never repeats an input." },
    field: { type: "string", description: "The offending member of the request, as a dotted path." },
    references: { ...texts, description: "With TEMPLATE_REFERENCE_MISSING: the missing keys." },
    requiredScope: { type: "string", description: "With SCOPE_MISSING." },
    currentVersion: { type: "integer", description: "With SECRET_VERSION_CONFLICT." },
    dependents: { ...texts, description: "With SECRET_HAS_DEPENDENTS: keys that refer to this one directly." },
    cycle: { ...texts, description: "With TEMPLATE_CYCLE: its keys." },
    retryAfterSeconds: { type: "integer", description: "With RATE_LIMITED; the same number as Retry-After." }
  }
}

const headers: JsonObject = {
  "X-Request-Id": { description: "Identifies the request in the server's log.", schema: text },
  "Retry-After": { description: "Seconds to wait.", schema: { type: "integer", minimum: 1 } },
  "WWW-Authenticate": { description: "Bearer.", schema: text },
  "RateLimit-Limit": { description: "Requests that the tightest window admits.", schema: { type: "integer" } },
  "RateLimit-Remaining": { description: "Requests left in that window.", schema: { type: "integer" } },
  "RateLimit-Reset": { description: "Seconds until that window is free again.", schema: { type: "integer" } },
  ETag: { description: "Names this state of the environment; send it as If-None-Match.", schema: text }
}

const securitySchemes: Record<string, JsonObject> = {
  apiToken: { type: "http", scheme: "bearer", bearerFormat: "amp_at_…", description: "API token." },
  cliGrant: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "amp_cg_…",
    description: "CLI grant, obtained through device authorization. x-cli-scope names the scope it needs."
  },
  session: {
    type: "apiKey",
    in: "cookie",
    name: "ampoule_session",
    description: "Dashboard session; the cookie is called __Host-ampoule_session when the service is served over https."
  },
  deviceCode: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "amp_dc_…",
    description: "Device code of the start answer."
  }
}

/** Header names as people write them; HttpApi knows them in lower case. */
const headerNames: Record<string, string> = { "idempotency-key": "Idempotency-Key", "if-none-match": "If-None-Match" }
const headerDescriptions: Record<string, string> = {
  "Idempotency-Key":
    "Repeating key and body within 24 hours gives the stored answer; the same key with another body is refused.",
  "If-None-Match": "ETag of an earlier answer."
}

/** Names of the statuses that carry the error response; the codes follow it. */
const reasons: Record<number, string> = {
  400: "The request is not valid",
  401: "No credential, or an invalid, expired or revoked one",
  403: "The credential may not do this",
  404: "Missing, or not visible to the credential",
  409: "In conflict with the current state",
  413: "The body is too large",
  415: "The body is not JSON",
  429: "Rate limited",
  500: "Unexpected server error"
}

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

/** A response may grow (interface 9): nothing in it is closed. */
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

const headerRefs = (...names: ReadonlyArray<string>): JsonObject =>
  Object.fromEntries(["X-Request-Id", ...names].map((name) => [name, ref("headers", name)]))

const errorHeaders: Record<number, ReadonlyArray<string>> = {
  401: ["WWW-Authenticate"],
  429: ["Retry-After"],
  500: ["Retry-After"]
}

const failure = (status: number, codes: ReadonlyArray<string>): JsonObject => ({
  description: `${reasons[status] ?? "Failure"}: ${codes.map((code) => `\`${code}\``).join(", ")}.`,
  headers: headerRefs(...(errorHeaders[status] ?? [])),
  content: { "application/json": { schema: ref("schemas", "ErrorResponse") } },
  "x-error-codes": codes
})

const parameter = (given: JsonObject): JsonObject => {
  const name = headerNames[String(given["name"])] ?? String(given["name"])
  const description = given["description"] ?? headerDescriptions[name]
  return { ...given, name, ...(description === undefined ? {} : { description }) }
}

const withExample = (content: JsonObject, example: Json | undefined): JsonObject =>
  example === undefined
    ? content
    : Object.fromEntries(Object.entries(content).map(([type, media]) => [type, { ...(media as JsonObject), example }]))

const operationOf = (declared: Declared, generated: JsonObject): JsonObject => {
  const responses: Record<string, JsonObject> = {}
  const limits = declared.kinds.length === 0 ? [] : ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"]
  const notModified = declared.path === "/secrets/inject"
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
  const parameters = (generated["parameters"] as ReadonlyArray<JsonObject>).map(parameter)
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

// --- /mcp, which HttpApi does not serve ---

const mcpErrors = {
  "400": ["JsonRpcErrorResponse", "The message is not valid JSON-RPC, or the protocol version is not known."],
  "401": ["OAuthErrorResponse", "No credential, or an invalid, expired or revoked one."],
  "403": [
    ["OAuthErrorResponse", "JsonRpcErrorResponse"],
    "The credential lacks the scope (OAuth), or the request came from another site (JSON-RPC)."
  ],
  "404": ["JsonRpcErrorResponse", "No such session or method."],
  "405": ["JsonRpcErrorResponse", "Not GET, POST or DELETE."],
  "406": ["JsonRpcErrorResponse", "The client does not accept what the answer would be."],
  "409": ["JsonRpcErrorResponse", "The session has a stream already."],
  "413": ["JsonRpcErrorResponse", "The body is larger than 1 MiB."],
  "415": ["JsonRpcErrorResponse", "The body is not application/json."],
  "429": ["JsonRpcErrorResponse", "Rate limited."],
  "500": ["JsonRpcErrorResponse", "Unexpected server error."]
} as const

const mcpOperation = (
  operation: JsonObject & { readonly responses: JsonObject; readonly summary: string }
): JsonObject => ({
  tags: ["mcp"],
  security: [{ oauth: [] }, { apiToken: [] }],
  ...operation,
  responses: {
    ...operation.responses,
    ...Object.fromEntries(
      Object.entries(mcpErrors).map(([status, [shapes, description]]) => [
        status,
        {
          description,
          headers: headerRefs(...(errorHeaders[Number(status)] ?? [])),
          content: {
            "application/json": {
              schema:
                typeof shapes === "string"
                  ? ref("schemas", shapes)
                  : { anyOf: shapes.map((shape) => ref("schemas", shape)) }
            }
          }
        }
      ])
    )
  }
})

const rpc = { type: "object", required: ["jsonrpc"], properties: { jsonrpc: { const: "2.0" } } }
const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "list_projects", arguments: {} } }
const result = { jsonrpc: "2.0", id: 1, result: { content: [], structuredContent: { projects: [] } } }

const mcp = {
  paths: {
    "/mcp": {
      post: mcpOperation({
        operationId: "mcp.request",
        summary: "Send a JSON-RPC message",
        description: "Model Context Protocol over Streamable HTTP: one request or notification.",
        requestBody: { required: true, content: { "application/json": { schema: rpc, example: call } } },
        responses: {
          "200": {
            description: "The answer, as JSON or as an event stream.",
            content: { "application/json": { schema: rpc, example: result }, "text/event-stream": { schema: text } }
          },
          "202": { description: "A notification was taken." }
        }
      }),
      get: mcpOperation({
        operationId: "mcp.stream",
        summary: "Open the event stream of a session",
        description: "Messages of the server, for protocol versions that have sessions.",
        responses: {
          "200": {
            description: "The stream.",
            content: { "text/event-stream": { schema: text, example: ": open\n\n" } }
          }
        }
      }),
      delete: mcpOperation({
        operationId: "mcp.end",
        summary: "End a session",
        description: "For protocol versions that have sessions.",
        responses: {
          "200": { description: "The session is over.", content: { "application/json": { schema: {}, example: {} } } }
        }
      })
    }
  },
  schemas: {
    OAuthErrorResponse: {
      type: "object",
      description: "RFC 6750 and RFC 6749.",
      required: ["error"],
      properties: { error: text, error_description: text }
    },
    JsonRpcErrorResponse: {
      type: "object",
      description: "JSON-RPC 2.0.",
      required: ["jsonrpc", "error", "id"],
      properties: {
        jsonrpc: { const: "2.0" },
        id: { type: ["string", "number", "null"] },
        error: {
          type: "object",
          required: ["code", "message"],
          properties: { code: { type: "integer" }, message: text, data: {} }
        }
      }
    }
  },
  scheme: {
    oauth: {
      type: "http",
      scheme: "bearer",
      bearerFormat: "amp_oa_…",
      description: "OAuth 2.1 access token for the MCP endpoint; see /.well-known/oauth-protected-resource/mcp."
    }
  },
  tag: { name: "mcp", description: "Model Context Protocol: where AI agents go." }
} as const satisfies JsonObject

// --- the documents ---

/** A document of an API; the two below are what is served. */
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

/** `/openapi.json` (interface 9). */
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

/** `/dashboard/openapi.json` (decisions 9). */
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

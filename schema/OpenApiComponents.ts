/** Shared components of operations: the error response, headers, kinds of credentials, and references to them. */
import * as JSONSchema from "effect/JSONSchema"
import type * as Schema from "effect/Schema"
import { members } from "./ApiError.ts"
import * as Errors from "./Errors.ts"
import { openText } from "./Wire.ts"

export type Json = null | boolean | number | string | ReadonlyArray<Json> | JsonObject
export interface JsonObject {
  readonly [member: string]: Json
}

/** All error codes with status and sentence, by class name. */
export const errorCodes: ReadonlyArray<{ readonly code: string; readonly status: number; readonly sentence: string }> =
  Object.values(Errors).map(({ code, status, sentence }) => ({ code, status, sentence }))

export const text = { type: "string" }
export const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` })

/** Named schemas among the members of errors. */
const definitions: Record<string, JSONSchema.JsonSchema7> = {}

const describedBy = (schema: Schema.Schema.Any): { readonly type: JsonObject; readonly description: string } => {
  const generated = JSONSchema.fromAST(schema.ast, { definitions, definitionPath: "#/components/schemas/" })
  // A JSON schema is JSON, but the library types it by interfaces without an index signature.
  const { description, ...type } = generated as unknown as JsonObject
  return { type, description: typeof description === "string" ? description : "" }
}

const member = (schema: Schema.Schema.Any): JsonObject => {
  const { description, type } = describedBy(schema)
  return { ...type, description }
}

/** Members of a status's errors beyond the common ones. */
const extraMembers = (status: number): JsonObject =>
  Object.fromEntries(
    Object.values(Errors)
      .filter((error) => error.status === status)
      .flatMap(({ code, extra }) =>
        Object.entries(extra).map(([name, schema]) => {
          const { description, type } = describedBy(schema)
          return [name, { ...type, description: description === "" ? `With ${code}.` : `With ${code}: ${description}` }]
        })
      )
  )

/** Statuses with the error response: schema name, and the sentence before the codes. */
const statuses = new Map<number, readonly [schema: string, sentence: string]>([
  [400, ["BadRequestError", "The request is not valid"]],
  [401, ["UnauthorizedError", "No credential, or an invalid, expired or revoked one"]],
  [403, ["ForbiddenError", "The credential may not do this"]],
  [404, ["NotFoundError", "Missing, or not visible to the credential"]],
  [409, ["ConflictError", "In conflict with the current state"]],
  [413, ["ContentTooLargeError", "The body is too large"]],
  [415, ["UnsupportedMediaTypeError", "The body is not JSON"]],
  [429, ["TooManyRequestsError", "Rate limited"]],
  [500, ["ServerError", "Unexpected server error"]]
])

export const errorSchemas: JsonObject = {
  ErrorCode: {
    ...openText(errorCodes.map(({ code }) => code)),
    description: "Stable. A later release may add codes."
  },
  ErrorResponse: {
    type: "object",
    description: "Body of every failure. Clients branch on code, never on message.",
    required: ["statusCode", "code", "message"],
    properties: {
      statusCode: member(members.statusCode),
      code: ref("schemas", "ErrorCode"),
      message: member(members.message),
      field: member(members.field)
    }
  },
  ...Object.fromEntries(
    [...statuses].map(([status, [name, sentence]]) => [
      name,
      {
        description: `${sentence}.`,
        allOf: [
          ref("schemas", "ErrorResponse"),
          {
            type: "object",
            properties: {
              // Discriminator where a generator builds a union of them.
              statusCode: { type: "integer", enum: [status] },
              code: openText(errorCodes.filter((one) => one.status === status).map(({ code }) => code)),
              ...extraMembers(status)
            }
          }
        ]
      }
    ])
  ),
  // Last, because the lines above fill it.
  ...(definitions as unknown as JsonObject)
}

export const headers: JsonObject = {
  "X-Request-Id": { description: "Identifies the request in the server's log.", schema: text },
  "Retry-After": { description: "Seconds to wait.", schema: { type: "integer", minimum: 1 } },
  "WWW-Authenticate": { description: "Bearer.", schema: text },
  "RateLimit-Limit": { description: "Limit of the tightest window.", schema: { type: "integer" } },
  "RateLimit-Remaining": { description: "Remaining requests in that window.", schema: { type: "integer" } },
  "RateLimit-Reset": { description: "Seconds until that window resets.", schema: { type: "integer" } },
  ETag: { description: "Identifies this state of the environment; send it as If-None-Match.", schema: text }
}

export const securitySchemes: Record<string, JsonObject> = {
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
  management: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "amp_ss_…",
    description: "Management session of a command line: 10 minutes, one team, after an approval in the browser."
  },
  deviceCode: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "amp_dc_…",
    description: "Device code of the start response."
  }
}

export const headerRefs = (...names: ReadonlyArray<string>): JsonObject =>
  Object.fromEntries(["X-Request-Id", ...names].map((name) => [name, ref("headers", name)]))

export const errorHeaders: Record<number, ReadonlyArray<string>> = {
  401: ["WWW-Authenticate"],
  429: ["Retry-After"],
  500: ["Retry-After"]
}

/** Response of this status with these codes. */
export const failure = (status: number, codes: ReadonlyArray<string>): JsonObject => {
  const [schema, sentence] = statuses.get(status) ?? ["ErrorResponse", "Failure"]
  return {
    description: `${sentence}: ${codes.map((code) => `\`${code}\``).join(", ")}.`,
    headers: headerRefs(...(errorHeaders[status] ?? [])),
    content: { "application/json": { schema: ref("schemas", schema) } },
    "x-error-codes": codes
  }
}

/** The two OpenAPI documents, as a source of requests and a check of answers. */
import * as OpenApi from "#schema/OpenApi.ts"
import * as OpenApiComponents from "#schema/OpenApiComponents.ts"
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js"

export type Json = OpenApiComponents.Json

export interface Schema {
  readonly $ref?: string
  readonly type?: string | ReadonlyArray<string>
  readonly anyOf?: ReadonlyArray<Schema>
  readonly enum?: ReadonlyArray<Json>
  readonly const?: Json
  readonly format?: string
  readonly pattern?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly items?: Schema
  readonly minItems?: number
  readonly maxItems?: number
  readonly required?: ReadonlyArray<string>
  readonly properties?: Record<string, Schema>
  readonly additionalProperties?: boolean | Schema
}

interface Response {
  readonly content?: Record<string, { readonly schema: Schema }>
  readonly "x-error-codes"?: ReadonlyArray<string>
}

interface Declared {
  readonly operationId: string
  readonly parameters?: ReadonlyArray<{
    readonly name: string
    readonly in: "path" | "query" | "header"
    readonly required: boolean
    readonly schema: Schema
  }>
  readonly requestBody?: { readonly content: Record<string, { readonly schema: Schema }> }
  readonly responses: Record<string, Response>
  readonly security: ReadonlyArray<Record<string, unknown>>
}

interface Document {
  readonly paths: Record<string, Record<string, Declared>>
  readonly components: { readonly schemas: Record<string, Schema> }
}

interface Parameter {
  readonly name: string
  readonly in: "path" | "query" | "header"
  readonly required: boolean
  readonly schema: Schema
  readonly accepts: ValidateFunction
}

export interface Operation {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly parameters: ReadonlyArray<Parameter>
  readonly body: { readonly schema: Schema; readonly accepts: ValidateFunction } | undefined
  /** Names of the security schemes; none: nobody is asked who they are. */
  readonly credentials: ReadonlyArray<string>
  readonly codes: ReadonlyMap<number, ReadonlyArray<string>>
  /** By status, then by media type. */
  readonly answers: ReadonlyMap<number, ReadonlyMap<string, ValidateFunction>>
  readonly resolve: (schema: Schema) => Schema
}

const formats = {
  uuid: /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i,
  "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$/,
  date: /^\d{4}-\d\d-\d\d$/,
  uri: (text: string) => URL.canParse(text),
  email: /^[^\s@]+@[^\s@]+$/,
  password: true,
  int64: true
} as const

/** A time in an answer has one spelling. One in a request says itself which it takes. */
const answered = "^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$"

/**
 * Parts that a later release may extend are closed in this one: an answer holds what the document lists, and nothing
 * else.
 */
const closed = (json: Json): Json => {
  if (Array.isArray(json)) return json.map(closed)
  if (typeof json !== "object" || json === null) return json
  const members = Object.fromEntries(
    Object.entries(json)
      // "Anything" has a name of the library's, the same at each place.
      .filter(([name]) => name !== "$id")
      .map(([name, member]) => [name, name === "allOf" ? member : closed(member)])
  )
  const { additionalProperties, allOf, format, pattern, properties, type } = members
  if (format === "date-time" && pattern === undefined) return { ...members, pattern: answered }
  // Its parts list members of one object: what none of them lists is unknown.
  if (Array.isArray(allOf)) return { ...members, unevaluatedProperties: false }
  // Of a JSON-RPC message the document says that it is one, and leaves the rest to the protocol.
  const isMessage = typeof properties === "object" && Object.keys(properties ?? {}).join() === "jsonrpc"
  return type === "object" && typeof properties === "object" && additionalProperties === undefined && !isMessage
    ? { ...members, additionalProperties: false }
    : members
}

const pointer = (...parts: ReadonlyArray<string>) =>
  `#/${parts.map((part) => encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1"))).join("/")}`

const documentOf = (json: OpenApiComponents.JsonObject): Document => {
  // A document is JSON; its members are looked at by the tests of the documents themselves.
  const document = closed(json) as unknown as Document
  // Each failure's own schema is this one and more, and is closed as a whole.
  Object.assign(document.components.schemas, { ErrorResponse: OpenApiComponents.errorSchemas["ErrorResponse"] })
  return document
}

const read = (name: string, json: OpenApiComponents.JsonObject): ReadonlyArray<Operation> => {
  const document = documentOf(json)
  const ajv = new Ajv2020({ strict: false, allErrors: false, formats, unicodeRegExp: false })
  ajv.addSchema(document, name)
  const at = (...parts: ReadonlyArray<string>) => ajv.compile({ $ref: `${name}${pointer(...parts)}` })
  const resolve = (schema: Schema): Schema =>
    schema.$ref === undefined ? schema : resolve(document.components.schemas[schema.$ref.split("/").at(-1) ?? ""])

  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, declared]): Operation => {
      const here = ["paths", path, method]
      const body = declared.requestBody?.content["application/json"]
      return {
        id: declared.operationId,
        method: method.toUpperCase(),
        path,
        parameters: (declared.parameters ?? []).map((parameter, i) => ({
          ...parameter,
          accepts: at(...here, "parameters", String(i), "schema")
        })),
        body:
          body === undefined
            ? undefined
            : {
                schema: body.schema,
                accepts: at(...here, "requestBody", "content", "application/json", "schema")
              },
        credentials: declared.security.flatMap((one) => Object.keys(one)),
        codes: new Map(
          Object.entries(declared.responses).map(([status, one]) => [Number(status), one["x-error-codes"] ?? []])
        ),
        answers: new Map(
          Object.entries(declared.responses).map(([status, { content }]) => [
            Number(status),
            new Map(
              Object.keys(content ?? {}).map((type) => [
                type,
                at(...here, "responses", status, "content", type, "schema")
              ])
            )
          ])
        ),
        resolve
      }
    })
  )
}

export const operations: ReadonlyArray<Operation> = [
  ...read("contract", OpenApi.contractDocument),
  ...read("dashboard", OpenApi.dashboardDocument)
]

/** The error response of any status, with the members that this one has and no others. */
export const isErrorResponse: ValidateFunction = (() => {
  const ajv = new Ajv2020({ strict: false, formats })
  ajv.addSchema(documentOf(OpenApi.contractDocument) as object, "contract")
  const ofStatus = Object.keys(OpenApiComponents.errorSchemas).filter((name) => !/^Error(Code|Response)$/.test(name))
  return ajv.compile({ anyOf: ofStatus.map((name) => ({ $ref: `contract#/components/schemas/${name}` })) })
})()

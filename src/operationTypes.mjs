// @ts-check
/**
 * Declarations of `src/client/Operations.ts` from the OpenAPI document: every operation, every schema, and the members
 * of each refusal.
 */
import { printed } from "./printed.mjs"

const text = JSON.stringify

/** @param {Record<string, any>} properties @param {ReadonlyArray<string>} required */
const objectType = (properties, required) => {
  const members = Object.entries(properties).map(
    ([name, schema]) => `readonly ${text(name)}${required.includes(name) ? "" : "?"}: ${typeOf(schema)}`
  )
  return `{ ${members.join("; ")} }`
}

/** @type {(schema: any) => string} */
const typeOf = (schema) => {
  if (schema === undefined || schema === true) return "unknown"
  if (schema.$ref !== undefined) return `Schemas[${text(schema.$ref.split("/").at(-1))}]`
  if (schema.enum !== undefined) return schema.enum.map(text).join(" | ")
  if (schema.const !== undefined) return text(schema.const)
  // A later release may add a value.
  if (schema["x-extensible-enum"] !== undefined)
    return `${schema["x-extensible-enum"].map(text).join(" | ")} | (string & {})`
  const alternatives = schema.anyOf ?? schema.oneOf
  // `anyOf` beside properties says which of them come together.
  if (alternatives !== undefined && schema.properties === undefined) {
    return alternatives.map((/** @type {any} */ one) => `(${typeOf(one)})`).join(" | ")
  }
  if (schema.allOf !== undefined && schema.properties === undefined) {
    return schema.allOf.map((/** @type {any} */ one) => `(${typeOf(one)})`).join(" & ")
  }
  if (Array.isArray(schema.type)) {
    return schema.type.map((/** @type {string} */ type) => `(${typeOf({ ...schema, type })})`).join(" | ")
  }
  switch (schema.type) {
    case "string":
    case "boolean":
    case "null":
      return schema.type
    case "integer":
    case "number":
      return "number"
    case "array":
      return `ReadonlyArray<${typeOf(schema.items)}>`
    case "object": {
      if (schema.properties !== undefined) return objectType(schema.properties, schema.required ?? [])
      const values = schema.additionalProperties
      return typeof values === "object"
        ? `{ readonly [key: string]: ${typeOf(values)} }`
        : "{ readonly [key: string]: unknown }"
    }
    default:
      return "unknown"
  }
}

/** @param {any} response */
const bodyType = (response) => {
  const types = Object.values(response.content ?? {}).map(({ schema }) => typeOf(schema))
  return types.length === 0 ? "undefined" : types.join(" | ")
}

const places = /** @type {const} */ ({ path: "params", query: "query", header: "headers" })

/** @param {any} operation */
const requestType = (operation) => {
  /** @type {Record<string, { properties: Record<string, any>, required: Array<string> }>} */
  const parts = {}
  for (const { in: place, name, required, schema } of operation.parameters ?? []) {
    const part = (parts[places[/** @type {keyof typeof places} */ (place)]] ??= { properties: {}, required: [] })
    const member = place === "header" ? name.toLowerCase() : name
    part.properties[member] = schema
    if (required) part.required.push(member)
  }
  const members = Object.entries(parts).map(
    ([name, { properties, required }]) =>
      `readonly ${name}${required.length === 0 ? "?" : ""}: ${objectType(properties, required)}`
  )
  const { requestBody } = operation
  if (requestBody !== undefined) {
    members.push(`readonly payload${requestBody.required ? "" : "?"}: ${bodyType(requestBody)}`)
  }
  if (members.length === 0) return "void"
  return `{ ${members.join("; ")} }${members.every((member) => /^readonly \w+\?/.test(member)) ? " | void" : ""}`
}

/** @param {any} operation */
const operationType = (operation) => {
  const responses = Object.entries(operation.responses)
  const good = responses.filter(([status]) => status.startsWith("2")).map(([, response]) => bodyType(response))
  const codes = responses.flatMap(([, response]) => response["x-error-codes"] ?? [])
  return `{
    readonly request: ${requestType(operation)}
    readonly success: ${[...new Set(good)].join(" | ") || "undefined"}
    readonly codes: ${codes.map(text).join(" | ") || "never"}
  }`
}

/** Members that come with one code: the document says so in their description. @param {any} document */
const refusalMembers = (document) => {
  /** @type {Record<string, Record<string, any>>} */
  const byCode = {}
  for (const schema of Object.values(document.components.schemas)) {
    for (const part of schema.allOf ?? []) {
      for (const [name, member] of Object.entries(part.properties ?? {})) {
        const code = /^With ([A-Z_]+)/.exec(member.description ?? "")?.[1]
        if (code !== undefined) (byCode[code] ??= {})[name] = member
      }
    }
  }
  return byCode
}

/** The text of the declaration file. */
export const operationTypes = async () => {
  const [document, routes] = JSON.parse(
    await printed(`
      import { contractDocument } from "#schema/OpenApi.ts"
      import { routes } from "#src/client/Routes.ts"
      process.stdout.write(JSON.stringify([contractDocument, routes]))`)
  )
  const schemas = Object.entries(document.components.schemas)
  const operations = routes.map((/** @type {import("./client/Routes.ts").Route} */ { id, method, path }) => {
    const operation = document.paths[path][method.toLowerCase()]
    return `  /** ${operation.summary} */\n  readonly ${text(id)}: ${operationType(operation)}`
  })
  const members = Object.entries(refusalMembers(document))
  return `/** Made from the OpenAPI document by src/operationTypes.mjs. */
export interface Schemas {
${schemas.map(([name, schema]) => `  readonly ${text(name)}: ${typeOf(schema)}`).join("\n")}
}

/** By the id of the operation. */
export interface Operations {
${operations.join("\n")}
}

/** Members of a refusal beside the common ones, by code. */
export interface RefusalMembers {
${members.map(([code, properties]) => `  readonly ${code}: ${objectType(properties, Object.keys(properties))}`).join("\n")}
}
`
}

/**
 * Reads the arguments of a tool call as clients and models send them (docs/contract/mcp.md, "Arguments"): `null` for an
 * absent member, numbers, booleans, lists and objects as text. The tool's own input schema decides; a member that is
 * text stays as it is, since it may be a value. Also says what a member is, for refusals.
 */
import type * as ParseResult from "effect/ParseResult"
import { ValidationFailed } from "#schema/Errors.ts"
import { validationFailed } from "#src/http/engine/ErrorEnvelope.ts"
import { isObject, isTooBig, type JsonObject, memberOf } from "./Message.ts"

const schemaAt = (schema: unknown, name: string): unknown => memberOf(memberOf(schema, "properties"), name)

/** Strings of a list in a schema: names of members, or allowed values. */
const textsOf = (list: unknown): ReadonlyArray<string> =>
  Array.isArray(list) ? list.filter((one) => typeof one === "string") : []

const parsedText = (text: string): unknown => {
  try {
    const value: unknown = JSON.parse(text)
    return isTooBig(value) ? undefined : value
  } catch {
    return undefined
  }
}

/** Entries of a list that came as text: JSON, or names between commas where a name cannot contain one. */
const listIn = (schema: unknown, text: string): ReadonlyArray<unknown> | undefined => {
  const parsed = /^\s*\[/.test(text) ? parsedText(text) : undefined
  if (Array.isArray(parsed)) return parsed
  const names = memberOf(schema, "uniqueItems") === true || memberOf(memberOf(schema, "items"), "enum") !== undefined
  return names && /^\s*[\w-]+(?:\s*,\s*[\w-]+)*\s*$/.test(text) ? text.split(",").map((one) => one.trim()) : undefined
}

/** Value that a text means for a member of this type; undefined if it means none. */
const meaning = (schema: unknown, text: string): unknown => {
  switch (memberOf(schema, "type")) {
    case "integer":
      return /^\s*-?[0-9]{1,16}(?:\.0+)?\s*$/.test(text) ? Number(text) : undefined
    case "boolean": {
      const word = text.trim().toLowerCase()
      return word === "true" ? true : word === "false" ? false : undefined
    }
    case "array":
      return listIn(schema, text)
    case "object": {
      const parsed = /^\s*\{/.test(text) ? parsedText(text) : undefined
      return isObject(parsed) ? parsed : undefined
    }
    default:
      return undefined
  }
}

const readMembers = (schema: unknown, members: JsonObject): JsonObject => {
  const required = textsOf(memberOf(schema, "required"))
  return Object.fromEntries(
    Object.entries(members).flatMap(([name, member]) => {
      const its = schemaAt(schema, name)
      if (its === undefined) return [[name, member]]
      return member === null && !required.includes(name) ? [] : [[name, readValue(its, member)]]
    })
  )
}

const readValue = (schema: unknown, sent: unknown): unknown => {
  const value = typeof sent === "string" ? (meaning(schema, sent) ?? sent) : sent
  if (Array.isArray(value)) return value.map((one) => readValue(memberOf(schema, "items"), one))
  return isObject(value) ? readMembers(schema, value) : value
}

/** Arguments of a tool with this input schema. Without arguments, or with `null`, a call has an empty object. */
export const read = (inputSchema: JsonObject, sent: unknown): unknown =>
  sent === undefined || sent === null ? {} : readValue(inputSchema, sent)

/** The message with its arguments read, if it calls a tool. */
export const inMessage = (schemaOf: (tool: string) => JsonObject | undefined, message: unknown): unknown => {
  const params = memberOf(message, "params")
  const tool = memberOf(params, "name")
  if (!isObject(message) || message["method"] !== "tools/call" || !isObject(params) || typeof tool !== "string") {
    return message
  }
  const schema = schemaOf(tool) ?? {}
  return { ...message, params: { ...params, arguments: read(schema, params["arguments"]) } }
}

// --- what a member is ---

const bounds = (schema: unknown, min: string, max: string): string => {
  const [from, to] = [memberOf(schema, min), memberOf(schema, max)]
  if (typeof from !== "number") return typeof to === "number" ? `at most ${to}` : ""
  return typeof to !== "number" || to === Number.MAX_SAFE_INTEGER ? `at least ${from}` : `${from} to ${to}`
}

const named = (names: ReadonlyArray<string>, last: string): string =>
  names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} ${last} ${names[names.length - 1]}`

const entriesOf = (items: unknown): string => {
  const values = textsOf(memberOf(items, "enum"))
  if (values.length > 0) return `of ${named(values, "and")}`
  if (memberOf(items, "type") !== "object") return memberOf(items, "format") === "uuid" ? "ids" : "texts"
  return `objects with ${named(Object.keys(memberOf(items, "properties") ?? {}), "and")}`
}

const textShape = (schema: unknown): string => {
  const values = textsOf(memberOf(schema, "enum"))
  if (values.length > 0) return values.length === 1 ? values.join("") : named(values, "or")
  switch (memberOf(schema, "format")) {
    case "uuid":
      return "an id"
    case "date-time":
      return "a time such as 2027-01-31T09:00:00Z"
  }
  const size = bounds(schema, "minLength", "maxLength")
  return size === "" ? "text" : `text of ${size} characters`
}

/** Phrase for a member with this schema: `a whole number from 1 to 500`. */
const shapeOf = (schema: unknown): string => {
  switch (memberOf(schema, "type")) {
    case "integer": {
      const size = bounds(schema, "minimum", "maximum")
      return `a whole number ${/^\d/.test(size) ? "from" : "of"} ${size}`
    }
    case "boolean":
      return "true or false"
    case "array":
      return `a list of ${bounds(schema, "minItems", "maxItems")} ${entriesOf(memberOf(schema, "items"))}`
    case "object": {
      const members = Object.keys(memberOf(schema, "properties") ?? {})
      if (members.length > 0) return `an object with ${named(members, "and")}`
      return `an object of ${bounds(schema, "minProperties", "maxProperties")} texts by their names`
    }
    default:
      return textShape(schema)
  }
}

interface Place {
  readonly schema: unknown
  readonly value: unknown
}

/** The member at this path of the input: its schema, undefined where it is unknown, and its value. */
const placeAt = (inputSchema: JsonObject, args: unknown, path: ReadonlyArray<string>): Place =>
  path.reduce(
    ({ schema, value }: Place, name): Place => ({
      schema: Array.isArray(value)
        ? memberOf(schema, "items")
        : (schemaAt(schema, name) ?? memberOf(schema, "additionalProperties")),
      value: Array.isArray(value) ? (value as ReadonlyArray<unknown>)[Number(name)] : memberOf(value, name)
    }),
    { schema: inputSchema, value: args }
  )

const within = (size: number, schema: unknown, min: string, max: string): boolean => {
  const [from, to] = [memberOf(schema, min), memberOf(schema, max)]
  return (typeof from !== "number" || size >= from) && (typeof to !== "number" || size <= to)
}

/** True if the value has the type and the size of its schema; then the tool's own sentence says what is wrong. */
const fits = ({ schema, value }: Place): boolean => {
  switch (memberOf(schema, "type")) {
    case "integer":
      return Number.isSafeInteger(value) && within(Number(value), schema, "minimum", "maximum")
    case "boolean":
      return typeof value === "boolean"
    case "array":
      return Array.isArray(value) && within(value.length, schema, "minItems", "maxItems")
    case "object":
      return isObject(value) && within(Object.keys(value).length, schema, "minProperties", "maxProperties")
    default:
      return typeof value === "string" && memberOf(schema, "enum") === undefined
  }
}

const bare = (name: string): string => name.toLowerCase().replaceAll(/[_-]/g, "")

/** Sentence for a member that the tool does not have; names the one that is written almost like it. */
const unexpected = (inputSchema: JsonObject, args: unknown, path: ReadonlyArray<string>): string => {
  const { schema } = placeAt(inputSchema, args, path.slice(0, -1))
  const meant = Object.keys(memberOf(schema, "properties") ?? {}).find((name) => bare(name) === bare(path.at(-1) ?? ""))
  return `This member is not accepted here${meant === undefined ? "" : `: its name is ${meant}`}.`
}

/** The refusal of these arguments. It names the member and says what it is; it repeats nothing of the value. */
export const refusal = (
  inputSchema: JsonObject,
  args: unknown,
  issues: ReadonlyArray<ParseResult.ArrayFormatterIssue>
): ValidationFailed => {
  const { field, message } = validationFailed(issues)
  if (field === undefined) return new ValidationFailed({ message })
  const path = field.split(".")
  const place = placeAt(inputSchema, args, path)
  const sentence = message.replace(/^This member /, "")
  if (sentence === "is not accepted here.") {
    return new ValidationFailed({ field, message: unexpected(inputSchema, args, path) })
  }
  if (place.schema === undefined || !isObject(place.schema)) return new ValidationFailed({ field, message })
  const shape = shapeOf(place.schema)
  if (sentence === "is required.") return new ValidationFailed({ field, message: `${field} is required: ${shape}.` })
  return new ValidationFailed({
    field,
    message: fits(place) && sentence !== "is not valid." ? `${field} ${sentence}` : `${field} is ${shape}.`
  })
}

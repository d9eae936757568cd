/**
 * What people and programs hold on to: commands with their options, and operations with what they take and answer. One
 * line for each thing that can be relied on, so that two releases are compared by comparing lines.
 */
import * as Schema from "effect/Schema"
import { page, type Page } from "#src/cli/HelpPage.ts"
import { AnyObject, parsed } from "#test/support/Json.ts"

const Lines = Schema.Array(Schema.String)
const Command = Schema.Struct({ usage: Schema.String, options: Lines })
const Operation = Schema.Struct({
  /** What is accepted: a line that goes away is a break. */
  takes: Lines,
  /** What must be sent: a line that comes is a break. */
  requires: Lines,
  /** What is answered on success: a line that goes away is a break. */
  answers: Lines
})
const Surface = Schema.Struct({
  release: Schema.String,
  commands: Schema.Record({ key: Schema.String, value: Command }),
  operations: Schema.Record({ key: Schema.String, value: Operation })
})
export type Surface = typeof Surface.Type

/** A record of `test/records`. */
export const read = parsed(Surface)

// --- commands ---

export const commandsOf = (root: Page): Surface["commands"] => {
  const found: Record<string, typeof Command.Type> = {}
  const visit = (at: Page, path: ReadonlyArray<string>) => {
    const [first = ""] = page({ path, at, unknown: undefined }).split("\n\n")
    found[path.join(" ")] = {
      usage: first.replaceAll(/\s+/g, " ").replace("Usage: ", ""),
      options: at.options.map(([name]) => name).sort()
    }
    for (const below of at.below) visit(below, [...path, below.name])
  }
  visit(root, [root.name])
  return found
}

// --- the API ---

type Json = Readonly<Record<string, unknown>>
const object = Schema.is(AnyObject)
const objects = (value: unknown): ReadonlyArray<Json> =>
  Array.isArray(value) ? value.filter((one) => object(one)) : []
const texts = (value: unknown): ReadonlyArray<string> => (Array.isArray(value) ? value.map(String) : [])
const at = (value: unknown, ...path: ReadonlyArray<string>): unknown =>
  path.reduce<unknown>((found, name) => (object(found) ? found[name] : undefined), value)

interface Shape {
  readonly lines: Set<string>
  readonly required: Set<string>
}

/** Every member that a schema describes, as `name.of[].member: type`; a schema inside itself is not followed again. */
const describeSchema = (
  document: Json,
  schema: unknown,
  name: string,
  shape: Shape,
  above: ReadonlyArray<unknown>
): void => {
  if (!object(schema) || above.includes(schema)) return
  const inside = [...above, schema]
  const follow = (one: unknown, path = name, to = shape) => describeSchema(document, one, path, to, inside)
  if (typeof schema["$ref"] === "string") return follow(at(document, ...schema["$ref"].slice(2).split("/")))
  objects(schema["allOf"]).forEach((one) => follow(one))
  // What one alternative requires, another does not.
  const alternatives = [...objects(schema["anyOf"]), ...objects(schema["oneOf"])]
  const ofAlternatives = alternatives.length > 1 ? { ...shape, required: new Set<string>() } : shape
  for (const one of alternatives) follow(one, name, ofAlternatives)
  const format = typeof schema["format"] === "string" ? ` (${schema["format"]})` : ""
  for (const type of texts([schema["type"] ?? []].flat())) shape.lines.add(`${name}: ${type}${format}`)
  for (const value of texts(schema["enum"])) shape.lines.add(`${name} = ${value}`)
  if ("const" in schema) shape.lines.add(`${name} = ${String(schema["const"])}`)
  for (const [member, of] of Object.entries(at(schema, "properties") ?? {})) {
    const path = name === "" ? member : `${name}.${member}`
    if (texts(schema["required"]).includes(member)) shape.required.add(path)
    follow(of, path)
  }
  follow(schema["items"], `${name}[]`)
  follow(schema["additionalProperties"], `${name}.*`)
}

const shapeOf = (document: Json, schema: unknown, name: string): Shape => {
  const shape: Shape = { lines: new Set(), required: new Set() }
  describeSchema(document, schema, name, shape, [])
  return shape
}

const operationOf = (document: Json, operation: Json): typeof Operation.Type => {
  const takes = new Set<string>()
  const requires = new Set<string>()
  const answers = new Set<string>()
  for (const one of objects(operation["parameters"])) {
    const parameter =
      typeof one["$ref"] === "string" ? at(document, ...one["$ref"].slice(2).split("/")) : (one satisfies Json)
    const name = `${String(at(parameter, "in"))} ${String(at(parameter, "name"))}`
    takes.add(name)
    if (at(parameter, "required") === true) requires.add(name)
    for (const line of shapeOf(document, at(parameter, "schema"), name).lines) takes.add(line)
  }
  const contents = (of: unknown) => Object.entries(at(of, "content") ?? {})
  if (at(operation, "requestBody", "required") === true) requires.add("body")
  for (const [type, content] of contents(operation["requestBody"])) {
    takes.add(`body ${type}`)
    const { lines, required } = shapeOf(document, at(content, "schema"), "body")
    for (const line of lines) takes.add(line)
    for (const line of required) requires.add(line)
  }
  for (const [status, response] of Object.entries(at(operation, "responses") ?? {})) {
    if (!/^[23]/.test(status)) continue
    answers.add(status)
    for (const [type, content] of contents(response)) {
      answers.add(`${status} ${type}`)
      const { lines, required } = shapeOf(document, at(content, "schema"), status)
      for (const line of lines) answers.add(line)
      for (const line of required) answers.add(`${line} is always there`)
    }
  }
  const sorted = (lines: Set<string>) => [...lines].sort()
  return { takes: sorted(takes), requires: sorted(requires), answers: sorted(answers) }
}

export const operationsOf = (...documents: ReadonlyArray<object>): Surface["operations"] => {
  const found: Record<string, typeof Operation.Type> = {}
  for (const given of documents) {
    const document = parsed(AnyObject)(JSON.stringify(given))
    for (const [path, item] of Object.entries(at(document, "paths") ?? {})) {
      for (const [method, operation] of Object.entries(object(item) ? item : {})) {
        if (object(operation)) found[`${method.toUpperCase()} ${path}`] = operationOf(document, operation)
      }
    }
  }
  return found
}

// --- two releases ---

const without = (lines: ReadonlyArray<string>, others: ReadonlyArray<string> = []) =>
  lines.filter((line) => !others.includes(line))

/** Flags of an option as the help shows it: `-p, --project TEXT`. */
const flags = (options: ReadonlyArray<string>): ReadonlyArray<string> =>
  options.flatMap((option) => option.match(/(?<![\w-])--?[a-z][\w-]*/g) ?? [])

/** Arguments without brackets have to be given: more of them, or fewer in all, is another command. */
const argumentsOf = (usage: string): ReadonlyArray<string> =>
  usage.split(" ").filter((word) => /[A-Z<]/.test(word) || word.startsWith("["))

/** What worked with the release before and does not any more. Empty: whoever used that one can use this one. */
export const breaks = (before: Surface, now: Omit<Surface, "release">): ReadonlyArray<string> => [
  ...Object.entries(before.commands).flatMap(([name, command]) => {
    const there = now.commands[name]
    if (there === undefined) return [`${name}: the command is gone`]
    return [
      ...without(flags(command.options), flags(there.options)).map((flag) => `${name}: the option ${flag} is gone`),
      ...(argumentsOf(command.usage).join(" ") === argumentsOf(there.usage).join(" ")
        ? []
        : [`${name}: "${command.usage}" is "${there.usage}" now`])
    ]
  }),
  ...Object.entries(before.operations).flatMap(([name, operation]) => {
    const there = now.operations[name]
    if (there === undefined) return [`${name}: the operation is gone`]
    return [
      ...without(operation.takes, there.takes).map((line) => `${name}: takes no more ${line}`),
      ...without(there.requires, operation.requires).map((line) => `${name}: requires ${line} now`),
      ...without(operation.answers, there.answers).map((line) => `${name}: answers no more ${line}`)
    ]
  })
]

/**
 * Surface that people and programs rely on: commands with their options, and operations with their inputs and answers.
 * One
 * line for each thing that can be relied on, so that two releases are compared by comparing lines.
 */
import * as Schema from "effect/Schema"
import { page, type Page } from "#src/cli/help/Page.ts"
import { AnyObject, parsed } from "#test/support/Json.ts"
import { at, type Json, kindOf, object, objects, shapeOf, texts, typeOf } from "./Shape.ts"

const Lines = Schema.Array(Schema.String)
const Bounds = Schema.Record({ key: Schema.String, value: Schema.Union(Schema.Number, Schema.String) })
const Command = Schema.Struct({ usage: Schema.String, options: Lines })
const Operation = Schema.Struct({
  /** Accepted inputs, credentials among them: a line that goes away is a break. */
  takes: Lines,
  /** Required inputs, and the scope that a login needs: a line that comes is a break. */
  requires: Lines,
  /** Bounds of what is accepted: a tighter one is a break. */
  bounds: Bounds,
  /**
   * Answers, refusals and their codes among them, and the operation's own name: a line that goes away is a break, and
   * so is
   * another type, or a value in a closed list, of an existing member.
   */
  answers: Lines,
  /** Bounds of what is answered: a looser one is a break. */
  promises: Bounds
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
  const byName: Record<string, typeof Command.Type> = {}
  const visit = (at: Page, path: ReadonlyArray<string>) => {
    const [first = ""] = page({ path, at, unknown: undefined }).split("\n\n")
    byName[path.join(" ")] = {
      usage: first.replaceAll(/\s+/g, " ").replace("Usage: ", ""),
      options: at.options.map(([name]) => name).sort()
    }
    for (const below of at.below) visit(below, [...path, below.name])
  }
  visit(root, [root.name])
  return byName
}

// --- the API ---

/** Lines of an operation, while they are collected. */
class Found {
  readonly takes = new Set<string>()
  readonly requires = new Set<string>()
  readonly bounds = new Map<string, number | string>()
  readonly answers = new Set<string>()
  readonly promises = new Map<string, number | string>()

  sorted(): typeof Operation.Type {
    const lines = (of: Set<string>) => [...of].sort()
    const bounds = (of: Map<string, number | string>) => Object.fromEntries([...of].sort())
    return {
      takes: lines(this.takes),
      requires: lines(this.requires),
      bounds: bounds(this.bounds),
      answers: lines(this.answers),
      promises: bounds(this.promises)
    }
  }
}

const contents = (of: unknown) => Object.entries(at(of, "content") ?? {})

const describeCredentials = (document: Json, operation: Json, { requires, takes }: Found) => {
  const security = objects(operation["security"] ?? document["security"])
  if (security.length === 0) takes.add("no credential")
  for (const together of security) takes.add(`credential ${Object.keys(together).sort().join(" and ") || "none"}`)
  const scope = operation["x-cli-scope"]
  if (scope !== undefined) requires.add(`scope ${String(scope)}`)
}

const describeRequest = (document: Json, operation: Json, { bounds, requires, takes }: Found) => {
  const describe = (schema: unknown, name: string) => {
    const shape = shapeOf(document, schema, name)
    for (const line of shape.lines) takes.add(line)
    for (const line of shape.required) requires.add(line)
    for (const [line, bound] of shape.bounds) bounds.set(line, bound)
  }
  for (const one of objects(operation["parameters"])) {
    const parameter =
      typeof one["$ref"] === "string" ? at(document, ...one["$ref"].slice(2).split("/")) : (one satisfies Json)
    const name = `${String(at(parameter, "in"))} ${String(at(parameter, "name"))}`
    takes.add(name)
    if (at(parameter, "required") === true) requires.add(name)
    describe(at(parameter, "schema"), name)
  }
  if (at(operation, "requestBody", "required") === true) requires.add("body")
  for (const [type, content] of contents(operation["requestBody"])) {
    takes.add(`body ${type}`)
    describe(at(content, "schema"), "body")
  }
}

const describeAnswers = (document: Json, operation: Json, { answers, promises }: Found) => {
  answers.add(`named ${String(operation["operationId"])}`)
  for (const [status, response] of Object.entries(at(operation, "responses") ?? {})) {
    answers.add(status)
    for (const code of texts(at(response, "x-error-codes"))) answers.add(`${status} code ${code}`)
    for (const header of Object.keys(at(response, "headers") ?? {})) answers.add(`${status} header ${header}`)
    for (const [type, content] of contents(response)) {
      answers.add(`${status} ${type}`)
      // Refusals look alike: by their names here, and described once (`refusalsOf`).
      const refusal = /^[45]/.test(status) ? at(content, "schema", "$ref") : undefined
      if (refusal !== undefined) {
        answers.add(`${status} is ${String(refusal).split("/").at(-1)}`)
        continue
      }
      describeAnswer(document, at(content, "schema"), status, { answers, promises })
    }
  }
}

const describeAnswer = (
  document: Json,
  schema: unknown,
  name: string,
  { answers, promises }: Pick<Found, "answers" | "promises">
) => {
  const shape = shapeOf(document, schema, name)
  for (const line of shape.lines) answers.add(line)
  for (const line of shape.required) answers.add(`${line} is always there`)
  for (const [line, bound] of shape.bounds) promises.set(line, bound)
}

const operationOf = (document: Json, operation: Json): typeof Operation.Type => {
  const lines = new Found()
  describeCredentials(document, operation, lines)
  describeRequest(document, operation, lines)
  describeAnswers(document, operation, lines)
  return lines.sorted()
}

/** The bodies of refusals, each once for each document: as operations that take nothing. */
const refusalsOf = (document: Json, operations: Surface["operations"]): Surface["operations"] => {
  const names = Object.values(operations).flatMap(({ answers }) =>
    answers.flatMap((line) => /^\d+ is (\w+)$/.exec(line)?.[1] ?? [])
  )
  return Object.fromEntries(
    [...new Set(names)].sort().map((name) => {
      const lines = new Found()
      describeAnswer(document, at(document, "components", "schemas", name), "body", lines)
      return [`${name} of ${String(at(document, "info", "title"))}`, lines.sorted()]
    })
  )
}

/** By method and path; the documents are read one after the other. */
export const operationsOf = (...documents: ReadonlyArray<object>): Surface["operations"] => {
  const byName: Record<string, typeof Operation.Type> = {}
  for (const given of documents) {
    const document = parsed(AnyObject)(JSON.stringify(given))
    const ofDocument: Record<string, typeof Operation.Type> = {}
    for (const [path, item] of Object.entries(at(document, "paths") ?? {})) {
      for (const [method, operation] of Object.entries(object(item) ? item : {})) {
        if (object(operation)) ofDocument[`${method.toUpperCase()} ${path}`] = operationOf(document, operation)
      }
    }
    Object.assign(byName, ofDocument, refusalsOf(document, ofDocument))
  }
  return byName
}

// --- two releases ---

const without = (lines: ReadonlyArray<string>, others: ReadonlyArray<string> = []) =>
  lines.filter((line) => !others.includes(line))

/** Flags of an option as the help shows it: `-p, --project TEXT`. */
const flags = (options: ReadonlyArray<string>): ReadonlyArray<string> =>
  options.flatMap((option) => option.match(/(?<![\w-])--?[a-z][\w-]*/g) ?? [])

/** Arguments without brackets have to be given: more of them, or fewer in all, is another command. Options are looked at by name. */
const argumentsOf = (usage: string): ReadonlyArray<string> =>
  usage.split(" ").filter((word) => word !== "[options]" && (/[A-Z<]/.test(word) || word.startsWith("[")))

/** A required argument became optional: a group that does something by itself now. */
const takes = (before: string, now: string): boolean => {
  const there = argumentsOf(now)
  const all = argumentsOf(before)
  return all.length === there.length && all.every((word, i) => there[i] === word || there[i] === `[${word}]`)
}

/** The name that a line of a shape is about: `body.key` of `body.key: string` and of `body.key maxLength`. */
const nameOf = (line: string): string => line.replace(/(?:: [^:]*| [=~] .*| is open| \w+)$/, "")
/** Around a member: `body` of `body.key`, `body.items[]` of `body.items[].key`. */
const around = (name: string): string | undefined => /^(body.*)\.[^.]*$/.exec(name)?.[1]

type OperationLines = typeof Operation.Type

/** Inputs that became required. Members of something new are required with that alone. */
const newlyRequired = (before: OperationLines, now: OperationLines): ReadonlyArray<string> => {
  const names = new Set(before.takes.map(nameOf))
  return without(now.requires, before.requires).filter((line) => {
    const outer = around(line)
    return outer === undefined || names.has(outer)
  })
}

/** New possibilities of an answer: another type, or another value of a closed list. */
const newlyAnswered = (before: OperationLines, now: OperationLines): ReadonlyArray<string> => {
  const starts = (line: string) => /^(.*?)(: | = )/.exec(line)?.[0]
  const parts = new Set(before.answers.map(starts))
  return without(now.answers, before.answers).filter((line) => {
    const start = starts(line)
    return start !== undefined && parts.has(start)
  })
}

/** Whether a bound lets less through than the other one; of what is no number nobody can tell. */
const isTighter = (line: string, bound: number | string, than: number | string | undefined): boolean => {
  if (than === undefined) return true
  const kind = kindOf(line.slice(line.lastIndexOf(" ") + 1))
  if (kind === "other") return bound !== than
  return kind === "upper" ? Number(bound) < Number(than) : Number(bound) > Number(than)
}

/** Bounds that became tighter, of existing inputs. */
const tighter = (
  of: OperationLines["bounds"],
  than: OperationLines["bounds"],
  known: ReadonlyArray<string>
): ReadonlyArray<readonly [line: string, bound: number | string, other: number | string | undefined]> => {
  const lines = new Set(known.map((line) => line.replace(/ \([^()]*\)$/, "").replace(/: integer$/, ": number")))
  // A bound of a type that was not there bounds nothing that was.
  const isKnown = (line: string) => lines.has(`${nameOf(line)}: ${typeOf(line.slice(line.lastIndexOf(" ") + 1))}`)
  return Object.entries(of)
    .filter(([line, bound]) => isKnown(line) && isTighter(line, bound, than[line]))
    .map(([line, bound]) => [line, bound, than[line]])
}

const breaksOf = (before: OperationLines, now: OperationLines): ReadonlyArray<string> => [
  ...without(before.takes, now.takes)
    // A list that is open now lets through what was in it.
    .filter((line) => !(line.includes(" = ") && now.takes.includes(`${nameOf(line)} is open`)))
    .map((line) => `takes no more ${line}`),
  ...newlyRequired(before, now).map((line) => `requires ${line} now`),
  ...tighter(now.bounds, before.bounds, before.takes).map(
    ([line, bound, other]) => `takes ${line} ${bound} now, which was ${other ?? "not bounded"}`
  ),
  ...without(before.answers, now.answers).map((line) => `answers no more ${line}`),
  ...newlyAnswered(before, now).map((line) => `answers ${line} now`),
  ...tighter(before.promises, now.promises, now.answers).map(
    ([line, bound, other]) => `answers ${line} ${other ?? "without a bound"} now, which was ${bound}`
  )
]

/** Uses that worked with the release before and do not any more. Empty: every user of that one can use this one. */
export const breaks = (before: Surface, now: Omit<Surface, "release">): ReadonlyArray<string> => [
  ...Object.entries(before.commands).flatMap(([name, command]) => {
    const there = now.commands[name]
    if (there === undefined) return [`${name}: the command is gone`]
    return [
      ...without(flags(command.options), flags(there.options)).map((flag) => `${name}: the option ${flag} is gone`),
      ...(takes(command.usage, there.usage) ? [] : [`${name}: "${command.usage}" is "${there.usage}" now`])
    ]
  }),
  ...Object.entries(before.operations).flatMap(([name, operation]) => {
    const there = now.operations[name]
    if (there === undefined) return [`${name}: the operation is gone`]
    return breaksOf(operation, there).map((line) => `${name}: ${line}`)
  })
]

/**
 * The record of a release. What was recorded for this very version stays true: a break needs another version.
 * @throws when something of it is gone
 */
export const recorded = (before: Surface, now: Surface): Surface => {
  const broken = before.release === now.release ? breaks(before, now) : []
  if (broken.length === 0) return now
  throw new Error(`release ${now.release} is recorded, and this would break it:\n${broken.join("\n")}`)
}

/**
 * Help for people: the command tree printed in the width of a terminal, and a suggestion for commands that do not
 * exist.
 * The library's own page repeats the type of every option: 154 lines of up to 250 columns for `run`, where this one has
 * 48
 * of at most 100. It is a walk over the library's HelpDoc, so that each option is described once.
 */
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Span from "@effect/cli/HelpDoc/Span"
import type * as Effect from "effect/Effect"
import type * as Types from "effect/Types"
import { withoutColour } from "./Output.ts"

/** One command as the help shows it. */
export interface Node {
  readonly name: string
  readonly help: () => HelpDoc.HelpDoc
  readonly below: ReadonlyArray<Node>
  /** It does nothing by itself: alone it shows its page. */
  readonly isGroup: boolean
}

/** What a command says of itself: a sentence, further paragraphs, and lines that can be pasted. */
interface Manual {
  readonly says: string
  readonly more?: ReadonlyArray<string>
  readonly examples?: ReadonlyArray<string>
}

const docOf = ({ examples = [], more = [], says }: Manual): HelpDoc.HelpDoc =>
  HelpDoc.blocks([
    ...[says, ...more].map((text) => HelpDoc.p(text)),
    ...(examples.length === 0 ? [] : [HelpDoc.p("Examples:")]),
    ...examples.map((line) => HelpDoc.p(Span.code(`  ${line}`)))
  ])

/** A command and its node of the help: the library's own tree does not let its grandchildren be read. */
export const described = <Name extends string, R, E, A>(
  command: Command.Command<Name, R, E, A>,
  manual: Manual,
  below: ReadonlyArray<{ readonly node: Node }> = [],
  isGroup = false
) => {
  const described = Command.withDescription(command, docOf(manual))
  const node: Node = {
    name: [...Command.getNames(command)][0] ?? "",
    help: () => Command.getHelp(described, CliConfig.make({ showBuiltIns: false })),
    below: below.map(({ node }) => node),
    isGroup
  }
  return Object.assign(described, { node })
}

export const command = <Name extends string, const Config extends Command.Command.Config, R, E>(
  name: Name,
  manual: Manual,
  config: Config,
  handler: (options: Types.Simplify<Command.Command.ParseConfig<Config>>) => Effect.Effect<void, E, R>
) => described(Command.make(name, config, handler), manual)

export interface Found {
  /** Words from the program's name on. */
  readonly path: ReadonlyArray<string>
  readonly at: Node
  /** A word where only the name of a command can stand, and there is none of that name. */
  readonly unknown: string | undefined
}

/** The command that the words lead to. */
export const find = (root: Node, words: ReadonlyArray<string>): Found => {
  let found: Found = { path: [root.name], at: root, unknown: undefined }
  for (const word of words) {
    if (word.startsWith("-") || found.at.below.length === 0) break
    const next = found.at.below.find(({ name }) => name === word)
    if (next === undefined) return { ...found, unknown: word }
    found = { path: [...found.path, word], at: next, unknown: undefined }
  }
  return found
}

const flat = (doc: HelpDoc.HelpDoc): ReadonlyArray<HelpDoc.HelpDoc> =>
  doc._tag === "Sequence" ? [...flat(doc.left), ...flat(doc.right)] : doc._tag === "Empty" ? [] : [doc]

const textOf = (span: Span.Span): string => withoutColour(HelpDoc.toAnsiText(HelpDoc.p(span))).trimEnd()

interface Section {
  readonly title: string
  readonly body: ReadonlyArray<HelpDoc.HelpDoc>
}

const sections = (of: Node): ReadonlyArray<Section> => {
  const found: Array<{ title: string; body: Array<HelpDoc.HelpDoc> }> = []
  for (const part of flat(of.help())) {
    if (part._tag === "Header") found.push({ title: textOf(part.value), body: [] })
    else found.at(-1)?.body.push(part)
  }
  return found
}

/** What the library says of every option of a kind, and nobody needs to read each time. */
const boilerplate =
  /^(A user-defined piece of text\.|A true or false value\.|An integer\.|This setting is optional\.|This (option|argument) (may|must) be repeated .*|One of the following: .*)$/

/** Of a terminal that is narrower than a good line, its own. */
const width = (): number => Math.min(100, Math.max(40, process.stdout.columns ?? 100))
const wrap = (text: string, indent: number): string => {
  const room = Math.max(20, width() - indent)
  const lines: Array<string> = []
  let line = ""
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > room) {
      lines.push(line)
      line = word
    } else line = line === "" ? word : `${line} ${word}`
  }
  return [...lines, line].join(`\n${" ".repeat(indent)}`)
}

const two = (rows: ReadonlyArray<readonly [string, string]>): string => {
  const column = Math.min(38, Math.floor(width() / 2.6), Math.max(...rows.map(([name]) => name.length)) + 4)
  return rows
    .map(([name, text]) => {
      const gap = name.length + 2 < column ? " ".repeat(column - name.length - 2) : `\n${" ".repeat(column)}`
      return `  ${name}${gap}${wrap(text, column)}`.trimEnd()
    })
    .join("\n")
}

/** Name of an argument that a command takes only to say that it does not. */
export const notAnArgument = "nothing-else"

const paragraphs = (doc: HelpDoc.HelpDoc): ReadonlyArray<string> =>
  flat(doc).flatMap((node) => (node._tag === "Paragraph" ? [textOf(node.value)] : []))

const rows = (body: ReadonlyArray<HelpDoc.HelpDoc>): ReadonlyArray<readonly [string, string]> =>
  body.flatMap((node) =>
    node._tag === "DescriptionList"
      ? node.definitions.map(([name, doc]): readonly [string, string] => [
          textOf(name).replace(/^\(|\)$/g, ""),
          paragraphs(doc)
            .filter((text) => !boilerplate.test(text))
            .map((text) => text.replace(/^This setting is optional\. Defaults to: /, "Default: "))
            .join(". ")
        ])
      : []
  )

export const summary = (of: Node): string =>
  sections(of)
    .filter(({ title }) => title === "DESCRIPTION")
    .flatMap(({ body }) => body.flatMap(paragraphs))[0] ?? ""

/** Options as the page shows them, with what they are for. */
export const options = (of: Node): ReadonlyArray<readonly [name: string, text: string]> =>
  rows(sections(of).flatMap(({ body, title }) => (title === "OPTIONS" ? body : [])))

export const takesFile = (of: Node): boolean =>
  rows(sections(of).flatMap(({ body, title }) => (title === "ARGUMENTS" ? body : []))).some(([name]) =>
    /\bFILE\b/.test(name)
  )

export const page = ({ at: of, path }: Found): string => {
  const { below } = of
  const own = sections(of)
  const body = (title: string) => own.filter((section) => section.title === title).flatMap((section) => section.body)
  const description = body("DESCRIPTION").flatMap(paragraphs)
  const at = description.indexOf("Examples:")
  const [told, examples] = at < 0 ? [description, []] : [description.slice(0, at), description.slice(at + 1)]
  const args = rows(body("ARGUMENTS")).filter(([name]) => !name.includes(notAnArgument))
  const options = rows(body("OPTIONS"))
  const usage = [
    path.join(" "),
    ...(below.length > 0 ? [of.isGroup ? "COMMAND" : "[COMMAND]"] : []),
    ...(options.length > 0 ? ["[options]"] : []),
    ...args.map(([name]) => name),
    ...(path[1] === "run" ? ["-- command [argument...]"] : [])
  ]
  const parts = [
    wrap(`Usage: ${usage.join(" ")}`, 2),
    ...told.map((text) => wrap(text, 0)),
    ...(below.length === 0
      ? []
      : [`Commands:\n${two(below.map((child): readonly [string, string] => [child.name, summary(child)]))}`]),
    ...(args.length === 0 ? [] : [`Arguments:\n${two(args)}`]),
    ...(options.length === 0 ? [] : [`Options:\n${two(options)}`]),
    ...(examples.length === 0 ? [] : [`Examples:\n${examples.map((line) => `  ${line.trim()}`).join("\n")}`]),
    ...(path.length > 1 ? [] : ["`ampoule COMMAND --help` tells more of each; --version, completion bash|zsh|fish."])
  ]
  return `${parts.join("\n\n")}\n`
}

export const commandNames = ({ at }: Found): string => at.below.map(({ name }) => name).join(", ")

/** What other programs of this kind call it. */
const otherWords: ReadonlyMap<string, string> = new Map(
  Object.entries({
    ls: "list",
    show: "get",
    read: "get",
    view: "get",
    reveal: "get",
    add: "set",
    create: "set",
    put: "set",
    update: "set",
    write: "set",
    rm: "unset",
    del: "unset",
    delete: "unset",
    remove: "unset",
    upload: "import",
    push: "import",
    download: "export",
    pull: "export",
    versions: "history",
    log: "history",
    undelete: "restore",
    compare: "diff",
    exec: "run",
    signin: "login",
    auth: "login",
    signout: "logout",
    me: "whoami",
    status: "doctor",
    start: "server",
    serve: "server",
    encrypt: "seal",
    decrypt: "unseal",
    envs: "environments"
  })
)

/** Insertions, deletions and changes that lead from one word to the other (Levenshtein). */
const distance = (a: string, b: string): number => {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next.push(
        Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1))
      )
    }
    row = next
  }
  return row[b.length] ?? 0
}

/** The command that was probably meant: by another word for it, a typing error, or one level too high. */
export const meant = ({ at, path, unknown }: Found): string | undefined => {
  if (unknown === undefined) return undefined
  const close = (node: Node) => distance(node.name, unknown) <= (unknown.length < 4 ? 1 : 2)
  const exact = (node: Node) => node.name === unknown || node.name === otherWords.get(unknown)
  const full = (...names: ReadonlyArray<string>) => [...path, ...names].join(" ")
  for (const fits of [exact, close]) {
    const here = at.below.find(fits)
    if (here !== undefined) return full(here.name)
    for (const child of at.below) {
      const grandchild = child.below.find(fits)
      if (grandchild !== undefined) return full(child.name, grandchild.name)
    }
  }
  return undefined
}

/** The option that takes one of these words: the parser tells the words alone. */
export const optionTaking = ({ at }: Found, words: string): string | undefined =>
  options(at)
    .map(([name]) => name)
    .find((name) => name.endsWith(` ${words}`))
    ?.split(" ")[0]

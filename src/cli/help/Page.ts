/**
 * Pages of the help as data, written by the build (`src/bundle.mjs`). Help, completion and corrections of mistyped
 * commands load none of the commands' code. Pure.
 */

import { closest } from "#src/cli/terminal/Closest.ts"

/** An option or an argument in its written form, and its description. */
export type Row = readonly [name: string, text: string]

/** Page of one command. */
export interface Page {
  readonly name: string
  /** Without a subcommand it only shows its page. */
  readonly isGroup: boolean
  /** Paragraphs; the first is the summary. */
  readonly says: ReadonlyArray<string>
  readonly examples: ReadonlyArray<string>
  readonly arguments: ReadonlyArray<Row>
  readonly options: ReadonlyArray<Row>
  readonly below: ReadonlyArray<Page>
}

export interface Match {
  /** Words from the program's name on. */
  readonly path: ReadonlyArray<string>
  readonly at: Page
  /** A word in the place of a subcommand that does not exist. */
  readonly unknown: string | undefined
}

/** Command that the words lead to. */
export const find = (root: Page, words: ReadonlyArray<string>): Match => {
  let match: Match = { path: [root.name], at: root, unknown: undefined }
  for (const word of words) {
    if (word.startsWith("-") || match.at.below.length === 0) break
    const next = match.at.below.find(({ name }) => name === word)
    if (next === undefined) return { ...match, unknown: word }
    match = { path: [...match.path, word], at: next, unknown: undefined }
  }
  return match
}

/** Columns: the terminal's own width below 100. */
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

const two = (rows: ReadonlyArray<Row>): string => {
  const column = Math.min(38, Math.floor(width() / 2.6), Math.max(...rows.map(([name]) => name.length)) + 4)
  return rows
    .map(([name, text]) => {
      const gap = name.length + 2 < column ? " ".repeat(column - name.length - 2) : `\n${" ".repeat(column)}`
      return `  ${name}${gap}${wrap(text, column)}`.trimEnd()
    })
    .join("\n")
}

// --- options and arguments, parsed from their written form ---

/** `-p, --project id-or-slug`. */
export const optionOf = ([row, text]: Row) => {
  const [, flags = "", value] = /^((?:--?[A-Za-z][\w-]*(?:, )?)+)(?: (.*))?$/.exec(row) ?? []
  const names = flags.split(", ")
  /** `name`: the first long one; `value`: the placeholder of its text, or the words it accepts. */
  return { names, name: names.find((one) => one.startsWith("--")) ?? "", value, text }
}

/** Kinds of names on a server. */
export type NameKind = "projects" | "environments" | "keys"

/** Other options with the same placeholder take the key of a lock, or a name that does not exist yet. */
const optionsWithKeys = ["--only", "--except", "--allow"]

export const namesOfOption = ({ name, value }: ReturnType<typeof optionOf>): NameKind | undefined => {
  if (value === "id-or-slug") return "projects"
  if (value === "slug") return "environments"
  return optionsWithKeys.includes(name) ? "keys" : undefined
}

const kindOfArgument: ReadonlyMap<string, NameKind> = new Map([
  ["KEY", "keys"],
  ["PROJECT", "projects"],
  ["ENVIRONMENT", "environments"],
  ["SOURCE", "environments"],
  ["TARGET", "environments"]
])

/** Kind of the argument at this index; the last one may repeat. */
export const namesOfArgument = ({ arguments: all, name }: Page, index: number): NameKind | undefined => {
  const last = all.at(-1)
  const [argument = ""] = all[index] ?? (last !== undefined && /\.\.\.|1\+/.test(last[0]) ? last : [])
  // A secret to restore is not in the list of live keys.
  return name === "restore" ? undefined : kindOfArgument.get(/[A-Z]+/.exec(argument)?.[0] ?? "")
}

export const summary = ({ says }: Page): string => says[0] ?? ""

export const takesFile = (of: Page): boolean => of.arguments.some(([name]) => /\bFILE\b/.test(name))

export const page = ({ at: of, path }: Match): string => {
  const { below } = of
  const { arguments: args, examples, options, says } = of
  const usage = [
    path.join(" "),
    ...(below.length > 0 ? [of.isGroup ? "COMMAND" : "[COMMAND]"] : []),
    ...(options.length > 0 ? ["[options]"] : []),
    ...args.map(([name]) => name),
    ...(path[1] === "run" ? ["-- command [argument...]"] : [])
  ]
  const parts = [
    wrap(`Usage: ${usage.join(" ")}`, 2),
    ...says.map((text) => wrap(text, 0)),
    ...(below.length === 0 ? [] : [`Commands:\n${two(below.map((child): Row => [child.name, summary(child)]))}`]),
    ...(args.length === 0 ? [] : [`Arguments:\n${two(args)}`]),
    ...(options.length === 0 ? [] : [`Options:\n${two(options)}`]),
    ...(examples.length === 0 ? [] : [`Examples:\n${examples.map((line) => `  ${line}`).join("\n")}`]),
    ...(path.length > 1
      ? []
      : [
          wrap("More: `ampoule COMMAND --help`, `ampoule --version`, `ampoule completion bash|zsh|fish`.", 0),
          wrap("Docs: open /docs of your server in a browser, by default http://127.0.0.1:4400/docs.", 0)
        ])
  ]
  return `${parts.join("\n\n")}\n`
}

export const commandNames = ({ at }: Match): string => at.below.map(({ name }) => name).join(", ")

/** Names of these commands in similar programs. */
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

/** Most likely command: a synonym, a typing error, or a subcommand without its group. */
export const suggestion = ({ at, path, unknown }: Match): string | undefined => {
  if (unknown === undefined) return undefined
  const close = ({ name }: Page) => closest(unknown, [name]) !== undefined
  const exact = (node: Page) => node.name === unknown || node.name === otherWords.get(unknown)
  const full = (...names: ReadonlyArray<string>) => [...path, ...names].join(" ")
  for (const fits of [exact, close]) {
    const here = at.below.find(fits)
    if (here !== undefined) return full(here.name)
    // A mistyped command without its group would be two mistakes, and short names are near to each other.
    for (const child of unknown.length < 5 && fits === close ? [] : at.below) {
      const grandchild = child.below.find(fits)
      if (grandchild !== undefined) return full(child.name, grandchild.name)
    }
  }
  return undefined
}

/** `Too many arguments`, with those that the command takes. */
export const surplus = ({ at, path }: Match): string => {
  const names = at.arguments.map(([name]) => name.replaceAll(/[<>[\]]/g, ""))
  const command = path.slice(1).join(" ")
  if (names.length === 0) return `Too many arguments: \`${command}\` takes none.`
  const count = names.length === 1 ? "one" : String(names.length)
  return `Too many arguments: \`${command}\` takes ${count}, ${names.join(" and ")}.`
}

/** The option that takes these words, because the parser's error quotes only them. */
export const optionTaking = ({ at }: Match, words: string): string | undefined =>
  at.options
    .map(([name]) => name)
    .find((name) => name.endsWith(` ${words}`))
    ?.split(" ")[0]

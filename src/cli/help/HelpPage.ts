/**
 * What the help says of the commands, as data: written when the program is built (`src/manual.mjs`), so that help,
 * completion and a mistyped command need nothing of what the commands do. Pure.
 */

/** An option or an argument as it is written, and what it is for. */
export type Row = readonly [name: string, text: string]

/** One command as the help shows it. */
export interface Page {
  readonly name: string
  /** It does nothing by itself: alone it shows its page. */
  readonly isGroup: boolean
  /** Paragraphs; the first is the summary. */
  readonly says: ReadonlyArray<string>
  readonly examples: ReadonlyArray<string>
  readonly arguments: ReadonlyArray<Row>
  readonly options: ReadonlyArray<Row>
  readonly below: ReadonlyArray<Page>
}

export interface Found {
  /** Words from the program's name on. */
  readonly path: ReadonlyArray<string>
  readonly at: Page
  /** A word where only the name of a command can stand, and there is none of that name. */
  readonly unknown: string | undefined
}

/** The command that the words lead to. */
export const find = (root: Page, words: ReadonlyArray<string>): Found => {
  let found: Found = { path: [root.name], at: root, unknown: undefined }
  for (const word of words) {
    if (word.startsWith("-") || found.at.below.length === 0) break
    const next = found.at.below.find(({ name }) => name === word)
    if (next === undefined) return { ...found, unknown: word }
    found = { path: [...found.path, word], at: next, unknown: undefined }
  }
  return found
}

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

const two = (rows: ReadonlyArray<Row>): string => {
  const column = Math.min(38, Math.floor(width() / 2.6), Math.max(...rows.map(([name]) => name.length)) + 4)
  return rows
    .map(([name, text]) => {
      const gap = name.length + 2 < column ? " ".repeat(column - name.length - 2) : `\n${" ".repeat(column)}`
      return `  ${name}${gap}${wrap(text, column)}`.trimEnd()
    })
    .join("\n")
}

// --- options and arguments, read from how they are written ---

/** `-p, --project id-or-slug`. */
export const optionOf = ([row, text]: Row) => {
  const [, flags = "", value] = /^((?:--?[A-Za-z][\w-]*(?:, )?)+)(?: (.*))?$/.exec(row) ?? []
  const names = flags.split(", ")
  /** `name`: the first long one; `value`: the word that stands for its text, or the words that it takes. */
  return { names, name: names.find((one) => one.startsWith("--")) ?? "", value, text }
}

/** Names that a server has. */
export type NameKind = "projects" | "environments" | "keys"

/** Others with the same word take the key of a lock, or a name that is not there yet. */
const takeKeys = ["--only", "--except", "--allow"]

export const namesOfOption = ({ name, value }: ReturnType<typeof optionOf>): NameKind | undefined => {
  if (value === "id-or-slug") return "projects"
  if (value === "slug") return "environments"
  return takeKeys.includes(name) ? "keys" : undefined
}

const kindOfArgument: ReadonlyMap<string, NameKind> = new Map([
  ["KEY", "keys"],
  ["PROJECT", "projects"],
  ["ENVIRONMENT", "environments"],
  ["SOURCE", "environments"],
  ["TARGET", "environments"]
])

/** Of the argument that comes after `given` others; the last one may stand for several. */
export const namesOfArgument = ({ arguments: all, name }: Page, given: number): NameKind | undefined => {
  const last = all.at(-1)
  const [written = ""] = all[given] ?? (last !== undefined && /\.\.\.|1\+/.test(last[0]) ? last : [])
  // What can be restored is not there.
  return name === "restore" ? undefined : kindOfArgument.get(/[A-Z]+/.exec(written)?.[0] ?? "")
}

export const summary = ({ says }: Page): string => says[0] ?? ""

export const takesFile = (of: Page): boolean => of.arguments.some(([name]) => /\bFILE\b/.test(name))

export const page = ({ at: of, path }: Found): string => {
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
      : [wrap("`ampoule COMMAND --help` tells more of each; --version, completion bash|zsh|fish.", 0)])
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
  const close = (node: Page) => distance(node.name, unknown) <= (unknown.length < 4 ? 1 : 2)
  const exact = (node: Page) => node.name === unknown || node.name === otherWords.get(unknown)
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
  at.options
    .map(([name]) => name)
    .find((name) => name.endsWith(` ${words}`))
    ?.split(" ")[0]

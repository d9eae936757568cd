/**
 * No regular expression of ours takes more than linear time: every literal of the source, as `recheck`
 * proves it. Its pure JavaScript build needs neither Java nor a program of its own.
 */
import { assert, describe, it } from "@effect/vitest"
import { transformSync } from "esbuild"
import { readdirSync, readFileSync } from "node:fs"
import { setImmediate } from "node:timers/promises"
import { checkSync } from "recheck"
import { parseAst } from "vitest/node"

process.env["RECHECK_BACKEND"] = "pure"

const filesBelow = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const name = `${folder}/${entry.name}`
    // Built files there have their sources beside them.
    if (name === "src/dashboard/frame/assets/built") return []
    if (entry.isDirectory()) return filesBelow(name)
    return /\.(?:m?tsx?|m?js)$/.test(entry.name) && !/\.d\.m?ts$/.test(entry.name) ? [name] : []
  })

interface Literal {
  readonly source: string
  readonly flags: string
}

/** Every regular expression literal by its text, with its files. */
const literals = () => {
  const byText = new Map<string, Literal & { readonly files: Set<string> }>()
  for (const file of ["schema", "src", "layers", "migrations"].flatMap(filesBelow)) {
    const loader = file.endsWith(".tsx") ? "tsx" : file.endsWith("ts") ? "ts" : "js"
    const { code } = transformSync(readFileSync(file, "utf8"), { loader, target: "esnext", jsx: "automatic" })
    const look = (node: unknown): void => {
      if (Array.isArray(node)) return node.forEach(look)
      if (typeof node !== "object" || node === null) return
      if ("regex" in node && typeof node.regex === "object" && node.regex !== null) {
        // ESTree: the literal's pattern and flags.
        const { flags, pattern } = node.regex as { readonly flags: string; readonly pattern: string }
        const text = `/${pattern}/${flags}`
        const one = byText.get(text) ?? { source: pattern, flags, files: new Set<string>() }
        one.files.add(file)
        byText.set(text, one)
      }
      Object.values(node).forEach(look)
    }
    look(parseAst(code).body)
  }
  return byText
}

/**
 * More than linear, on texts that are never long. By file and literal, with the bound; a literal that is changed or
 * moved has to be looked at again.
 */
const bounded: Readonly<Record<string, string>> = {
  "src/build.mjs /[\\\\/]oidc-provider[\\\\/]lib[\\\\/].*\\.js$/": "paths of files of the build",
  "src/cli/Cli.ts /\\s*\\n\\s*/g": "our own sentences",
  "src/cli/help/Page.ts /^((?:--?[A-Za-z][\\w-]*(?:, )?)+)(?: (.*))?$/": "names of our own options",
  "src/cli/help/Help.ts /^(A user-defined piece of text\\.|A true or false value\\.|An integer\\.|This setting is optional\\.|This (option|argument) (may|must) be repeated .*|One of the following: .*)$/":
    "sentences of our own help",
  "src/cli/connection/Link.ts /\\/+$/": "an address that the person running the command gives",
  "src/client/Settings.ts /\\/+$/": "an address that the program gives",
  "layers/Telemetry.ts /\\/+$/": "a setting of the operator",
  "src/cli/terminal/KeyNames.ts /_+$/": "the name of a file",
  "src/credentials/CommonPasswords.ts /^(.{1,4})\\1+(.{0,3})$/su": "a new password: 256 characters",
  "src/credentials/CommonPasswords.ts /[\\d\\W_]+$/u": "a new password: 256 characters",
  "src/http/authentication/Authentication.ts /^bearer(?: +(.*))?$/i":
    "its end is the header's, which holds no line break",
  "src/projects/Projects.ts /-+$/": "a name: 100 characters, cut to 50 before",
  "src/vault/KeyFile.ts /#.*$/": "a line of the operator's key file"
}

/** A repetition with a high bound takes no longer than one without, and is proved in a fraction of the time. */
const unbounded = (source: string) =>
  source.replace(/\{(\d+)(?:(,)(\d*))?\}/g, (all, least: string, comma?: string, most?: string) => {
    const highest = comma === undefined ? Number(least) : most === "" ? Number(least) : Number(most)
    return highest < 16 ? all : Number(least) === 0 ? "*" : "+"
  })

/**
 * Of one proof: the slowest takes some seconds on a quiet machine, and a busy one shall not change what is proved. The
 * runner gives up on a worker that it does not hear from for a minute.
 */
const patience = 40_000

const isSafe = ({ flags, source }: Literal) => {
  const simpler = unbounded(source)
  // The automaton is fastest, and knows neither lookarounds nor references.
  const ways = [[simpler, "automaton"] as const, [simpler, "auto"] as const, [source, "auto"] as const]
  return ways.some(([text, checker]) => checkSync(text, flags, { timeout: patience, checker }).status === "safe")
}

describe("regular expressions", () => {
  it("take linear time", async () => {
    const all = literals()
    assert.isAbove(all.size, 100)
    const slow: Array<string> = []
    const listed = new Set<string>()
    for (const [text, literal] of all) {
      const open = [...literal.files].filter((file) => {
        const name = `${file} ${text}`
        if (bounded[name] === undefined) return true
        listed.add(name)
        return false
      })
      // The runner wants to hear from its worker now and then.
      await setImmediate()
      if (open.length > 0 && !isSafe(literal)) slow.push(`${open.join(", ")} ${text}`)
    }
    assert.deepStrictEqual(slow, [])
    assert.deepStrictEqual([...listed].sort(), Object.keys(bounded).sort(), "a bounded one is there no more")
  }, 900_000)

  it("that are bad are recognized", () => {
    for (const source of ["^(a|a)*$", "(x+)+y", "\\s*\\n\\s*", "^\\s*a\\s*;?\\s*$"]) {
      assert.isFalse(isSafe({ source, flags: "" }), source)
    }
  }, 60_000)
})

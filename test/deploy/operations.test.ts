/** Pages for operators and recipes name commands, settings, files and metrics that there are. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync, spawnSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as Config from "#layers/Config.ts"
import * as OpenApi from "#schema/OpenApi.ts"
import { pathsOf } from "#test/support/Json.ts"
import * as Release from "#test/support/Release.ts"
import { fences, manifests, pagesIn, yaml } from "./Documents.ts"

const forOperators = ["docs/operations", "docs/runbooks"].flatMap(pagesIn)
const pages = [...forOperators, ...pagesIn("docs/recipes")]
const operations = forOperators.map((page) => readFileSync(page, "utf8")).join("\n")

/** Words after `ampoule` where it is the program, in shell blocks and in `code` of the text. */
const commandsOf = (page: string): ReadonlyArray<ReadonlyArray<string>> => {
  const blocks = fences(page)
    .filter(({ language }) => language === "sh")
    .flatMap(({ text }) => text.replaceAll("\\\n", " ").split("\n"))
    .map((line) => line.replace(/\s#\s.*$/, ""))
    .flatMap((line) => line.split(/\s(?:&&|\||>)\s/))
  const inline = [...readFileSync(page, "utf8").matchAll(/`(ampoule [^`]+)`/g)].map(([, text]) => text)
  const program = /(?:^|\s)(?<!(?:-n|-u|-g|--system|enable|useradd) )ampoule\s+(.+)$/
  const composed = /docker compose run .* api-\d (.+)$/
  return [...blocks, ...inline].flatMap((line) => {
    const words = (composed.exec(line) ?? program.exec(line))?.[1]
    return words === undefined ? [] : [words.trim().split(/\s+/)]
  })
}

describe("the pages of operations", () => {
  it.scopedLive(
    "name commands and options that the program has",
    () =>
      Effect.gen(function* () {
        const release = yield* Release.build
        const help = (path: ReadonlyArray<string>) => {
          const { status, stdout } = spawnSync(
            process.execPath,
            [join(release, "dist/ampoule.cjs"), ...path, "--help"],
            { encoding: "utf8", env: { PATH: process.env["PATH"], HOME: release } }
          )
          return status === 0 ? stdout : undefined
        }
        const below = (text: string) =>
          [...(text.split("\nCommands:\n")[1] ?? "").split("\n\n")[0].matchAll(/^ {2}(\S+)/gm)].map(([, name]) => name)
        const checked = new Map<string, string | undefined>()
        const at = (path: ReadonlyArray<string>) => {
          const key = path.join(" ")
          if (!checked.has(key)) checked.set(key, help(path))
          return checked.get(key)
        }
        let count = 0
        for (const page of pages) {
          for (const words of commandsOf(page)) {
            const line = `${page}: ampoule ${words.join(" ")}`
            let path: ReadonlyArray<string> = []
            for (const word of words) {
              const names = below(at(path) ?? "")
              if (!names.includes(word)) break
              path = [...path, word]
            }
            assert.isAbove(path.length, 0, line)
            const text = at(path) ?? ""
            assert.match(text, /^Usage: ampoule /, line)
            const own = words.slice(path.length)
            const end = own.indexOf("--")
            const options = (end < 0 ? own : own.slice(0, end)).filter((word) => word.startsWith("-"))
            for (const option of options) assert.match(text, new RegExp(`(^|[\\s,])${option}(\\s|,|$)`, "m"), line)
            count += 1
          }
        }
        assert.isAbove(count, 30)
        // The test would see one that does not exist.
        assert.isUndefined(help(["vault", "no-such-command"]))
      }),
    180_000
  )

  it("name settings, routes, metrics and files that there are", () => {
    const settings = new Set(Config.table.flatMap(({ name, secret }) => (secret ? [name, `${name}_FILE`] : [name])))
    for (const [name] of operations.matchAll(/\bAMPOULE_[A-Z_]+\b/g)) assert.include(settings, name)
    const routes = pathsOf(OpenApi.contractDocument)
    for (const [, route] of operations.matchAll(/`(?:GET )?(\/(?:health|capabilities)[\w/]*)`/g))
      assert.include(routes, route)
    const metrics = readFileSync("src/telemetry/Metrics.ts", "utf8")
    const named = [...operations.matchAll(/`(ampoule_[a-z_]+)/g)].map(([, name]) => name)
    assert.isAbove(named.length, 3)
    for (const name of named) assert.include(metrics, `"${name}"`)
    for (const [, file] of operations.matchAll(/((?:layers|test)\/[\w./-]+\.(?:\w+))/g)) {
      if (!file.includes("*")) assert.isTrue(existsSync(file), file)
    }
  })

  it("make every Secret of the manifests, in their namespace, from files that the script makes", () => {
    const names = manifests()
      .filter(({ kind }) => kind === "Deployment")
      .flatMap(({ spec }) => spec.template.spec.volumes)
      .flatMap(({ secret }) => (secret === undefined ? [] : [secret.secretName]))
    const [kustomization] = yaml("deploy/kubernetes/kustomization.yaml")
    for (const name of new Set(names)) {
      assert.include(operations, `kubectl -n ${kustomization.namespace} create secret generic ${name} `)
    }
    const script = readFileSync("deploy/make-vault-certificates.sh", "utf8")
    for (const [, file] of operations.matchAll(/=\.\/vault-tls\/(\w+)/g)) assert.include(script, `$folder/${file}`)
  })

  it("use shell that a shell understands", () => {
    for (const page of pages) {
      for (const { language, text } of fences(page)) {
        if (language === "sh") execFileSync("bash", ["-n", "-c", text.replaceAll("…", "x")], { stdio: "pipe" })
      }
    }
  })
})

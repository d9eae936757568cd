import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as path from "node:path"
import { parsed } from "#test/support/Json.ts"
import { Ampoule } from "./Ampoule.ts"
import * as FakeServer from "./FakeServer.ts"

const token = "amp_at_0123456789abcdef_secretpart"

/** Projects, environments and keys, with names that are no names. */
const names: FakeServer.Route = ({ path, query }) => {
  if (path === "/projects") {
    const project = (id: string, slug: string) => ({ id, slug, teamId: FakeServer.teamId })
    const other = FakeServer.projectId.replace(/7e$/, "7f")
    return { body: { items: [project(FakeServer.projectId, "shop"), project(other, "show")] } }
  }
  if (path.endsWith("/environments")) {
    return { body: { items: ["development", "production", "preview", "$(touch evil)"].map((slug) => ({ slug })) } }
  }
  if (path === "/secrets/value") return { body: { value: "canary-value" } }
  if (path !== "/secrets") return undefined
  const keys = query.get("environment") === "production" ? ["PROD_KEY"] : ["DATABASE_URL", "DATA_DIR", "`touch evil`"]
  return { body: { items: keys.map((key) => ({ key })), hasMore: false } }
}

const setUp = Effect.gen(function* () {
  const ampoule = yield* Ampoule
  const server = yield* FakeServer.make(names)
  const home = yield* ampoule.home
  const env = {
    AMPOULE_URL: server.url,
    AMPOULE_API_TOKEN: token,
    PATH: `${yield* ampoule.bin}:${process.env["PATH"] ?? ""}`
  }
  const run = (args: ReadonlyArray<string>, more: Readonly<Record<string, string>> = {}) =>
    ampoule.run(args, { home, env: { ...env, ...more } })
  const complete = (...words: ReadonlyArray<string>) =>
    Effect.map(run(["__complete", ...words]), ({ code, stderr, stdout }) => {
      assert.deepStrictEqual([code, stderr], [0, ""])
      return stdout.split("\n").filter((line) => line !== "")
    })
  return { ampoule, server, home, env, run, complete }
})

const Kept = Schema.Struct({ at: Schema.Number, names: Schema.Array(Schema.String) })
const inShop = ["-p", "shop", "-e", "development"]

layer(Ampoule.Default, { excludeTestServices: true })("names of the server in completions", (it) => {
  it.scoped("are those that belong where the cursor is, and nothing that a shell would act upon", () =>
    Effect.gen(function* () {
      const { complete, home, run, server } = yield* setUp
      assert.deepStrictEqual(yield* complete("run", "--project", ""), ["shop", "show"])
      assert.deepStrictEqual(yield* complete("run", "-p", "shop", "--env", ""), [
        "development",
        "preview",
        "production"
      ])
      assert.deepStrictEqual(yield* complete("secrets", "get", ...inShop, ""), ["DATABASE_URL", "DATA_DIR"])
      assert.deepStrictEqual(yield* complete("run", "-p", "shop", "--environment", "production", "--only", ""), [
        "PROD_KEY"
      ])
      assert.deepStrictEqual(yield* complete("secrets", "unset", ...inShop, "DATA_DIR", ""), [
        "DATABASE_URL",
        "DATA_DIR"
      ])
      assert.deepStrictEqual(yield* complete("secrets", "diff", "-p", "shop", "development", ""), [
        "development",
        "preview",
        "production"
      ])
      const requestsBefore = server.asked.length
      for (const words of [
        ["secrets", "get", ...inShop, "DATA_DIR", ""],
        ["secrets", "restore", ...inShop, ""],
        ["secrets", "import", ...inShop, ""],
        ["run", ...inShop, "--", ""],
        ["run", "--url", "http://127.0.0.1:1", "-p", ""],
        ["secrets", "get", ""],
        ["frobnicate", ""]
      ]) {
        assert.deepStrictEqual(yield* complete(...words), [], words.join(" "))
      }
      // Without a target, the credential may name the only environment.
      const more = server.asked.slice(requestsBefore).map(({ path }) => path)
      assert.deepStrictEqual(more, ["/me/verify"])
      // The file of a folder counts once it is trusted.
      fs.writeFileSync(path.join(home, ".ampoule.json"), '{"project":"shop","environment":"production"}')
      assert.deepStrictEqual(yield* complete("secrets", "get", ""), [])
      yield* run(["trust"])
      assert.deepStrictEqual(yield* complete("secrets", "get", ""), ["PROD_KEY"])
    })
  )

  it.scoped(
    "are kept for a minute for this user alone, reveal no name in their file names, and leave with a logout",
    () =>
      Effect.gen(function* () {
        const { complete, home, run, server } = yield* setUp
        const keys = () => complete("secrets", "get", ...inShop, "")
        const first = yield* keys()
        const onlyFile = path.join(home, "cache", "ampoule", "only-environments.json")
        yield* complete("secrets", "get", "")
        assert.isTrue(fs.existsSync(onlyFile))
        const requestsBefore = server.asked.length
        assert.deepStrictEqual(yield* keys(), first)
        assert.strictEqual(server.asked.length, requestsBefore)
        const folder = path.join(home, "cache/ampoule/completion")
        const [file = "", ...others] = fs.readdirSync(folder)
        assert.deepStrictEqual([others, fs.statSync(folder).mode & 0o777], [[], 0o700])
        assert.strictEqual(fs.statSync(path.join(folder, file)).mode & 0o777, 0o600)
        assert.notInclude(fs.readFileSync(path.join(folder, file), "utf8") + file, "shop")

        // Later completion asks the server again. While it is away, stored names serve, and the next press does not wait.
        const age = () => {
          const kept = parsed(Kept)(fs.readFileSync(path.join(folder, file), "utf8"))
          fs.writeFileSync(path.join(folder, file), JSON.stringify({ ...kept, at: kept.at - 120_000 }))
        }
        age()
        yield* keys()
        assert.isAbove(server.asked.length, requestsBefore)
        age()
        const { answer } = server
        server.answer = "gone"
        assert.deepStrictEqual(yield* keys(), first)
        const before = server.asked.length
        assert.deepStrictEqual(yield* keys(), first)
        assert.strictEqual(server.asked.length, before)
        server.answer = answer

        // Another credential sees nothing of it, and a caller without one causes no request.
        server.answer = () => FakeServer.refusal(403, "ACCESS_DENIED")
        const other = yield* run(["__complete", "secrets", "get", ...inShop, ""], { AMPOULE_API_TOKEN: `${token}2` })
        assert.deepStrictEqual([other.code, other.stdout, other.stderr], [0, "", ""])
        const none = yield* run(["__complete", "secrets", "get", ...inShop, ""], { AMPOULE_API_TOKEN: "" })
        assert.deepStrictEqual([none.code, none.stdout, none.stderr], [0, "", ""])
        yield* run(["logout"])
        assert.isFalse(fs.existsSync(folder))
        assert.isFalse(fs.existsSync(onlyFile))
      })
  )

  const shells = {
    bash: { start: ["bash", "--norc", "-i"], load: "PS1='$ '; source <(ampoule completion bash)" },
    zsh: {
      start: ["zsh", "-f", "-i"],
      load: "PS1='$ '; autoload -U compinit; compinit -D -u; source <(ampoule completion zsh)"
    },
    fish: { start: ["fish", "--no-config", "-i"], load: "ampoule completion fish | source" }
  } as const
  for (const [name, { load, start }] of Object.entries(shells)) {
    it.scoped(`complete in ${name}, where a person presses the key`, () =>
      Effect.gen(function* () {
        const { ampoule, env, home, server } = yield* setUp
        const shell = yield* ampoule.inTerminal(`exec ${start.join(" ")}`, { home, env: { ...env, TERM: "xterm" } })
        const type = (text: string) => shell.child.stdin?.write(text)
        // Not as it is typed: the terminal shows that too.
        type(`${load}; echo load""ed\n`)
        yield* shell.shows("loaded")
        type("ampoule secrets get --pro\tshop -e prod\tPROD\t\n")
        yield* shell.shows("canary-value")
        const { query } = server.asked.findLast(({ path }) => path === "/secrets/value") ?? { query: undefined }
        assert.deepStrictEqual([query?.get("environment"), query?.get("key")], ["production", "PROD_KEY"])
        assert.notInclude(fs.readdirSync(home), "evil")
        shell.child.stdin?.end("exit\n")
      })
    )
  }
})

/**
 * The small programs and the large one as processes: the same line, the same output, exit code, error text and requests.
 * Lines are made from the catalogue of options, in random order, whole and broken. The large program is started as the
 * launcher starts it for a line that no small one takes.
 */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fc from "effect/FastCheck"
import { manual } from "#src/cli/Commands.ts"
import { find, optionOf } from "#src/cli/help/Page.ts"
import { Ampoule, isExecutable } from "./Ampoule.ts"
import * as FakeServer from "./FakeServer.ts"

const root = manual()
const whole = process.env["AMPOULE_TEST_CASES"] === "all"
/** Random lines of each command. */
const lines = whole ? 60 : 6

interface QuickCommand {
  readonly path: ReadonlyArray<string>
  readonly arguments: ReadonlyArray<string>
  readonly child: ReadonlyArray<string>
}
const command = (path: string, args: ReadonlyArray<string> = [], child: ReadonlyArray<string> = []): QuickCommand => ({
  path: path.split(" "),
  arguments: args,
  child
})
const commands = [
  command("secrets get", ["KEY"]),
  command("secrets list"),
  command("run", [], ["--", "printenv", "KEY"]),
  command("whoami"),
  command("projects list"),
  command("projects"),
  command("exposed", ["KEY"]),
  command("doctor")
]

/** A text that each option takes, by the word of the help. Options that are not here get the text `x`. */
const goodTexts = new Map([
  ["--project", FakeServer.projectId],
  ["--env", "development"],
  ["--credential", "env"],
  ["--names", "camel"],
  ["--mount-format", "json"],
  ["--watch-interval", "20s"],
  ["--offline-max-age", "2h"],
  ["--since", "2026-11-21"],
  ["--only", "KEY"],
  ["--except", "OTHER"],
  ["--prefix", "K"],
  ["--command", "echo $KEY"]
])
/** Never ends; is read once by a program that this one does not start; another server. */
const leftOut = ["--watch", "--mount", "--url", "--sealed"]

/** Lines of a command: some of its options, its arguments and a mistake now and then, in random order. */
const lineOf = ({ arguments: args, child, path }: QuickCommand) => {
  const place = ["--project", "--env"]
  const options = find(root, path)
    .at.options.map(optionOf)
    .filter(({ name }) => !leftOut.includes(name))
  const written = options.map((option) =>
    fc
      .record({
        name: fc.constantFrom(...option.names),
        joined: fc.boolean(),
        taken: fc.integer({ min: 1, max: 10 }),
        bad: fc.integer({ min: 1, max: 20 })
      })
      .map(({ bad, joined, name, taken }): ReadonlyArray<ReadonlyArray<string>> => {
        if (taken > (place.includes(option.name) ? 9 : 2)) return []
        if (option.value === undefined) return [[name]]
        const text = bad === 1 ? "no such text" : (goodTexts.get(option.name) ?? "x")
        return [joined && name.startsWith("--") ? [`${name}=${text}`] : [name, text]]
      })
  )
  const mistake = fc.oneof(
    { weight: 12, arbitrary: fc.constant<ReadonlyArray<ReadonlyArray<string>>>([]) },
    { weight: 1, arbitrary: fc.constantFrom([["--projct", "x"]], [["SURPLUS"]], [["--json", "--json"]], [["--env"]]) }
  )
  return fc.tuple(fc.tuple(...written), mistake).chain(([chosen, wrong]) => {
    const parts = [...chosen.flat(), ...wrong, ...args.map((word) => [word])]
    return fc
      .shuffledSubarray(parts, { minLength: parts.length })
      .map((shuffled) => [...path, ...shuffled.flat(), ...child])
  })
}

const item = {
  environmentId: FakeServer.projectId,
  environment: "development",
  key: "KEY",
  version: 2,
  holder: { type: "user", id: "u", name: "ada@example.com", person: null },
  way: "read",
  via: "rest",
  lastIp: "192.0.2.7",
  firstAt: "2026-11-01T08:00:00.000Z",
  lastAt: "2026-11-21T08:00:00.000Z",
  count: 4
}
const counts = { people: 1, tokens: 0, agents: 0, rules: 0, backups: 0 }
const pages = { page: 1, pageSize: 500, total: 1, hasMore: false }
const exposure = { upTo: "2026-11-21T08:00:12.000Z", unknownBefore: null, items: [item], ...pages }
const ofKey = {
  key: "KEY",
  formerly: ["OLD_KEY"],
  renamedTo: [],
  versions: [{ version: 2, handedTo: counts, heldBy: counts }],
  ...exposure
}
const bodies = new Map<string, unknown>([
  ["/secrets/value", FakeServer.secret({ key: "KEY", value: "v", representation: "expanded" })],
  ["/secrets", { items: [FakeServer.secret({ key: "KEY" })], ...pages }],
  ["/secrets/inject", { values: { KEY: "v", OTHER: "w" } }],
  ["/secrets/exposure", ofKey],
  [`/projects/${FakeServer.projectId}/exposure`, exposure],
  ["/projects", { items: [FakeServer.project] }],
  ["/me/verify", FakeServer.verified],
  ["/health/live", {}],
  ["/health/ready", { checks: { database: { status: "ok" } } }]
])

layer(Ampoule.Default, { excludeTestServices: true, timeout: 120_000 })("the small programs as processes", (it) => {
  for (const one of commands) {
    it.scoped.skipIf(isExecutable)(
      `answer \`${one.path.join(" ")}\` as the program of all commands does`,
      () =>
        Effect.gen(function* () {
          const ampoule = yield* Ampoule
          const server = yield* FakeServer.make(({ path }) => {
            const body = bodies.get(path)
            return body === undefined ? undefined : { body }
          })
          const home = yield* ampoule.home
          const env = { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: "amp_at_0123456789abcdef_secretpart" }
          const answerOf = Effect.fnUntraced(function* (start: typeof ampoule.run, words: ReadonlyArray<string>) {
            const before = server.asked.length
            const { code, stderr, stdout } = yield* start(words, { env, home })
            const requests = server.asked
              .slice(before)
              .map(({ method, path, query }) => `${method} ${path}?${[...query].map(String).sort().join("&")}`)
            // Milliseconds of an answer, and the seconds between two clocks.
            const timeless = stdout.replaceAll(/\d+ (ms|s)\b/g, "N $1")
            return { code, stdout: timeless, stderr, requests }
          })
          for (const words of fc.sample(lineOf(one), lines)) {
            const small = yield* answerOf(ampoule.run, words)
            assert.deepStrictEqual(small, yield* answerOf(ampoule.runLarge, words), words.join(" "))
          }
        }),
      whole ? 600_000 : 120_000
    )
  }
})

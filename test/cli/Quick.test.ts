import * as Command from "@effect/cli/Command"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fc from "effect/FastCheck"
import { manual } from "#src/cli/Commands.ts"
import { find, optionOf } from "#src/cli/help/Page.ts"
import { getOf, listOf, runOf } from "#src/cli/Quick.ts"
import { getOptions, listOptions } from "#src/cli/secrets/Secrets.ts"
import { options as runOptions } from "#src/cli/values/RunOptions.ts"

const root = manual()

/** Result of the declared parser; undefined: it refuses the words. */
const parsedBy = <const Config extends Command.Command.Config>(config: Config, words: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    let parsed: unknown
    const command = Command.make("x", config, (options) => Effect.sync(() => (parsed = options)))
    const parse = Command.run(command, { name: "x", version: "0" })
    yield* Effect.ignore(parse(["node", "x", ...words]))
    return parsed
  }).pipe(Effect.provide(NodeContext.layer))

/** The commands that the quick path reads, each with its declared options. */
const commands = [
  {
    path: ["secrets", "get"],
    declared: (words: ReadonlyArray<string>) => parsedBy(getOptions, words),
    quick: (words: ReadonlyArray<string>) => getOf(["secrets", "get", ...words], root),
    always: ["KEY"],
    parserOnly: []
  },
  {
    path: ["secrets", "list"],
    declared: (words: ReadonlyArray<string>) => parsedBy(listOptions, words),
    quick: (words: ReadonlyArray<string>) => {
      const options = listOf(["secrets", "list", ...words], root)
      // The quick command never shows the last read.
      return options === undefined ? undefined : { ...options, lastRead: false }
    },
    always: [],
    parserOnly: ["--last-read"]
  },
  {
    path: ["run"],
    declared: (words: ReadonlyArray<string>) => parsedBy(runOptions, words),
    quick: (words: ReadonlyArray<string>) => runOf(["run", ...words], root),
    always: [],
    parserOnly: ["--mount-format", "--names", "--offline-max-age", "--sealed", "--watch-interval"]
  }
]

const optionsOf = (path: ReadonlyArray<string>) => find(root, path).at.options.map(optionOf)
const names = [...new Set(commands.flatMap(({ path }) => optionsOf(path).flatMap((option) => option.names)))]

/** At least one of these is good for each option with a value. */
const texts = ["shop", "env", "stored", "camel", "json", "90s"]
const word = fc.constantFrom(
  ...texts,
  "KEY",
  "A,B",
  "*",
  "",
  "x y",
  "-",
  "--",
  "--nope",
  "http://h:1",
  "--project=shop"
)
const words = fc.array(fc.oneof({ weight: 2, arbitrary: fc.constantFrom(...names) }, word), { maxLength: 7 })

describe("the quick path of the command line", () => {
  for (const { always, declared, parserOnly, path, quick } of commands) {
    const name = path.join(" ")

    it.effect(`reads every option of \`${name}\` as the declared parser does, or leaves it to the parser`, () =>
      Effect.gen(function* () {
        const unread: Array<string> = []
        for (const option of optionsOf(path)) {
          let isQuick = false
          let isDeclared = false
          for (const one of option.names) {
            for (const text of option.value === undefined ? [[]] : texts.map((value) => [value])) {
              const args = [one, ...text, ...always]
              const [fast, slow] = [quick(args), yield* declared(args)]
              if (fast !== undefined) assert.deepStrictEqual({ ...fast }, slow, args.join(" "))
              isQuick ||= fast !== undefined
              isDeclared ||= slow !== undefined
            }
          }
          assert.isTrue(isDeclared, `${option.name}: no text of this test is good for it`)
          if (!isQuick) unread.push(option.name)
        }
        assert.deepStrictEqual(unread.toSorted(), parserOnly)
      })
    )

    it.effect(`reads random words of \`${name}\` as the declared parser does, or leaves them to the parser`, () =>
      Effect.gen(function* () {
        let understood = 0
        for (const args of [[...always], ...fc.sample(words, 1_000)]) {
          const fast = quick(args)
          if (fast === undefined) continue
          assert.deepStrictEqual({ ...fast }, yield* declared(args), args.join(" "))
          understood++
        }
        assert.isAbove(understood, 20)
      })
    )
  }

  it("reads the forms that people write, and leaves the rest to the parser", () => {
    const place = ["-p", "shop", "--env", "development"]
    assert.isDefined(getOf(["secrets", "get", ...place, "--json", "KEY"], root))
    assert.isDefined(listOf(["secrets", "list", ...place, "--json"], root))
    for (const args of [["--last-read"], ["KEY"]]) assert.isUndefined(listOf(["secrets", "list", ...args], root))
    assert.isDefined(runOf(["run", ...place, "--only", "A_*", "--only", "B", "--watch"], root))
    for (const args of [["KEY", "--json"], ["--project=shop", "KEY"], ["-p", "a", "-p", "b", "KEY"], []]) {
      assert.isUndefined(getOf(["secrets", "get", ...args], root), args.join(" "))
    }
    assert.isUndefined(runOf(["run", "node", "app.js"], root))
  })
})

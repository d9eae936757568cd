import * as Command from "@effect/cli/Command"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fc from "effect/FastCheck"
import { manual } from "#src/cli/Commands.ts"
import { options as connectionOptions } from "#src/cli/account/Commands.ts"
import * as Arguments from "#src/cli/help/Arguments.ts"
import { find, optionOf, type Page } from "#src/cli/help/Page.ts"
import { connectionOf, exposedOf, getOf, listOf, runOf } from "#src/cli/Quick.ts"
import { options as exposedOptions } from "#src/cli/secrets/ExposedCommand.ts"
import { getOptions, listOptions } from "#src/cli/secrets/Secrets.ts"
import { listOptions as projectOptions } from "#src/cli/team/Projects.ts"
import { options as runOptions } from "#src/cli/values/RunOptions.ts"

const root = manual()

/** Result of the declared parser for words as `src/cli/Cli.ts` hands them to it; undefined: they are refused. */
const parsedBy = <const Config extends Command.Command.Config>(
  config: Config,
  path: ReadonlyArray<string>,
  words: ReadonlyArray<string>
) =>
  Effect.gen(function* () {
    let parsed: unknown
    const command = Command.make("x", config, (options) => Effect.sync(() => (parsed = options)))
    const parse = Command.run(command, { name: "x", version: "0" })
    const line = Arguments.read(find(root, path), words)
    if (line._tag === "Misuse") return undefined
    yield* Effect.ignore(parse(["node", "x", ...Arguments.canonical(line)]))
    return parsed
  }).pipe(Effect.provide(NodeContext.layer))

interface QuickCommand {
  readonly path: ReadonlyArray<string>
  readonly declared: (words: ReadonlyArray<string>) => Effect.Effect<unknown>
  readonly quick: (words: ReadonlyArray<string>) => object | undefined
  /** Arguments without which the command refuses the line. */
  readonly always: ReadonlyArray<string>
  /** Options that only the declared parser reads. */
  readonly parserOnly: ReadonlyArray<string>
}

const quickCommand = <const Config extends Command.Command.Config>(
  path: ReadonlyArray<string>,
  config: Config,
  quick: (words: ReadonlyArray<string>, root: Page) => object | undefined,
  { always = [], parserOnly = [] }: Partial<Pick<QuickCommand, "always" | "parserOnly">> = {}
): QuickCommand => ({
  path,
  declared: (words) => parsedBy(config, path, words),
  quick: (words) => quick([...path, ...words], root),
  always,
  parserOnly
})

/** The quick command never shows the last read. */
const withoutReads = (words: ReadonlyArray<string>, page: Page) => {
  const options = listOf(words, page)
  return options === undefined ? undefined : { ...options, lastRead: false }
}

/** The commands that the quick path reads, each with its declared options. */
const commands = [
  quickCommand(["secrets", "get"], getOptions, getOf, { always: ["KEY"] }),
  quickCommand(["secrets", "list"], listOptions, withoutReads, { parserOnly: ["--last-read"] }),
  quickCommand(["run"], runOptions, runOf, { parserOnly: ["--sealed"] }),
  quickCommand(["whoami"], connectionOptions, connectionOf),
  quickCommand(["doctor"], connectionOptions, connectionOf),
  quickCommand(["projects", "list"], projectOptions, connectionOf),
  quickCommand(["projects"], projectOptions, connectionOf),
  quickCommand(["exposed"], exposedOptions, exposedOf)
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
            const written =
              option.value === undefined ? [[one]] : texts.flatMap((text) => [[one, text], [`${one}=${text}`]])
            for (const args of written.flatMap((words) => [
              [...words, ...always],
              [...always, ...words]
            ])) {
              if (one.length === 2 && args.some((word) => word.startsWith(`${one}=`))) continue
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
        for (const args of [[...always], ...fc.sample(words, 200)]) {
          const fast = quick(args)
          if (fast === undefined) continue
          assert.deepStrictEqual({ ...fast }, yield* declared(args), args.join(" "))
          understood++
        }
        assert.isAbove(understood, 5)
      })
    )
  }

  it("reads options before and behind the arguments alike", () => {
    const place = ["-p", "shop", "--env", "development"]
    const get = (...words: ReadonlyArray<string>) => getOf(["secrets", "get", ...words], root)
    const inFront = get(...place, "--json", "KEY")
    assert.isDefined(inFront)
    for (const words of [
      ["KEY", ...place, "--json"],
      ["--json", "KEY", ...place],
      [...place, "KEY", "--json=true"],
      ["KEY", "--project=shop", "--environment=development", "--json"]
    ]) {
      assert.deepStrictEqual(get(...words), inFront, words.join(" "))
    }
    assert.isDefined(runOf(["run", ...place, "--only", "A_*", "--only=B", "--watch"], root))
    assert.isDefined(exposedOf(["exposed", "KEY", ...place, "--since", "7d"], root))
  })

  it("leaves to the parser what it refuses", () => {
    for (const words of [
      ["KEY", "-p", "a", "-p", "b"],
      [],
      ["A", "B"],
      ["KEY", "--nope"],
      ["--project", "--json", "KEY"]
    ]) {
      assert.isUndefined(getOf(["secrets", "get", ...words], root), words.join(" "))
    }
    for (const words of [["--last-read"], ["KEY"]]) assert.isUndefined(listOf(["secrets", "list", ...words], root))
    assert.isUndefined(runOf(["run", "node", "app.js"], root))
  })
})

import * as Command from "@effect/cli/Command"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fc from "effect/FastCheck"
import { manual } from "#src/cli/Commands.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { getOf, listOf, runOf } from "#src/cli/Quick.ts"
import { options as runOptions } from "#src/cli/values/RunOptions.ts"

const root = manual()

/** What the parser makes of the words; undefined: it refuses them. */
const parsedBy = <const Config extends Command.Command.Config>(config: Config, words: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    let found: unknown
    const command = Command.make("x", config, (options) => Effect.sync(() => (found = options)))
    const parse = Command.run(command, { name: "x", version: "0" })
    yield* Effect.ignore(parse(["node", "x", ...words]))
    return found
  }).pipe(Effect.provide(NodeContext.layer))

const getConfig = {
  ...Shared.inEnvironment,
  json: Shared.json,
  source: Shared.flag("source", ""),
  raw: Shared.flag("raw", ""),
  key: Shared.keyArgument
}

const listConfig = { ...Shared.inEnvironment, json: Shared.json, lastRead: Shared.flag("last-read", "") }

const word = fc.constantFrom("KEY", "shop", "A,B", "*", "1s", "", "x y", "-", "--", "--json", "-p", "env", "http://h:1")
const name = fc.constantFrom(
  ..."--url --credential -p --project -e --env --environment --json --source --raw --only --except --prefix --allow".split(
    " "
  ),
  ..."--no-override --preserve-env --command --mount --pass-credentials --watch --offline --plan --redact --nope".split(
    " "
  )
)
const words = fc.array(fc.oneof({ weight: 2, arbitrary: name }, word), { maxLength: 7 })

describe("the plain forms of `run` and `secrets get`", () => {
  it.effect("mean what the parser takes them to mean, whatever the words", () =>
    Effect.gen(function* () {
      let understood = 0
      for (const given of fc.sample(words, 600)) {
        const get = getOf(["secrets", "get", ...given], root)
        if (get !== undefined) assert.deepStrictEqual({ ...get }, yield* parsedBy(getConfig, given), given.join(" "))
        const list = listOf(["secrets", "list", ...given], root)
        if (list !== undefined) {
          assert.deepStrictEqual({ ...list, lastRead: false }, yield* parsedBy(listConfig, given), given.join(" "))
        }
        const run = runOf(["run", ...given], root)
        if (run !== undefined) assert.deepStrictEqual({ ...run }, yield* parsedBy(runOptions, given), given.join(" "))
        understood += (get === undefined ? 0 : 1) + (run === undefined ? 0 : 1)
      }
      assert.isAbove(understood, 50)
    })
  )

  it("are those that people write, and the parser gets the rest", () => {
    const place = ["-p", "shop", "--env", "development"]
    assert.isDefined(getOf(["secrets", "get", ...place, "--json", "KEY"], root))
    assert.isDefined(listOf(["secrets", "list", ...place, "--json"], root))
    for (const given of [["--last-read"], ["KEY"]]) assert.isUndefined(listOf(["secrets", "list", ...given], root))
    assert.isDefined(runOf(["run", ...place, "--only", "A_*", "--only", "B", "--watch"], root))
    for (const given of [["KEY", "--json"], ["--project=shop", "KEY"], ["-p", "a", "-p", "b", "KEY"], []]) {
      assert.isUndefined(getOf(["secrets", "get", ...given], root), given.join(" "))
    }
    for (const given of [
      ["--sealed", "f"],
      ["--names", "camel"],
      ["--watch-interval", "1s"],
      ["node", "app.js"]
    ]) {
      assert.isUndefined(runOf(["run", ...given], root), given.join(" "))
    }
  })
})

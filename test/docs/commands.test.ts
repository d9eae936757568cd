/** Blocks of shell on the pages, in their order, against the released program and a server (`Worlds.ts`). */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { commandsOf } from "./Blocks.ts"
import * as Reader from "./Reader.ts"
import { publicAddress, worlds } from "./Worlds.ts"

describe("commands of the pages", () => {
  for (const [page, world] of worlds) {
    it.scopedLive(
      `of ${page} do what the page says`,
      () =>
        Effect.gen(function* () {
          const { ci, must, run, server } = yield* Reader.reader(world)
          if (world.before !== undefined) yield* must(world.before, { CI_TOKEN: ci })
          for (const { line, text } of commandsOf(page)) {
            const script = Object.entries({ ...world.instead, [publicAddress]: server.url }).reduce(
              (block, [example, word]) => block.replaceAll(example, () => word),
              text
            )
            const { code, output } = yield* run(script)
            assert.strictEqual(code, 0, `${page}:${line}\n${output}`)
          }
          for (const [command, expected] of Object.entries(world.after ?? {}))
            assert.strictEqual((yield* must(command)).output.trim(), expected, command)
        }),
      180_000
    )
  }
})

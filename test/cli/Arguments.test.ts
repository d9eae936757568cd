import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { manual } from "#src/cli/Commands.ts"
import * as Arguments from "#src/cli/help/Arguments.ts"
import { closest } from "#src/cli/terminal/Closest.ts"
import { find } from "#src/cli/help/Page.ts"
import { noSuchKey, parseKey } from "#src/cli/terminal/Keys.ts"

const root = manual()
const read = (line: string) => {
  const words = line.split(" ")
  const match = find(root, words)
  return Arguments.read(match, words.slice(match.path.length - 1))
}
/** Sentence and next step of a line that is refused. */
const refusal = (line: string): string => {
  const result = read(line)
  return result._tag === "Misuse" ? `${result.message} ${result.hint}` : "taken"
}
const canonical = (line: string): string => {
  const result = read(line)
  return result._tag === "Misuse" ? result.message : Arguments.canonical(result).join(" ")
}

describe("the words of a command line", () => {
  it("mean the same wherever the options are", () => {
    for (const line of [
      "secrets copy A B --to staging --yes",
      "secrets copy --to staging A --yes B",
      "secrets copy A --yes --to=staging B",
      "secrets copy A B --to staging -y"
    ]) {
      const result = read(line)
      assert.isTrue(result._tag === "CommandLine", line)
      if (result._tag !== "CommandLine") continue
      assert.deepStrictEqual(
        new Map(result.texts),
        new Map([
          ["--to", ["staging"]],
          ["--yes", ["true"]]
        ])
      )
      assert.deepStrictEqual(result.rest, ["A", "B"])
    }
  })

  it("reach the parser with options first, repeated ones in order, and what follows -- unchanged", () => {
    assert.strictEqual(canonical("run --only A --watch --only=B --"), "--only A --only B --watch true --")
    assert.strictEqual(canonical("secrets set KEY -p shop -- -X --json"), "--project shop KEY -- -X --json")
    assert.strictEqual(canonical("secrets list --json=false"), "")
    // A word such as `on` behind a flag is an argument.
    assert.strictEqual(canonical("projects environments --json on"), "--json true on")
  })

  it("are refused by a sentence that names what was typed, and the next thing to type", () => {
    assert.strictEqual(
      refusal("secrets get KEY --projct shop"),
      "This command has no option --projct. Did you mean --project?"
    )
    assert.strictEqual(refusal("secrets list --env a --env b").split(" `")[0], "--env can be given only once.")
    assert.strictEqual(refusal("secrets get KEY --env").split(" `")[0], "--env needs a text: --env slug.")
    assert.strictEqual(
      refusal("run --project --env a --").split(" `")[0],
      "--project needs a text: --project id-or-slug."
    )
    assert.include(refusal("run --project shop node app.js"), "Put -- before the command to run.")
    assert.strictEqual(refusal("secrets list --json=yes").split(" `")[0], "--json takes no text.")
  })

  it("are not repeated where they may be a value", () => {
    for (const word of ["-hunter2", "--pass=hunter2", "---hunter2", `--${"hunter".repeat(9)}`]) {
      assert.notInclude(refusal(`secrets set KEY ${word}`), "hunter", word)
    }
  })
})

describe("suggestions", () => {
  it("name the nearest word, and none for one that is far", () => {
    const keys = ["DATABASE_URL", "DATABASE_USER", "PORT", "API_KEY"]
    assert.strictEqual(closest("DATABSE_URL", keys), "DATABASE_URL")
    assert.strictEqual(closest("PROT", keys), "PORT")
    assert.isUndefined(closest("HOST", keys))
    assert.isUndefined(closest("nope", ["open"]))
    assert.isUndefined(closest("PORT", keys))
    assert.isUndefined(closest("X".repeat(10_000), keys))
  })

  it("name the key that exists, or that the typed name means", () => {
    assert.include(noSuchKey("DATABSE_URL", "development", ["DATABASE_URL"]).hint, "Did you mean DATABASE_URL?")
    const sentence = (text: string) => {
      const result = Effect.runSync(Effect.either(parseKey(text)))
      return Either.isLeft(result) ? `${result.left.message} ${result.left.hint}` : "taken"
    }
    for (const text of ["db-url", "dbUrl", "db.url", "db_url"]) {
      assert.match(
        sentence(text),
        new RegExp(`^${text.replace(".", "\\.")} is not a secret key\\. Did you mean DB_URL\\?`)
      )
    }
    for (const value of [
      "-X",
      "hunter2!",
      "hunter two",
      "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
      "eyJhbGciOiJIUzI1NiJ9",
      "9f86d081884c7d65"
    ]) {
      assert.match(sentence(value), /^That is not a secret key\. Keys are/, value)
    }
  })
})

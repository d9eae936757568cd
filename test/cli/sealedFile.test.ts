/** A sealed file in version control: what merges, what conflicts, and what is said of a conflict. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import * as SealedFile from "#src/cli/sealed/File.ts"
import { Ampoule } from "./Ampoule.ts"

const environmentId = "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e"
const keyId = "ek_0123abcd"
const sealed = (text: string) => `sealed:v1:${keyId}:${Buffer.from(text.padEnd(48, ".")).toString("base64url")}`
const fileOf = (...names: ReadonlyArray<string>) =>
  SealedFile.print(environmentId, keyId, new Map(names.map((name) => [name, sealed(name)])))
const namesOf = (text: string) => [...Either.getOrThrow(SealedFile.read(text)).entries.keys()]

describe("one more entry", () => {
  it("goes where it belongs in a file in alphabetical order, else to the end; the manifest stays last", () => {
    assert.deepStrictEqual(namesOf(SealedFile.put(fileOf("A", "C"), "B", sealed("B"))), ["A", "B", "C"])
    assert.deepStrictEqual(namesOf(SealedFile.put(fileOf("A", "C"), "D", sealed("D"))), ["A", "C", "D"])
    assert.deepStrictEqual(namesOf(SealedFile.put(fileOf("C", "A"), "B", sealed("B"))), ["C", "A", "B"])
    assert.deepStrictEqual(namesOf(SealedFile.put(fileOf("A", "C", "_manifest"), "B", sealed("B"))), [
      "A",
      "B",
      "C",
      "_manifest"
    ])
    assert.deepStrictEqual(namesOf(SealedFile.put(fileOf("C", "A", "_manifest"), "B", sealed("B"))), [
      "C",
      "A",
      "B",
      "_manifest"
    ])
    assert.deepStrictEqual(namesOf(SealedFile.put(fileOf("A"), "_manifest", sealed("m"))), ["A", "_manifest"])
  })

  const names = FastCheck.uniqueArray(FastCheck.stringMatching(/^[A-Z][A-Z0-9_]{0,3}$/), { maxLength: 8 })
  it.prop(
    "changes no other line, and reads back",
    [names, FastCheck.stringMatching(/^[A-Z]{1,3}$/)],
    ([given, name]) => {
      const before = fileOf(...given)
      const after = SealedFile.put(before, name, sealed("new"))
      const { entries } = Either.getOrThrow(SealedFile.read(after))
      assert.strictEqual(entries.get(name), sealed("new"))
      for (const other of given) if (other !== name) assert.strictEqual(entries.get(other), sealed(other))
      const others = (text: string) => text.split("\n").filter((line) => !line.startsWith(`${name}=`))
      assert.deepStrictEqual(others(after), others(before))
    }
  )
})

const hasGit = spawnSync("git", ["--version"]).status === 0

layer(Ampoule.Default, { excludeTestServices: true })("a sealed file under git", (it) => {
  const setUp = Effect.gen(function* () {
    const ampoule = yield* Ampoule
    const folder = yield* ampoule.home
    const who = {
      GIT_AUTHOR_NAME: "a",
      GIT_AUTHOR_EMAIL: "a@b.c",
      GIT_COMMITTER_NAME: "a",
      GIT_COMMITTER_EMAIL: "a@b.c"
    }
    const git = (...args: ReadonlyArray<string>) =>
      spawnSync("git", args, {
        cwd: folder,
        env: { PATH: process.env["PATH"], HOME: folder, ...who },
        encoding: "utf8"
      })
    const file = path.join(folder, ".env.sealed")
    const change = (branch: string, ...names: ReadonlyArray<string>) => {
      git("checkout", "-q", "-B", branch, "main")
      for (const name of names) {
        fs.writeFileSync(file, SealedFile.put(fs.readFileSync(file, "utf8"), name, sealed(`${branch} ${name}`)))
      }
      assert.strictEqual(git("commit", "-qam", branch).status, 0)
    }
    const begin = (attributes = "") => {
      git("init", "-q", "-b", "main")
      fs.writeFileSync(file, fileOf("ALPHA", "BETA", "DELTA", "KAPPA", "OMEGA", "SIGMA"))
      fs.writeFileSync(path.join(folder, ".gitattributes"), attributes)
      git("add", "-A")
      assert.strictEqual(git("commit", "-qm", "begin").status, 0)
    }
    const check = ampoule.run(["seal", "check", "--offline"], { home: folder, cwd: folder })
    return { begin, change, check, file, git }
  })

  it.scoped.skipIf(!hasGit)("two people's changes to different keys merge by themselves, additions among them", () =>
    Effect.gen(function* () {
      const { begin, change, check, file, git } = yield* setUp
      begin()
      change("left", "ALPHA", "CHI")
      change("right", "SIGMA", "LAMBDA")
      assert.strictEqual(git("merge", "-q", "left", "-m", "merged").status, 0)
      const { entries } = Either.getOrThrow(SealedFile.read(fs.readFileSync(file, "utf8")))
      assert.deepStrictEqual(
        ["ALPHA", "CHI", "SIGMA", "LAMBDA"].map((name) => entries.get(name)),
        [sealed("left ALPHA"), sealed("left CHI"), sealed("right SIGMA"), sealed("right LAMBDA")]
      )
      assert.strictEqual((yield* check).code, 0)
    })
  )

  it.scoped.skipIf(!hasGit)("changes to the same key conflict; the check names the line and what to do", () =>
    Effect.gen(function* () {
      const { begin, change, check, file, git } = yield* setUp
      begin()
      change("left", "BETA")
      change("right", "BETA")
      assert.strictEqual(git("merge", "left", "-m", "merged").status, 1)
      const refused = yield* check
      assert.strictEqual(refused.code, 1)
      assert.match(refused.stdout, /^\.env\.sealed:5: a merge conflict: keep one line for each key/)
      git("checkout", "--theirs", ".env.sealed")
      assert.strictEqual((yield* check).code, 0)
      assert.include(fs.readFileSync(file, "utf8"), sealed("left BETA"))
    })
  )

  it.scoped.skipIf(!hasGit)(
    "with merge=union additions at one place merge too, and a key that came twice is refused",
    () =>
      Effect.gen(function* () {
        const { begin, change, check, git } = yield* setUp
        begin(".env.sealed merge=union\n")
        change("left", "ZETA1")
        change("right", "ZETA2")
        assert.strictEqual(git("merge", "-q", "left", "-m", "merged").status, 0)
        assert.strictEqual((yield* check).code, 0)
        change("one", "BETA")
        change("two", "BETA")
        assert.strictEqual(git("merge", "-q", "one", "-m", "merged").status, 0)
        const refused = yield* check
        assert.strictEqual(refused.code, 1)
        assert.match(refused.stdout, /the key is already on line 5/)
      })
  )
})

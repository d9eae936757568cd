/** Random merges of a sealed file in a real repository, by the driver that `ampoule seal install` sets up. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import * as SealedFile from "#src/cli/sealed/File.ts"
import * as SealedMerge from "#src/cli/sealed/Merge.ts"
import * as Sampled from "#test/support/Sampled.ts"
import { Ampoule } from "./Ampoule.ts"

const environmentId = "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e"
const keyId = "ek_0123abcd"
const sealed = (text: string, key = keyId) =>
  `sealed:v1:${key}:${Buffer.from(text.padEnd(48, ".")).toString("base64url")}`
const fileOf = (...names: ReadonlyArray<string>) =>
  SealedFile.print(environmentId, keyId, new Map(names.map((name) => [name, sealed(name)])))
const entriesOf = (text: string) => Either.getOrThrow(SealedFile.read(text)).entries
const merged = (base: string, ours: string, theirs: string) => Either.getOrThrow(SealedMerge.merge(base, ours, theirs))

describe("a merge of sealed files", () => {
  it("refuses what is of two keys, of two environments, or not sealed", () => {
    const other = fileOf("A").replaceAll(keyId, "ek_deadbeef")
    const elsewhere = fileOf("A").replace(environmentId, environmentId.replace("0", "1"))
    for (const theirs of [other, elsewhere, "A=plain\n"]) {
      assert.isTrue(Either.isLeft(SealedMerge.merge("", fileOf("A"), theirs)))
    }
  })

  it("keeps comments of both sides, alphabetical order, and says that the manifest is old", () => {
    const base = fileOf("A", "M", "_manifest")
    const ours = SealedFile.put(base, "B", sealed("b")).replace('B="', '# ours\nB="')
    const theirs = SealedFile.put(base, "C", sealed("c")).replace('C="', '# theirs\n# more\nC="')
    const { conflicts, staleManifest, text } = merged(base, ours, theirs)
    assert.deepStrictEqual([...entriesOf(text).keys()], ["A", "B", "C", "M", "_manifest"])
    assert.match(text, /\n# ours\nB="[^\n]*\n# theirs\n# more\nC="/)
    assert.deepStrictEqual([conflicts, staleManifest], [[], true])
    assert.deepStrictEqual(merged(base, ours, base), { text: ours, conflicts: [], staleManifest: false })
  })

  it("shows a key that both changed, and takes the side that is named", () => {
    const [ours, theirs] = [1, 2].map((n) => SealedFile.put(fileOf("A", "B"), "A", sealed(`${n}`)))
    const { conflicts, text } = merged(fileOf("A", "B"), ours ?? "", theirs ?? "")
    assert.deepStrictEqual(conflicts, ["A"])
    assert.isTrue(Either.isLeft(SealedFile.read(text)))
    assert.strictEqual(SealedMerge.resolve(text, "A", "ours"), ours)
    assert.strictEqual(SealedMerge.resolve(text, "A", "theirs"), theirs)
    assert.isUndefined(SealedMerge.resolve(text, "B", "ours"))
  })
})

/** Of a seed: a merge that fails can be repeated. */
const random = (seed: number) => {
  let state = seed
  return (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** 200 in `npm run test:whole`. */
const rounds = Sampled.cases(200, 20)

layer(Ampoule.Default, { excludeTestServices: true })("a repository with sealed files", (it) => {
  it.scoped(
    `merges as its people meant, ${rounds} times`,
    () =>
      Effect.gen(function* () {
        const ampoule = yield* Ampoule
        const folder = yield* ampoule.home
        const bin = path.join(folder, "bin")
        fs.mkdirSync(bin)
        fs.writeFileSync(path.join(bin, "ampoule"), `#!/bin/sh\nexec ${ampoule.line([])} "$@"\n`, { mode: 0o755 })
        const who = {
          GIT_AUTHOR_NAME: "a",
          GIT_AUTHOR_EMAIL: "a@b.c",
          GIT_COMMITTER_NAME: "a",
          GIT_COMMITTER_EMAIL: "a@b.c"
        }
        const env = { PATH: `${bin}:${process.env["PATH"] ?? ""}`, HOME: folder, ...who }
        const at = { cwd: folder, env, encoding: "utf8" } as const
        const git = (...args: ReadonlyArray<string>) => spawnSync("git", args, at)
        const file = path.join(folder, ".env.sealed")
        const read = () => fs.readFileSync(file, "utf8")
        const seed = Number(process.env["AMPOULE_TEST_SEED"] ?? 1)
        const pick = random(seed)
        git("init", "-q", "-b", "main")
        const installed = spawnSync("ampoule", ["seal", "install"], at)
        assert.strictEqual(installed.status, 0, installed.stderr)
        fs.writeFileSync(file, fileOf("KB", "KD", "KF", "KH"))
        git("add", "-A", ".env.sealed", ".gitattributes")
        const committed = git("commit", "-qm", "begin")
        assert.strictEqual(committed.status, 0, committed.stderr)
        // The hook looks: what is not sealed is not committed.
        fs.writeFileSync(file, `${read()}PLAIN=canary\n`)
        assert.notStrictEqual(git("commit", "-qam", "plain").status, 0)
        git("checkout", "-q", "HEAD", "--", ".env.sealed")

        const change = (branch: string, round: number) => {
          git("checkout", "-q", "-B", branch, "main")
          for (let n = 0; n <= pick(3); n++) {
            const name = `K${String.fromCharCode(65 + pick(12))}`
            const text = read()
            const gone = entriesOf(text).has(name) && entriesOf(text).size > 2 && pick(4) === 0
            const put = SealedFile.put(text, name, sealed(`${branch} ${round} ${n}`))
            const noted = pick(3) === 0 ? put.replace(`${name}="`, `# ${branch} ${round} ${n}\n${name}="`) : put
            fs.writeFileSync(file, gone ? text.replace(new RegExp(`^${name}=.*\\n`, "m"), "") : noted)
          }
          git("commit", "-q", "--no-verify", "--allow-empty", "-am", branch)
          return entriesOf(read())
        }
        for (let round = 0; round < rounds; round++) {
          const base = entriesOf(read())
          const leftSide = change("left", round)
          const right = change("right", round)
          const expected = new Map<string, string>()
          const conflicts: Array<string> = []
          for (const name of new Set([...base.keys(), ...leftSide.keys(), ...right.keys()])) {
            const [b, l, r] = [base, leftSide, right].map((entries) => entries.get(name))
            if (l !== r && l !== b && r !== b) conflicts.push(name)
            const value = conflicts.includes(name) ? l : l === b ? r : l
            if (value !== undefined) expected.set(name, value)
          }
          const result = git("merge", "-q", "left", "-m", "merged")
          const details = `seed ${seed}, round ${round}: ${result.stdout}${result.stderr}${read()}`
          assert.strictEqual(result.status === 0, conflicts.length === 0, details)
          for (const name of conflicts) {
            assert.include(result.stdout + result.stderr, `${name}: changed on both sides`, details)
            // Merged into `right`: its side is ours.
            const resolved = spawnSync("ampoule", ["seal", "resolve", "--theirs", name], at)
            assert.strictEqual(resolved.status, 0, resolved.stderr)
          }
          const now = entriesOf(read())
          assert.deepStrictEqual(Object.fromEntries(now), Object.fromEntries(expected), details)
          assert.deepStrictEqual([...now.keys()], [...now.keys()].sort(), details)
          if (conflicts.length > 0) assert.strictEqual(git("commit", "-q", "--no-verify", "-am", "merged").status, 0)
          git("checkout", "-q", "-B", "main")
          // The runner wants to hear from its worker.
          yield* Effect.sleep(0)
        }
      }),
    900_000
  )
})

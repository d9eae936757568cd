/** The release and the commit that programs name. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import * as Contract from "#schema/Api.ts"
import * as Release from "#src/Release.ts"
import { commitOf } from "#src/commit.mjs"
import { parsed } from "#test/support/Json.ts"

const Versioned = Schema.Struct({ version: Schema.String })
const Lock = Schema.Struct({ version: Schema.String, packages: Schema.Struct({ "": Versioned }) })

const inFolder = (use: (folder: string) => void) => {
  const folder = fs.mkdtempSync(path.join(tmpdir(), "ampoule-commit-"))
  try {
    use(folder)
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
}

describe("the release", () => {
  it("is one version in the program, the package, its lock and the files that start it", () => {
    const { version } = parsed(Versioned)(fs.readFileSync("package.json", "utf8"))
    const lock = parsed(Lock)(fs.readFileSync("package-lock.json", "utf8"))
    assert.deepStrictEqual(
      [version, lock.version, lock.packages[""].version],
      Array.from({ length: 3 }, () => Release.version)
    )
    assert.include(fs.readFileSync("docker-compose.yml", "utf8"), `image: ampoule:${version}`)
    assert.include(fs.readFileSync("deploy/kubernetes/kustomization.yaml", "utf8"), `newTag: ${version}`)
    assert.include(fs.readFileSync("docs/recipes/dockerfile.md", "utf8"), `ampoule:${version}`)
  })

  it("has a section in the changelog, the newest first", () => {
    const releases = [...fs.readFileSync("CHANGELOG.md", "utf8").matchAll(/^## (\d+\.\d+\.\d+)/gm)].map(
      ([, name]) => name
    )
    assert.strictEqual(releases[0], Release.version)
    const ascending = releases.toSorted((a, b) => a.localeCompare(b, "en", { numeric: true }))
    assert.deepStrictEqual(releases, ascending.toReversed())
  })

  it("leaves the contract its own version", () => {
    assert.strictEqual(Contract.version, "1.0.0")
  })

  it("names a commit beside the version, and the version alone where none is known", () => {
    assert.strictEqual(Release.named("1.1.0", "0123456789ab"), "1.1.0 (0123456789ab)")
    assert.strictEqual(Release.named("1.1.0", undefined), "1.1.0")
    // Sources that run unbuilt name none: the build alone puts it in.
    assert.strictEqual(Release.release, Release.version)
  })
})

describe("the commit of a build", () => {
  const identity = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]

  it("is none outside a repository, also in a folder inside another one", () =>
    inFolder((folder) => {
      assert.isUndefined(commitOf(folder, ""))
      execFileSync("git", ["init", "--quiet"], { cwd: folder })
      fs.mkdirSync(path.join(folder, "inside"))
      assert.isUndefined(commitOf(path.join(folder, "inside"), ""))
    }))

  it("is none in a repository without a commit", () =>
    inFolder((folder) => {
      execFileSync("git", ["init", "--quiet"], { cwd: folder })
      assert.isUndefined(commitOf(folder, ""))
    }))

  it("is the last one, and says when files changed since", () =>
    inFolder((folder) => {
      const git = (...words: ReadonlyArray<string>) =>
        execFileSync("git", [...identity, ...words], { cwd: folder, encoding: "utf8" }).trim()
      git("init", "--quiet")
      fs.writeFileSync(path.join(folder, "file"), "one")
      git("add", "file")
      git("commit", "--quiet", "--message", "One")
      const commit = git("rev-parse", "HEAD").slice(0, 12)
      assert.strictEqual(commitOf(folder, ""), commit)
      fs.writeFileSync(path.join(folder, "file"), "two")
      assert.strictEqual(commitOf(folder, ""), `${commit}-dirty`)
    }))

  it("is the given one where the sources come without a repository, and nothing else than a commit", () => {
    assert.strictEqual(commitOf("/", "0123456789abcdef"), "0123456789abcdef")
    for (const given of ["main", "0123", "0123456789ab; rm", '0123456789ab"']) {
      assert.throws(() => commitOf("/", given), "AMPOULE_COMMIT")
    }
  })
})

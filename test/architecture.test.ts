/** The arrows and walls of the code, read from its import lines. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as path from "node:path"
import { registry } from "#layers/Migrations.ts"
import { versions } from "#layers/ServerPackages.ts"
import { optional } from "#schema/Strict.ts"
import { AnyObject, parsed, TextsByName } from "#test/support/Json.ts"
import { databaseTests } from "./databaseTests.ts"
import { filesBelow, read } from "./imports.ts"

const source = ["schema", "src", "layers", "migrations"].flatMap(filesBelow).map(read)

/** `src/<folder>` of a file, or its top folder. Files at the top of `src` are named whole. */
const placeOf = (file: string): string => {
  const [top, second, third] = file.split("/")
  return top === "src" && second !== undefined ? (third === undefined ? file : `src/${second}`) : top
}

/** Pairs of folders, of any depth, that import each other. */
const mutualImports = (): ReadonlyArray<string> => {
  const arrows = new Map<string, string>()
  for (const { file, ours } of source) {
    for (const target of ours.filter((name) => !name.endsWith("package.json"))) {
      const arrow = `${path.dirname(file)} -> ${path.dirname(target)}`
      if (path.dirname(file) !== path.dirname(target) && !arrows.has(arrow)) arrows.set(arrow, `${file} -> ${target}`)
    }
  }
  return [...arrows].flatMap(([arrow, example]) => {
    const [from, to] = arrow.split(" -> ")
    return from < to && arrows.has(`${to} -> ${from}`) ? [`${arrow}: ${example}`] : []
  })
}

/** Imports that a place may have besides itself; lower layers first. */
const leaves = [
  "schema",
  "src/Release.ts",
  "src/Days.ts",
  "src/ClientTarget.ts",
  "src/net",
  "src/formats",
  "src/sealed",
  "src/masks",
  "src/audit"
]
const ground = [
  "schema",
  "src/Release.ts",
  "src/AppConfig.ts",
  "src/Housekeeping.ts",
  "src/Methods.ts",
  "src/Days.ts",
  "src/database",
  "src/net",
  "src/crypto",
  "src/limits",
  "src/events",
  "src/outbound",
  "src/telemetry",
  "src/audit"
]
const walls = [...ground, "src/rows", "src/trail", "src/access", "src/trail-use"]
const services = [
  ...walls,
  "src/Deployment.ts",
  "src/projects",
  "src/credentials",
  "src/secrets",
  "src/oauth",
  "src/sealed",
  "src/formats",
  "src/masks"
]
const allowed: Record<string, ReadonlyArray<string>> = {
  schema: [],
  migrations: [],
  "src/formats": ["schema"],
  "src/masks": [],
  "src/sealed": ["schema"],
  "src/audit": ["schema"],
  "src/AppConfig.ts": [],
  "src/Release.ts": [],
  "src/Deployment.ts": ["schema", "src/AppConfig.ts", "src/Release.ts"],
  "src/crypto": ground,
  "src/telemetry": ["src/AppConfig.ts"],
  "src/limits": ground,
  "src/vault": ground,
  "src/events": ground,
  "src/database": ["schema", "src/AppConfig.ts", "src/audit", "src/Housekeeping.ts", "src/telemetry"],
  "src/rows": [...ground],
  "src/trail": [...ground, "src/rows"],
  "src/access": [...ground, "src/rows", "src/trail"],
  "src/trail-use": [...ground, "src/rows", "src/trail", "src/access"],
  "src/projects": services,
  "src/credentials": services,
  "src/secrets": services,
  "src/oauth": services,
  "src/backup": services,
  "src/outbound": ["src/AppConfig.ts", "src/net"],
  "src/machines": services,
  "src/webhooks": services,
  "src/openid": services,
  "src/Housekeeping.ts": [],
  "src/Methods.ts": [],
  "src/Days.ts": [],
  "src/ClientTarget.ts": [],
  "src/net": [],
  "src/http": [...services, "src/machines", "src/openid", "src/webhooks"],
  "src/mcp": [...services, "src/http"],
  "src/dashboard": [...services, "src/http", "src/machines", "src/openid", "src/webhooks"],
  "src/docs": ["schema", "src/AppConfig.ts", "src/Release.ts", "src/http", "src/dashboard"],
  "src/cli": leaves,
  "src/client": leaves
}

describe("imports", () => {
  it("are all seen by this test", () => {
    for (const { file, ours, packages, text } of source) {
      const written = text.match(/\bfrom "|\bimport\("|^import "/gm)?.length ?? 0
      assert.strictEqual(ours.length + packages.length, written, file)
    }
  })

  it("follow the arrows: schema <- src <- layers, and inside src from the ground up", () => {
    const wrong = source.flatMap(({ file, ours }) => {
      const place = placeOf(file)
      if (place === "layers" || path.basename(file) === "main.ts") return []
      const may = allowed[place]
      assert.isDefined(may, `${file}: say in this test what ${place} may import`)
      return ours
        .filter((target) => !target.endsWith("package.json"))
        .filter((target) => placeOf(target) !== place && !may.includes(placeOf(target)))
        .map((target) => `${file} -> ${target}`)
    })
    assert.deepStrictEqual(wrong, [])
  })

  // Type imports and lazy ones count too: a file is understood with what it imports, and without what imports it.
  it("form no cycle: a file never imports one that leads back to it", () => {
    const imports = new Map(source.map(({ file, ours }) => [file, ours]))
    const finished = new Set<string>()
    const cycles: Array<string> = []
    const visit = (file: string, trail: ReadonlyArray<string>) => {
      const start = trail.indexOf(file)
      if (start >= 0) cycles.push([...trail.slice(start), file].join(" -> "))
      if (start >= 0 || finished.has(file)) return
      for (const next of imports.get(file) ?? []) visit(next, [...trail, file])
      finished.add(file)
    }
    for (const file of imports.keys()) visit(file, [])
    assert.isAbove(finished.size, 200)
    assert.deepStrictEqual(cycles, [])
  })

  // A use case takes ids and asks `Access` itself: a route, a page and a tool cannot ask for different rights.
  it("routes, pages and tools leave it to the use case to ask for access", () => {
    const doors = source.filter(({ file }) => /^src\/(?:http|mcp|dashboard)\//.test(file))
    assert.isAbove(doors.length, 80)
    const wrong = doors.filter(({ ours }) => ours.includes("src/access/Access.ts")).map(({ file }) => file)
    assert.deepStrictEqual(wrong, [])
  })

  // A sign-in by a team's own issuer is good for that team alone: one check says what that means.
  it("only the policy compares the team of a sign-in's issuer", () => {
    const wrong = source
      .filter(({ file }) => file.startsWith("src/") && file !== "src/access/Policy.ts")
      .filter(({ text }) =>
        /onlyTeam\s*(?:[=!]==|\?)|[=!]==\s*(?:\w+\.)?onlyTeam/.test(text.replaceAll("onlyTeam ??", ""))
      )
      .map(({ file }) => file)
    assert.deepStrictEqual(wrong, [])
  })

  // `constructor` and `__proto__` are inputs: on an object they find something, in a Map they do not.
  it("keep what is looked up by a text in a Map, never in an object", () => {
    const table = /(?:const|let) (\w+): (?:Readonly<)?Record<string, [^=]+> = \{(?!\s*\})/g
    /** Complete object literals: headers of a response, members of a document, the list of migrations. */
    const whole = new Set(["headers", "responseHeaders", "body", "securitySchemes", "registry"])
    const wrong = source.flatMap(({ file, text }) =>
      [...text.matchAll(table)].filter(([, name]) => !whole.has(name)).map(([, name]) => `${file} ${name}`)
    )
    assert.deepStrictEqual(wrong, [])
  })

  it("go one way between two folders", () => {
    assert.deepStrictEqual(mutualImports(), [])
  })

  it("layers import no test, and no file imports a program", () => {
    const wrong = source.flatMap(({ file, ours }) =>
      ours
        .filter((target) => target.startsWith("test/") || path.basename(target) === "main.ts")
        .map((target) => `${file} -> ${target}`)
    )
    assert.deepStrictEqual(wrong, [])
  })

  it("the contract runs on effect, platform and rpc alone", () => {
    const wrong = source
      .filter(({ file }) => file.startsWith("schema/"))
      .flatMap(({ file, packages }) =>
        packages
          .filter((name) => !/^(effect|@effect\/platform|@effect\/rpc)\//.test(name))
          .map((name) => `${file} -> ${name}`)
      )
    assert.deepStrictEqual(wrong, [])
  })
})

describe("walls", () => {
  const filesWith = (pattern: RegExp, among = source) =>
    among.filter(({ text }) => pattern.test(text)).map(({ file }) => file)

  it("only Access issues permits", () => {
    assert.deepStrictEqual(filesWith(/\bPermit\.issue\b/), ["src/access/Access.ts"])
  })

  it("secrets are written by one pipeline, and every caller outside their folder gets a service", () => {
    const importing = (target: string) => source.filter(({ ours }) => ours.includes(target)).map(({ file }) => file)
    assert.deepStrictEqual(importing("src/secrets/Commit.ts"), [
      "src/secrets/CreationQueue.ts",
      "src/secrets/EnvironmentWrite.ts",
      "src/secrets/ProjectChanges.ts"
    ])
    assert.deepStrictEqual(importing("src/secrets/SecretRowChanges.ts"), [
      "src/secrets/Commit.ts",
      "src/secrets/LockedEnvironment.ts",
      "src/secrets/WriteDecision.ts"
    ])
    // The stages of a write have one caller: no second way to write can leave one out.
    for (const stage of [
      /\bGuesses\.count\(/,
      /\bWriteDecision\.decide\(/,
      /\bProposedChanges\.keep\(/,
      /\bSecretRowChanges\.changing\(/,
      /\bsnapshots\.follow\(/
    ]) {
      assert.deepStrictEqual(filesWith(stage), ["src/secrets/Commit.ts"], stage.source)
    }
    assert.deepStrictEqual(filesWith(/\bappendWith\b/), ["src/secrets/Commit.ts", "src/trail/Audit.ts"])
    // Besides it: the rotation of data keys, a plan that keeps fewer versions, the purge of what was deleted, and what is
    // said of a secret, which no value depends on.
    const changing = /(?:INSERT INTO|UPDATE|DELETE FROM)\s+(?:secrets|secret_versions|secret_counters)\b/
    assert.deepStrictEqual(
      filesWith(
        changing,
        source.filter(({ file }) => file.startsWith("src/"))
      ),
      [
        "src/crypto/ResealValues.ts",
        "src/projects/Teams.ts",
        "src/secrets/Maintenance.ts",
        "src/secrets/SecretAbout.ts",
        "src/secrets/SecretRowChanges.ts"
      ]
    )
    // A service asks Access itself. The two others are pure: a browser draws with them.
    const isOpen = ({ file, text }: (typeof source)[number]) =>
      /\bextends Effect\.Service</.test(text) || /\/(?:KeyGraph|TemplateScan)\.ts$/.test(file)
    const inner = new Set(
      source.filter((one) => one.file.startsWith("src/secrets/") && !isOpen(one)).map(({ file }) => file)
    )
    assert.isAbove(inner.size, 20)
    const reaching = source
      .filter(({ file }) => !file.startsWith("src/secrets/"))
      .flatMap(({ file, ours }) => ours.filter((target) => inner.has(target)).map((target) => `${file} -> ${target}`))
    assert.deepStrictEqual(reaching, [])
  })

  it("routes, pages and tools come to data through use cases: few of their files have SQL of their own", () => {
    const outer = source.filter(({ file }) => /^src\/(?:mcp|http|dashboard)\//.test(file))
    const withSql = outer.filter(({ packages }) => packages.some((name) => name.startsWith("@effect/sql")))
    assert.deepStrictEqual(
      withSql.map(({ file }) => file),
      [
        // Streams notice that something changed by counters of the teams and environments that they follow.
        "src/mcp/Changes.ts",
        // The sessions of the protocol are rows, so that any process serves any of them.
        "src/mcp/Sessions.ts"
      ]
    )
  })

  it("rows are decoded in one way; a statement is typed by hand where it is hot, walks a large table, or has a table's columns", () => {
    const typed = new Map([
      // Before every request.
      ["src/access/Access.ts", "the environment and the project of a request"],
      ["src/credentials/CredentialRows.ts", "the credential of a request"],
      // In every read or write of a secret.
      ["src/secrets/SecretRowChanges.ts", "the rows under the lock of a write"],
      ["src/secrets/SecretRows.ts", "sealed values for a snapshot"],
      ["src/secrets/PastStates.ts", "sealed values as of a time"],
      ["src/trail/StreamRows.ts", "the head of a stream, locked by every write"],
      // Through tables of millions of rows.
      ["src/backup/Archive.ts", "rows as text"],
      ["src/backup/Restore.ts", "rows with keys"],
      ["src/trail/TrailExport.ts", "entries as text"],
      ["src/trail/TrailVerification.ts", "entries, each compared with its hash"],
      ["src/trail-use/TrailEntry.ts", "entries up to the sealed head, each compared with its hash"],
      // Columns by the table, each row compared with its MAC.
      ["src/rows/OldRows.ts", "rows before their first MAC"],
      ["src/access/SecondPerson.ts", "the team of an action that waits"],
      ["src/rows/RowSeal.ts", "rows to change"],
      ["src/rows/RowVerification.ts", "all rows"],
      // Whatever another program left.
      ["layers/Migrations.ts", "the ledger"]
    ])
    assert.deepStrictEqual(filesWith(/\bsql<(?=[A-Z{])/).toSorted(), [...typed.keys()].toSorted())
    assert.deepStrictEqual(filesWith(/@effect\/sql\/SqlSchema/), [])
    const arrays = source.filter(({ file }) => /^(?:src\/(?!cli|client|dashboard|http|mcp)|layers)/.test(file))
    assert.deepStrictEqual(filesWith(/\bdecode\w*\(Schema\.Array\(\w*Row\b/, arrays), ["src/database/Rows.ts"])
  })

  it("no SQL from text, no other randomness, clock or request context than ours", () => {
    assert.deepStrictEqual(filesWith(/\.unsafe\(|\.unsafe`/), [])
    assert.deepStrictEqual(filesWith(/\bMath\.random\b/), [])
    assert.deepStrictEqual(filesWith(/\bAsyncLocalStorage\b/), [])
    const clocks = filesWith(/\bnew Date\(\)|\bDate\.now\(/)
    assert.deepStrictEqual(clocks, [])
  })

  it("randomness on the server is the service Crypto; few other files ask Node", () => {
    assert.deepStrictEqual(
      filesWith(
        /import \{[^}]*\b(?:random\w+|generateKeyPair\w*)\b[^}]*\} from "node:crypto"|getRandomValues|\bcrypto\(\)\.random/
      ),
      [
        // The command line and layers run without the server's services.
        "src/cli/account/Login.ts",
        "src/cli/operator/Backup.ts",
        "src/cli/operator/Setup.ts",
        "src/cli/terminal/Folders.ts",
        "src/cli/values/OfflineCache.ts",
        "src/crypto/Crypto.ts",
        // Verifies, and makes a key that no signature fits.
        "src/machines/ReportKeys.ts",
        // The library of the authorization server calls plain functions.
        "src/oauth/Configuration.ts",
        "src/oauth/Provider.ts",
        "layers/RateLimitRedis.ts",
        "layers/Telemetry.ts"
      ]
    )
  })

  it("an SQLSTATE decides in few files: a lost race, a taken place, an outage", () => {
    assert.deepStrictEqual(filesWith(/["'](?:23|40|53|57|25|55|22|0A)[0-9A-Z]{3}["']/), [
      "src/database/Dependency.ts",
      "src/database/Transaction.ts",
      "src/trail/StreamRows.ts",
      "layers/PgConnection.ts",
      "layers/PgDatabase.ts",
      "layers/Postgres.ts"
    ])
  })

  it("nothing is printed but by the log and the command line, and no pattern is made from a text", () => {
    // The authorization server's library prints as it loads: it is kept from doing so there.
    assert.deepStrictEqual(filesWith(/\bconsole\s*\.\s*\w+/), ["src/oauth/Library.ts"])
    assert.deepStrictEqual(filesWith(/\bRegExp\s*\(/), [])
  })

  // The build of its small programs replaces the name by `undefined` (`src/bundle.mjs`), which no type shows.
  it("the command line names no `performance`, whose module costs its start", () => {
    const wrong = source.filter(({ file, text }) => file.startsWith("src/cli/") && /\bperformance\./.test(text))
    assert.deepStrictEqual(
      wrong.map(({ file }) => file),
      []
    )
  })

  it("what proves something is compared in constant time", () => {
    const proof = String.raw`\w*(?:[hH]ash|[dD]igest|[mM]ac|[sS]ecret|[pP]assword|[sS]ignature|[cC]ommitment|[tT]ag|[pP]roof)`
    const name = String.raw`(?:[\w$]+[.?!])*${proof}(?:\.toString\([^)]*\))?`
    // With a constant the comparison is about a kind, not about a secret.
    const other = String.raw`(?!undefined\b|null\b|true\b|false\b|["'\d])`
    const pattern = new RegExp(String.raw`\b${name} [!=]== ${other}|[\w)\]] [!=]== ${name}(?![\w.(])`)
    const equals = new RegExp(String.raw`\b${name}\.equals\(`)
    const compared = source.flatMap(({ file, text }) =>
      text
        .split("\n")
        .map((line) => line.trim())
        .filter(
          (line) => !/^(?:\*|\/\/)/.test(line) && !line.includes("_tag") && (pattern.test(line) || equals.test(line))
        )
        .map(() => file)
    )
    // Nothing of these is a secret: hashes of public keys and of chains that anybody can compute, digests of a backup's
    // own lines, of a program's text and of the caller's own arguments, an ETag, the state of a file, and a local by the name of `secret`.
    assert.deepStrictEqual(compared, [
      "src/audit/SignedNote.ts",
      "src/audit/SignedNote.ts",
      "src/backup/Restore.ts",
      "src/backup/Restore.ts",
      "src/cli/CompiledCode.ts",
      "src/docs/Docs.ts",
      "src/masks/Redactor.ts",
      "src/mcp/Modern.ts",
      "src/secrets/Injection.ts",
      "src/vault/KeyFile.ts",
      "src/vault/VaultLog.ts"
    ])
    for (const line of ["row.hash === hash", "a !== token.secret", "found.mac.equals(mac)", "digest === sha256(x)"]) {
      assert.isTrue(pattern.test(line) || equals.test(line), line)
    }
    for (const line of ["hash === undefined", "row.password === null", "kind === 1"])
      assert.isFalse(pattern.test(line), line)
  })

  it("no file is a drawer", () => {
    const drawers = source.filter(({ file }) => /\/(?:utils?|helpers?|common|misc|index)\.\w+$/i.test(file))
    assert.deepStrictEqual(drawers, [])
    const barrels = source.filter(({ text }) => /^export \* (?:as \w+ )?from /m.test(text)).map(({ file }) => file)
    assert.deepStrictEqual(barrels, [])
  })
})

describe("any", () => {
  it("is nowhere but in what YAML files hold: no other line switches the rule off that forbids it", () => {
    const files = ["src", "schema", "layers", "migrations", "test"].flatMap((folder) =>
      (fs.readdirSync(folder, { recursive: true }) as ReadonlyArray<string>)
        .filter((name) => /\.tsx?$/.test(name))
        .map((name) => `${folder}/${name}`)
        .filter((file) => /disable[\w-]*\s.*no-explicit-any/.test(fs.readFileSync(file, "utf8")))
    )
    assert.deepStrictEqual(files, ["test/deploy/Documents.ts"])
  })
})

describe("packages", () => {
  const manifest = parsed(
    Schema.Struct({
      devDependencies: TextsByName,
      optionalDependencies: TextsByName,
      allowScripts: Schema.Record({ key: Schema.String, value: Schema.Boolean })
    })
  )(fs.readFileSync("package.json", "utf8"))
  const locked = Schema.Struct({
    version: optional(Schema.String),
    resolved: optional(Schema.String),
    integrity: optional(Schema.String),
    hasInstallScript: optional(Schema.Boolean),
    dev: optional(Schema.Boolean),
    optionalDependencies: optional(TextsByName)
  })
  const lock = parsed(Schema.Struct({ packages: Schema.Record({ key: Schema.String, value: locked }) }))(
    fs.readFileSync("package-lock.json", "utf8")
  )
  const named = { ...manifest.optionalDependencies, ...manifest.devDependencies }
  const installed = (name: string) => lock.packages[`node_modules/${name}`]?.version

  it("are pinned to one version each, which is the one that is locked", () => {
    // `npm:effect@4.1.0`: a second version of a package, under another name.
    const versions = Object.entries(named).map(([name, text]) => [name, text.replace(/^npm:[a-z]+@/, "")])
    const loose = versions.filter(([, version]) => !/^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(version))
    assert.deepStrictEqual(loose, [])
    for (const [name, version] of versions) assert.strictEqual(installed(name), version, name)
  })

  it("are locked for every platform: npm leaves out those that it did not find, and `npm ci` then refuses", () => {
    const folders = Object.keys(lock.packages)
    const missing = Object.values(lock.packages)
      .flatMap(({ optionalDependencies }) => Object.keys(optionalDependencies ?? {}))
      .filter((name) => !folders.some((folder) => folder.endsWith(`node_modules/${name}`)))
    assert.deepStrictEqual(missing, [])
  })

  it("are installed with ampoule only when a client has a use for them; a server names the versions of its own", () => {
    assert.deepStrictEqual(Object.keys(manifest.optionalDependencies), ["@napi-rs/keyring"])
    assert.notProperty(parsed(AnyObject)(fs.readFileSync("package.json", "utf8")), "dependencies")
    for (const [name, version] of Object.entries(versions)) assert.strictEqual(manifest.devDependencies[name], version)
  })

  it("are not older than what is known to be unsafe", () => {
    const atLeast = (name: string, ...floor: ReadonlyArray<number>) => {
      const version = (installed(name) ?? "0").split(".").map(Number)
      const first = floor.findIndex((number, i) => version[i] !== number)
      assert.isTrue(first === -1 || version[first] > floor[first], `${name} ${version.join(".")}`)
    }
    // Context of another request inside fibers (CVE-2026-32887).
    atLeast("effect", 3, 20, 0)
    assert.isTrue(installed("effect")?.startsWith("3."))
    // Bodies and elements without a limit (GHSA-f897-62hf-6gxq, CVE-2026-111768).
    atLeast("@modelcontextprotocol/sdk", 1, 32, 0)
  })

  it("are locked with a digest each", () => {
    const without = Object.entries(lock.packages)
      .filter(([folder, { integrity = "" }]) => folder !== "" && !/^sha512-.{86}==$/.test(integrity))
      .map(([folder]) => folder)
    assert.deepStrictEqual(without, [])
  })

  it("run no script when they are installed: each that has one is refused by name, and nobody who runs Ampoule gets one", () => {
    const scripted = Object.entries(lock.packages).filter(([, { hasInstallScript }]) => hasInstallScript === true)
    assert.deepStrictEqual(
      Object.fromEntries(scripted.map(([folder]) => [folder.replace(/^.*node_modules\//, ""), false])),
      manifest.allowScripts
    )
    assert.isEmpty(scripted.filter(([, { dev }]) => dev !== true))
  })

  it("are locked without the address that they came from", () => {
    const addressed = Object.entries(lock.packages).filter(([, { resolved }]) => resolved?.startsWith("http") === true)
    assert.deepStrictEqual(addressed, [])
  })
})

describe("registries", () => {
  it("a run on Postgres has every test that asks a server", () => {
    const listed = databaseTests()
    const asking = filesBelow("test")
      .filter((file) => file.endsWith(".test.ts") && read(file).ours.includes("test/support/TestApp.ts"))
      .filter((file) => !listed.includes(file))
    assert.deepStrictEqual(asking, [])
    assert.isAbove(listed.length, 80)
  })

  it("every migration is registered, in order", () => {
    const files = fs.readdirSync("migrations").map((name) => name.replace(/\.ts$/, ""))
    assert.deepStrictEqual(Object.keys(registry), files.sort())
  })

  it("every service of the server is provided", () => {
    const provided = source
      .filter(({ file }) => file.startsWith("layers/"))
      .map(({ text }) => text)
      .join("\n")
    const declared = source.flatMap(({ text }) =>
      [...text.matchAll(/class (\w+) extends Effect\.Service</g)].map((match) => match[1])
    )
    assert.isAbove(declared.length, 10)
    assert.deepStrictEqual(
      declared.filter((name) => !provided.includes(`${name}.Default`)),
      []
    )
  })
})

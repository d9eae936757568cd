import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as path from "node:path"
import { Project } from "#schema/ProjectsApi.ts"
import { failureOf, parsed, Texts } from "#test/support/Json.ts"
import { app, setUp } from "./ProjectFolder.ts"

layer(app, { excludeTestServices: true })("ampoule secrets", (it) => {
  it.scoped("sets, lists, reads, changes, rolls back, deletes and restores", () =>
    Effect.gen(function* () {
      const { secrets, set } = yield* setUp()
      assert.include((yield* set("DB_PASSWORD", "hunter2\n")).stderr, "created, version 1")
      assert.include((yield* set("DATABASE_URL", "postgres://app:${DB_PASSWORD}@db")).stderr, "created")
      assert.strictEqual((yield* secrets("get", "DATABASE_URL")).stdout, "postgres://app:hunter2@db")
      assert.strictEqual((yield* secrets("get", "DATABASE_URL", "--source")).stdout, "postgres://app:${DB_PASSWORD}@db")
      const listed = yield* secrets("list")
      assert.match(listed.stdout, /^KEY +KIND/)
      assert.match(listed.stdout, /DATABASE_URL +template \(DB_PASSWORD\) +1/)
      assert.notInclude(listed.stdout, "hunter2")

      assert.include((yield* set("DB_PASSWORD", "hunter3")).stderr, "updated, version 2")
      assert.include((yield* set("DB_PASSWORD", "hunter3")).stderr, "unchanged, version 2")
      assert.include((yield* secrets("rollback", "DB_PASSWORD", "1")).stderr, "version 3 now has the text of version 1")
      assert.strictEqual((yield* secrets("get", "DB_PASSWORD")).stdout, "hunter2")
      const history = parsed(Schema.Array(Schema.Struct({ version: Schema.Number })))(
        (yield* secrets("history", "DB_PASSWORD", "--json")).stdout
      )
      assert.deepStrictEqual(
        history.map(({ version }) => version),
        [3, 2, 1]
      )

      const refused = yield* secrets("unset", "DB_PASSWORD")
      assert.strictEqual(refused.code, 1)
      assert.include(refused.stderr, "SECRET_HAS_DEPENDENTS")
      assert.include(refused.stderr, "dependents: DATABASE_URL")
      assert.include(
        (yield* secrets("unset", "DB_PASSWORD", "--disposition", "flatten")).stderr,
        "flattened: DATABASE_URL"
      )
      assert.strictEqual((yield* secrets("get", "DATABASE_URL")).stdout, "postgres://app:hunter2@db")
      assert.include((yield* secrets("deleted")).stdout, "DB_PASSWORD")
      assert.strictEqual((yield* secrets("history", "DB_PASSWORD")).code, 0)
      assert.include((yield* secrets("restore", "DB_PASSWORD")).stderr, "restored at version 3")
      assert.include((yield* secrets("unset", "DB_PASSWORD", "DATABASE_URL")).stderr, "2 deleted")
      assert.strictEqual((yield* secrets("list", "--json")).stdout, "[]\n")
    })
  )

  it.scoped("takes a value exactly: one line end off standard input, a file as it is", () =>
    Effect.gen(function* () {
      const { file, secrets, set } = yield* setUp()
      const value = "line one\nünï¢ode 😀\n\n  trailing "
      yield* set("PIPED", `${value}\n`)
      assert.strictEqual((yield* secrets("get", "PIPED")).stdout, value)
      yield* set("KEPT", `${value}\n`, "--keep-newline")
      assert.strictEqual((yield* secrets("get", "KEPT")).stdout, `${value}\n`)
      yield* secrets("set", "FILED", "--value-from-file", file("key.pem", `${value}\n`))
      assert.strictEqual((yield* secrets("get", "FILED")).stdout, `${value}\n`)
      yield* set("EMPTY", "", "--allow-empty")
      const empty = yield* secrets("get", "EMPTY")
      assert.deepStrictEqual([empty.code, empty.stdout], [0, ""])
    })
  )

  it.scoped("the next step that a refusal names works when it is taken", () =>
    Effect.gen(function* () {
      const { file, run: start, secrets, set } = yield* setUp()
      const run = (...args: ReadonlyArray<string>) => start(args)
      const oneLine = (text: string) => text.replaceAll(/\s+/g, " ")
      /** The options that the last sentence names, with their words. */
      const optionsIn = (stderr: string) => oneLine(stderr).match(/--[a-z-]+(?: [A-Za-z_][\w-]*)?/g) ?? []
      const words = (option: string | undefined) => option?.split(" ") ?? []

      const wrong = yield* set("A", "Hi ${NOPE}")
      assert.include(oneLine(wrong.stderr), "Write the missing keys first. Or take the text as it is: --kind literal.")
      assert.strictEqual((yield* set("A", "Hi ${NOPE}", ...words(optionsIn(wrong.stderr).at(-1)))).code, 0)

      const imported = ["import", file("refs.env", "G=Hi ${NOPE}\n"), "--yes"]
      const literal = optionsIn((yield* secrets(...imported)).stderr).find((option) => option.startsWith("--literal"))
      assert.strictEqual((yield* secrets(...imported, ...words(literal).slice(0, 1))).code, 0)

      // Two keys with the same name for Terraform, and a value that no variable carries, by the names that `--except` takes.
      yield* set("TF_X", "1")
      yield* set("NUL", "a\0b", "--value-from-file", file("nul.txt", "a\0b"))
      const started = ["run", "--names", "tf-var", "--", "true"] as const
      const refused = yield* run(...started)
      assert.strictEqual(refused.code, 125, refused.stderr)
      const except = optionsIn(refused.stderr).find((option) => option.startsWith("--except"))
      assert.isDefined(except, refused.stderr)
      const passed = yield* run("run", "--names", "tf-var", ...words(except), "--", "true")
      assert.strictEqual(passed.code, 0, passed.stderr)

      const twice = yield* run("secrets", "list", "--env", "development", "--env", "staging")
      assert.strictEqual(twice.code, 2)
      assert.include(oneLine(twice.stderr), "--env can be given only once.")
    })
  )

  it.scoped("a refusal names the key and the environment that it is about", () =>
    Effect.gen(function* () {
      const { secrets, set } = yield* setUp()
      const absent = yield* secrets("get", "NOPE")
      assert.include(absent.stderr, "development has no secret NOPE. [SECRET_NOT_FOUND]")
      assert.include(absent.stderr, "ampoule secrets list --env development")
      const asJson = yield* secrets("get", "NOPE", "--json")
      assert.strictEqual(failureOf(asJson.stderr).code, "SECRET_NOT_FOUND")
      const docs = /Docs: (http\S+\/docs\/errors#SECRET_NOT_FOUND)\n/.exec(absent.stderr)?.[1] ?? ""
      const page = yield* Effect.promise(async () => (await fetch(docs)).text())
      assert.include(page, '<h3 id="SECRET_NOT_FOUND">')
      assert.include(asJson.stderr, `"docs":"${docs}"`)
      const absentToo = yield* secrets("unset", "NOPE", "--yes")
      assert.strictEqual(absentToo.code, 1)
      assert.include(absentToo.stderr, "development has no secret NOPE.")
      const template = yield* set("URL", "a ${MISSING} b")
      assert.strictEqual(template.code, 1)
      assert.include(template.stderr, "field: URL\n")
      assert.include(template.stderr, "MISSING")
    })
  )

  it.scoped("never replaces a value because nothing came", () =>
    Effect.gen(function* () {
      const { file, secrets, set } = yield* setUp()
      yield* set("KEY", "old")
      for (const nothing of ["", "\n", "\r\n"]) {
        const refused = yield* set("KEY", nothing)
        assert.strictEqual(refused.code, 1)
        assert.include(refused.stderr, "--allow-empty")
      }
      assert.strictEqual((yield* secrets("set", "KEY", "--value-from-file", file("empty", ""))).code, 1)
      assert.strictEqual((yield* secrets("get", "KEY")).stdout, "old")
    })
  )

  it.scoped("writes a name that can change which code runs only when it is allowed, and says why", () =>
    Effect.gen(function* () {
      const { file, run, secrets, set } = yield* setUp()
      const refused = yield* set("MAKEFLAGS", "--eval=x")
      assert.strictEqual(refused.code, 1)
      assert.include(refused.stderr, "MAKEFLAGS gives options to a build tool")
      assert.include(refused.stderr, "--allow MAKEFLAGS")
      assert.notInclude(refused.stderr, "--eval")
      assert.strictEqual((yield* set("MAKEFLAGS", "-j2", "--allow", "MAKEFLAGS")).code, 0)

      const name = file("mixed.env", "HARMLESS=1\nHTTPS_PROXY=http://proxy\n")
      const imported = yield* run(["secrets", "import", name, "--yes"])
      assert.strictEqual(imported.code, 1)
      assert.include(imported.stderr, "HTTPS_PROXY redirects traffic")
      assert.strictEqual((yield* secrets("get", "HARMLESS")).code, 1)
      const dry = yield* run(["secrets", "import", name, "--dry-run", "--json"])
      assert.deepStrictEqual(parsed(Schema.Struct({ dangerous: Texts }))(dry.stdout).dangerous, ["HTTPS_PROXY"])
      assert.strictEqual((yield* run(["secrets", "import", name, "--yes", "--allow", "*_PROXY"])).code, 0)

      const nul = yield* set("WITH_NUL", "a\0b")
      assert.strictEqual(nul.code, 0)
      assert.include(nul.stderr, "NUL")
    })
  )

  it.scoped("shows control characters of a value on a terminal, and hands them to a program", () =>
    Effect.gen(function* () {
      const { ampoule, env, home, secrets, set } = yield* setUp()
      const text = "one\ntwo\u001b]0;title\u0007\u009b2J"
      yield* set("STRANGE", text)
      assert.strictEqual((yield* secrets("get", "STRANGE")).stdout, text)
      const asJson = yield* secrets("get", "STRANGE", "--json")
      assert.strictEqual(parsed(Schema.Struct({ value: Schema.String }))(asJson.stdout).value, text)
      assert.notInclude(asJson.stdout, "\u009b")
      const seen = yield* ampoule.terminal(["secrets", "get", "STRANGE"], { home, env })
      yield* seen.ended
      assert.include(seen.output.stdout, "two\\u001b]0;title\\u0007\\u009b2J")
      assert.include(seen.output.stdout, "--raw")
      const raw = yield* ampoule.terminal(["secrets", "get", "STRANGE", "--raw"], { home, env })
      yield* raw.ended
      assert.include(raw.output.stdout, "two\u001b]0;title\u0007\u009b2J")
    })
  )

  it.scoped("writes literal text, and only over the version that is expected", () =>
    Effect.gen(function* () {
      const { secrets, set } = yield* setUp()
      yield* set("TEXT", "cost: ${PRICE}", "--kind", "literal")
      assert.strictEqual((yield* secrets("get", "TEXT")).stdout, "cost: ${PRICE}")
      assert.include((yield* set("TEXT", "x", "--expected-version", "0")).stderr, "SECRET_ALREADY_EXISTS")
      assert.include((yield* set("TEXT", "x", "--expected-version", "7")).stderr, "currentVersion: 1")
      assert.include((yield* set("TEXT", "x", "--expected-version", "1")).stderr, "updated, version 2")
      yield* secrets("unset", "TEXT")
      assert.include((yield* set("TEXT", "y", "--expected-version", "9")).stderr, "SECRET_VERSION_CONFLICT")
      assert.include((yield* set("TEXT", "y", "--expected-version", "2")).stderr, "created, version 3")
    })
  )

  it.scoped("never takes a value from the command line, and does not quote it back", () =>
    Effect.gen(function* () {
      const { secrets } = yield* setUp()
      for (const args of [
        ["set", "KEY", "canary"],
        ["set", "KEY=canary"],
        ["set", "KEY", "--value=canary"],
        ["set", "KEY", "--value", "canary"],
        ["get", "KEY", "canary"],
        ["list", "canary"],
        ["set", "canary value"]
      ]) {
        const ended = yield* secrets(...args)
        assert.strictEqual(ended.code, 2, args.join(" "))
        assert.notInclude(ended.stdout + ended.stderr, "canary")
      }
    })
  )

  it.scoped("imports several hundred entries in order of reference, and exports them again in every format", () =>
    Effect.gen(function* () {
      const { file, run, secrets } = yield* setUp()
      const values = new Map<string, string>([["A_TEMPLATE", "<${Z_199}>"]])
      for (let i = 0; i < 200; i++) values.set(`Z_${i}`, `value ${i} "quoted" #hash $dollar 'single' \\n`)
      const content = [...values].map(([key, value]) => [key, value] as const)
      file("in.json", JSON.stringify(Object.fromEntries(content)))
      const preview = yield* secrets("import", "in.json", "--dry-run")
      assert.include(preview.stderr, "201 new, 0 there already")
      assert.strictEqual((yield* secrets("list", "--json")).stdout, "[]\n")
      const unasked = yield* secrets("import", "in.json")
      assert.strictEqual(unasked.code, 2)
      const imported = yield* secrets("import", "in.json", "--yes", "--json")
      assert.deepStrictEqual(JSON.parse(imported.stdout), { created: 201, updated: 0, unchanged: 0 })
      assert.notInclude(imported.stderr, "value 1")

      for (const format of ["dotenv", "json", "yaml", "shell", "docker"]) {
        const printed = yield* secrets("export", "--format", format, "--source")
        assert.strictEqual(printed.code, 0)
        const again = yield* run(["secrets", "import", "-", "--format", format, "--yes", "--json"], {
          stdin: printed.stdout
        })
        assert.deepStrictEqual(JSON.parse(again.stdout), { created: 0, updated: 0, unchanged: 201 }, format)
        const elsewhere = yield* run(["secrets", "import", "--env", "staging", "--format", format, "--yes", "-"], {
          stdin: printed.stdout
        })
        assert.strictEqual(elsewhere.code, 0, elsewhere.stderr)
        const same = yield* secrets("diff", "development", "staging", "--exit-code")
        assert.strictEqual(same.code, 0, format)
      }
      assert.strictEqual((yield* secrets("get", "A_TEMPLATE")).stdout, `<${values.get("Z_199")}>`)
      assert.include((yield* run(["graph"])).stdout, "A_TEMPLATE\n└── Z_199\n")
      assert.include((yield* run(["graph", "--format", "svg"])).stdout, ">A_TEMPLATE</text>")
      assert.include((yield* run(["graph", "--format", "mermaid"])).stdout, "flowchart LR")
    })
  )

  it.scoped(
    "keeps text that looks like a reference text, and gives every kind again from every format",
    () =>
      Effect.gen(function* () {
        const { file, run, secrets, set } = yield* setUp()
        yield* set("B", "1")
        yield* set("PLAIN", "it's \\ $HOME `id` #x")
        yield* set("TEXT", "x${B}y", "--kind", "literal")
        yield* set("REFERS", 'say "${B}" $${B} \'')
        const listed = (environment: string) =>
          Effect.map(secrets("list", "--json", "--env", environment), ({ stdout }) =>
            parsed(Schema.Array(Schema.Struct({ key: Schema.String, kind: Schema.String })))(stdout).map(
              ({ key, kind }) => `${key} ${kind}`
            )
          )
        const before = yield* listed("development")
        for (const format of ["dotenv", "json", "yaml", "shell", "fish", "powershell", "nushell", "docker"]) {
          const printed = yield* secrets("export", "--format", format, "--source")
          assert.strictEqual(printed.code, 0, printed.stderr)
          yield* run(["secrets", "unset", "REFERS", "--env", "staging"])
          yield* run(["secrets", "unset", "TEXT", "--env", "staging"])
          yield* run(["secrets", "unset", "PLAIN", "--env", "staging"])
          yield* run(["secrets", "unset", "B", "--env", "staging"])
          const back = yield* run(["secrets", "import", "--env", "staging", "--format", format, "--yes", "-"], {
            stdin: printed.stdout
          })
          assert.strictEqual(back.code, 0, back.stderr)
          assert.deepStrictEqual(yield* listed("staging"), before, format)
          const same = yield* secrets("diff", "development", "staging", "--exit-code")
          assert.strictEqual(same.code, 0, format)
        }
        const quoted = file("q.env", 'S=\'x${B}y\'\nE="x\\${B}y"\nD="x${B}y"\nPORT=${PORT:-3000}\n')
        const plan = yield* secrets("import", quoted, "--dry-run")
        assert.match(plan.stderr, /\+ D {2}refers to B/)
        assert.match(plan.stderr, /\+ S {2}text, although it looks like a reference/)
        assert.match(plan.stderr.replaceAll("\n", " "), /1 looks like references.*PORT \(line 4, \$\{NAME:-default\}\)/)
        assert.strictEqual((yield* secrets("import", quoted, "--yes")).code, 0)
        for (const [key, text] of [
          ["S", "x${B}y"],
          ["E", "x${B}y"],
          ["D", "x1y"],
          ["PORT", "${PORT:-3000}"]
        ] as const) {
          assert.strictEqual((yield* secrets("get", key)).stdout, text)
        }
      }),
    // Some forty programs, one after another.
    300_000
  )

  it.scoped("joins the names of nested files, leaves out what Doppler adds, and keeps comments as notes", () =>
    Effect.gen(function* () {
      const { file, secrets } = yield* setUp()
      const nested = file("appsettings.json", JSON.stringify({ ConnectionStrings: { Default: "canary" } }))
      const refused = yield* secrets("import", nested, "--yes", "--upper-case")
      assert.strictEqual(refused.code, 1)
      assert.match(refused.stderr.replaceAll("\n", " "), /the value of ConnectionStrings is an object.*--flatten __/)
      assert.notInclude(refused.stderr, "canary")
      const joined = yield* secrets("import", nested, "--yes", "--upper-case", "--flatten", "__")
      assert.strictEqual(joined.code, 0, joined.stderr)
      assert.strictEqual((yield* secrets("get", "CONNECTION_STRINGS__DEFAULT")).stdout, "canary")
      const own = { DOPPLER_PROJECT: "p", DOPPLER_CONFIG: "c", DOPPLER_ENVIRONMENT: "e", A: "1" }
      const doppler = yield* secrets("import", file("doppler.json", JSON.stringify(own)), "--yes")
      assert.include(doppler.stderr.replaceAll("\n", " "), "DOPPLER_PROJECT, DOPPLER_CONFIG, DOPPLER_ENVIRONMENT")
      const commented = JSON.stringify([{ key: "B", value: "2", comment: "of the\nshop" }])
      const infisical = yield* secrets("import", file("infisical.json", commented), "--yes")
      assert.include(infisical.stderr, "1 secret has a name or note of the file now")
      assert.match((yield* secrets("note", "B")).stdout, /of the shop/)
    })
  )

  it.scoped("gives a program the names that it had in its file, by run, export and a sealed file", () =>
    Effect.gen(function* () {
      const { file, home, run, secrets } = yield* setUp()
      const names = { ConnectionStrings__Default: "c", TF_VAR_region: "r", nextPublicApiUrl: "n", PLAIN: "p" }
      const text = Object.entries(names)
        .map(([name, value]) => `${name}=${value}\n`)
        .join("")
      const imported = yield* secrets("import", file("names.env", text), "--yes", "--upper-case")
      assert.strictEqual(imported.code, 0, imported.stderr)
      const listed = (yield* secrets("list", "--json")).stdout
      assert.include(listed, '"key": "CONNECTION_STRINGS__DEFAULT"')
      assert.include(listed, '"alias": "ConnectionStrings__Default"')

      const exported = yield* secrets("export", "--names", "alias", "--format", "json")
      assert.deepStrictEqual(JSON.parse(exported.stdout), names)
      const script = `process.stdout.write(${JSON.stringify(Object.keys(names))}.map((name) => process.env[name]).join())`
      const ran = yield* run(["run", "--names", "alias", "--", process.execPath, "-e", script])
      assert.strictEqual(ran.stdout, "c,r,n,p", ran.stderr)

      const sealed = yield* run(["seal", "--upper-case", "names.env"])
      assert.strictEqual(sealed.code, 0, sealed.stderr)
      assert.include(sealed.stdout, "# ampoule name: ConnectionStrings__Default\nCONNECTION_STRINGS__DEFAULT=")
      fs.writeFileSync(path.join(home, ".env.sealed"), sealed.stdout)
      const opened = yield* run(["unseal", "--names", "alias", "--format", "json"])
      assert.deepStrictEqual(JSON.parse(opened.stdout), names)
      const inside = yield* run([
        "run",
        "--sealed",
        ".env.sealed",
        "--names",
        "alias",
        "--",
        process.execPath,
        "-e",
        script
      ])
      assert.strictEqual(inside.stdout, "c,r,n,p", inside.stderr)

      yield* secrets("note", "PLAIN", "--alias", "LD_PRELOAD")
      const refused = yield* run(["run", "--names", "alias", "--", "true"])
      assert.strictEqual(refused.code, 125)
      assert.include(refused.stderr, "LD_PRELOAD")
      yield* secrets("note", "PLAIN", "--alias", "")
      assert.strictEqual((yield* run(["run", "--names", "alias", "--", "true"])).code, 0)
    })
  )

  it.scoped("finds what the server would refuse before it writes any of it, and a dry run says the same", () =>
    Effect.gen(function* () {
      const { file, secrets } = yield* setUp()
      const lines = Array.from({ length: 150 }, (_, i) => (i === 140 ? "K_BAD=x-${NOPE}" : `K_${i}=v`)).join("\n")
      for (const options of [["--dry-run"], ["--yes"]]) {
        const refused = yield* secrets("import", file("late.env", lines), ...options)
        assert.strictEqual(refused.code, 1)
        assert.match(refused.stderr.replaceAll("\n", " "), /line 141: K_BAD refers to NOPE/)
      }
      assert.strictEqual((yield* secrets("list", "--json")).stdout, "[]\n")
      const twice = file("twice.env", "A=1\nA=2\n")
      assert.include((yield* secrets("import", twice, "--yes")).stderr, "--last-wins")
      assert.strictEqual((yield* secrets("import", twice, "--yes", "--last-wins")).code, 0)
      assert.strictEqual((yield* secrets("get", "A")).stdout, "2")
    })
  )

  it.scoped("names the line of what it cannot import, never the text", () =>
    Effect.gen(function* () {
      const { file, secrets } = yield* setUp()
      const cases: ReadonlyArray<readonly [string, string]> = [
        ["A=1\nlower=canary\n", "line 2: lower"],
        ["A=1\nA=canary\n", "line 2"],
        [`A=1\nB=${"canary".repeat(11_000)}\n`, "line 2: the value of B"],
        ['A=1\nB="canary\n', "line 2"]
      ]
      for (const [content, sentence] of cases) {
        const ended = yield* secrets("import", file("bad.env", content), "--yes")
        assert.strictEqual(ended.code, 1)
        assert.include(ended.stderr, sentence)
        assert.notInclude(ended.stderr, "canary")
      }
      assert.strictEqual((yield* secrets("list", "--json")).stdout, "[]\n")
    })
  )

  it.scoped("says what it took a file for, and names of other managers are written in capitals when asked", () =>
    Effect.gen(function* () {
      const { file, run, secrets } = yield* setUp()
      const exported = JSON.stringify({ request_id: "r", data: { "db-url": "postgres://db", apiKey: "canary" } })
      const refused = yield* run(["secrets", "import", "-", "--yes"], { stdin: exported })
      assert.strictEqual(refused.code, 1)
      assert.include(refused.stderr, "--upper-case")
      const written = yield* run(["secrets", "import", "-", "--yes", "--upper-case"], { stdin: exported })
      assert.strictEqual(written.code, 0, written.stderr)
      assert.include(written.stderr, "standard input: json of `vault kv get`, 2 entries")
      assert.include(written.stderr, "+ API_KEY\n")
      assert.strictEqual((yield* secrets("get", "DB_URL")).stdout, "postgres://db")
      const alike = yield* secrets("import", file("a.json", '{"a-b":"canary","a_b":"x"}'), "--upper-case", "--yes")
      assert.strictEqual(alike.code, 1)
      assert.include(alike.stderr, "a_b and a-b would both be A_B")
      const encrypted = yield* secrets("import", file(".env", `A="encrypted:B${"x".repeat(90)}"\n`), "--yes")
      assert.include(encrypted.stderr, "dotenvx decrypt --stdout")
      assert.notInclude(refused.stderr + written.stderr + alike.stderr, "canary")
    })
  )

  it.scoped(
    "refuses a file that no environment could hold before anything of it is written, and says why it cannot read one",
    () =>
      Effect.gen(function* () {
        const { file, secrets } = yield* setUp()
        const many = Array.from({ length: 5_001 }, (_, i) => `K${i}=v\n`).join("")
        const refused = yield* secrets("import", file("many.env", many), "--yes")
        assert.strictEqual(refused.code, 1)
        assert.include(refused.stderr, "at most 5000 secrets")
        assert.strictEqual((yield* secrets("list", "--json")).stdout, "[]\n")
        for (const [name, reason] of [
          ["nowhere.env", "there is no such file"],
          [".", "it is a folder"]
        ]) {
          assert.include((yield* secrets("import", name ?? "", "--yes")).stderr, reason)
          assert.include((yield* secrets("set", "KEY", "--value-from-file", name ?? "")).stderr, reason)
        }
      })
  )

  it.scoped("compares environments, with an exit code for scripts", () =>
    Effect.gen(function* () {
      const { secrets, set } = yield* setUp()
      yield* set("SAME", "1")
      yield* set("CHANGED", "1")
      yield* set("HERE", "1")
      yield* set("SAME", "1", "--env", "staging")
      yield* set("CHANGED", "2", "--env", "staging")
      yield* set("THERE", "1", "--env", "staging")
      const diff = yield* secrets("diff", "development", "staging", "--exit-code")
      assert.deepStrictEqual([diff.code, diff.stdout], [1, "~ CHANGED\n- HERE\n+ THERE\n"])
      assert.strictEqual((yield* secrets("diff", "development", "staging")).code, 0)
    })
  )

  it.scoped("tells what a read-only token may not, in text and as JSON", () =>
    Effect.gen(function* () {
      const { run, set } = yield* setUp("read")
      const refused = yield* set("KEY", "v")
      assert.strictEqual(refused.code, 1)
      assert.include(refused.stderr, "[API_TOKEN_READ_ONLY]")
      const json = yield* run(["secrets", "set", "KEY", "--json"], { stdin: "v" })
      assert.strictEqual(failureOf(json.stderr).code, "API_TOKEN_READ_ONLY")
      const who = yield* run(["whoami"])
      assert.match(who.stdout, /access level: +read/)
      assert.match(who.stdout, /from: +AMPOULE_API_TOKEN/)
      const projects = parsed(Schema.Array(Project))((yield* run(["projects", "--json"])).stdout)
      assert.strictEqual(projects.length, 1)
      assert.include((yield* run(["projects", "environments"])).stdout, "production")
      const doctor = yield* run(["doctor", "--json"])
      const states = parsed(Schema.Array(Schema.Struct({ check: Schema.String, state: Schema.String })))(
        doctor.stdout
      ).map(({ check, state }) => `${check} ${state}`)
      for (const state of [
        "address ok",
        "server ok",
        "clock ok",
        "readiness ok",
        "credential ok",
        "permission ok",
        "version ok",
        "folder ok"
      ]) {
        assert.include(states, state)
      }
      assert.strictEqual(doctor.code, 0)
    })
  )

  it.scoped("takes the token from its variables and their files in the order of the contract", () =>
    Effect.gen(function* () {
      const { env, file, home, run } = yield* setUp()
      const good = env.AMPOULE_API_TOKEN
      const bad = "amp_at_0123456789abcdef_nope"
      const code = (more: Readonly<Record<string, string>>) =>
        Effect.map(run(["whoami"], { env: more }), (ended) => ended.code)
      assert.strictEqual(yield* code({ AMPOULE_API_TOKEN: good, AMPOULE_TOKEN: bad }), 0)
      assert.strictEqual(yield* code({ AMPOULE_API_TOKEN: bad, AMPOULE_TOKEN: good }), 1)
      assert.strictEqual(yield* code({ AMPOULE_API_TOKEN: "", AMPOULE_TOKEN: good }), 0)
      const token = path.join(home, file("token", `${good}\n`))
      assert.strictEqual(yield* code({ AMPOULE_API_TOKEN: "", AMPOULE_API_TOKEN_FILE: token }), 0)
      assert.strictEqual(yield* code({ AMPOULE_API_TOKEN: "", AMPOULE_TOKEN_FILE: token }), 0)
      assert.strictEqual(yield* code({ AMPOULE_API_TOKEN: "", AMPOULE_API_TOKEN_FILE: `${token}.none` }), 1)
      const garbled = yield* run(["whoami"], { env: { AMPOULE_API_TOKEN: `${good}\ncanary: x` } })
      assert.strictEqual(garbled.code, 1)
      assert.notInclude(garbled.stderr, "canary")
    })
  )

  it.scoped("asks for the value at a terminal without showing it", () =>
    Effect.gen(function* () {
      const { ampoule, env, home, secrets } = yield* setUp()
      const running = yield* ampoule.terminal(["secrets", "set", "TYPED"], { home, env })
      yield* running.shows("not shown")
      running.child.stdin?.write("canarx\u007fy-typed\r")
      const ended = yield* running.ended
      assert.strictEqual(ended.code, 0)
      assert.notInclude(ended.stdout + ended.stderr, "canar")
      assert.strictEqual((yield* secrets("get", "TYPED")).stdout, "canary-typed")
      const cancelled = yield* ampoule.terminal(["secrets", "set", "TYPED"], { home, env })
      yield* cancelled.shows("not shown")
      cancelled.child.stdin?.write("abc\u0003")
      assert.strictEqual((yield* cancelled.ended).code, 130)
      assert.strictEqual((yield* secrets("get", "TYPED")).stdout, "canary-typed")
    })
  )
})

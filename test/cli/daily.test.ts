import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import * as World from "#test/support/World.ts"
import { app, setUp } from "./ProjectFolder.ts"

layer(app, { excludeTestServices: true })("the small jobs of every day", (it) => {
  it.scoped("several keys are asked for one after the other, and written together", () =>
    Effect.gen(function* () {
      const { ampoule, env, home, secrets, set } = yield* setUp()
      const running = yield* ampoule.terminal(["secrets", "set", "FIRST", "SECOND"], { home, env })
      yield* running.shows("Value of FIRST")
      running.child.stdin?.write("one\r")
      yield* running.shows("Value of SECOND")
      running.child.stdin?.write("two\r")
      const ended = yield* running.ended
      assert.include(ended.stdout, "SECOND: created, version 1")
      assert.notMatch(ended.stdout, /one|two/)
      assert.strictEqual((yield* secrets("get", "FIRST")).stdout, "one")
      assert.strictEqual((yield* secrets("get", "SECOND")).stdout, "two")
      // A pipe holds one value: it does not become that of two keys.
      const piped = yield* secrets("set", "FIRST", "SECOND")
      assert.strictEqual(piped.code, 2)
      assert.include(piped.stderr, "secrets import -")
      assert.include((yield* set("FIRST", "three")).stderr, "FIRST: updated, version 2")
    })
  )

  it.scoped("takes a value from the command line only when it is asked to, with a warning", () =>
    Effect.gen(function* () {
      const { secrets } = yield* setUp()
      for (const words of [["LEVEL=canary"], ["LEVEL", "canary"], ["LEVEL", "OTHER=canary"]]) {
        const refused = yield* secrets("set", ...words)
        assert.strictEqual(refused.code, 2)
        assert.include(refused.stderr, "not taken from the command line")
        assert.notInclude(refused.stderr, "canary")
      }
      const taken = yield* secrets("set", "LEVEL=debug=1", "EMPTY=", "--from-args")
      assert.strictEqual(taken.code, 0, taken.stderr)
      assert.include(taken.stderr, "history")
      assert.notInclude(taken.stderr, "debug")
      assert.strictEqual((yield* secrets("get", "LEVEL")).stdout, "debug=1")
      assert.strictEqual((yield* secrets("get", "EMPTY")).stdout, "")
      assert.strictEqual((yield* secrets("set", "LEVEL", "--from-args")).code, 2)
    })
  )

  it.scoped("an editor changes an environment: what changed is shown by name, and the file is gone", () =>
    Effect.gen(function* () {
      const { ampoule, env, home, secrets, set } = yield* setUp()
      yield* set("KEEP", "canary-kept")
      yield* set("CHANGE", "canary-old")
      yield* set("DROP", "canary-dropped")
      const log = path.join(home, "seen")
      const editor = (script: string) => {
        const file = path.join(home, "editor.sh")
        fs.writeFileSync(file, `#!/bin/sh\nstat -c '%n %a' "$1" >> '${log}'\n${script}\n`, { mode: 0o755 })
        return { ...env, EDITOR: file }
      }
      const edited = yield* ampoule.terminal(["secrets", "edit"], {
        home,
        env: editor(`sed -i -e "s/canary-old/canary-new/" -e /DROP/d "$1"; echo ADDED=canary-added >> "$1"`)
      })
      yield* edited.shows("[y/N]")
      edited.child.stdin?.write("y\n")
      const ended = yield* edited.ended
      assert.strictEqual(ended.code, 0, ended.stdout)
      for (const line of ["+ ADDED", "~ CHANGE", "- DROP", "1 created, 1 updated, 1 deleted"]) {
        assert.include(ended.stdout, line)
      }
      assert.notInclude(ended.stdout, "canary")
      assert.strictEqual((yield* secrets("get", "CHANGE")).stdout, "canary-new")
      assert.strictEqual((yield* secrets("get", "ADDED")).stdout, "canary-added")
      assert.strictEqual((yield* secrets("get", "KEEP")).stdout, "canary-kept")
      assert.strictEqual((yield* secrets("get", "DROP")).code, 1)
      const [file = "", mode] = fs.readFileSync(log, "utf8").trim().split(" ")
      assert.strictEqual(mode, "600")
      assert.match(file, /^\/dev\/shm\/ampoule-/)
      assert.isFalse(fs.existsSync(path.dirname(file)))

      // What cannot be read is said by its line, and may be opened again; what another wrote meanwhile is not lost.
      const broken = yield* ampoule.terminal(["secrets", "edit", "KEEP"], { home, env: editor('echo "KEEP" > "$1"') })
      yield* broken.shows("Open it again? [y/N]")
      broken.child.stdin?.write("n\n")
      assert.strictEqual((yield* broken.ended).code, 1)
      const late = yield* ampoule.terminal(["secrets", "edit", "KEEP"], {
        home,
        env: editor('echo "KEEP=mine" > "$1"')
      })
      yield* late.shows("[y/N]")
      yield* set("KEEP", "theirs")
      late.child.stdin?.write("y\n")
      yield* late.shows("Somebody else changed development meanwhile")
      late.child.stdin?.write("n\n")
      yield* late.ended
      assert.strictEqual((yield* secrets("get", "KEEP")).stdout, "theirs")
      const stopped = yield* ampoule.terminal(["secrets", "edit"], { home, env: editor("exit 1") })
      yield* stopped.shows("did not end well")
      stopped.child.stdin?.write("n\n")
      assert.strictEqual((yield* stopped.ended).code, 1)
      assert.strictEqual((yield* secrets("edit")).code, 2)
    })
  )

  it.scoped("copies keys with their texts, also one that looks like a template and is none", () =>
    Effect.gen(function* () {
      const { run, secrets, set } = yield* setUp()
      yield* set("HOST", "db")
      yield* set("URL", "postgres://${HOST}")
      yield* set("LITERAL", "a ${HOST} b", "--kind", "literal")
      const copied = yield* secrets("copy", "HOST", "URL", "LITERAL", "--to", "staging")
      assert.strictEqual(copied.code, 0, copied.stderr)
      assert.include(copied.stderr, "staging: URL: created, version 1")
      const there = (...words: ReadonlyArray<string>) => run(["secrets", ...words, "--env", "staging"])
      assert.strictEqual((yield* there("get", "URL", "--source")).stdout, "postgres://${HOST}")
      assert.strictEqual((yield* there("get", "LITERAL")).stdout, "a ${HOST} b")
      assert.strictEqual((yield* secrets("copy", "HOST", "--as", "DB_HOST")).code, 0)
      assert.strictEqual((yield* secrets("get", "DB_HOST")).stdout, "db")
      // What is there is not replaced unasked.
      yield* set("HOST", "other")
      assert.strictEqual((yield* secrets("copy", "HOST", "--to", "staging")).code, 2)
      assert.strictEqual((yield* there("get", "HOST")).stdout, "db")
      assert.include((yield* secrets("copy", "HOST", "--to", "staging", "--yes")).stderr, "HOST: updated")
      const absent = yield* secrets("copy", "NOPE", "--to", "staging")
      assert.strictEqual(absent.code, 1)
      assert.include(absent.stderr, "development has no secret NOPE")
      assert.strictEqual((yield* secrets("copy", "HOST")).code, 2)
    })
  )

  it.scoped("renders a template, all of it or nothing", () =>
    Effect.gen(function* () {
      const { file, home, run, set } = yield* setUp()
      yield* set("USER", "ada")
      yield* set("QUOTE", 'say "hi"\n{{ USER }}')
      const template = file("conf.template", "a={{ USER }} b={{QUOTE|json}} c={{ .Values.x }} d={{ user }}\n")
      const expected = `a=ada b=${JSON.stringify('say "hi"\n{{ USER }}')} c={{ .Values.x }} d={{ user }}\n`
      assert.strictEqual((yield* run(["inject", template])).stdout, expected)
      assert.strictEqual((yield* run(["inject", "-"], { stdin: "{{ USER }}" })).stdout, "ada")
      const written = yield* run(["inject", template, "--out", "conf"])
      assert.deepStrictEqual([written.code, written.stdout], [0, ""])
      assert.strictEqual(fs.readFileSync(path.join(home, "conf"), "utf8"), expected)
      assert.strictEqual(fs.statSync(path.join(home, "conf")).mode & 0o777, 0o600)
      const missing = yield* run(["inject", file("bad.template", "{{ USER }} {{ NOPE }}"), "--out", "conf"])
      assert.strictEqual(missing.code, 1)
      assert.include(missing.stderr, "development has no NOPE")
      assert.strictEqual(fs.readFileSync(path.join(home, "conf"), "utf8"), expected)
    })
  )

  it.scoped("exports what is selected, under the names that a program wants", () =>
    Effect.gen(function* () {
      const { run, secrets, set } = yield* setUp()
      yield* set("DB_HOST", "h")
      yield* set("DB_PORT_NUMBER", "p")
      yield* set("WITH_NUL", "a\0b")
      assert.strictEqual((yield* secrets("export")).code, 1)
      assert.strictEqual((yield* secrets("export", "--except", "*_NUL")).stdout, "DB_HOST='h'\nDB_PORT_NUMBER='p'\n")
      const json = (yield* secrets("export", "--only", "DB_*", "--names", "camel", "--format", "json")).stdout
      assert.deepStrictEqual(JSON.parse(json), { dbHost: "h", dbPortNumber: "p" })
      const typo = yield* secrets("export", "--only", "DB_HOTS")
      assert.strictEqual(typo.code, 1)
      assert.include(typo.stderr, "DB_HOTS")

      const script = 'echo "$TF_VAR_db_host" && echo "$db_host"'
      const terraform = yield* run(["run", "--only", "DB_*", "--names", "tf-var", "--command", script])
      assert.deepStrictEqual([terraform.code, terraform.stdout], [0, "h\n\n"])
      assert.strictEqual((yield* run(["run", "--command", "true", "--", "true"])).code, 2)
      const kept = yield* run(["run", "--only", "DB_*", "--preserve-env", "X,DB_HOST", "--", "printenv"], {
        env: { DB_HOST: "mine", DB_PORT_NUMBER: "mine" }
      })
      assert.include(kept.stdout, "DB_HOST=mine\n")
      assert.include(kept.stdout, "DB_PORT_NUMBER=p\n")
      yield* set("DB__HOST", "2")
      const same = yield* run(["run", "--only", "DB_*", "--names", "lower-kebab", "--", "true"])
      assert.strictEqual(same.code, 125)
      assert.include(same.stderr, "would have one name")
      // The name that the program gets decides whether it is dangerous.
      yield* set("LD_PRELOAD", "x", "--allow", "LD_PRELOAD")
      assert.strictEqual((yield* run(["run", "--only", "LD_*", "--names", "tf-var", "--", "true"])).code, 0)
      assert.strictEqual((yield* run(["run", "--only", "LD_*", "--", "true"])).code, 125)
    })
  )
})

layer(app, { excludeTestServices: true })("the choice of a folder", (it) => {
  it.scoped("`use` writes it, shows it and refuses what is not there; `open` names its page", () =>
    Effect.gen(function* () {
      const { env, home, project, run } = yield* setUp()
      const file = path.join(home, ".ampoule.json")
      fs.writeFileSync(file, JSON.stringify({ project: project.slug, environment: "development", note: "kept" }))
      const used = yield* run(["use", "staging"])
      assert.strictEqual(used.code, 0, used.stderr)
      assert.deepStrictEqual(JSON.parse(fs.readFileSync(file, "utf8")), {
        project: project.slug,
        environment: "staging",
        note: "kept"
      })
      assert.strictEqual((yield* run(["use"])).stdout, `${project.slug} staging\n`)
      // Trusted by it: it chooses at once.
      assert.strictEqual((yield* run(["secrets", "list"])).code, 0)
      const absent = yield* run(["use", "qa"])
      assert.strictEqual(absent.code, 1)
      assert.match(absent.stderr, /It reaches: .*staging/)
      const opened = yield* run(["open"])
      assert.strictEqual(opened.stdout, `${env.AMPOULE_URL}/app/projects/${project.id}/env/staging\n`)
    })
  )

  it.scoped("`init` asks for what it is not told, and imports the .env after a look", () =>
    Effect.gen(function* () {
      const { ampoule, env, project, run } = yield* setUp()
      const other = yield* World.project({ team: project.team })
      const home = yield* ampoule.home
      fs.writeFileSync(path.join(home, ".env"), "FROM_FILE=canary\n")
      const running = yield* ampoule.terminal(["init"], { home, env })
      yield* running.shows("Project (1-2)")
      running.child.stdin?.write(`${other.slug}\n`)
      yield* running.shows("Environment (1-3)")
      running.child.stdin?.write("1\n")
      yield* running.shows("Look at its keys")
      running.child.stdin?.write("y\n")
      yield* running.shows("Write 1 to development?")
      running.child.stdin?.write("y\n")
      const ended = yield* running.ended
      assert.strictEqual(ended.code, 0, ended.stdout)
      assert.include(ended.stdout, "ampoule run -- npm start")
      assert.notInclude(ended.stdout, "canary")
      const choice = { project: other.slug, environment: "development" }
      assert.deepStrictEqual(JSON.parse(fs.readFileSync(path.join(home, ".ampoule.json"), "utf8")), choice)
      assert.strictEqual((yield* run(["secrets", "get", "FROM_FILE"], { home, cwd: home })).stdout, "canary")
      // Without a person, the options say everything.
      const bare = yield* ampoule.home
      assert.strictEqual((yield* run(["init"], { home: bare })).code, 2)
      const told = yield* run(["init", "--project", project.slug, "--env", "staging"], { home: bare })
      assert.strictEqual(told.code, 0, told.stderr)
      assert.strictEqual((yield* run(["use"], { home: bare })).stdout, `${project.slug} staging\n`)
    })
  )
})

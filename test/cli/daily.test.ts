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
        assert.include(refused.stderr, "Values are not accepted on the command line")
        assert.notInclude(refused.stderr, "canary")
      }
      const accepted = yield* secrets("set", "LEVEL=debug=1", "EMPTY=", "--from-args")
      assert.strictEqual(accepted.code, 0, accepted.stderr)
      assert.include(accepted.stderr, "history")
      assert.notInclude(accepted.stderr, "debug")
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

      // An unreadable line is named, and may be opened again; another's write meanwhile is not lost.
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
      yield* late.shows("was changed by someone else in the meantime")
      late.child.stdin?.write("n\n")
      yield* late.ended
      assert.strictEqual((yield* secrets("get", "KEEP")).stdout, "theirs")
      const stopped = yield* ampoule.terminal(["secrets", "edit"], { home, env: editor("exit 1") })
      yield* stopped.shows("The editor failed")
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
      // An existing file is not replaced unasked.
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

  it.scoped("renames a secret with its history, and what refers to it when it is asked to", () =>
    Effect.gen(function* () {
      const { secrets, set } = yield* setUp()
      yield* set("PASS", "one")
      yield* set("PASS", "two")
      yield* set("URL", "x-${PASS}")
      const refused = yield* secrets("rename", "PASS", "PASSWORD")
      assert.strictEqual(refused.code, 1)
      assert.include(refused.stderr, "--rewrite")
      assert.include(refused.stderr, "dependents: URL")
      const renamed = yield* secrets("rename", "PASS", "PASSWORD", "--rewrite")
      assert.strictEqual(renamed.code, 0, renamed.stderr)
      assert.include(renamed.stderr, "PASS: is now PASSWORD, version 3\nupdated to the new key: URL\n")
      assert.match((yield* secrets("history", "PASSWORD")).stdout, /\n3 +literal.*\n2 \(as PASS\) +literal/)
      yield* secrets("rollback", "PASSWORD", "1")
      assert.strictEqual((yield* secrets("get", "URL")).stdout, "x-one")
      const dangerous = yield* secrets("rename", "PASSWORD", "NODE_OPTIONS", "--rewrite")
      assert.strictEqual(dangerous.code, 1)
      assert.include(dangerous.stderr, "--allow NODE_OPTIONS")
      assert.include((yield* secrets("rename", "NOPE", "OTHER")).stderr, "has no secret NOPE")
    })
  )

  it.scoped("takes an environment back to a moment, after it named what changes", () =>
    Effect.gen(function* () {
      const { run, secrets, set } = yield* setUp()
      yield* set("KEPT", "one")
      yield* set("DROPPED", "two")
      const history = yield* secrets("history", "DROPPED", "--json")
      const moment = /"createdAt": "([^"]+)"/.exec(history.stdout)?.[1] ?? assert.fail(history.stdout)
      yield* set("KEPT", "canary-later")
      yield* secrets("unset", "DROPPED")
      yield* set("LATER", "three")
      const looked = yield* run(["restore", "--at", moment, "--dry-run"])
      assert.deepStrictEqual([looked.code, looked.stdout], [0, "+ DROPPED\n~ KEPT\n- LATER\n"], looked.stderr)
      assert.strictEqual((yield* secrets("get", "KEPT")).stdout, "canary-later")
      // Without a terminal it asks no question, and writes nothing.
      assert.notStrictEqual((yield* run(["restore", "--at", moment])).code, 0)
      const back = yield* run(["restore", `--at=${moment}`, "--yes"])
      assert.strictEqual(back.code, 0, back.stderr)
      assert.include(back.stderr, "3 changed")
      assert.strictEqual((yield* secrets("get", "KEPT")).stdout, "one")
      assert.strictEqual((yield* secrets("get", "DROPPED")).stdout, "two")
      assert.strictEqual((yield* secrets("get", "LATER")).code, 1)
      assert.include((yield* run(["restore", "--at", moment, "--yes"])).stderr, "is already as it was")
      assert.include((yield* run(["restore", "--at", "soon"])).stderr, "how long ago")
    })
  )

  it.scoped("says who looks after a secret and by which day its value is replaced", () =>
    Effect.gen(function* () {
      const { secrets, set } = yield* setUp()
      yield* set("STRIPE_KEY", "canary-value")
      yield* set("OTHER", "x")
      assert.include((yield* secrets("notes")).stderr, "no owner, note, rotation date or tags")
      const words = ["--owner", "payments team", "--rotate-by", "2001-02-03", "--text", "restricted key"]
      const written = yield* secrets("note", "STRIPE_KEY", ...words)
      assert.strictEqual(written.code, 0, written.stderr)
      assert.include(written.stderr, "STRIPE_KEY: saved")
      for (const shown of [written, yield* secrets("note", "STRIPE_KEY")]) {
        assert.strictEqual(
          shown.stdout,
          "owner       payments team\nreplace by  2001-02-03\ntags        -\nnote        restricted key\n"
        )
      }
      const listed = yield* secrets("notes")
      assert.match(listed.stdout, /STRIPE_KEY +payments team +2001-02-03 \(due\) +- +restricted key\n$/)
      assert.notInclude(listed.stdout, "OTHER")
      assert.strictEqual((yield* secrets("notes", "--due", "--exit-code")).code, 1)
      assert.include((yield* secrets("get", "STRIPE_KEY", "--json")).stdout, '"version": 1')
      yield* secrets("note", "STRIPE_KEY", "--tags", "pci, billing")
      assert.match((yield* secrets("notes")).stdout, /\(due\) +billing, pci +restricted/)
      assert.strictEqual((yield* secrets("note", "STRIPE_KEY", "--tags", "Two")).code, 2)
      yield* secrets("note", "STRIPE_KEY", "--rotate-by", "")
      assert.include((yield* secrets("notes", "--due")).stderr, "No value is due")
      assert.include((yield* secrets("note", "STRIPE_KEY", "--json")).stdout, '"rotateBy": null')
      assert.strictEqual((yield* secrets("note", "STRIPE_KEY", "--rotate-by", "soon")).code, 2)
      assert.include((yield* secrets("note", "NOPE", "--owner", "x")).stderr, "has no secret NOPE")
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

  it.scoped("follows the environment and the template with a file, and tells a program", () =>
    Effect.gen(function* () {
      const { ampoule, env, file, home, run, set } = yield* setUp()
      yield* set("USER", "ada")
      const template = file("app.template", "user={{ USER }}\n")
      const out = path.join(home, "app.conf")
      const signalled = yield* ampoule.shell(
        "trap 'echo told; cat app.conf' USR1; echo ready; while :; do sleep 0.02; done",
        {
          home
        }
      )
      yield* signalled.shows("ready")
      file("app.pid", `${signalled.child.pid}\n`)
      const watch = ["--out", "app.conf", "--watch", "--watch-interval", "1s", "--signal", "usr1"]
      const running = yield* ampoule.start(["inject", template, ...watch, "--pid-file", "app.pid"], { home, env })
      yield* running.shows("was written, readable only by you")
      yield* set("USER", "grace")
      yield* signalled.shows("user=grace")
      assert.strictEqual(fs.statSync(out).mode & 0o777, 0o600)
      // A template that cannot be rendered leaves the file; one that can is written; a program that is gone is no end.
      file("app.template", "user={{ NOPE }}\n")
      yield* running.shows("development has no NOPE")
      assert.strictEqual(fs.readFileSync(out, "utf8"), "user=grace\n")
      file("app.pid", "none")
      file("app.template", "name={{ USER }}\n")
      yield* running.shows("app.pid does not hold a process id")
      assert.strictEqual(fs.readFileSync(out, "utf8"), "name=grace\n")
      assert.strictEqual(signalled.output.stdout.split("told").length, 2)
      running.child.kill("SIGTERM")
      const ended = yield* running.ended
      assert.strictEqual(ended.signal, "SIGTERM")
      assert.notInclude(ended.stderr, "grace")
      for (const words of [
        ["--watch"],
        ["--out", "x", "--watch", "--signal", "USR1"],
        ["--out", "x", "--watch", "--signal", "LOUD", "--pid", "2"],
        ["--out", "x", "--watch", "--pid", "1"],
        ["--out", "x", "--pid", "2"],
        ["--out", "x", "--watch", "--watch-interval", "0"]
      ]) {
        assert.strictEqual((yield* run(["inject", template, ...words])).code, 2, words.join(" "))
      }
      assert.isFalse(fs.existsSync(path.join(home, "x")))
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
      assert.include(same.stderr, "would have the same name")
      // The name that the program gets decides whether it is dangerous.
      yield* set("LD_PRELOAD", "x", "--allow", "LD_PRELOAD")
      assert.strictEqual((yield* run(["run", "--only", "LD_*", "--names", "tf-var", "--", "true"])).code, 0)
      assert.strictEqual((yield* run(["run", "--only", "LD_*", "--", "true"])).code, 125)
    })
  )
})

layer(app, { excludeTestServices: true })("the choice of a folder", (it) => {
  it.scoped("`use` writes it, shows it and refuses a missing one; `open` names its page", () =>
    Effect.gen(function* () {
      const { env, home, project, run } = yield* setUp()
      const file = path.join(home, ".ampoule.json")
      fs.writeFileSync(file, JSON.stringify({ project: project.slug, environment: "development", note: "kept" }))
      const unread = yield* run(["use", "staging"])
      assert.strictEqual(unread.code, 2)
      assert.include(unread.stderr, "not trusted yet")
      const used = yield* run(["use", "staging", "--project", project.slug])
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
      const url = `${env.AMPOULE_URL}/app/projects/${project.id}/env/staging`
      assert.strictEqual(opened.stdout, `${url}\n`)
      assert.deepStrictEqual(JSON.parse((yield* run(["open", "--json"])).stdout), { url })
      // A plan of many shows its first names.
      fs.writeFileSync(path.join(home, "many.env"), Array.from({ length: 60 }, (_, i) => `KEY_${i}=x\n`).join(""))
      const plan = yield* run(["secrets", "import", "many.env", "--dry-run"])
      assert.include(plan.stderr, "+ KEY_19\n+ … and 40 more\n60 new")
      assert.notInclude(plan.stderr, "KEY_20")
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
      yield* running.shows("Show its keys")
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
      const init = yield* run(["init", "--project", project.slug, "--env", "staging"], { home: bare })
      assert.strictEqual(init.code, 0, init.stderr)
      assert.strictEqual((yield* run(["use"], { home: bare })).stdout, `${project.slug} staging\n`)
    })
  )
})

import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as path from "node:path"
import { parsed } from "#test/support/Json.ts"
import { Ampoule } from "./Ampoule.ts"
import * as FakeServer from "./FakeServer.ts"
import { project, token, withServer } from "./WithServer.ts"

const node = process.execPath
/** Prints the variables named, as JSON, one array. */
const printed = Schema.Array(Schema.NullOr(Schema.String))
const print = (...names: ReadonlyArray<string>) => [
  node,
  "-e",
  `process.stdout.write(JSON.stringify(${JSON.stringify(names)}.map((name) => process.env[name] ?? null)))`
]

layer(Ampoule.Default, { excludeTestServices: true })("ampoule run", (it) => {
  it.scoped("gives the environment to the command with one request", () =>
    Effect.gen(function* () {
      const { run, server } = yield* withServer({ DATABASE_URL: "postgres://x", MULTI: "a\nb", EMPTY: "" })
      const ended = yield* run([...project, "--", ...print("DATABASE_URL", "MULTI", "EMPTY")])
      assert.deepStrictEqual(JSON.parse(ended.stdout), ["postgres://x", "a\nb", ""])
      assert.deepStrictEqual([ended.code, ended.stderr], [0, ""])
      assert.deepStrictEqual(
        server.asked.map(({ method, path }) => `${method} ${path}`),
        ["GET /secrets/inject"]
      )
      const [asked] = server.asked
      assert.strictEqual(asked?.headers.authorization, `Bearer ${token}`)
      assert.strictEqual(asked?.headers["user-agent"], "ampoule-cli/1.1.0")
      assert.deepStrictEqual(Object.fromEntries(asked?.query ?? []), {
        projectId: FakeServer.projectId,
        environment: "development"
      })
    })
  )

  it.scoped("adds one request on one connection, whatever is asked of it, in the short form and by the parser", () =>
    Effect.gen(function* () {
      const { run, server } = yield* withServer({ A: "value-of-a", B: "b" })
      const home = yield* Effect.flatMap(Ampoule, (ampoule) => ampoule.home)
      // The id of a slug is remembered; so is the trust in a file.
      yield* run(["-p", "demo", "-e", "development", "--", "true"], { home })
      fs.writeFileSync(path.join(home, ".ampoule.json"), '{"project":"demo","environment":"development"}')
      yield* Effect.flatMap(Ampoule, (ampoule) => ampoule.run(["trust"], { home }))
      // So is that the credential reaches more than one environment.
      yield* run(["--", "true"], { home })
      for (const words of [
        project,
        [],
        ["-p", "demo", "-e", "development"],
        ["--env=development"],
        ["--redact"],
        ["--only", "A", "--names", "camel"],
        ["--mount", "values.env"],
        ["--offline"],
        ["--offline", "--offline-max-age", "1h", "--no-override"]
      ]) {
        const before = [server.asked.length, server.connections] as const
        const ended = yield* run([...words, "--", "true"], { home })
        assert.strictEqual(ended.code, 0, ended.stderr)
        const requests = server.asked.slice(before[0]).map(({ method, path }) => `${method} ${path}`)
        assert.deepStrictEqual(
          [requests, server.connections - before[1]],
          [["GET /secrets/inject"], 1],
          words.join(" ")
        )
      }
    })
  )

  it.scoped("takes a slug, and asks for its id once only", () =>
    Effect.gen(function* () {
      const { run, server } = yield* withServer({ A: "1" })
      const home = yield* Effect.flatMap(Ampoule, (ampoule) => ampoule.home)
      for (let i = 0; i < 2; i++) {
        const ended = yield* run(["-p", "demo", "--environment", "development", "--", "true"], { home })
        assert.strictEqual(ended.code, 0)
      }
      assert.deepStrictEqual(
        server.asked.map(({ path }) => path),
        ["/projects", "/secrets/inject", "/secrets/inject"]
      )
    })
  )

  it.scoped("looks a remembered id up again when the project is gone", () =>
    Effect.gen(function* () {
      const { run, server } = yield* withServer({ A: "1" })
      const home = yield* Effect.flatMap(Ampoule, (ampoule) => ampoule.home)
      yield* run(["-p", "demo", "-e", "development", "--", "true"], { home })
      const good = server.answer
      const other = "01980a5e-7c11-7b3a-9d54-aaaaaaaaaaaa"
      server.answer = (asked) => {
        if (typeof good === "string") return undefined
        if (asked.path === "/projects") {
          const answer = good(asked)
          return { body: JSON.parse(JSON.stringify(answer?.body).replaceAll(FakeServer.projectId, other)) }
        }
        return asked.query.get("projectId") === other ? good(asked) : FakeServer.refusal(404, "PROJECT_NOT_FOUND")
      }
      const ended = yield* run(["-p", "demo", "-e", "development", "--", ...print("A")], { home })
      assert.strictEqual(ended.stdout, '["1"]')
    })
  )

  it.scoped("finds project and environment in .ampoule.json upwards", () =>
    Effect.gen(function* () {
      const { run, server } = yield* withServer({ A: "1" })
      const home = yield* Effect.flatMap(Ampoule, (ampoule) => ampoule.home)
      const deep = path.join(home, "a", "b", "c")
      fs.mkdirSync(deep, { recursive: true })
      fs.writeFileSync(
        path.join(home, "a", ".ampoule.json"),
        '{"project":"demo","environment":"staging","url":"http://x"}'
      )
      yield* Effect.flatMap(Ampoule, (ampoule) => ampoule.run(["trust"], { home, cwd: deep }))
      const ended = yield* run(["--", ...print("A")], { home, cwd: deep })
      assert.deepStrictEqual([ended.code, ended.stdout], [0, '["1"]'])
      assert.strictEqual(server.asked.at(-1)?.query.get("environment"), "staging")

      const overridden = yield* run(["--env", "production", "--", "true"], { home, cwd: deep })
      assert.strictEqual(overridden.code, 0)
      assert.strictEqual(server.asked.at(-1)?.query.get("environment"), "production")
    })
  )

  it.scoped("ends with the exit code of the command", () =>
    Effect.gen(function* () {
      const { run } = yield* withServer({ A: "1" })
      const code = (...command: ReadonlyArray<string>) => Effect.map(run([...project, "--", ...command]), (e) => e.code)
      assert.strictEqual(yield* code("sh", "-c", "exit 0"), 0)
      assert.strictEqual(yield* code("sh", "-c", "exit 1"), 1)
      assert.strictEqual(yield* code("sh", "-c", "exit 42"), 42)
      assert.strictEqual(yield* code("no-such-command-anywhere"), 127)
      assert.strictEqual(yield* code("/etc/passwd"), 126)
      assert.strictEqual(yield* code("/"), 126)
    })
  )

  it.scoped("fails with 125 when it cannot get the environment, with 2 when used wrongly", () =>
    Effect.gen(function* () {
      const { run, server } = yield* withServer({ A: "1" })
      const marker = path.join(yield* Effect.flatMap(Ampoule, (ampoule) => ampoule.home), "ran")
      const touch = ["--", "touch", marker]
      for (const args of [
        [],
        project,
        [...project, "--"],
        ["--env", "development", ...touch],
        ["-p", "demo", "-e", "NOT A SLUG", ...touch]
      ]) {
        assert.strictEqual((yield* run(args)).code, 2, args.join(" "))
      }
      server.answer = () => FakeServer.refusal(401, "CREDENTIAL_REVOKED")
      const refused = yield* run([...project, ...touch])
      assert.strictEqual(refused.code, 125)
      assert.include(refused.stderr, "CREDENTIAL_REVOKED")
      const nobody = yield* run([...project, ...touch], { env: { AMPOULE_API_TOKEN: "" } })
      assert.strictEqual(nobody.code, 125)
      assert.include(nobody.stderr, "No credential")
      assert.isFalse(fs.existsSync(marker))
    })
  )

  it.scoped("says in a plain sentence what a proxy answered instead", () =>
    Effect.gen(function* () {
      const { run, server } = yield* withServer({})
      const answers: ReadonlyArray<readonly [FakeServer.Answer, string]> = [
        [{ status: 502, body: "<html>Bad Gateway</html>" }, "a web page instead of JSON"],
        [{ status: 200, body: "<html>Sign in to the Wi-Fi</html>" }, "a web page instead of JSON"],
        [{ status: 302, headers: { location: "https://elsewhere.example" } }, "a redirect"],
        [{ status: 200, body: { hello: "world" } }, "not an answer of this service"],
        [{ status: 500, body: { error: "other" } }, "not an answer of this service"],
        [{ status: 200, body: { values: { lower: "x" }, revision: 1 } }, "a name that is not a secret key"]
      ]
      for (const [answer, sentence] of answers) {
        server.answer = () => answer
        const ended = yield* run([...project, "--", "true"])
        assert.strictEqual(ended.code, 125)
        assert.include(ended.stderr, sentence)
        assert.notInclude(ended.stderr, "internal error")
        assert.notInclude(ended.stderr, "    at ")
      }
      server.answer = "gone"
      const cut = yield* run([...project, "--", "true"])
      assert.strictEqual(cut.code, 125)
      assert.include(cut.stderr, "the connection was closed")
    })
  )

  it.scoped("passes standard input, output and error through, and everything after -- untouched", () =>
    Effect.gen(function* () {
      const { run } = yield* withServer({ A: "1" })
      const echoed = yield* run([...project, "--", "sh", "-c", "cat; echo err >&2"], { stdin: "some input\n" })
      assert.deepStrictEqual([echoed.stdout, echoed.stderr], ["some input\n", "err\n"])
      const script = "process.stdout.write(JSON.stringify(process.argv.slice(1)))"
      const args = ["--token", "x", "--help", "--", "--project", "y", "-p"]
      const passed = yield* run([...project, "--", node, "-e", script, "--", ...args])
      assert.deepStrictEqual(JSON.parse(passed.stdout), args)
    })
  )

  it.scoped("keeps its own credentials from the command unless told otherwise", () =>
    Effect.gen(function* () {
      const { run } = yield* withServer({ A: "1" })
      const names = [
        "AMPOULE_API_TOKEN",
        "AMPOULE_TOKEN",
        "AMPOULE_ROOT_KEY",
        "AMPOULE_SETUP_CODE",
        "AMPOULE_URL",
        "OTHER"
      ]
      const env = { AMPOULE_TOKEN: "t2", AMPOULE_ROOT_KEY: "k", AMPOULE_SETUP_CODE: "s", OTHER: "o" }
      const kept = yield* run([...project, "--", ...print(...names)], { env })
      assert.deepStrictEqual(
        parsed(printed)(kept.stdout).map((value) => value !== null),
        [false, false, false, false, true, true]
      )
      const passed = yield* run([...project, "--pass-credentials", "--", ...print(...names)], { env })
      assert.deepStrictEqual(parsed(printed)(passed.stdout).slice(0, 4), [token, "t2", "k", "s"])
    })
  )

  it.scoped("lets the secret win over a variable that is set, or with --no-override the variable", () =>
    Effect.gen(function* () {
      const { run } = yield* withServer({ LEVEL: "from secret", FRESH: "new" })
      const env = { LEVEL: "from outside" }
      const wins = yield* run([...project, "--", ...print("LEVEL", "FRESH")], { env })
      assert.deepStrictEqual(JSON.parse(wins.stdout), ["from secret", "new"])
      const keeps = yield* run([...project, "--no-override", "--", ...print("LEVEL", "FRESH")], { env })
      assert.deepStrictEqual(JSON.parse(keeps.stdout), ["from outside", "new"])
    })
  )

  it.scoped("refuses names that change which code runs, unless they are allowed or left out", () =>
    Effect.gen(function* () {
      const { run } = yield* withServer({ A: "1", NODE_OPTIONS: "--title=x", LD_PRELOAD: "/evil.so", PATH: "/evil" })
      const refused = yield* run([...project, "--", "true"])
      assert.strictEqual(refused.code, 125)
      assert.include(refused.stderr, "LD_PRELOAD, NODE_OPTIONS, PATH")
      const allowed = yield* run([
        ...project,
        "--allow",
        "NODE_OPTIONS",
        "--except",
        "LD_PRELOAD",
        "--except",
        "PATH",
        "--",
        ...print("NODE_OPTIONS", "A")
      ])
      assert.deepStrictEqual(JSON.parse(allowed.stdout), ["--title=x", "1"])
    })
  )

  it.scoped("names the key of a value that no variable can hold", () =>
    Effect.gen(function* () {
      const { run } = yield* withServer({ FINE: "1", WITH_NUL: "canary\0canary", LONG: "canary".repeat(40_000) })
      const nul = yield* run([...project, "--", "true"])
      assert.strictEqual(nul.code, 125)
      assert.include(nul.stderr, "WITH_NUL")
      const long = yield* run([...project, "--except", "WITH_NUL", "--", "true"])
      assert.strictEqual(long.code, 125)
      assert.include(long.stderr, "LONG")
      assert.notInclude(nul.stderr + long.stderr, "canary")
      assert.strictEqual((yield* run([...project, "--only", "FINE", "--", "true"])).code, 0)
    })
  )

  it.scoped("names the longest keys when all together are too much for the system", () =>
    Effect.gen(function* () {
      const values = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`BIG_${i}`, "x".repeat(120_000)]))
      const { run } = yield* withServer({ ...values, FINE: "1" })
      const ended = yield* run([...project, "--", "true"])
      assert.strictEqual(ended.code, 125)
      assert.include(ended.stderr, "BIG_")
      assert.strictEqual((yield* run([...project, "--except", "BIG_*", "--", "true"])).code, 0)
    })
  )

  it.scoped("passes only the keys that are asked for", () =>
    Effect.gen(function* () {
      const { run } = yield* withServer({ DB_HOST: "h", DB_PORT: "p", API_KEY: "k" })
      const names = ["DB_HOST", "DB_PORT", "API_KEY"]
      const got = (...options: ReadonlyArray<string>) =>
        Effect.map(run([...project, ...options, "--", ...print(...names)]), ({ stdout }) => JSON.parse(stdout))
      assert.deepStrictEqual(yield* got("--only", "DB_*"), ["h", "p", null])
      assert.deepStrictEqual(yield* got("--only", "DB_*", "--except", "*_PORT"), ["h", null, null])
      assert.deepStrictEqual(yield* got("--prefix", "API_"), [null, null, "k"])
      const typo = yield* run([...project, "--only", "DB_HOTS", "--", "true"])
      assert.strictEqual(typo.code, 125)
      assert.include(typo.stderr, "DB_HOTS")
    })
  )

  it.scoped("masks values in the output, also of one that comes in pieces", () =>
    Effect.gen(function* () {
      const { run } = yield* withServer({ KEY: "hunter2hunter2", PEM: "first-line\nsecond-line", PIN: "42" })
      const script = `
        const write = (s) => new Promise((r) => process.stdout.write(s, r))
        const pause = () => new Promise((r) => setTimeout(r, 60))
        await write("a hunter2"); await pause(); await write("hunter2 b\\n"); await write("x first-l"); await pause()
        await write("ine y\\nsecond-line\\n"); process.stderr.write("err hunter2hunter2\\n"); await write("hunter2"); process.exitCode = 3`
      const ended = yield* run([...project, "--redact", "--", node, "--input-type=module", "-e", script])
      assert.strictEqual(ended.stdout, "a [redacted] b\nx [redacted] y\n[redacted]\nhunter2")
      assert.include(ended.stderr, "err [redacted]\n")
      assert.include(ended.stderr, "PIN")
      assert.strictEqual(ended.code, 3)
    })
  )

  it.scoped("mounts the values in a pipe that is read once, and is gone however the command ends", () =>
    Effect.gen(function* () {
      const values = { DB_URL: "postgres://x", OTHER: "y".repeat(200_000), PATH: "/evil" }
      const { run, start } = yield* withServer(values)
      const home = yield* Effect.flatMap(Ampoule, (ampoule) => ampoule.home)
      const file = path.join(home, "s.json")
      const script = `stat -c '%F %a' s.json; cat s.json; cat s.json || echo "; gone; $DB_URL; $FINE"; exit 7`
      const ended = yield* run([...project, "--mount", "s.json", "--", "sh", "-c", script], {
        home,
        env: { FINE: "inherited" }
      })
      assert.strictEqual(ended.code, 7, ended.stderr)
      const [kind, content, after] = /^(.*)\n([^]*\})\s*(;[^]*)$/.exec(ended.stdout)?.slice(1) ?? []
      assert.deepStrictEqual([kind, after], ["fifo 600", "; gone; ; inherited\n"])
      assert.deepStrictEqual(JSON.parse(content ?? ""), values)
      assert.isFalse(fs.existsSync(file))

      // By its name, or as --mount-format says; with the selection of `run`.
      const formats = [
        [["--mount", "v.env"], "DB_URL='postgres://x'\n"],
        [["--mount", "v.env", "--mount-format", "yaml", "--names", "camel"], 'dbUrl: "postgres://x"\n']
      ] as const
      for (const [options, text] of formats) {
        const read = yield* run([...project, ...options, "--only", "DB_URL", "--", "cat", "v.env"], { home })
        assert.deepStrictEqual([read.code, read.stdout, read.stderr], [0, text, ""])
      }

      // Nobody reads: the command ends as it likes, also by a signal, and nothing is left.
      assert.strictEqual((yield* run([...project, "--mount", "s.json", "--", "true"], { home })).code, 0)
      const waiting = yield* start([...project, "--mount", "s.json", "--", "sh", "-c", "echo ready; exec sleep 30"], {
        home,
        detached: true
      })
      yield* waiting.shows("ready")
      assert.isTrue(fs.statSync(file).isFIFO())
      waiting.child.kill("SIGTERM")
      assert.strictEqual((yield* waiting.ended).signal, "SIGTERM")
      assert.isFalse(fs.existsSync(file))

      // An existing file is not replaced, and a file that appears there later gets nothing.
      fs.writeFileSync(file, "mine")
      const refused = yield* run([...project, "--mount", "s.json", "--", "true"], { home })
      assert.strictEqual(refused.code, 125)
      assert.include(refused.stderr, "a file of that name exists")
      const swap = "rm b.json; echo theirs > b.json; sleep 0.3; cat b.json"
      const swapped = yield* run([...project, "--mount", "b.json", "--", "sh", "-c", swap], { home })
      assert.strictEqual(swapped.stdout, "theirs\n")
      assert.deepStrictEqual([fs.readFileSync(file, "utf8"), fs.existsSync(path.join(home, "b.json"))], ["mine", true])
    })
  )
})

layer(Ampoule.Default, { excludeTestServices: true })("signals of ampoule run", (it) => {
  /** Counts what it gets, says so, and ends with 40 + the count. */
  const counting = (signal: string) => [
    node,
    "-e",
    `let count = 0
     process.on(${JSON.stringify(signal)}, () => { if (count++ === 0) setTimeout(() => process.exit(40 + count), 400) })
     setInterval(() => {}, 1000)
     console.log("ready")`
  ]

  for (const signal of ["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2"] as const) {
    it.scoped(`hands ${signal} on to the command, once, and waits for it`, () =>
      Effect.gen(function* () {
        const { start } = yield* withServer({ A: "1" })
        const running = yield* start([...project, "--", ...counting(signal)], { detached: true })
        yield* running.shows("ready")
        running.child.kill(signal)
        const ended = yield* running.ended
        assert.deepStrictEqual([ended.code, ended.signal], [41, null])
      })
    )
  }

  for (const options of [[], ["--redact"]]) {
    it.scoped(`dies by the signal that ended the command: run ${options.join(" ")}`, () =>
      Effect.gen(function* () {
        const { run } = yield* withServer({ A: "1" })
        const by = (signal: string) => run([...project, ...options, "--", "sh", "-c", `kill -${signal} $$`])
        for (const signal of ["TERM", "KILL", "INT", "HUP", "USR2"]) {
          assert.strictEqual(String((yield* by(signal)).signal), `SIG${signal}`)
        }
        // These leave a core: ours could hold values.
        if (options.length > 0) assert.strictEqual((yield* by("QUIT")).code, 131)
      })
    )
  }

  it.scoped("^C ends a shell's loop, as it does without ampoule", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const { options } = yield* withServer({ A: "1" })
      for (const more of [[], ["--redact"]]) {
        const command = ampoule.line(["run", ...project, ...more, "--", "sh", "-c", "echo turn; exec sleep 20"])
        // A shell of its own: what it does after ^C is what is looked at.
        const loop = options({ env: { LOOP: `for i in 1 2 3; do ${command}; done; echo after` } })
        const running = yield* ampoule.inTerminal('stty -echo; exec bash -c "$LOOP"', loop)
        yield* running.shows("turn")
        running.child.stdin?.write("\u0003")
        yield* running.ended
        assert.strictEqual(running.output.stdout.split("turn").length, 2, running.output.stdout)
        assert.notInclude(running.output.stdout, "after")
      }
    })
  )

  it.scoped("dies by a signal that comes while the environment is asked for", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const marker = path.join(yield* ampoule.home, "ran")
      // Accepts connections and never answers.
      const silent = yield* Effect.acquireRelease(
        Effect.promise(async () => {
          const { createServer } = await import("node:net")
          const server = createServer(() => {})
          await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
          return server
        }),
        (server) => Effect.sync(() => server.close())
      )
      const address = silent.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      const connection = new Promise<void>((resolve) => silent.once("connection", () => resolve()))
      const running = yield* ampoule.start(["run", ...project, "--", "touch", marker], {
        env: { AMPOULE_URL: `http://127.0.0.1:${port}`, AMPOULE_API_TOKEN: token },
        detached: true
      })
      yield* Effect.promise(() => connection)
      running.child.kill("SIGTERM")
      assert.strictEqual((yield* running.ended).signal, "SIGTERM")
      assert.isFalse(fs.existsSync(marker))
    })
  )

  it.scoped("under a terminal, ^C reaches the command once: the terminal sent it", () =>
    Effect.gen(function* () {
      const { terminal } = yield* withServer({ A: "1" })
      const running = yield* terminal([...project, "--", ...counting("SIGINT")])
      yield* running.shows("ready")
      running.child.stdin?.write("\u0003")
      const ended = yield* running.ended
      assert.strictEqual(ended.code, 41)
    })
  )

  it.scoped("under a terminal, the command has the terminal", () =>
    Effect.gen(function* () {
      const { terminal } = yield* withServer({ A: "1" })
      const running = yield* terminal([...project, "--", "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && echo yes"])
      const ended = yield* running.ended
      assert.strictEqual(ended.code, 0)
      assert.include(ended.stdout, "yes")
    })
  )

  /** Tells its own process and its parent, counts signals, and ends with 40 and their number. */
  const telling = (signal: string) => [
    node,
    "-e",
    `let count = 0
     process.on(${JSON.stringify(signal)}, () => { if (count++ === 0) setTimeout(() => process.exit(40 + count), 1000) })
     setInterval(() => {}, 1000)
     console.log("child=" + process.pid + " parent=" + process.ppid + " ready")`
  ]
  /** Of \`ampoule\`: the child itself where it became the child. */
  const pidOf = (stdout: string): number => {
    const [, child, parent] = /child=(\d+) parent=(\d+) /.exec(stdout) ?? []
    const command = fs.readFileSync(`/proc/${parent}/cmdline`, "utf8")
    return Number(command.includes("ampoule.cjs\0run") ? parent : child)
  }

  for (const options of [[], ["--watch"]]) {
    for (const signal of ["SIGTERM", "SIGINT", "SIGQUIT"] as const) {
      it.scoped(`under a terminal, ${signal} to its pid reaches the command, once: run ${options.join(" ")}`, () =>
        Effect.gen(function* () {
          const { terminal } = yield* withServer({ A: "1" })
          const running = yield* terminal([...project, ...options, "--", ...telling(signal)])
          yield* running.shows(" ready")
          process.kill(pidOf(running.output.stdout), signal)
          assert.strictEqual((yield* running.ended).code, 41)
        })
      )
    }

    it.scoped(`stops with the command and goes on with it: run ${options.join(" ")}`, () =>
      Effect.gen(function* () {
        const server = yield* withServer({ A: "1" })
        const ampoule = yield* Ampoule
        // A job of a shell: the system stops nothing that no shell could continue.
        const command = ampoule.line(["run", ...project, ...options, "--", ...telling("SIGTERM")])
        const job = server.options({ env: { JOB: `${command} & wait -f $!` } })
        const running = yield* ampoule.inTerminal('stty -echo; exec bash -mc "$JOB"', job)
        yield* running.shows(" ready")
        const pid = pidOf(running.output.stdout)
        const child = Number(/child=(\d+)/.exec(running.output.stdout)?.[1])
        const are = (state: string) =>
          Effect.suspend(() =>
            [pid, child].every((one) => fs.readFileSync(`/proc/${one}/status`, "utf8").includes(`State:\t${state}`))
              ? Effect.void
              : Effect.fail("not yet")
          ).pipe(Effect.retry(Schedule.spaced("20 millis")), Effect.timeout("20 seconds"))
        process.kill(pid, "SIGTSTP")
        yield* are("T")
        process.kill(pid, "SIGCONT")
        yield* are("S")
        process.kill(pid, "SIGTERM")
        assert.strictEqual((yield* running.ended).code, 41)
      })
    )
  }

  it.scoped("a Node that can become another program becomes the command", () =>
    Effect.gen(function* () {
      const { start } = yield* withServer({ A: "1" })
      const running = yield* start([...project, "--", ...telling("SIGTERM")], { detached: true })
      yield* running.shows(" ready")
      const { pid } = running.child
      const [major = 0, minor = 0] = (yield* Ampoule).nodeVersion
      const child = Number(/child=(\d+)/.exec(running.output.stdout)?.[1])
      assert.strictEqual(child === pid, major > 22 || (major === 22 && minor >= 15))
      running.child.kill("SIGTERM")
      assert.strictEqual((yield* running.ended).code, 41)
    })
  )

  it.scoped("the command has pipes that wait, and dies when nobody reads them", () =>
    Effect.gen(function* () {
      const { options, start } = yield* withServer({ A: "1" })
      const copied = yield* start([...project, "--", "sh", "-c", "echo ready >&2; exec cat"])
      yield* copied.shows("ready")
      // More than a pipe holds; before that, nothing: `cat` ends with an error where the pipe does not wait.
      const text = "x".repeat(300_000)
      copied.child.stdin?.end(text)
      const { code, stderr, stdout } = yield* copied.ended
      assert.deepStrictEqual([code, stderr, stdout.length], [0, "ready\n", text.length])
      const ampoule = yield* Ampoule
      const line = ampoule.line(["run", ...project, "--", "sh", "-c", "yes; echo $? >&2"])
      const cut = yield* Effect.flatMap(ampoule.shell(`${line} | head -1`, options()), ({ ended }) => ended)
      assert.deepStrictEqual([cut.stdout, cut.stderr], ["y\n", "141\n"])
    })
  )

  it.scoped("no signal opens the debugger", () =>
    Effect.gen(function* () {
      const { start } = yield* withServer({ A: "1" })
      const running = yield* start([...project, "--", "sh", "-c", "trap '' USR1; echo ready; sleep 1"], {
        detached: true
      })
      yield* running.shows("ready")
      running.child.kill("SIGUSR1")
      const ended = yield* running.ended
      assert.notInclude(ended.stderr, "Debugger listening")
    })
  )
})

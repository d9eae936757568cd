import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as path from "node:path"
import { VerifyAuthResponse } from "#schema/IdentityApi.ts"
import { Setup } from "#src/credentials/Setup.ts"
import { Listening } from "#src/http/engine/Server.ts"
import { parsed, TextsByName } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { Ampoule, type RunOptions } from "./Ampoule.ts"
import * as FakeServer from "./FakeServer.ts"

const credentialsOf = parsed(TextsByName)
const loginsOf = parsed(Schema.Struct({ installationId: Schema.String }))

const app = Layer.merge(TestApp.unlimited, Ampoule.Default)
const scopes = ["identity:read", "projects:read", "secrets:read", "secrets:run"]

const setUp = Effect.gen(function* () {
  const ampoule = yield* Ampoule
  const { port } = yield* Listening
  const project = yield* World.project()
  const { text: session } = yield* World.session(project.team.owner)
  const { text: token } = yield* World.token({ team: project.team })
  const home = yield* ampoule.home
  const url = `http://127.0.0.1:${port}`
  const run = (args: ReadonlyArray<string>, more: RunOptions = {}) =>
    ampoule.run(args, { home, ...more, env: { AMPOULE_URL: url, ...more.env } })
  const decide = (userCode: string, decision: "approve" | "deny", machine = false) =>
    TestApp.post(`/auth/cli/device/requests/${userCode}/${decision}`, {
      session,
      ...(decision === "approve" ? { json: { teams: [{ teamId: project.team.id, scopes }], machine } } : {})
    })
  /** Starts a login, and answers once it shows its code. */
  const login = Effect.fnUntraced(function* (...options: ReadonlyArray<string>) {
    const running = yield* ampoule.start(["login", "--plaintext-local", ...options], {
      home,
      env: { AMPOULE_URL: url }
    })
    yield* running.shows("Waiting")
    const userCode = /approve the code {2}([A-Z]{4}-[A-Z]{4})/.exec(running.output.stderr)?.[1] ?? ""
    return { running, userCode }
  })
  const file = (name: string) => path.join(home, "config", "ampoule", name)
  return { ampoule, decide, file, home, login, project, run, session, token, url }
})

layer(app, { excludeTestServices: true })("ampoule login", (it) => {
  it.scoped("waits for the approval, keeps the grant for its owner alone, and gives it back at logout", () =>
    Effect.gen(function* () {
      const { decide, file, login, run, url } = yield* setUp
      const { running, userCode } = yield* login()
      assert.include(running.output.stderr, `/device?code=${userCode}`)
      assert.strictEqual((yield* decide(userCode, "approve")).status, 200)
      const ended = yield* running.ended
      assert.strictEqual(ended.code, 0, ended.stderr)
      assert.notInclude(ended.stdout + ended.stderr, "amp_")
      for (const name of ["logins.json", "credentials.json"]) {
        assert.strictEqual(fs.statSync(file(name)).mode & 0o777, 0o600, name)
      }
      assert.strictEqual(fs.statSync(path.dirname(file("x"))).mode & 0o777, 0o700)
      assert.notInclude(fs.readFileSync(file("logins.json"), "utf8"), "amp_")

      const credential = credentialsOf(fs.readFileSync(file("credentials.json"), "utf8"))[url]
      const who = yield* run(["whoami"])
      assert.match(who.stdout, /credential: +CLI login/)
      assert.include(who.stdout, scopes.join(" "))
      // The address of the last login counts when none is given.
      assert.strictEqual((yield* run(["whoami"], { env: { AMPOULE_URL: "" } })).code, 0)

      assert.strictEqual((yield* run(["logout"])).code, 0)
      const revoked = yield* TestApp.get("/me/cli", { bearer: credential })
      assert.strictEqual(revoked.error.code, "CREDENTIAL_REVOKED")
      assert.notInclude(fs.readFileSync(file("credentials.json"), "utf8"), "amp_")
      assert.include((yield* run(["whoami"])).stderr, "No credential")
      assert.strictEqual((yield* run(["logout"])).code, 1)
    })
  )

  it.scoped("is the first step of `init` where there is none yet", () =>
    Effect.gen(function* () {
      const { ampoule, decide, file, home, project, run, url } = yield* setUp
      const running = yield* ampoule.terminal(["init", "--plaintext-local"], { home, env: { AMPOULE_URL: url } })
      yield* running.shows("Waiting")
      const userCode = /approve the code {2}([A-Z]{4}-[A-Z]{4})/.exec(running.output.stdout)?.[1] ?? ""
      assert.strictEqual((yield* decide(userCode, "approve")).status, 200)
      // The one project that the login sees is no question.
      yield* running.shows("Environment (1-4)")
      running.child.stdin?.write("staging\n")
      const ended = yield* running.ended
      assert.strictEqual(ended.code, 0, ended.stdout)
      assert.include(ended.stdout, "ampoule run -- npm start")
      assert.notInclude(ended.stdout, "amp_")
      assert.isTrue(fs.existsSync(file("credentials.json")))
      const written = fs.readFileSync(path.join(home, ".ampoule.json"), "utf8")
      assert.deepStrictEqual(JSON.parse(written), { project: project.slug, environment: "staging" })
      assert.strictEqual((yield* run(["use"])).stdout, `${project.slug} staging\n`)
    })
  )

  it.scoped("tells when it was denied", () =>
    Effect.gen(function* () {
      const { decide, file, login } = yield* setUp
      const { running, userCode } = yield* login()
      yield* decide(userCode, "deny")
      const ended = yield* running.ended
      assert.strictEqual(ended.code, 1)
      assert.include(ended.stderr, "denied")
      assert.isFalse(fs.existsSync(file("credentials.json")))
    })
  )

  it.scoped("asks for unattended use, and says whether it was granted", () =>
    Effect.gen(function* () {
      const { decide, login } = yield* setUp
      for (const granted of [true, false]) {
        const { running, userCode } = yield* login("--machine", "--json")
        yield* decide(userCode, "approve", granted)
        const ended = yield* running.ended
        assert.strictEqual(parsed(Schema.Struct({ machine: Schema.Boolean }))(ended.stdout).machine, granted)
      }
    })
  )

  it.scoped("a second login gives the first one back", () =>
    Effect.gen(function* () {
      const { decide, file, login, url } = yield* setUp
      const credentials: Array<string> = []
      const installations: Array<string> = []
      for (let i = 0; i < 2; i++) {
        const { running, userCode } = yield* login()
        yield* decide(userCode, "approve")
        yield* running.ended
        credentials.push(credentialsOf(fs.readFileSync(file("credentials.json"), "utf8"))[url])
        installations.push(loginsOf(fs.readFileSync(file("logins.json"), "utf8")).installationId)
      }
      assert.strictEqual(new Set(installations).size, 1)
      assert.strictEqual(
        (yield* TestApp.get("/me/cli", { bearer: credentials[0] ?? "" })).error.code,
        "CREDENTIAL_REVOKED"
      )
      assert.strictEqual((yield* TestApp.get("/me/cli", { bearer: credentials[1] ?? "" })).status, 200)
    })
  )

  it.scoped("a stored login goes before the variable, says so, and steps back on request", () =>
    Effect.gen(function* () {
      const { decide, login, run, token } = yield* setUp
      const { running, userCode } = yield* login()
      yield* decide(userCode, "approve")
      yield* running.ended
      const both = { env: { AMPOULE_API_TOKEN: token } }
      const plain = yield* run(["whoami", "--json"], both)
      assert.strictEqual(parsed(VerifyAuthResponse)(plain.stdout).credential.type, "cli_grant")
      assert.include(plain.stderr, "using the stored login, not AMPOULE_API_TOKEN")
      // One connection, one warning.
      const sealed = yield* run(["seal", "export", "--project", "absent", "--env", "development"], both)
      assert.strictEqual(sealed.stderr.split("using the stored login").length, 2, sealed.stderr)
      const stored = yield* run(["whoami", "--json", "--credential", "stored"], both)
      assert.strictEqual(parsed(VerifyAuthResponse)(stored.stdout).credential.type, "cli_grant")
      assert.strictEqual(stored.stderr, "")
      const env = yield* run(["whoami", "--json", "--credential", "env"], both)
      assert.strictEqual(parsed(VerifyAuthResponse)(env.stdout).credential.type, "api_token")
      assert.strictEqual(env.stderr, "")
      // The variable's token goes where the variables say, never to the server of the login.
      const elsewhere = yield* FakeServer.make(() => undefined)
      const other = yield* run(["whoami"], { env: { AMPOULE_API_TOKEN: token, AMPOULE_URL: elsewhere.url } })
      assert.strictEqual(other.code, 1)
      assert.deepStrictEqual(
        elsewhere.asked.map(({ headers }) => headers.authorization),
        [`Bearer ${token}`]
      )
    })
  )

  it.scoped("refuses a credentials file that others can read", () =>
    Effect.gen(function* () {
      const { decide, file, login, run } = yield* setUp
      const { running, userCode } = yield* login()
      yield* decide(userCode, "approve")
      yield* running.ended
      fs.chmodSync(file("credentials.json"), 0o644)
      const ended = yield* run(["whoami"])
      assert.strictEqual(ended.code, 1)
      assert.include(ended.stderr, "Others can read")
    })
  )

  it.scoped("without a keychain it says what to do, before anybody is asked to approve", () =>
    Effect.gen(function* () {
      const { run } = yield* setUp
      const ended = yield* run(["login", "--no-browser"], { env: { DBUS_SESSION_BUS_ADDRESS: "unix:path=/nowhere" } })
      assert.strictEqual(ended.code, 1)
      assert.include(ended.stderr, "--plaintext-local")
      assert.notInclude(ended.stderr, "approve the code")
    })
  )
})

layer(Ampoule.Default, { excludeTestServices: true })("ampoule login without an event stream", (it) => {
  const started = (more: Readonly<Record<string, unknown>> = {}): FakeServer.Answer => ({
    status: 201,
    body: {
      deviceCode: "amp_dc_code",
      userCode: "BCDF-GHJK",
      verificationUri: "http://127.0.0.1/device",
      verificationUriComplete: "http://127.0.0.1/device?code=BCDF-GHJK",
      expiresInSeconds: 600,
      pollIntervalSeconds: 1,
      ...more
    }
  })
  const granted = {
    status: "granted",
    credential: "amp_cg_credential",
    grantId: FakeServer.projectId,
    expiresAt: "2027-01-01T00:00:00.000Z",
    user: { id: FakeServer.teamId, email: "ada@example.com" },
    teams: [{ id: FakeServer.teamId, name: "Team", scopes: ["secrets:run"] }],
    restrictions: { projectIds: null, environmentIds: null }
  }
  const login = Effect.fnUntraced(function* (polls: ReadonlyArray<FakeServer.Answer>, start = started()) {
    const ampoule = yield* Ampoule
    const queue = [...polls]
    const times: Array<number> = []
    const server = yield* FakeServer.make(({ path }) => {
      if (path === "/auth/cli/device") return start
      if (path !== "/auth/cli/device/token") return undefined
      times.push(performance.now())
      return queue.shift()
    })
    const ended = yield* ampoule.run(["login", "--plaintext-local", "--no-browser", "--url", server.url])
    return { ended, server, times }
  })

  it.scoped("polls, slows down when told to, and survives a failing poll", () =>
    Effect.gen(function* () {
      const { ended, server, times } = yield* login([
        { status: 201, body: { status: "pending" } },
        { status: 502, body: "<html></html>" },
        { status: 201, body: { status: "pending", reason: "slow_down" } },
        { status: 201, body: granted }
      ])
      assert.strictEqual(ended.code, 0, ended.stderr)
      assert.include(ended.stderr, "Logged in")
      assert.notInclude(ended.stderr, "amp_")
      const [, , third = 0, fourth = 0] = times
      assert.isAtLeast(fourth - third, 5_900)
      const tokenRequests = server.asked.filter(({ path }) => path === "/auth/cli/device/token")
      assert.deepStrictEqual(JSON.parse(tokenRequests[0]?.body ?? ""), { deviceCode: "amp_dc_code" })
      assert.isUndefined(tokenRequests[0]?.headers.authorization)
      const stream = server.asked.find(({ path }) => path === "/auth/cli/device/events")
      assert.strictEqual(stream?.headers.authorization, "Bearer amp_dc_code")
      assert.isFalse(server.asked.some(({ query }) => query.size > 0))
    })
  )

  it.scoped("tells why it failed", () =>
    Effect.gen(function* () {
      for (const [reason, sentence] of [
        ["denied", "denied"],
        ["expired", "not decided in time"],
        ["consumed", "delivered already"],
        ["something new", "failed"]
      ] as const) {
        const { ended } = yield* login([{ status: 201, body: { status: "failed", reason } }])
        assert.strictEqual(ended.code, 1)
        assert.include(ended.stderr, sentence)
      }
    })
  )

  it.scoped("shows no page that is no web page, and nothing that could steer the terminal", () =>
    Effect.gen(function* () {
      for (const uri of ["file:///etc/passwd", "javascript:alert(1)", "vscode://x", "-h", "ssh://evil"]) {
        const { ended } = yield* login([], started({ verificationUri: uri, verificationUriComplete: uri }))
        assert.strictEqual(ended.code, 1)
        assert.include(ended.stderr, "The server sent an address that is not a web page. It was not opened.")
      }
      const { ended } = yield* login([{ status: 201, body: granted }], started({ userCode: "AB\u001b[2JCD\u202e" }))
      assert.strictEqual(ended.code, 0)
      for (const character of ["\u001b", "\u202e"]) assert.notInclude(ended.stderr, character)
    })
  )
})

layer(
  Layer.merge(
    TestApp.server.pipe(
      Layer.provideMerge(
        Layer.merge(
          TestApp.backends,
          TestApp.config({ setupCode: Option.some(Redacted.make("a-preset-setup-code-for-this-test")) })
        )
      )
    ),
    Ampoule.Default
  ),
  { excludeTestServices: true }
)("ampoule setup", (it) => {
  it.scoped("makes the first owner, a project and a token that works, once", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const { port } = yield* Listening
      const home = yield* ampoule.home
      // As the server does before it listens.
      yield* Effect.flatMap(Setup, (setup) => setup.prepare)
      const env = { AMPOULE_URL: `http://127.0.0.1:${port}`, AMPOULE_SETUP_CODE: "a-preset-setup-code-for-this-test" }
      const who = ["--email", "ada@example.com", "--name", "Ada", "--team", "Platform"]
      const setup = (...more: ReadonlyArray<string>) =>
        ampoule.run(["setup", ...who, ...more], { home, env, stdin: "" })

      assert.strictEqual((yield* setup()).code, 2)
      const wrong = yield* ampoule.run(["setup", ...who, "--generate-password"], {
        home,
        env: { ...env, AMPOULE_SETUP_CODE: "not-the-code-that-was-preset-here" }
      })
      assert.strictEqual(wrong.code, 1)
      assert.include(wrong.stderr, "setup code")

      // A file that holds something is not replaced, and that is found out before the owner exists.
      fs.writeFileSync(`${home}/other`, "something else")
      const conflict = yield* setup("--generate-password", "--token-file", "other")
      assert.strictEqual(conflict.code, 1)
      assert.include(conflict.stderr, "there is one already")
      assert.strictEqual(fs.readFileSync(`${home}/other`, "utf8"), "something else")

      const options = ["--project", "Demo", "--token", "--token-file", "kept/token", "--lifetime", "30d"]
      const done = yield* setup("--generate-password", ...options)
      assert.strictEqual(done.code, 0, done.stderr)
      assert.match(done.stdout, /^amp_at_\w+\n$/)
      const password = /shown only now: (\w+)/.exec(done.stderr)?.[1] ?? ""
      const signedIn = yield* TestApp.post("/auth/session", { json: { email: "ada@example.com", password } })
      assert.strictEqual(signedIn.status, 200)

      const token = done.stdout.trim()
      const set = yield* ampoule.run(["secrets", "set", "KEY", "-p", "demo", "-e", "development"], {
        home,
        env: { ...env, AMPOULE_API_TOKEN: token },
        stdin: "value"
      })
      assert.strictEqual(set.code, 0, set.stderr)
      assert.strictEqual(fs.readFileSync(`${home}/kept/token`, "utf8"), `${token}\n`)
      assert.strictEqual(fs.statSync(`${home}/kept/token`).mode & 0o777, 0o600)
      const again = yield* setup("--generate-password", "--token-file", "kept/second")
      assert.strictEqual(again.code, 1)
      assert.include(again.stderr, "This server is already set up. [SETUP_ALREADY_DONE]")
      assert.deepStrictEqual(fs.readdirSync(`${home}/kept`), ["token"])
      // Without a code, too, which is gone by then: the command prints the reason, and asks for no password.
      const without = yield* ampoule.run(["setup", ...who, "--token-file", "kept/token"], {
        home,
        env: { AMPOULE_URL: env.AMPOULE_URL }
      })
      assert.strictEqual(without.code, 1)
      assert.include(without.stderr, "SETUP_ALREADY_DONE")
      assert.include(without.stderr, "ampoule login")
      assert.strictEqual(fs.readFileSync(`${home}/kept/token`, "utf8"), `${token}\n`)
    })
  )
})

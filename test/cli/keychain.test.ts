/**
 * A login in a real keychain: the Secret Service of GNOME on a bus of its own. Only where those programs are installed.
 */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { spawn, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { VerifyAuthResponse } from "#schema/IdentityApi.ts"
import { Listening } from "#src/http/engine/Server.ts"
import { parsed } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { Ampoule, type RunOptions } from "./Ampoule.ts"

const isThere = (program: string) => spawnSync("sh", ["-c", `command -v ${program}`]).status === 0
const hasKeychain =
  process.platform === "linux" && ["dbus-run-session", "dbus-send", "gnome-keyring-daemon"].every(isThere)

const app = Layer.merge(TestApp.unlimited, Ampoule.Default)

/** With its password typed the keyring of `home` is open; without, it is locked, and there is no screen to ask on. */
const keyring = (home: string, state: "open" | "locked") =>
  Effect.acquireRelease(
    Effect.async<{ readonly bus: string; readonly close: () => void }>((resume) => {
      const runtime = path.join(home, "runtime")
      fs.mkdirSync(runtime, { recursive: true, mode: 0o700 })
      const own =
        state === "open"
          ? "printf 'the password' | gnome-keyring-daemon --unlock --components=secrets"
          : "gnome-keyring-daemon --start --components=secrets"
      const owner =
        "dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.NameHasOwner string:org.freedesktop.secrets"
      const script = `${own} >/dev/null; until ${owner} | grep -q true; do sleep 0.05; done; echo "bus=$DBUS_SESSION_BUS_ADDRESS"; exec cat`
      const child = spawn("dbus-run-session", ["--", "sh", "-c", script], {
        env: { PATH: process.env["PATH"], HOME: home, XDG_RUNTIME_DIR: runtime },
        stdio: ["pipe", "pipe", "ignore"]
      })
      let said = ""
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        said += text
        const bus = /^bus=(.+)$/m.exec(said)?.[1]
        if (bus !== undefined) resume(Effect.succeed({ bus, close: () => child.stdin.end() }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

/** Content of the keychain, asked by a program that is not ours. */
const contentOf = (home: string, bus: string, url: string) =>
  spawnSync(
    process.execPath,
    [
      "-e",
      `const { Entry } = require("@napi-rs/keyring")
       process.stdout.write(String(new Entry("ampoule", process.argv[1], { linux: { store: "secret-service" } }).getPassword()))`,
      url
    ],
    {
      env: { PATH: process.env["PATH"], HOME: home, DBUS_SESSION_BUS_ADDRESS: bus },
      encoding: "utf8"
    }
  ).stdout

const filesOf = (folder: string): string =>
  fs
    .readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => fs.readFileSync(path.join(entry.parentPath, entry.name), "latin1"))
    .join("\n")

const setUp = Effect.gen(function* () {
  const ampoule = yield* Ampoule
  const { port } = yield* Listening
  const project = yield* World.project()
  const { text: session } = yield* World.session(project.team.owner)
  const home = yield* ampoule.home
  const url = `http://127.0.0.1:${port}`
  const withBus = (bus: string) => {
    const env = { AMPOULE_URL: url, DBUS_SESSION_BUS_ADDRESS: bus }
    const run = (args: ReadonlyArray<string>, more: RunOptions = {}) => ampoule.run(args, { home, env, ...more })
    const login = Effect.gen(function* () {
      const running = yield* ampoule.start(["login", "--no-browser"], { home, env })
      yield* running.shows("Waiting")
      const userCode = /approve the code {2}([A-Z]{4}-[A-Z]{4})/.exec(running.output.stderr)?.[1] ?? ""
      const scopes = ["identity:read", "projects:read", "secrets:read"]
      const approved = yield* TestApp.post(`/auth/cli/device/requests/${userCode}/approve`, {
        session,
        json: { teams: [{ teamId: project.team.id, scopes }] }
      })
      assert.strictEqual(approved.status, 200)
      return yield* running.ended
    })
    return { run, login }
  }
  return { home, url, withBus }
})

if (hasKeychain) {
  layer(app, { excludeTestServices: true })("the keychain of the system", (it) => {
    it.scoped("holds the login and nothing else does; `logout` takes it out", () =>
      Effect.gen(function* () {
        const { home, url, withBus } = yield* setUp
        const { bus } = yield* keyring(home, "open")
        const { login, run } = withBus(bus)
        const loggedIn = yield* login
        assert.strictEqual(loggedIn.code, 0, loggedIn.stderr)
        const credential = contentOf(home, bus, url)
        assert.match(credential, /^amp_cg_/)
        assert.strictEqual(contentOf(home, bus, `${url}#trial`), "null")
        assert.notInclude(filesOf(home), "amp_cg_")
        assert.isFalse(fs.existsSync(path.join(home, "config/ampoule/credentials.json")))

        const who = yield* run(["whoami", "--json"])
        assert.strictEqual(who.code, 0, who.stderr)
        assert.strictEqual(parsed(VerifyAuthResponse)(who.stdout).credential.type, "cli_grant")
        const doctor = yield* run(["doctor"])
        assert.match(doctor.stdout, /ok +keychain +answers/)

        // A second login takes the place of the first, which ends.
        assert.strictEqual((yield* login).code, 0)
        assert.notStrictEqual(contentOf(home, bus, url), credential)
        assert.strictEqual((yield* TestApp.get("/me/cli", { bearer: credential })).error.code, "CREDENTIAL_REVOKED")

        const last = contentOf(home, bus, url)
        const loggedOut = yield* run(["logout"])
        assert.strictEqual(loggedOut.code, 0, loggedOut.stderr)
        assert.strictEqual(contentOf(home, bus, url), "null")
        assert.strictEqual((yield* TestApp.get("/me/cli", { bearer: last })).error.code, "CREDENTIAL_REVOKED")
        assert.include((yield* run(["whoami"])).stderr, "No credential")
      })
    )

    it.scoped("a locked one is reported before anybody approves, and the stored login is not lost", () =>
      Effect.gen(function* () {
        const { home, url, withBus } = yield* setUp
        yield* Effect.scoped(
          Effect.gen(function* () {
            const { bus } = yield* keyring(home, "open")
            assert.strictEqual((yield* withBus(bus).login).code, 0)
          })
        )
        const { bus } = yield* keyring(home, "locked")
        const { run } = withBus(bus)
        const who = yield* run(["whoami"])
        assert.strictEqual(who.code, 1)
        assert.include(who.stderr, "locked")
        assert.match((yield* run(["doctor"])).stdout, /FAILED +keychain/)
        const other = yield* run(["login", "--no-browser", "--url", url.replace("127.0.0.1", "localhost")])
        assert.strictEqual(other.code, 1)
        assert.include(other.stderr, "--plaintext-local")
        assert.notInclude(other.stderr, "approve the code")
      })
    )
  })
} else {
  layer(Layer.empty)("the keychain of the system", (it) => {
    it.skip("gnome-keyring and dbus-run-session are not installed here", () => {})
  })
}

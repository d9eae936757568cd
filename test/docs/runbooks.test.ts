/**
 * Runbooks of docs/runbooks, taken from their pages and run on a host of their own (`Host.ts`), and what holds afterwards.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as Replication from "#test/faults/Replication.ts"
import * as PostgresServer from "#test/deploy/PostgresServer.ts"
import * as Programs from "#test/support/Programs.ts"
import { commandsOf, pages } from "./Blocks.ts"
import * as Host from "./Host.ts"
import * as Reader from "./Reader.ts"

const folder = "docs/runbooks"
type Here = Effect.Effect.Success<ReturnType<typeof Host.make>>

/** All commands of a page as one script, which names the line of each block before it. */
const script = (name: string, instead: Readonly<Record<string, string>> = {}) =>
  commandsOf(`${folder}/${name}.md`)
    .map(({ line, text }) => `echo '== ${name}.md:${line}' >&2\n${text}`)
    .map((text) => Object.entries(instead).reduce((all, [from, to]) => all.replaceAll(from, to), text))
    .join("\n")

/** The operator's settings, which every runbook reads. */
const hostOn = Effect.fnUntraced(function* (database: Host.Database) {
  const host = yield* Host.make(database)
  yield* host.must(script("README"))
  return host
})
const onPostgres = Effect.flatMap(Host.onePostgres, hostOn)

const target = "--project shop --env development"
const valueOf = (host: Here, key: string) =>
  Effect.map(host.must(`ampoule secrets get ${key} ${target}`), ({ output }) => output.trim())
const write = (host: Here, key: string, value: string) =>
  host.must(`printf '${value}' | ampoule secrets set ${key} ${target}`)
const rootKeyOf = (host: Here) => fs.readFileSync(host.at("vault/root-key"), "utf8")
/** Processes of the server that listen: the one of the unit, and its workers. */
const workersOf = (host: Here) => [...host.log("ampoule").matchAll(/listens on/g)].length

const runbooks: Readonly<Record<string, Effect.Effect<void, unknown, Effect.Effect.Context<typeof onPostgres>>>> = {
  "back-up": Effect.gen(function* () {
    const host = yield* onPostgres
    yield* host.must(script("back-up"))
    const [name = "", ...others] = fs.readdirSync(host.at("backup"))
    assert.match(name, /^\d{4}-\d\d-\d\d\.backup$/)
    assert.deepStrictEqual(others, [])
    const bytes = fs.readFileSync(host.at(`backup/${name}`), "latin1")
    assert.isAbove(bytes.length, 10_000)
    assert.notInclude(bytes, "sk_test_51")
    assert.strictEqual(fs.readFileSync(host.at("safe/root-key"), "utf8"), rootKeyOf(host))
  }),
  restore: Effect.gen(function* () {
    const host = yield* onPostgres
    yield* host.must(script("back-up"))
    yield* write(host, "STRIPE_KEY", "written-after-the-backup")
    const before = host.pidOf("ampoule")
    yield* host.must(script("restore"))
    assert.notStrictEqual(host.pidOf("ampoule"), before)
    assert.strictEqual(yield* valueOf(host, "STRIPE_KEY"), "sk_test_51")
    assert.include(yield* valueOf(host, "DATABASE_URL"), "correct horse")
    // The old database is as it was.
    const { output } = yield* host.must("psql --tuples-only --command 'SELECT datname FROM pg_database'")
    assert.includeMembers(output.split(/\s+/), ["ampoule", "restored"])
  }),
  upgrade: Effect.gen(function* () {
    const host = yield* onPostgres
    yield* host.must("ampoule backup keygen backup-identity > recipient")
    const before = ["ampoule", "ampoule-vault"].map(host.pidOf)
    const { output } = yield* host.must(script("upgrade"))
    assert.match(output, /^1\.\d+\.\d+/m)
    for (const [i, unit] of ["ampoule", "ampoule-vault"].entries()) assert.notStrictEqual(host.pidOf(unit), before[i])
    assert.strictEqual(yield* valueOf(host, "STRIPE_KEY"), "sk_test_51")
  }),
  rotate: Effect.gen(function* () {
    const host = yield* onPostgres
    const before = rootKeyOf(host)
    yield* host.must(`printf 'A=1\\n' > .env; ampoule seal .env ${target} > .env.sealed`)
    const password = fs.readFileSync(host.at("etc/database-url"), "utf8")
    yield* host.must(script("rotate"))
    const after = rootKeyOf(host)
    assert.notStrictEqual(after, before)
    assert.strictEqual(fs.readFileSync(host.at("safe/root-key"), "utf8"), after)
    assert.notStrictEqual(fs.readFileSync(host.at("etc/database-url"), "utf8"), password)
    const oldPassword = yield* host.run(`psql "${password.trim()}" --command 'SELECT 1'`)
    assert.include(oldPassword.output, "password authentication failed")
    const { output } = yield* host.must(". /etc/ampoule/operator; ampoule vault status --json")
    assert.match(output, /"current": ?true/)
    // The runbook ended what had not been renewed, sessions too; a person signs in again.
    const account = { email: "ada@example.com", password: Reader.password }
    const { cookie } = yield* Reader.ask(host.url, "", "POST", "/auth/session", account)
    const secret = `/secrets/value?projectId=${host.projectId}&environment=development&key=STRIPE_KEY`
    assert.include((yield* Reader.ask(host.url, cookie, "GET", secret)).text, "sk_test_51")
  }),
  "fail-over": Effect.gen(function* () {
    const pair = yield* Replication.make(true)
    const [first, second] = [pair.primary(), pair.standby()]
    yield* Replication.ask(first, "CREATE DATABASE ampoule")
    const [program, args] = PostgresServer.command("pg_ctl", "-D", first.data, "-m", "immediate", "-w", "stop")
    const host = yield* hostOn({
      hosts: `127.0.0.1:${first.port},127.0.0.1:${second.port}`,
      user: "postgres",
      psql: { PGUSER: "postgres", PGDATABASE: "postgres" },
      stop: [program, ...args].join(" ")
    })
    yield* write(host, "LAST_BEFORE", "acknowledged")
    const process = host.pidOf("ampoule")
    yield* host.must(script("fail-over", { "--host db2": `--host 127.0.0.1 --port ${second.port}` }))
    assert.isTrue(yield* Replication.isPrimary(second))
    assert.strictEqual(host.pidOf("ampoule"), process)
    assert.strictEqual(yield* valueOf(host, "LAST_BEFORE"), "acknowledged")
    // No standby follows any more, for which a synchronous commit would wait.
    yield* Replication.ask(second, "ALTER SYSTEM SET synchronous_standby_names = ''")
    yield* Replication.ask(second, "SELECT pg_reload_conf()")
    yield* write(host, "FIRST_AFTER", "served")
    assert.strictEqual(yield* valueOf(host, "FIRST_AFTER"), "served")
  }),
  scale: Effect.gen(function* () {
    const host = yield* onPostgres
    assert.strictEqual(workersOf(host), 1)
    yield* host.must(script("scale"))
    const { output } = yield* host.must("curl -fsS http://127.0.0.1:4400/health/ready")
    assert.match(output, /"cache":\{"status":"up"/)
    const workers = yield* host.must(`ps -o pid= --ppid ${host.pidOf("ampoule")}`)
    assert.strictEqual(workers.output.trim().split("\n").length, 2)
    assert.strictEqual(yield* valueOf(host, "STRIPE_KEY"), "sk_test_51")
  })
}

describe("the runbooks", () => {
  it("are run, each page of them", () => {
    const names = pages.filter((page) => page.startsWith(`${folder}/`) && !page.endsWith("README.md"))
    assert.deepStrictEqual(
      Object.keys(runbooks)
        .map((name) => `${folder}/${name}.md`)
        .toSorted(),
      names.toSorted()
    )
  })

  for (const [name, runbook] of Object.entries(runbooks)) {
    it.scopedLive.skipIf(!PostgresServer.available || Programs.missing("psql", "redis-server", "curl"))(
      `${name} does what its page says`,
      () => runbook,
      // A rotation of the service keys waits two and a half minutes for the other servers; the page has two.
      900_000
    )
  }
})

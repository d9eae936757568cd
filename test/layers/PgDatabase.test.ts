/** Which host of a database leads, and what becomes of connections to one that hangs or was replaced. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Database, type Server, type OnServer } from "#layers/PgDatabase.ts"

type Host = "silent" | Error | Server

const primary = (began: string, timeline?: number): Server => ({
  began,
  isReadOnly: false,
  ...(timeline === undefined ? {} : { system: "7", timeline })
})
const standby: Server = { began: "a standby", isReadOnly: true }
const refused = Object.assign(new Error("connect"), { code: "ECONNREFUSED" })
const starting = Object.assign(new Error("starting up"), { code: "57P03", severity: "FATAL" })

/** A database on these hosts, which may be changed meanwhile; nothing waits for long. */
const databaseOn = (hosts: Record<string, Host>, checkoutMillis = 60) => {
  const attempts: Array<string> = []
  const database = new Database(
    { connection: {}, hosts: Object.keys(hosts), session: {}, checkoutMillis, deadlineMillis: 60_000 },
    (_, host = "", told: OnServer) => {
      attempts.push(host)
      const answer = hosts[host] ?? "silent"
      if (answer !== "silent") {
        setImmediate(() => (answer instanceof Error ? told(answer) : told(undefined, answer)))
      }
      return () => {}
    }
  )
  const lead = Effect.async<string | undefined, Error>((resume) =>
    database.findPrimary((nobody) => resume(nobody === undefined ? Effect.succeed(database.host) : Effect.fail(nobody)))
  )
  const answers = (host: string, within = 60_000) =>
    Effect.async<boolean>((resume) => database.answers(host, within, (is) => resume(Effect.succeed(is))))
  const ended: Array<string> = []
  const connect = (host: string, server: Server) =>
    database.accept({ abandon: ({ name }) => void ended.push(name) }, host, server)?.name
  return { database, asked: attempts, lead, answers, ended, connect }
}

describe("of several hosts", () => {
  it.live("the one that takes writes leads, at any place of the list, and with any failure of the others", () =>
    Effect.gen(function* () {
      for (const other of [standby, refused, "silent"] as const) {
        assert.strictEqual(yield* databaseOn({ one: primary("1", 1), two: other }).lead, "one")
        assert.strictEqual(yield* databaseOn({ one: other, two: primary("1", 1) }).lead, "two")
      }
    })
  )

  it.live("the one leads that was promoted last, when several take writes", () =>
    Effect.gen(function* () {
      const [old, young] = [primary("old", 9), primary("young", 10)]
      assert.strictEqual(yield* databaseOn({ one: old, two: young, three: standby }).lead, "two")
      assert.strictEqual(yield* databaseOn({ one: young, two: old, three: old }).lead, "one")
      // A server that hides its timeline, or is a copy of another database, cannot be compared: the order counts.
      assert.strictEqual(yield* databaseOn({ one: primary("1"), two: young }).lead, "one")
      assert.strictEqual(yield* databaseOn({ one: { ...old, system: "8" }, two: young }).lead, "one")
    })
  )

  it.live("none leads when none takes writes, and the error says most of why", () =>
    Effect.gen(function* () {
      const failure = (hosts: Record<string, Host>) => Effect.flip(databaseOn(hosts).lead)
      assert.strictEqual((yield* failure({ one: standby, two: standby })).name, "ReadOnlyServer")
      assert.strictEqual(yield* failure({ one: standby, two: refused }), refused)
      assert.strictEqual((yield* failure({ one: "silent", two: standby })).name, "QueryDeadlineExceeded")
    })
  )

  it.live("they are asked once for all who wait, and not again until the leading one fails", () =>
    Effect.gen(function* () {
      const { asked, database, lead } = databaseOn({ one: primary("1", 1), two: standby }, 60_000)
      yield* Effect.replicateEffect(lead, 5, { concurrency: "unbounded" })
      yield* lead
      database.failed("two", refused)
      database.failed("one", Object.assign(new Error("too many connections"), { code: "53300" }))
      database.recordResponse("one")
      database.failed("one", new Error("timeout expired"))
      yield* lead
      assert.deepStrictEqual(asked, ["one", "two"])
      database.failed("one", refused)
      yield* lead
      assert.deepStrictEqual(asked, ["one", "two", "one", "two"])
    })
  )

  it.live("the old one is used no more once its successor was met, though nobody else is left", () =>
    Effect.gen(function* () {
      const hosts: Record<string, Host> = { one: primary("old", 1), two: standby }
      const { connect, database, ended, lead } = databaseOn(hosts)
      assert.strictEqual(yield* lead, "one")
      assert.isUndefined(connect("one", primary("old", 1)))
      const [generation, epoch] = [database.generation, database.epoch]
      hosts["one"] = "silent"
      hosts["two"] = primary("young", 2)
      database.failed("one", refused)
      assert.strictEqual(yield* lead, "two")
      assert.deepStrictEqual(ended, ["ReplacedServer"])
      assert.isAbove(database.generation, generation)
      assert.isAbove(database.epoch, epoch)
      // One that was still being made to the old one.
      assert.strictEqual(connect("one", primary("old", 1)), "ReplacedServer")
      hosts["one"] = primary("old", 1)
      hosts["two"] = refused
      database.failed("two", refused)
      assert.strictEqual(yield* Effect.flip(lead), refused)
      // Its successor's own restart, and a database that was made anew, are no older ones.
      hosts["two"] = primary("young, again", 2)
      assert.strictEqual(yield* lead, "two")
      database.failed("two", refused)
      hosts["one"] = { ...primary("anew", 1), system: "8" }
      hosts["two"] = refused
      assert.strictEqual(yield* lead, "one")
    })
  )

  it.live("what one says does not speak for another; one that says nothing loses its connections and the lead", () =>
    Effect.gen(function* () {
      const hosts: Record<string, Host> = { one: primary("1", 1), two: standby }
      const { answers, asked, connect, database, ended, lead } = databaseOn(hosts)
      yield* lead
      connect("one", primary("1", 1))
      let silences = 0
      database.onSilence(() => void silences++)
      database.recordResponse("one")
      const before = asked.length
      assert.isTrue(yield* answers("one"))
      assert.strictEqual(asked.length, before)
      hosts["two"] = starting
      assert.isTrue(yield* answers("two"))
      hosts["one"] = "silent"
      database.recordResponse("two")
      const both = yield* Effect.all([answers("one", 0), answers("one", 0)], { concurrency: 2 })
      assert.deepStrictEqual(both, [false, false])
      assert.strictEqual(asked.length, before + 2)
      assert.deepStrictEqual(ended, ["QueryDeadlineExceeded"])
      assert.strictEqual(silences, 1)
      hosts["two"] = primary("2", 2)
      assert.strictEqual(yield* lead, "two")
    })
  )
})

describe("behind one address", () => {
  it.live("several servers that lead at once, and tell no timeline, end nobody's connections", () =>
    Effect.gen(function* () {
      const { connect, database, ended } = databaseOn({ proxy: primary("a") })
      assert.isUndefined(connect("proxy", primary("a")))
      assert.isUndefined(connect("proxy", primary("b")))
      assert.isUndefined(connect("proxy", primary("a")))
      assert.deepStrictEqual([ended, database.generation], [[], 0])
      assert.isAbove(database.epoch, 0)
    })
  )

  it.live("connections end that lead to another server than the one that is met there now", () =>
    Effect.gen(function* () {
      const hosts: Record<string, Host> = { proxy: primary("old", 1) }
      const { answers, connect, ended } = databaseOn(hosts)
      assert.isUndefined(connect("proxy", primary("old", 1)))
      assert.isUndefined(connect("proxy", primary("old", 1)))
      hosts["proxy"] = primary("young", 2)
      // As a statement asks that waits at the old one.
      assert.isTrue(yield* answers("proxy"))
      assert.deepStrictEqual(ended, ["ReplacedServer", "ReplacedServer"])
      assert.strictEqual(connect("proxy", primary("old", 1)), "ReplacedServer")
      assert.strictEqual(connect("proxy", standby), "ReadOnlyServer")
      assert.isUndefined(connect("proxy", primary("young", 2)))
    })
  )
})

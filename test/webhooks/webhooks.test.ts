/** Webhooks against a receiver on this machine. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, describe, it as test, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { createHmac } from "node:crypto"
import { optional } from "#schema/Strict.ts"
import { Timestamp } from "#schema/Values.ts"
import { RateLimits } from "#src/limits/RateLimiter.ts"
import { Dispatcher, retryPeriod, pauseAfter } from "#src/webhooks/Dispatcher.ts"
import { slackBody } from "#src/webhooks/SlackText.ts"
import * as Documents from "#test/deploy/Documents.ts"
import { serve } from "#test/machines/LocalIssuer.ts"
import * as Bodies from "#test/support/Bodies.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const app = TestApp.layer.pipe(Layer.provide(Layer.succeed(RateLimits, "off")), Layer.provideMerge(MovableClock.layer))

/** The body of a delivery (docs/webhooks.md). */
const Told = Schema.Struct({
  id: Schema.String,
  type: Schema.String,
  at: Timestamp,
  team: Schema.String,
  project: optional(Schema.String),
  environment: optional(Schema.String),
  environmentId: optional(Schema.String),
  keys: Schema.Array(Schema.String),
  versions: optional(Schema.Array(Schema.Number)),
  revision: optional(Schema.Number),
  target: optional(Schema.Struct({ type: Schema.String, id: Schema.String, name: Schema.String })),
  actor: Schema.Struct({ type: Schema.String, id: Schema.String, name: Schema.String })
})

interface Received {
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  readonly body: string
  readonly json: typeof Told.Type
}

/** `status` answers a request; undefined: never answers. */
const receiver = (status: (n: number) => number | undefined = () => 204) =>
  Effect.gen(function* () {
    const received: Array<Received> = []
    const { url } = yield* serve((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => {
        const body = Buffer.concat(chunks).toString()
        received.push({ headers: request.headers, body, json: Bodies.parse(Told)(body) })
        const code = status(received.length)
        if (code !== undefined) response.writeHead(code, { location: "/elsewhere" }).end("not read")
      })
    })
    const until = (n: number) =>
      Effect.gen(function* () {
        for (let i = 0; i < 200 && received.length < n; i++) yield* Effect.sleep("50 millis")
        assert.isAtLeast(received.length, n)
      })
    return { url, received, until }
  })

const setUp = Effect.gen(function* () {
  const project = yield* World.project()
  const { text: session } = yield* World.session(project.team.owner)
  const webhooks = `/teams/${project.team.id}/webhooks` as const
  const create = (url: string, more: Record<string, unknown> = {}) =>
    TestApp.post(webhooks, { session, json: { name: "hook", url, ...more } })
  const write = (key: string, value: string) =>
    TestApp.post("/secrets", { session, json: { projectId: project.id, environment: "development", key, value } })
  // A session of its own: the test moves time by days.
  const deliveries = (id: string) =>
    Effect.gen(function* () {
      const { text } = yield* World.session(project.team.owner)
      return (yield* TestApp.get(`${webhooks}/${id}/deliveries`, { session: text })).json.items
    })
  /** Until the delivery's row says what became of it. */
  const settled = (id: string, attempts: number) =>
    Effect.gen(function* () {
      for (let i = 0; i < 200; i++) {
        const [first] = yield* deliveries(id)
        if (first?.log.length === attempts) return first
        yield* Effect.sleep("50 millis")
      }
      return assert.fail("the delivery was not settled")
    })
  return { project, session, webhooks, create, write, deliveries, settled }
})

/** The function of docs/webhooks.md that checks a delivery, at an instant (s): the server's clock here is a moved one. */
const isOursAt = (seconds: number) =>
  Effect.promise(async () => {
    const text = Documents.block("docs/webhooks.md", "isOurs.mjs").replace("Date.now()", String(seconds * 1000))
    const source = Buffer.from(text).toString("base64")
    const module: unknown = await import(`data:text/javascript;base64,${source}`)
    return Schema.decodeUnknownSync(Schema.Struct({ isOurs: Check }))(module).isOurs
  })
const Check = Schema.declare(
  (value): value is (secret: string, header: string, body: string) => boolean => typeof value === "function"
)

/** The same steps by hand, for each signature. */
const verifies = (secret: string, { body, headers }: Received): ReadonlyArray<boolean> => {
  const [time, ...signatures] = String(headers["ampoule-signature"]).split(",")
  const t = time.replace("t=", "")
  return signatures.map(
    (signature) => signature === `v1=${createHmac("sha256", secret).update(`${t}.${body}`).digest("hex")}`
  )
}

const slackMessage = Schema.parseJson(Schema.Struct({ text: Schema.String }))

test("a message for Slack mentions nobody and links nowhere, whatever a name says", () => {
  const event = {
    type: "token.created",
    target: { type: "api_token", name: "<!channel> & `x`" },
    actor: { type: "user", name: "<@U1>" }
  }
  const { text } = Bodies.exactly(slackMessage)(slackBody(JSON.stringify(event), null))
  assert.strictEqual(text, "*token.created* (&lt;!channel&gt; &amp; `x`) by &lt;@U1&gt;")
  const keys = Array.from({ length: 12 }, (_, i) => `K${i}`)
  const many = Bodies.exactly(slackMessage)(
    slackBody(JSON.stringify({ ...event, keys, environment: "production" }), "shop")
  )
  assert.match(many.text, /`K9` and 2 more in `shop` \/ `production` by/)
})

describe("webhooks", () => {
  layer(app, { excludeTestServices: true })((it) => {
    it.scoped("that go while a change is made get nothing of it, and the change is made", () =>
      Effect.gen(function* () {
        const { create, session, webhooks, write } = yield* setUp
        const { received, until, url } = yield* receiver()
        const [going, staying] = [yield* create(`${url}/going`), yield* create(`${url}/staying`)]
        const sql = yield* SqlClient.SqlClient
        const writing = yield* sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`DELETE FROM webhooks WHERE id = ${going.json.id}`
            const writing = yield* Effect.fork(write("KEY", "value"))
            // Until it waits for this one. (The embedded database lets one in at a time anyway.)
            yield* Effect.sleep("300 millis")
            return writing
          })
        )
        assert.strictEqual((yield* Fiber.join(writing)).status, 201)
        yield* until(1)
        assert.deepStrictEqual(
          (yield* TestApp.get(webhooks, { session })).json.items.map(({ id }) => id),
          [staying.json.id]
        )
        assert.strictEqual(received.length, 1)
      })
    )

    it.scoped("are messages that Slack takes, signed all the same, where the webhook says so", () =>
      Effect.gen(function* () {
        const { create, project, session, settled, webhooks, write } = yield* setUp
        const bodies: Array<string> = []
        const { url } = yield* serve((request, response) => {
          const chunks: Array<Buffer> = []
          request.on("data", (chunk: Buffer) => chunks.push(chunk))
          request.on("end", () => {
            bodies.push(Buffer.concat(chunks).toString())
            response.writeHead(200).end("ok")
          })
        })
        const webhook = yield* create(`${url}/services/T0/B0`, { events: ["secret.created"], format: "slack" })
        assert.strictEqual(webhook.json.format, "slack")
        yield* write("API_KEY", "canary-5f1d-value")
        yield* settled(webhook.json.id, 1)
        const [{ text }] = bodies.map((body) => Bodies.exactly(slackMessage)(body))
        assert.match(
          text,
          new RegExp(`^\\*secret\\.created\\*: \`API_KEY\` in \`${project.slug}\` / \`development\` by \\S+@\\S+$`)
        )
        const changed = yield* TestApp.patch(`${webhooks}/${webhook.json.id}`, { session, json: { format: "json" } })
        assert.deepStrictEqual([changed.json.format, changed.json.events], ["json", ["secret.created"]])
      })
    )

    it.scoped("tell of changes of secrets and tokens, signed, with names and ids and no value", () =>
      Effect.gen(function* () {
        const { create, project, session, webhooks, write } = yield* setUp
        const { received, until, url } = yield* receiver()
        const webhook = yield* create(`${url}/hook?team=1`)
        assert.strictEqual(webhook.status, 201)
        const { secret, ...record } = webhook.json
        assert.match(secret, /^whsec_[0-9A-Za-z]{43}$/)
        const listed = yield* TestApp.get(webhooks, { session })
        assert.deepStrictEqual(listed.json.items, [record])

        const canary = "canary-5f1d-value"
        const written = yield* write("API_KEY", canary)
        yield* TestApp.patch(`/secrets/${written.json.id}`, { session, json: { value: `${canary}-2` } })
        yield* TestApp.del(`/secrets/${written.json.id}`, { session })
        const token = yield* TestApp.post(`/teams/${project.team.id}/api-tokens`, { session, json: { name: "ci" } })
        yield* TestApp.post(`/teams/${project.team.id}/api-tokens/${token.json.id}/revoke`, { session })
        yield* until(5)
        assert.sameMembers(
          received.map(({ json }) => json.type),
          ["secret.created", "secret.updated", "secret.deleted", "token.created", "token.revoked"]
        )
        for (const one of received) {
          assert.deepStrictEqual(verifies(secret, one), [true])
          assert.deepStrictEqual(verifies("whsec_other", one), [false])
          const signature = String(one.headers["ampoule-signature"])
          const sent = Number(/t=(\d+)/.exec(signature)?.[1])
          const check = yield* isOursAt(sent + 20)
          const late = yield* isOursAt(sent + 301)
          assert.isFalse(late(secret, signature, one.body))
          assert.isTrue(check(secret, signature, one.body))
          assert.isFalse(check("whsec_other", signature, one.body))
          assert.isFalse(check(secret, signature, `${one.body} `))
          assert.strictEqual(one.headers["ampoule-event-id"], one.json.id)
          assert.strictEqual(one.headers["ampoule-event"], one.json.type)
          assert.notInclude(one.body + JSON.stringify(one.headers), canary)
          assert.notInclude(one.body, token.json.value)
          assert.strictEqual(one.json.team, project.team.id)
        }
        assert.strictEqual(new Set(received.map(({ json }) => json.id)).size, 5)
        const created = received.find(({ json }) => json.type === "secret.created")?.json
        assert.deepStrictEqual(created?.keys, ["API_KEY"])
        assert.strictEqual(created?.environmentId, project.development.id)
        const sql = yield* SqlClient.SqlClient
        const entry =
          yield* sql`SELECT 1 AS one FROM audit_entries WHERE id = ${created?.id ?? ""} AND action = 'secret.create'`
        assert.strictEqual(entry.length, 1, "the event's id is the audit entry's")
        const about = received.find(({ json }) => json.type === "token.revoked")?.json
        assert.deepStrictEqual(about?.target, { type: "api_token", id: token.json.id, name: "ci" })
      })
    )

    it.scoped("get the events that they asked for, while they are enabled, and none that was undone", () =>
      Effect.gen(function* () {
        const { create, deliveries, project, session, webhooks, write } = yield* setUp
        const { received, until, url } = yield* receiver()
        const other = yield* setUp
        yield* other.create(url)
        const { id } = (yield* create(url, { events: ["token.created"] })).json
        const off = (yield* create(url)).json.id
        yield* TestApp.patch(`${webhooks}/${off}`, { session, json: { enabled: false } })
        yield* write("A", "1")
        yield* write("A", "1")
        yield* TestApp.post(`/teams/${project.team.id}/api-tokens`, { session, json: { name: "ci" } })
        yield* until(1)
        yield* Effect.sleep("1500 millis")
        assert.deepStrictEqual(
          received.map(({ json }) => [json.type, json.team]),
          [["token.created", project.team.id]]
        )
        assert.deepStrictEqual(yield* deliveries(off), [])
        // A transaction that fails takes its events along.
        yield* TestApp.patch(`${webhooks}/${id}`, { session, json: { events: ["secret.created"] } })
        const sql = yield* SqlClient.SqlClient
        const before = yield* sql`SELECT 1 AS one FROM webhook_deliveries WHERE webhook_id = ${id}`
        const refused = yield* TestApp.post("/secrets/bulk", {
          session,
          json: {
            projectId: project.id,
            environment: "development",
            secrets: [
              { key: "B", value: "1" },
              { key: "C", value: "${MISSING}" }
            ]
          }
        })
        assert.strictEqual(refused.status, 400)
        const after = yield* sql`SELECT 1 AS one FROM webhook_deliveries WHERE webhook_id = ${id}`
        assert.strictEqual(after.length, before.length)
      })
    )

    it.scoped("get an event again after a failure, for a day, and pages show the end", () =>
      Effect.gen(function* () {
        const { create, deliveries, session, settled, webhooks, write } = yield* setUp
        const { received, until, url } = yield* receiver((n) => (n === 1 ? 500 : n === 2 ? 302 : 204))
        const { id } = (yield* create(url)).json
        yield* write("A", "1")
        const failed = yield* settled(id, 1)
        assert.strictEqual(failed.state, "pending")
        assert.strictEqual(failed.log[0].status, 500)
        yield* MovableClock.advance("10 seconds")
        yield* until(2)
        assert.strictEqual((yield* settled(id, 2)).log[1].status, 302, "a redirect is not followed")
        yield* MovableClock.advance("20 seconds")
        yield* until(3)
        const done = yield* settled(id, 3)
        assert.strictEqual(done.state, "delivered")
        assert.strictEqual(done.attempts, 3)
        assert.strictEqual(new Set(received.map(({ json }) => json.id)).size, 1)
        assert.strictEqual(new Set(received.map(({ body }) => body)).size, 1)
        assert.isAbove(new Set(received.map(({ headers }) => headers["ampoule-signature"])).size, 1)

        const dead = (yield* create("http://127.0.0.1:1/hook")).json.id
        const tested = yield* TestApp.post(`${webhooks}/${dead}/test`, { session })
        assert.deepStrictEqual([tested.status, tested.json.event, tested.json.state], [201, "webhook.test", "pending"])
        assert.strictEqual((yield* settled(dead, 1)).log[0].problem, "connection")
        yield* MovableClock.advance(retryPeriod)
        const delivery = yield* settled(dead, 2)
        assert.deepStrictEqual([delivery.state, delivery.nextAttemptAt], ["failed", null])
        yield* MovableClock.advance(8 * retryPeriod)
        yield* Effect.flatMap(Dispatcher, ({ purge }) => purge)
        assert.deepStrictEqual(yield* deliveries(dead), [])
      })
    )

    it.scoped("sign with both secrets for a day after a rotation", () =>
      Effect.gen(function* () {
        const { create, session, webhooks } = yield* setUp
        const { received, until, url } = yield* receiver()
        const first = (yield* create(url)).json
        const second = (yield* TestApp.post(`${webhooks}/${first.id}/rotate`, { session })).json
        assert.notStrictEqual(second.secret, first.secret)
        yield* TestApp.post(`${webhooks}/${first.id}/test`, { session })
        yield* until(1)
        assert.deepStrictEqual(verifies(second.secret, received[0]), [true, false])
        assert.deepStrictEqual(verifies(first.secret, received[0]), [false, true])
        yield* MovableClock.advance("25 hours")
        const sql = yield* SqlClient.SqlClient
        // Its answer is recorded after it was received; asked for again before that, the record would win.
        const again = sql`UPDATE webhook_deliveries SET state = 'pending', next_at = created_at
          WHERE webhook_id = ${first.id} AND state = 'delivered' RETURNING 1`
        yield* Effect.repeat(Effect.delay(again, "50 millis"), { until: (rows) => rows.length > 0, times: 200 })
        yield* until(2)
        assert.deepStrictEqual(verifies(second.secret, received[1]), [true])
        const stored = yield* sql<{ readonly wrapped: Buffer }>`
          SELECT wrapped FROM webhook_secrets WHERE webhook_id = ${first.id}`
        for (const { wrapped } of stored) assert.notInclude(wrapped.toString("latin1"), second.secret.slice(6, 20))
      })
    )

    it.scoped("several that send share the outbox: nothing is sent twice", () =>
      Effect.gen(function* () {
        const { create, write } = yield* setUp
        const { received, until, url } = yield* receiver()
        yield* create(url)
        const { drain } = yield* Dispatcher
        yield* Effect.forEach(
          Array.from({ length: 40 }, (_, i) => i),
          (i) => write(`K${i}`, "1"),
          { concurrency: 8 }
        )
        yield* Effect.all([drain, drain, drain], { concurrency: "unbounded" })
        yield* until(40)
        yield* drain
        assert.strictEqual(received.length, 40)
        assert.strictEqual(new Set(received.map(({ json }) => json.id)).size, 40)
      })
    )

    it.scoped("one that does not answer leaves room for others", () =>
      Effect.gen(function* () {
        const { create, write } = yield* setUp
        const stuck = yield* receiver(() => undefined)
        const fine = yield* receiver()
        yield* create(stuck.url)
        yield* create(fine.url)
        const all = Array.from({ length: 3 }, (_, i) => i)
        yield* Effect.forEach(all, (i) => write(`K${i}`, "1"))
        yield* fine.until(3)
        assert.isAtMost(stuck.received.length, 4)
      })
    )

    it.scoped("go to no address inside, and at most 20 of a team", () =>
      Effect.gen(function* () {
        const { create, session, webhooks } = yield* setUp
        for (const url of [
          "http://example.com/",
          "https://10.0.0.1/",
          "https://u:p@example.com/",
          "file:///etc/passwd"
        ]) {
          const answer = yield* create(url)
          assert.deepStrictEqual([answer.status, answer.error.field], [400, "url"], url)
        }
        const { id } = (yield* create("https://example.com/")).json
        const changed = yield* TestApp.patch(`${webhooks}/${id}`, { session, json: { url: "https://192.168.0.1/" } })
        assert.deepStrictEqual([changed.status, changed.error.field], [400, "url"])
        yield* Effect.forEach(Array.from({ length: 19 }), () => create("https://example.com/"))
        assert.strictEqual((yield* create("https://example.com/")).error.code, "PLAN_LIMIT_REACHED")
        assert.strictEqual((yield* TestApp.del(`${webhooks}/${id}`, { session })).json.deleted, true)
        assert.strictEqual((yield* TestApp.post(`${webhooks}/${id}/test`, { session })).error.code, "ROUTE_NOT_FOUND")
      })
    )
  })

  test.prop(
    "pauses double from some seconds to an hour, never less than half nor more than one and a half",
    [FastCheck.integer({ min: 1, max: 100 }), FastCheck.double({ min: 0, max: 1, noNaN: true })],
    ([attempts, random]) => {
      const base = Math.min(3_600_000, 5_000 * 2 ** (attempts - 1))
      const pause = pauseAfter(attempts, random)
      assert.isTrue(pause >= base / 2 && pause <= base * 1.5)
    }
  )
})

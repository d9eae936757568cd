/** Everybody who uses the service at once, at a low and fixed rate: what each of them does, again and again. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Requests from "./Requests.ts"

export interface Call {
  readonly method: string
  readonly path: string
  readonly bearer?: string
  readonly cookie?: string
  readonly json?: object
  readonly headers?: Readonly<Record<string, string>>
  /** Statuses that are due. */
  readonly due?: ReadonlyArray<number>
}
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

/** Nobody waits longer for an answer. */
const patience = 60_000

export class NotDue extends Schema.TaggedError<NotDue>()("NotDue", {}) {}

export const make = (url: string, requests: Requests.Requests) => {
  const headersOf = ({ bearer, cookie, headers, json }: Call) => ({
    origin: url,
    ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
    ...(cookie === undefined ? {} : { cookie }),
    ...(json === undefined ? {} : { "content-type": "application/json" }),
    ...headers
  })
  const send = (call: Call, signal: AbortSignal) =>
    fetch(url + call.path, {
      method: call.method,
      headers: headersOf(call),
      signal,
      ...(call.json === undefined ? {} : { body: JSON.stringify(call.json) })
    })
  /** An answer that is due; of any other one the record knows, and what follows it makes no sense. */
  const call = (asked: Call) =>
    Effect.promise(async (): Promise<Answer | undefined> => {
      const began = performance.now()
      try {
        const response = await send(asked, AbortSignal.timeout(patience))
        const text = await response.text()
        requests.observe(asked.method, asked.path, response.status, began)
        const due = asked.due ?? [200, 201]
        if (due.includes(response.status)) return { status: response.status, headers: response.headers, text }
        if (response.status < 500 && response.status !== 429) {
          requests.unexpected(
            `${asked.method} ${asked.path.replace(/\?.*/s, "")}: ${response.status} ${text.slice(0, 200)}`
          )
        }
      } catch {
        requests.observe(asked.method, asked.path, undefined, began)
      }
      return undefined
    }).pipe(Effect.flatMap((answer) => (answer === undefined ? new NotDue() : Effect.succeed(answer))))

  const jsonOf =
    <A>(shape: Schema.Schema<A>) =>
    ({ text }: Answer) =>
      Schema.decodeUnknownSync(Schema.parseJson(shape), { onExcessProperty: "ignore" })(text)
  const read = <A>(asked: Call, shape: Schema.Schema<A>) => Effect.map(call(asked), jsonOf(shape))

  /** A stream that is open: until it says `text`, or so long. It may end by itself when a part is restarted. */
  const stream = (asked: Call, millis: number, text?: string) =>
    Effect.promise(async () => {
      const began = performance.now()
      const signal = AbortSignal.timeout(millis)
      let seen = ""
      try {
        const response = await send(asked, signal)
        requests.observe(asked.method, `${asked.path} (opened)`, response.status, began)
        for await (const chunk of response.body ?? []) {
          seen += Buffer.from(chunk).toString()
          if (text !== undefined && seen.includes(text)) break
        }
      } catch {
        if (!signal.aborted) requests.observe(asked.method, `${asked.path} (open)`, undefined, began)
      }
      return seen
    })
  return { call, read, stream }
}
type Client = ReturnType<typeof make>

export interface World {
  readonly teamId: string
  readonly projectId: string
  readonly person: { readonly email: string; readonly password: string }
  /** Reads and writes, each of a bucket of its own. */
  readonly token: Effect.Effect<string>
}

const Id = Schema.Struct({ id: Schema.String })
const Issued = Schema.Struct({ id: Schema.String, value: Schema.String })
const cookieOf = ({ headers }: Answer) => headers.getSetCookie()[0]?.split(";")[0] ?? ""

const signedIn = ({ call }: Client, { person }: World) =>
  Effect.map(call({ method: "POST", path: "/auth/session", json: person }), cookieOf)

/** Somebody in a browser: signs in, looks around, signs out. */
const browsing = (client: Client, world: World) =>
  Effect.gen(function* () {
    const cookie = yield* signedIn(client, world)
    const see = (path: string) => client.call({ method: "GET", path, cookie })
    yield* see("/app")
    yield* see(`/app/projects/${world.projectId}`)
    yield* see(`/teams/${world.teamId}/audit?limit=50`)
    yield* see(`/teams/${world.teamId}/members`)
    yield* see(`/projects/${world.projectId}/exposure`)
    yield* client.call({ method: "DELETE", path: "/auth/session", cookie })
    yield* client.call({ method: "GET", path: "/me/verify", cookie, due: [401] })
  })

/** A token that is made, used, rotated and revoked, and refused from then on. */
const issuing = (client: Client, world: World, cookie: string) =>
  Effect.gen(function* () {
    const tokens = `/teams/${world.teamId}/api-tokens`
    const json = { name: "short", accessLevel: "read", lifetime: "1d" }
    const first = yield* client.read({ method: "POST", path: tokens, cookie, json }, Issued)
    const verify = (bearer: string, status: number) =>
      client.call({ method: "GET", path: "/me/verify", bearer, due: [status] })
    yield* verify(first.value, 200)
    const second = yield* client.read({ method: "POST", path: `${tokens}/${first.id}/rotate`, cookie }, Issued)
    yield* verify(first.value, 401)
    yield* verify(second.value, 200)
    yield* client.call({ method: "DELETE", path: `${tokens}/${second.id}`, cookie })
    yield* verify(second.value, 401)
  })

const Begun = Schema.Struct({ deviceCode: Schema.String, userCode: Schema.String })
const Granted = Schema.Struct({ credential: Schema.String })

/** A command line that signs in: its stream hears of the approval, and its grant works until the logout. */
const devices = (client: Client, world: World, cookie: string) =>
  Effect.gen(function* () {
    const { deviceCode, userCode } = yield* client.read({ method: "POST", path: "/auth/cli/device", json: {} }, Begun)
    const events: Call = { method: "GET", path: "/auth/cli/device/events", bearer: deviceCode }
    const approve = Effect.gen(function* () {
      yield* Effect.sleep("1 second")
      const scopes = ["identity:read", "projects:read", "secrets:read", "secrets:run"]
      const json = { teams: [{ teamId: world.teamId, scopes }] }
      yield* client.call({ method: "POST", path: `/auth/cli/device/requests/${userCode}/approve`, cookie, json })
    })
    yield* Effect.all([client.stream(events, 30_000, "approved"), approve], { concurrency: "unbounded" })
    const poll: Call = { method: "POST", path: "/auth/cli/device/token", json: { deviceCode } }
    const { credential } = yield* client.read(poll, Granted)
    yield* client.call({ method: "GET", path: "/me", bearer: credential })
    yield* client.call({ method: "POST", path: "/auth/cli/logout", bearer: credential })
    yield* client.call({ method: "GET", path: "/me", bearer: credential, due: [401] })
  })

const modern = "2026-07-28"
const meta = {
  "io.modelcontextprotocol/protocolVersion": modern,
  "io.modelcontextprotocol/clientInfo": { name: "soak", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {}
}
const accept = { accept: "application/json, text/event-stream" }

/** Agents: a tool without a session, a stream without one, and a session with both. */
const agents = (client: Client, world: World, bearer: string) => {
  const where = { projectId: world.projectId, environment: "development" }
  const named = {
    "mcp-name": "list_secrets",
    "mcp-param-project": world.projectId,
    "mcp-param-environment": "development"
  }
  const rpc = (method: string, params: object, headers: Readonly<Record<string, string>>): Call => ({
    method: "POST",
    path: "/mcp",
    bearer,
    headers: { ...accept, ...headers },
    json: { jsonrpc: "2.0", id: 1, method, params }
  })
  const modernly = (method: string, params: object, more = {}) =>
    rpc(method, { ...params, _meta: meta }, { "mcp-protocol-version": modern, "mcp-method": method, ...more })
  const list = { name: "list_secrets", arguments: where }
  const session = Effect.gen(function* () {
    const hello = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "soak", version: "1" } }
    const opened = yield* client.call(rpc("initialize", hello, {}))
    const of = { "mcp-session-id": opened.headers.get("mcp-session-id") ?? "" }
    const use = Effect.repeatN(Effect.delay(client.call(rpc("tools/call", list, of)), "5 seconds"), 3)
    const listen = client.stream({ method: "GET", path: "/mcp", bearer, headers: { ...accept, ...of } }, 25_000)
    yield* Effect.all([use, listen], { concurrency: "unbounded" })
    yield* client.call({ method: "DELETE", path: "/mcp", bearer, headers: of, due: [200, 204] })
  })
  const filter = { notifications: { toolsListChanged: true, resourcesListChanged: true } }
  return {
    session,
    tool: client.call(modernly("tools/call", list, named)),
    listen: client.stream(modernly("subscriptions/listen", filter), 40_000)
  }
}

const Listed = Schema.Struct({ items: Schema.Array(Schema.Struct({ id: Schema.String, key: Schema.String })) })

/** Somebody who reads: names, values, versions, what differs. */
const reading = (client: Client, world: World, bearer: string) => {
  const where = `projectId=${world.projectId}&environment=development`
  const get = (path: string) => client.call({ method: "GET", path, bearer })
  const one = Effect.gen(function* () {
    const { items } = yield* client.read({ method: "GET", path: `/secrets?${where}&pageSize=100`, bearer }, Listed)
    const [item] = items
    if (item === undefined) return
    // The writers may have deleted it meanwhile.
    const due = [200, 404]
    yield* client.call({ method: "GET", path: `/secrets/value?${where}&key=${item.key}`, bearer, due })
    yield* client.call({ method: "GET", path: `/secrets/${item.id}/versions`, bearer, due })
  })
  const inject = get(`/secrets/inject?${where}`)
  const rare = Effect.all([
    get(`/secrets/with-values?${where}`),
    get(`/secrets/composition?${where}`),
    get(`/secrets/diff?projectId=${world.projectId}&sourceEnv=development&targetEnv=staging`),
    get("/projects"),
    get(`/projects/${world.projectId}/environments`),
    get("/capabilities"),
    client.call({ method: "GET", path: "/health/ready" })
  ])
  return { one, inject, rare }
}

/** A project that is made, filled and removed: keys and data keys come and go. */
const projects = (client: Client, world: World, cookie: string) =>
  Effect.gen(function* () {
    const json = { name: `Passing ${Math.random()}` }
    const { id } = yield* client.read({ method: "POST", path: `/teams/${world.teamId}/projects`, cookie, json }, Id)
    const secrets = Array.from({ length: 5 }, (_, n) => ({ key: `PASSING_${n}`, value: `value ${n}` }))
    const bulk = { projectId: id, environment: "development", secrets }
    yield* client.call({ method: "POST", path: "/secrets/bulk", cookie, json: bulk })
    yield* client.call({ method: "GET", path: `/secrets/inject?projectId=${id}&environment=development`, cookie })
    yield* client.call({ method: "DELETE", path: `/projects/${id}`, cookie })
  })

/** Again and again, whatever comes of it. */
const every = (seconds: number, work: Effect.Effect<unknown, NotDue>) =>
  Effect.forever(Effect.zipRight(Effect.ignore(work), Effect.sleep(`${seconds} seconds`)))

/** A session that lasts, made anew when a step with it failed. */
const withSession = (client: Client, world: World, work: (cookie: string) => Effect.Effect<unknown, NotDue>) => {
  let cookie = ""
  return Effect.gen(function* () {
    if (cookie === "") cookie = yield* signedIn(client, world)
    yield* work(cookie)
  }).pipe(Effect.tapError(() => Effect.sync(() => void (cookie = ""))))
}

/** All but the writers, until they are interrupted. */
export const lanes = (client: Client, world: World) =>
  Effect.gen(function* () {
    const [reader, agent, listener] = yield* Effect.all([world.token, world.token, world.token])
    const { inject, one, rare } = reading(client, world, reader)
    const mcp = agents(client, world, agent)
    return [
      every(1.5, inject),
      every(4, one),
      every(30, rare),
      every(4, mcp.tool),
      every(5, mcp.session),
      every(1, agents(client, world, listener).listen),
      every(30, browsing(client, world)),
      every(
        20,
        withSession(client, world, (cookie) => issuing(client, world, cookie))
      ),
      every(
        25,
        withSession(client, world, (cookie) => devices(client, world, cookie))
      ),
      every(
        60,
        withSession(client, world, (cookie) => projects(client, world, cookie))
      )
    ]
  })

/** An instance that is full of canaries: values of every kind, credentials of every kind, and refused requests that hold some. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { randomBytes } from "node:crypto"

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}
export interface Asked {
  readonly bearer?: string
  readonly cookie?: string
  readonly json?: unknown
  readonly body?: string
}

const keysOfEach = 250
/** Seconds. */
const waitedAtMost = 60
const Id = Schema.Struct({ id: Schema.String })
const Issued = Schema.Struct({ id: Schema.String, value: Schema.String })

const read = <A>(shape: Schema.Schema<A>, { status, text }: Answer) => {
  if (status >= 300) throw new Error(`${status} ${text.slice(0, 300)}`)
  return Schema.decodeUnknownSync(Schema.parseJson(shape), { onExcessProperty: "ignore" })(text)
}

export const make = (url: string) => {
  /** By what they are. */
  const canaries: Record<string, string> = {}
  let count = 0
  const keep = (what: string, text: string) => (canaries[`${what} ${++count}`] = text)
  const fresh = (what: string) => keep(what, randomBytes(20).toString("hex"))

  const once = (method: string, path: string, { bearer, body, cookie, json }: Asked = {}) =>
    Effect.promise(async (): Promise<Answer> => {
      const sent = body ?? (json === undefined ? undefined : JSON.stringify(json))
      const response = await fetch(url + path, {
        method,
        redirect: "manual",
        headers: {
          origin: url,
          ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
          ...(cookie === undefined ? {} : { cookie }),
          ...(sent === undefined ? {} : { "content-type": "application/json" })
        },
        ...(sent === undefined ? {} : { body: sent })
      })
      return { status: response.status, headers: response.headers, text: await response.text() }
    })

  /** Asks again when it was too fast, as the answer says; a limit that takes longer is one that was to be met. */
  const call = (method: string, path: string, asked: Asked = {}): Effect.Effect<Answer> =>
    Effect.flatMap(once(method, path, asked), (answer) => {
      const seconds = Number(answer.headers.get("retry-after") ?? Infinity)
      return answer.status === 429 && seconds <= waitedAtMost
        ? Effect.delay(call(method, path, asked), `${seconds} seconds`)
        : Effect.succeed(answer)
    })

  /** Signs in, and knows what the browser holds. */
  const signedIn = (email: string, password: string) =>
    Effect.map(call("POST", "/auth/session", { json: { email, password } }), ({ headers }) => {
      const cookie = headers.getSetCookie()[0]?.split(";")[0] ?? ""
      keep("session", cookie.slice(-45, -8))
      return cookie
    })

  const secretsOf = (what: string, names: string) =>
    Array.from({ length: keysOfEach }, (_, n) => ({ key: `${names}_${n}`, value: fresh(what) }))

  /** Values that exist, existed, wait, were deleted. */
  const values = (cookie: string, teamId: string) =>
    Effect.gen(function* () {
      const projects: Array<string> = []
      for (const name of ["Shop", "Stock", "Mail"]) {
        const project = yield* call("POST", `/teams/${teamId}/projects`, { cookie, json: { name } })
        const projectId = read(Id, project).id
        projects.push(projectId)
        for (const environment of ["development", "staging", "production"]) {
          const at = { projectId, environment }
          const bulk = (all: ReadonlyArray<object>) =>
            Effect.forEach([0, 100, 200], (from) => {
              const json = { ...at, secrets: all.slice(from, from + 100) }
              return Effect.map(call("POST", "/secrets/bulk", { cookie, json }), (answer) =>
                read(Schema.Unknown, answer)
              )
            })
          yield* bulk(secretsOf("value that was replaced", "KEY"))
          yield* bulk(secretsOf("value", "KEY"))
          yield* bulk(secretsOf("deleted value", "GONE"))
          const sources = Array.from({ length: 20 }, (_, n) => ({
            key: `TEMPLATE_${n}`,
            source: `${fresh("template")}\${KEY_${n}}`
          }))
          for (const source of sources)
            read(Id, yield* call("POST", "/secrets", { cookie, json: { ...at, ...source } }))
          const query = `projectId=${projectId}&environment=${environment}&pageSize=500`
          const Named = Schema.Struct({ items: Schema.Array(Schema.Struct({ id: Schema.String, key: Schema.String })) })
          const listed = [1, 2].map((page) => call("GET", `/secrets?${query}&page=${page}`, { cookie }))
          const items = (yield* Effect.all(listed)).flatMap((answer) => read(Named, answer).items)
          const ids = items.filter(({ key }) => key.startsWith("GONE")).map(({ id }) => id)
          for (let from = 0; from < ids.length; from += 50) {
            const json = { ...at, ids: ids.slice(from, from + 50) }
            read(Schema.Unknown, yield* call("POST", "/secrets/delete-bulk", { cookie, json }))
          }
        }
      }
      return projects
    })

  /** Changes of a person without a right to write, sealed until somebody decides. */
  const proposals = (cookie: string, projectId: string) =>
    Effect.gen(function* () {
      const body = { slug: "waiting", name: "Waiting", protected: true, readers: "team", changes: "proposed" }
      const environment = yield* call("POST", `/projects/${projectId}/environments`, { cookie, json: body })
      read(Id, environment)
      for (let n = 0; n < 10; n++) {
        const json = { projectId, environment: "waiting", key: `WAITS_${n}`, value: fresh("value that waits") }
        read(Schema.Unknown, yield* call("POST", "/secrets", { cookie, json }))
      }
    })

  /** Each answers with the whole credential once. */
  const credentials = (cookie: string, teamId: string, person: { readonly email: string; readonly password: string }) =>
    Effect.gen(function* () {
      for (let n = 0; n < 60; n++) {
        const json = { name: `token ${n}`, accessLevel: "read", lifetime: "1d" }
        const token = read(Issued, yield* call("POST", `/teams/${teamId}/api-tokens`, { cookie, json }))
        keep("API token", token.value.slice(-49, -6))
        read(Schema.Unknown, yield* call("GET", "/me/verify", { bearer: token.value }))
      }
      for (let n = 0; n < 5; n++) yield* signedIn(person.email, person.password)
      for (let n = 0; n < 3; n++) {
        const json = { name: `hook ${n}`, url: "http://127.0.0.1:9/" }
        const { secret } = read(
          Schema.Struct({ secret: Schema.String }),
          yield* call("POST", `/teams/${teamId}/webhooks`, { cookie, json })
        )
        keep("secret of a webhook", secret.replace("whsec_", ""))
        const invited = yield* call("POST", `/teams/${teamId}/invitations`, {
          cookie,
          json: { email: `guest${n}@example.com`, role: "member" }
        })
        const { inviteUrl } = read(Schema.Struct({ inviteUrl: Schema.String }), invited)
        keep("invitation", inviteUrl.slice(-43, -6))
      }
      for (let n = 0; n < 5; n++) {
        const Begun = Schema.Struct({ deviceCode: Schema.String, userCode: Schema.String })
        const { deviceCode, userCode } = read(Begun, yield* call("POST", "/auth/cli/device", { json: {} }))
        keep("device code", deviceCode.slice(-43, -6))
        const approve = `/auth/cli/device/requests/${userCode}/approve`
        const teams = [{ teamId, scopes: ["identity:read", "secrets:read"] }]
        read(Schema.Unknown, yield* call("POST", approve, { cookie, json: { teams } }))
        const granted = yield* call("POST", "/auth/cli/device/token", { json: { deviceCode } })
        keep("grant", read(Schema.Struct({ credential: Schema.String }), granted).credential.slice(-43, -6))
      }
    })

  /** Every way to be refused, with a canary in the refused part. */
  const refusals = (bearer: string, projectId: string) =>
    Effect.gen(function* () {
      const at = { projectId, environment: "development" }
      for (let n = 0; n < 40; n++) {
        const requests: ReadonlyArray<readonly [method: string, path: string, asked: Asked]> = [
          ["POST", "/secrets", { json: { ...at, key: "KEY_1", value: fresh("value of a key that is there") } }],
          [
            "POST",
            "/secrets",
            { json: { ...at, key: "X", value: `${fresh("value that refers to nothing")}\${MISSING}` } }
          ],
          ["POST", "/secrets", { json: { ...at, key: "X", source: `${fresh("source with a fault")}\${bad` } }],
          ["POST", "/secrets", { json: { ...at, key: "X", value: fresh("value that is too long").repeat(2_000) } }],
          ["POST", "/secrets", { json: { ...at, key: "X", value: { nested: fresh("value that is no text") } } }],
          ["POST", "/secrets", { json: { ...at, key: fresh("value as a key"), value: "x" } }],
          [
            "POST",
            "/secrets",
            { json: { projectId: fresh("value as a project"), environment: "development", key: "X" } }
          ],
          [
            "POST",
            "/secrets",
            { json: { ...at, environment: fresh("value as an environment"), key: "X", value: "x" } }
          ],
          ["POST", "/secrets/bulk", { json: { ...at, secrets: fresh("value as a list") } }],
          ["POST", "/secrets", { body: `{"value": "${fresh("value of a body with a fault")}` }],
          ["POST", "/auth/session", { json: { email: "ada@example.com", password: fresh("password of no account") } }],
          ["POST", "/auth/cli/device/token", { json: { deviceCode: fresh("unknown device code") } }]
        ]
        // As many sign-ins as are not refused for their number.
        for (const [method, path, one] of requests.filter(([, path]) => n < 5 || path !== "/auth/session")) {
          const { status, text } = yield* call(method, path, path.startsWith("/auth") ? one : { bearer, ...one })
          if (status < 300 && path !== "/auth/cli/device/token") throw new Error(`${path} was not refused: ${text}`)
        }
        // An unknown credential.
        yield* call("GET", "/projects", { bearer: fresh("unknown credential") })
      }
    })

  return { canaries, fresh, call, signedIn, values, proposals, credentials, refusals }
}
export type Filling = ReturnType<typeof make>

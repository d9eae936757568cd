/** A server that answers what a test says, over real HTTP, and remembers what it was asked. */
import * as Effect from "effect/Effect"
import * as http from "node:http"
import * as https from "node:https"

interface Asked {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: http.IncomingHttpHeaders
  readonly body: string
}

export interface Answer {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON unless it is a string. */
  readonly body?: unknown
}

export type Route = (asked: Asked) => Answer | undefined

export interface FakeServer {
  readonly url: string
  readonly asked: ReadonlyArray<Asked>
  /** Connections that were made to it. */
  connections: number
  /** Its answer from now on; undefined = 404 in the envelope; "gone" = the connection breaks; "silent" = none. */
  answer: Route | "gone" | "silent"
}

const routeNotFound = { status: 404, body: { statusCode: 404, code: "ROUTE_NOT_FOUND", message: "No such route." } }

/** `tls`: certificate and key as PEM; it then speaks https, under the names of the certificate. */
export const make = (answer: Route, tls?: { readonly cert: string; readonly key: string }) =>
  Effect.acquireRelease(
    Effect.async<FakeServer & { readonly close: () => void }>((resume) => {
      const requests: Array<Asked> = []
      const listener: http.RequestListener = (request, response) => {
        const url = new URL(request.url ?? "/", "http://fake")
        let body = ""
        request.setEncoding("utf8").on("data", (text: string) => (body += text))
        request.on("end", () => {
          const question: Asked = {
            method: request.method ?? "",
            path: url.pathname,
            query: url.searchParams,
            headers: request.headers,
            body
          }
          requests.push(question)
          if (fake.answer === "gone") return request.socket.destroy()
          if (fake.answer === "silent") return
          const reply: Answer = fake.answer(question) ?? routeNotFound
          const isText = typeof reply.body === "string"
          response.writeHead(reply.status ?? 200, {
            "content-type": isText ? "text/html" : "application/json",
            ...reply.headers
          })
          response.end(reply.body === undefined ? "" : isText ? reply.body : JSON.stringify(reply.body))
        })
      }
      const server = tls === undefined ? http.createServer(listener) : https.createServer(tls, listener)
      const fake: FakeServer & { close: () => void } = {
        url: "",
        asked: requests,
        connections: 0,
        answer,
        close: () => {
          server.closeAllConnections()
          server.close()
        }
      }
      server.on("connection", () => fake.connections++)
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(
          Effect.succeed(
            Object.assign(fake, { url: `${tls === undefined ? "http://127.0.0.1" : "https://localhost"}:${port}` })
          )
        )
      })
    }),
    ({ close }) => Effect.sync(close)
  )

export const projectId = "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e"
export const teamId = "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30"
const at = "2026-11-21T08:00:00.000Z"

export const project = { id: projectId, teamId, name: "Demo", slug: "demo", createdAt: at, updatedAt: at }

export const refusal = (status: number, code: string, more: Readonly<Record<string, unknown>> = {}): Answer => ({
  status,
  body: { statusCode: status, code, message: `Says ${code}.`, ...more }
})

/** `GET /projects` and `GET /secrets/inject` of one project `demo`, with these values. */
export const environment =
  (values: () => Readonly<Record<string, string>>): Route =>
  ({ headers, path }) => {
    if (path === "/projects") {
      return { body: { items: [project] } }
    }
    if (path === "/me/verify") return { body: { only: null } }
    const now = values()
    if (path === "/secrets") return { body: { items: Object.keys(now).map((key) => ({ key })), hasMore: false } }
    if (path !== "/secrets/inject") return undefined
    const etag = `"${Buffer.from(JSON.stringify(now)).toString("base64url").slice(-40)}"`
    if (headers["if-none-match"] === etag) return { status: 304 }
    const total = Object.keys(now).length
    return {
      headers: { etag },
      body: {
        projectId,
        environment: "development",
        representation: "materialized",
        values: now,
        page: 1,
        pageSize: total,
        total,
        hasMore: false,
        revision: 1,
        // A member of a later release.
        addedLater: { anything: true }
      }
    }
  }

/** `SecretListItem`, or with `value` and `representation` `SecretWithValue`. */
export const secret = (more: Readonly<Record<string, unknown>>) => ({
  id: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b80",
  projectId,
  environment: "development",
  key: "KEY",
  kind: "literal",
  version: 2,
  createdAt: at,
  updatedAt: at,
  references: [],
  updatedBy: { type: "user", id: teamId, name: "Ada" },
  owner: null,
  note: null,
  rotateBy: null,
  alias: null,
  tags: [],
  ...more
})

/** `VerifyAuthResponse`. */
export const verified = {
  credential: { type: "api_token", id: "01980a60-4b5c-7d6e-9f70-8192a3b4c5d6", name: "ci", expiresAt: at },
  accessLevel: "read",
  teams: [{ id: teamId, name: "Platform" }],
  mcpScopes: [],
  restrictions: { projectIds: null, environmentIds: null },
  only: null
}

/** Clients of two servers behind a balancer, each of one kind, and what each was answered in each stage. */
import { assert } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { randomBytes } from "node:crypto"
import * as McpApp from "#test/mcp/McpApp.ts"
import * as OAuth from "#test/oauth/OAuthClient.ts"

interface Answer {
  readonly status: number
  readonly text: string
  readonly headers: Headers
}

const Ids = Schema.Struct({ id: Schema.String })
const Items = Schema.Struct({ items: Schema.Array(Schema.Struct({ id: Schema.String })) })
const Issued = Schema.Struct({ id: Schema.String, value: Schema.String })
const Values = Schema.Struct({ values: Schema.Record({ key: Schema.String, value: Schema.String }) })
const read = <A, I>(shape: Schema.Schema<A, I>, { text }: Answer): A =>
  Schema.decodeUnknownSync(Schema.parseJson(shape), { onExcessProperty: "ignore" })(text)

const sessionOf = (answer: Answer) =>
  answer.headers
    .getSetCookie()
    .map((line) => /^ampoule_session=([^;]+)/.exec(line)?.[1])
    .find((text) => text !== undefined) ?? assert.fail(`no session: ${answer.status} ${answer.text.slice(0, 200)}`)

const person = { email: "ada@example.com", password: "vial of thirty drops" }

/** Requests to the service, as a browser's script, a token or nobody makes them. */
const requests = (base: string) => {
  const send = async (method: string, to: string, headers: Record<string, string>, body?: unknown): Promise<Answer> => {
    const response = await fetch(`${base}${to}`, {
      method,
      redirect: "manual",
      headers: { ...headers, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    return { status: response.status, text: await response.text(), headers: response.headers }
  }
  return {
    open: (method: string, to: string, body?: unknown) => send(method, to, { origin: base }, body),
    as: (session: string) => (method: string, to: string, body?: unknown) =>
      send(method, to, { origin: base, cookie: `ampoule_session=${session}` }, body),
    with: (token: string) => (method: string, to: string, body?: unknown) =>
      send(method, to, { authorization: `Bearer ${token}` }, body)
  }
}

const ok = (answer: Answer, what: string): Answer => {
  assert.include([200, 201, 202, 204, 303], answer.status, `${what}: ${answer.text.slice(0, 300)}`)
  return answer
}

/** Rows in every table that the earlier server can fill without an outside service. */
export const fill = async (base: string, setupCode: string) => {
  const ask = requests(base)
  const setup = await ask.open("POST", "/setup", { setupCode, ...person, name: "Ada", teamName: "Ops" })
  const session = sessionOf(ok(setup, "setup"))
  const owner = ask.as(session)
  const { team } = read(Schema.Struct({ team: Ids }), setup)
  const make = async (to: string, body: unknown) => ok(await owner("POST", to, body), `POST ${to}`)
  const { id: projectId } = read(Ids, await make(`/teams/${team.id}/projects`, { name: "Shop" }))
  const { items } = read(Items, ok(await owner("GET", `/projects/${projectId}/environments`), "environments"))
  const secrets = Array.from({ length: 100 }, (_, i) => ({ key: `KEY_${i}`, value: `value ${i}` }))
  await make("/secrets/bulk", { projectId, environment: "development", secrets })
  await make("/secrets", { projectId, environment: "development", key: "URL", value: "x-${KEY_1}" })
  await make("/secrets", { projectId, environment: "production", key: "PROTECTED", value: "p" })
  const token = async (accessLevel: string) =>
    read(Issued, await make(`/teams/${team.id}/api-tokens`, { name: `t ${accessLevel}`, accessLevel, lifetime: "30d" }))
  const writer = await token("write")
  const reader = await token("read")
  for (const { id } of items) await owner("GET", `/environments/${id}/keypair`)
  await make(`/teams/${team.id}/webhooks`, { name: "hook", url: "https://example.com/hook" })
  await make(`/teams/${team.id}/invitations`, { email: "bo@example.com", role: "member" })
  await make(`/teams/${team.id}/projects`, { name: "Waits" })
  const { client_id: clientId } = OAuth.registered(await OAuth.register(base))
  const { challenge, verifier } = OAuth.pkce()
  const url = OAuth.authorizationUrl(base, { client_id: clientId, code_challenge: challenge, scope: "projects:read" })
  const { callback } = await McpApp.decide(new McpApp.Browser(session), url, {
    scopes: ["projects:read"],
    teams: [team]
  })
  const agent = await OAuth.redeem(base, clientId, callback.searchParams.get("code") ?? "", verifier)
  return {
    teamId: team.id,
    projectId,
    session,
    writer: writer.value,
    reader: reader.value,
    clientId,
    refreshToken: OAuth.refreshTokenOf(agent)
  }
}
type World = Awaited<ReturnType<typeof fill>>

interface Outcome {
  readonly status: number | "no answer"
  readonly text: string
}

/** A client repeats its request until it is stopped. It names what it was refused. */
interface Client {
  readonly name: string
  /** Answers of one round, in order; the first that is not `good` ends the round. */
  readonly round: (step: (answer: Answer) => Answer) => Promise<void>
}

const formField = /<input[^>]*type="hidden"[^>]*>/g
const attribute = (tag: string, name: string) =>
  new RegExp(`\\b${name}="([^"]*)"`).exec(tag)?.[1]?.replaceAll("&amp;", "&") ?? ""

/** The page with a plain form, and the form sent as a browser without scripts sends it. */
const nameForm = (base: string, session: string) => async (step: (answer: Answer) => Answer) => {
  const ask = requests(base)
  const page = step(await ask.as(session)("GET", "/app/account"))
  const form = page.text.split("<form").find((part) => part.includes('action="/app/account/name"')) ?? ""
  const hidden = [...(form.split("</form>")[0] ?? "").matchAll(formField)].map(
    ([tag]) => [attribute(tag, "name"), attribute(tag, "value")] as const
  )
  const response = await fetch(`${base}/app/account/name`, {
    method: "POST",
    redirect: "manual",
    headers: {
      origin: base,
      cookie: `ampoule_session=${session}`,
      "content-type": "application/x-www-form-urlencoded"
    },
    body: new URLSearchParams([...hidden, ["name", "Ada"] as const].map(([k, v]) => [k, v])).toString()
  })
  step({ status: response.status, text: await response.text(), headers: response.headers })
}

export const clients = (base: string, world: World): ReadonlyArray<Client> => {
  const ask = requests(base)
  const { clientId, projectId, session, teamId } = world
  const at = `projectId=${projectId}&environment=development`
  const owner = ask.as(session)
  const writer = ask.with(world.writer)
  const reader = ask.with(world.reader)
  let refreshToken = world.refreshToken
  return [
    {
      name: "signs in and out",
      round: async (step) => {
        const signedIn = sessionOf(step(await ask.open("POST", "/auth/session", person)))
        step(await ask.as(signedIn)("GET", "/me"))
        step(await ask.as(signedIn)("DELETE", "/me/token"))
      }
    },
    {
      name: "injects and lists",
      round: async (step) => {
        const { values } = read(Values, step(await reader("GET", `/secrets/inject?${at}`)))
        assert.strictEqual(values["URL"], "x-value 1")
        step(await reader("GET", `/secrets?${at}`))
        step(await reader("GET", "/me/verify"))
      }
    },
    {
      name: "writes, reads back and deletes",
      round: async (step) => {
        const key = `W_${randomBytes(6).toString("hex").toUpperCase()}`
        const { id } = read(
          Ids,
          step(await writer("POST", "/secrets", { projectId, environment: "development", key, value: key }))
        )
        step(await writer("PATCH", `/secrets/${id}`, { value: `${key}2` }))
        const { values } = read(Values, step(await reader("GET", `/secrets/inject?${at}`)))
        assert.strictEqual(values[key], `${key}2`)
        step(await writer("DELETE", `/secrets/${id}`))
      }
    },
    {
      name: "makes an environment and writes its first value",
      round: async (step) => {
        const slug = `e-${randomBytes(5).toString("hex")}`
        const { id } = read(Ids, step(await owner("POST", `/projects/${projectId}/environments`, { name: slug, slug })))
        const first = { projectId, environment: slug, key: "FIRST", value: "first" }
        step(await writer("POST", "/secrets", first))
        const { values } = read(
          Values,
          step(await reader("GET", `/secrets/inject?projectId=${projectId}&environment=${slug}`))
        )
        assert.strictEqual(values["FIRST"], "first")
        step(await owner("GET", `/environments/${id}/keypair`))
        step(await owner("DELETE", `/environments/${id}`))
      }
    },
    {
      name: "makes, uses and revokes a token",
      round: async (step) => {
        const body = { name: "rolling", accessLevel: "read", lifetime: "1d" }
        const { id, value } = read(Issued, step(await owner("POST", `/teams/${teamId}/api-tokens`, body)))
        step(await ask.with(value)("GET", `/secrets/inject?${at}`))
        step(await owner("DELETE", `/teams/${teamId}/api-tokens/${id}`))
      }
    },
    { name: "sends a form of a page", round: nameForm(base, session) },
    {
      name: "refreshes as an agent, and lists tools",
      round: async (step) => {
        const response = await OAuth.refresh(base, clientId, refreshToken)
        step({ status: response.status, text: response.text, headers: response.headers })
        refreshToken = OAuth.refreshTokenOf(response)
        const { access_token: access } = read(Schema.Struct({ access_token: Schema.String }), response)
        const listed = await fetch(`${base}/mcp`, {
          method: "POST",
          headers: {
            authorization: `Bearer ${access}`,
            "content-type": "application/json",
            accept: "application/json, text/event-stream",
            "mcp-protocol-version": "2025-06-18"
          },
          body: JSON.stringify({
            jsonrpc: "2.0",
            id: 1,
            method: "initialize",
            params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } }
          })
        })
        step({ status: listed.status, text: await listed.text(), headers: listed.headers })
      }
    }
  ]
}

export interface Stage {
  readonly name: string
  readonly requests: number
  readonly failures: ReadonlyArray<string>
}

class Failed extends Error {}

/** Runs all clients until `end`. The stage is the one at the time of the request. */
export const run = (list: ReadonlyArray<Client>, first: string) => {
  const stages: Array<{ readonly name: string; requests: number; readonly failures: Array<string> }> = [
    { name: first, requests: 0, failures: [] }
  ]
  const state = { isGoing: true }
  const now = () => stages[stages.length - 1] ?? assert.fail("traffic begins with a stage")
  const rounds = list.map(async ({ name, round }) => {
    while (state.isGoing) {
      const stage = now()
      const outcome = { status: "no answer", text: "" } as { status: Outcome["status"]; text: string }
      try {
        await round((answer) => {
          stage.requests++
          outcome.status = answer.status
          outcome.text = answer.text
          if (answer.status >= 400 || answer.status < 200) throw new Failed(String(answer.status))
          return answer
        })
      } catch (error) {
        const reason = error instanceof Failed ? outcome.text.slice(0, 160) : String(error).slice(0, 160)
        stage.failures.push(`${name}: ${String(outcome.status)} ${reason}`)
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    }
  })
  return {
    stage: (name: string) => void stages.push({ name, requests: 0, failures: [] }),
    end: async (): Promise<ReadonlyArray<Stage>> => {
      state.isGoing = false
      await Promise.all(rounds)
      return stages
    }
  }
}

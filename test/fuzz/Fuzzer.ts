/**
 * The fuzzer (docs/assurance.md): over every operation of both documents, by every kind of credential, requests
 * that are valid, wrong in one place, or hostile. A healthy server refuses what is wrong, and never more than that.
 */
import { hash } from "@node-rs/argon2"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as http from "node:http"
import { allScopes } from "#schema/Scopes.ts"
import { optional } from "#schema/Strict.ts"
import { Listening } from "#src/http/engine/Server.ts"
import * as SealedEnv from "#src/sealed/SealedEnv.ts"
import { AccessWorld, layer as worldLayer, type Made as Credential } from "#test/access/AccessWorld.ts"
import { parsed } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { type Asked, problemsOf } from "./Checks.ts"
import { type Dice, dice } from "./Dice.ts"
import { type Operation, operations } from "./Documents.ts"
import * as Exchange from "./Exchange.ts"
import * as Inputs from "./Inputs.ts"

const Refusal = Schema.Struct({ code: optional(Schema.String), field: optional(Schema.String) })

export interface Options {
  readonly seed: string
  readonly requests: number
  /** A server on 127.0.0.1 that takes what webhooks send, `http://127.0.0.1:PORT`. */
  readonly receiver: string
  readonly onProgress?: (done: number) => void
  /**
   * Sends what changed nothing to another server over the same database, and says what differs. Nothing else happens
   * meanwhile.
   */
  readonly again?: (request: Inputs.Request, answer: Exchange.Answer) => Effect.Effect<ReadonlyArray<string>>
}

interface Finding {
  readonly operation: string
  readonly problem: string
  /** Of the first request that showed it. */
  readonly request: string
  readonly answer: string
  times: number
}

interface Report {
  readonly seed: string
  readonly requests: number
  readonly byPhase: Record<string, number>
  readonly byStatus: Record<string, number>
  readonly operations: number
  /** Operations that succeeded at least once, and those that never did. */
  readonly succeeded: number
  readonly neverSucceeded: ReadonlyArray<string>
  /**
   * Valid by the document, refused as invalid all the same: formats that JSON Schema cannot say. By operation and
   * member.
   */
  readonly refusedValid: Record<string, number>
  readonly findings: ReadonlyArray<Finding>
}

/** Requests between two worlds: some take away what others stand on. */
const epoch = 2_500
const lanes = 12

/** They end a credential or take a whole place away: rare, so that the rest finds something. */
const ending = new Set([
  "identity.revokeOwnToken",
  "device.logout",
  "session.signOut",
  "teams.leave",
  "teams.update",
  "manageProjects.remove",
  "manageProjects.removeEnvironment",
  "members.remove",
  "members.update",
  "manageProjects.updateEnvironment",
  // Passwords cost what they should.
  "session.signIn",
  "session.changePassword",
  "session.changeEmail",
  // A stream is waited for.
  "device.events",
  "mcp.stream",
  "apiTokens.revoke",
  "apiTokens.rotate",
  "apiTokens.remove"
])

/** They would take away where most requests go. */
const spareHome = new Set([
  "manageProjects.remove",
  "manageProjects.removeEnvironment",
  "manageProjects.updateEnvironment"
])

/** Members of answers that later requests can ask for. `id` belongs to the last word of the path. */
const idOf: Record<string, string> = {
  secrets: "secretId",
  bulk: "secretId",
  deleted: "secretId",
  projects: "projectId",
  environments: "envId",
  "api-tokens": "tokenId",
  webhooks: "webhookId",
  "machine-rules": "ruleId",
  "cli-grants": "grantId",
  teams: "teamId"
}
const poolOfMember: Record<string, string> = {
  userId: "userId",
  userCode: "userCode",
  deviceCode: "deviceCode",
  keyId: "keyId",
  nextCursor: "cursor",
  setupCode: "code"
}

type Pools = Record<string, Array<string>>

const harvest = (pools: Pools, operation: Operation, text: string): void => {
  const last = operation.path.split("/").findLast((part) => !part.startsWith("{")) ?? ""
  const put = (name: string | undefined, value: unknown) => {
    if (name === undefined || typeof value !== "string" || value.length > 300) return
    const pool = (pools[name] ??= [])
    pool.push(value)
    if (pool.length > 60) pool.splice(20 + (pool.length % 30), 1)
  }
  const look = (value: unknown, depth: number): void => {
    // Codes of invitations and resets stand in links.
    if (typeof value === "string") return put("code", /amp_(?:iv|pr)_\w+/.exec(value)?.[0])
    if (depth > 4 || typeof value !== "object" || value === null) return
    if (Array.isArray(value)) return value.slice(-5).forEach((one) => look(one, depth + 1))
    for (const [name, member] of Object.entries(value)) {
      put(name === "id" ? idOf[last] : poolOfMember[name], member)
      look(member, depth + 1)
    }
  }
  try {
    look(JSON.parse(text), 0)
  } catch {
    // An event stream, or no body.
  }
}

const shellQuoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`
/** The request as a command line; long parts are cut. */
const curl = (request: Inputs.Request): string => {
  const short = (text: string) => (text.length > 600 ? `${text.slice(0, 600)}…(${text.length})` : text)
  const headers = Object.entries(request.headers).map(([name, value]) =>
    shellQuoted(short(`${name}: ${value.replace(/(amp_.._)\w+/g, "$1…")}`))
  )
  const body = request.body === undefined ? "" : ` --data-raw ${shellQuoted(short(request.body.toString()))}`
  const url = shellQuoted(short(Exchange.target(request)))
  return `curl -X ${request.method} ${url}${headers.map((one) => ` -H ${one}`).join("")}${body}`
}

const credentialHeaders = ({ bearer, headers, session }: TestApp.Asked): Record<string, string> => {
  const textOf = (secret: string | Redacted.Redacted) => (Redacted.isRedacted(secret) ? Redacted.value(secret) : secret)
  return {
    ...headers,
    ...(bearer === undefined ? {} : { authorization: `Bearer ${textOf(bearer)}` }),
    ...(session === undefined ? {} : { cookie: `ampoule_session=${textOf(session)}` })
  }
}

const schemeOf: Record<string, string> = {
  api_token: "apiToken",
  cli_grant: "cliGrant",
  session: "session",
  device_code: "deviceCode"
}

/** A team that no credential of the fuzzer belongs to, and the texts of it that must not come out. */
const otherTeam = Effect.fnUntraced(function* (mark: string) {
  const canary = (what: string) => `cNrY${what}${mark}`
  const team = yield* World.team({ name: canary("team") })
  const project = yield* World.project({ team, slug: canary("slug").toLowerCase() })
  const session = (yield* World.session(team.owner)).text
  const token = yield* World.token({ team, name: canary("token") })
  const secret = yield* TestApp.post("/secrets", {
    session,
    json: {
      projectId: project.id,
      environment: "development",
      key: canary("KEY").toUpperCase(),
      value: canary("value")
    }
  })
  return {
    ids: {
      teamId: team.id,
      projectId: project.id,
      envId: project.development.id,
      secretId: String(secret.json?.id),
      tokenId: token.id,
      userId: team.owner.id
    },
    canaries: [
      canary("team"),
      canary("slug").toLowerCase(),
      canary("token"),
      canary("KEY").toUpperCase(),
      canary("value"),
      token.text.slice(8)
    ]
  }
})

/** Bytes that are almost a request: cut, repeated, with bytes changed or put in. */
const almostRequest = (die: Dice, request: Inputs.Request): Buffer => {
  const head = Object.entries({ host: "127.0.0.1", ...request.headers })
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("")
  const body = request.body?.toString() ?? ""
  const bytes = Buffer.from(
    `${request.method} ${Exchange.target(request)} HTTP/1.1\r\n${head}content-length: ${Buffer.byteLength(body)}\r\n` +
      `connection: close\r\n\r\n${body}`,
    "latin1"
  )
  const insert = (text: string, at = die.below(bytes.length)) =>
    Buffer.concat([bytes.subarray(0, at), Buffer.from(text, "latin1"), bytes.subarray(at)])
  const headEnd = bytes.indexOf("\r\n") + 2
  return die.weighted<() => Buffer>([
    [
      4,
      () => {
        const out = Buffer.from(bytes)
        for (let i = 0; i <= die.below(4); i++) out[die.below(out.length)] = die.below(256)
        return out
      }
    ],
    [1, () => bytes.subarray(0, die.below(bytes.length))],
    [1, () => insert("Transfer-Encoding: chunked\r\n", headEnd)],
    [1, () => insert("Content-Length: 5\r\n", headEnd)],
    [1, () => insert(" folded: yes\r\n", headEnd)],
    [1, () => insert("X : y\r\n", headEnd)],
    [1, () => insert("\0")],
    [1, () => insert("\r\n")],
    [1, () => insert("Host: elsewhere.invalid\r\n", headEnd)],
    [0.5, () => insert("X-A: b\r\n".repeat(3000), headEnd)],
    [0.5, () => Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")],
    [0.5, () => Buffer.from(Array.from({ length: 300 }, () => die.below(256)))]
  ])()
}

class Tally {
  readonly byPhase: Record<string, number> = {}
  readonly byStatus: Record<string, number> = {}
  readonly refusedValid: Record<string, number> = {}
  readonly succeeded = new Set<string>()
  readonly findings = new Map<string, Finding>()
  find(operation: string, problem: string, request: string, answer: string): void {
    const finding = this.findings.get(`${operation} ${problem}`)
    if (finding === undefined)
      this.findings.set(`${operation} ${problem}`, { operation, problem, request, answer, times: 1 })
    else finding.times++
  }
}
const count = (table: Record<string, number>, name: string | number) => (table[name] = (table[name] ?? 0) + 1)

interface Turn {
  readonly options: Options
  readonly agent: http.Agent
  readonly port: number
  readonly pools: Pools
  readonly home: Readonly<Record<string, string>>
  /** One that a request ended is made anew in place. */
  readonly credentials: Array<Credential>
  readonly canaries: ReadonlyArray<string>
  readonly tally: Tally
}

const credentialFor = (die: Dice, turn: Turn, operation: Operation, phase: Inputs.Phase) => {
  const fitting = turn.credentials.filter(
    ({ crossSite, kind, life, presents }) =>
      presents === "credential" && life === "live" && !crossSite && operation.credentials.includes(schemeOf[kind])
  )
  // Owners and write tokens get furthest.
  const strong = fitting.filter(
    ({ environments, level, projects, teams }) =>
      projects === null && environments === null && (level === "write" || teams.T?.role === "owner")
  )
  const likely = phase === "valid" ? 0.8 : 0.7
  if (strong.length > 0 && die.chance(likely)) return die.pick(strong)
  if (fitting.length > 0 && die.chance(0.5)) return die.pick(fitting)
  return die.pick(turn.credentials)
}

const weights = operations.map((operation) => [ending.has(operation.id) ? 0.12 : 1, operation] as const)

const once = (turn: Turn, index: number) =>
  Effect.gen(function* () {
    const { agent, canaries, options, pools, port, tally } = turn
    const die = dice(options.seed, index)
    const operation = die.weighted(weights)
    const phase = die.weighted(Inputs.phases)
    const marks = { text: `tXq7${index.toString(36)}Zx`, secret: `sVq7${index.toString(36)}Zx` }
    const homes = new Set(Object.values(turn.home))
    const isSpare = spareHome.has(operation.id)
      ? {
          home: {},
          pools: Object.fromEntries(
            Object.entries(pools).map(([name, pool]) => [name, pool.filter((one) => !homes.has(one))])
          )
        }
      : turn
    const input = Inputs.make(die, operation, isSpare, marks, phase, options.receiver)
    const who = credentialFor(die, turn, operation, phase)
    const request = { ...input.request, headers: { ...credentialHeaders(who.asked), ...input.request.headers } }
    if (phase === "hostile" && die.chance(0.15)) {
      count(tally.byPhase, "bytes")
      const answer = yield* Effect.promise(() => Exchange.sendBytes(port, almostRequest(die, request)))
      if (typeof answer !== "string") return
      if (answer.startsWith("HTTP/1.1 5")) tally.find("bytes", answer.slice(9, 12), curl(request), answer.slice(0, 300))
      for (const canary of canaries) {
        if (answer.includes(canary)) tally.find("bytes", "a text of another team", curl(request), answer.slice(0, 300))
      }
      return
    }
    count(tally.byPhase, phase)
    const answer = yield* Effect.promise(() => Exchange.send(agent, port, request))
    if ("trouble" in answer) {
      count(tally.byStatus, answer.trouble)
      // A request that is refused before its body was read may find its connection closed.
      const cut = answer.trouble === "connection" && (phase === "hostile" || (request.body?.length ?? 0) > 60_000)
      if (answer.trouble !== "not HTTP to begin with" && !cut) {
        tally.find(operation.id, `${answer.trouble} ${answer.code ?? ""}`, curl(request), "")
      }
      return
    }
    count(tally.byStatus, answer.status)
    const { elsewhere } = input
    const exchange: Asked = {
      operation,
      elsewhere,
      head: request.method === "HEAD",
      refusable: input.refusable && !elsewhere,
      marks,
      canaries
    }
    const repeats = answer.status >= 400 || request.method === "GET" || request.method === "HEAD"
    const differs = options.again === undefined || !repeats ? [] : yield* options.again(request, answer)
    for (const problem of [...problemsOf(exchange, answer), ...differs]) {
      tally.find(
        operation.id,
        problem,
        `${curl(request)} # ${who.name}`,
        `${answer.status} ${answer.text.slice(0, 400)}`
      )
    }
    if (answer.status === 401 && who.presents === "credential" && who.life === "live") {
      const at = turn.credentials.indexOf(who)
      if (at !== -1) turn.credentials[at] = { ...who, asked: yield* who.again }
    }
    if (answer.status < 300 && !elsewhere) {
      tally.succeeded.add(operation.id)
      harvest(pools, operation, answer.text)
    }
    if (phase === "valid" && answer.status === 400) {
      const { code, field } = parsed(Refusal)(answer.text || "{}")
      count(tally.refusedValid, `${operation.id} ${code} ${(field ?? "").replace(/\d+/g, "#").slice(0, 60)}`)
    }
  })

/** One world, and the requests of it: in lanes, so that requests also meet one another. */
const inWorld = (options: Options, agent: http.Agent, tally: Tally, from: number, to: number) =>
  Effect.gen(function* () {
    const { port } = yield* Listening
    const { P1, P2, T, U, all, credentials } = yield* AccessWorld
    const other = yield* otherTeam(`${options.seed}${from}`.replace(/\W/g, ""))
    const pools: Pools = {
      teamId: [T.id, T.id, T.id, T.id, U.id, other.ids.teamId],
      projectId: [P1.id, P1.id, P1.id, P1.id, P2.id, other.ids.projectId],
      envId: [P1.development.id, P1.development.id, P1.staging.id, P1.production.id, other.ids.envId],
      secretId: [...all.map((place) => place.ids.secretId), other.ids.secretId],
      userId: [T.owner.id, U.owner.id, other.ids.userId],
      tokenId: [other.ids.tokenId],
      url: [options.receiver, `${options.receiver}/hook`, `${options.receiver}/hook?x=1`],
      issuer: [options.receiver],
      entries: [],
      deviceCode: credentials.flatMap(({ asked, kind }) => (kind === "device_code" ? [String(asked.bearer)] : []))
    }
    const asOwner = yield* World.session(T.owner)
    const keypair = yield* TestApp.get(`/environments/${P1.development.id}/keypair`, { session: asOwner.text })
    const sealFor = yield* SealedEnv.recipient(
      P1.development.id,
      Option.getOrThrow(SealedEnv.parsePublicKey(String(keypair.json.publicKey)))
    )
    const sealed = yield* SealedEnv.sealEntry(sealFor, "A", Redacted.make("sealed"))
    const password = `pass ${options.seed} phrase`
    const passwordHash = yield* Effect.promise(() =>
      hash(password, { memoryCost: 19_456, timeCost: 2, parallelism: 1 })
    )
    const signsIn = yield* World.person({ passwordHash })
    const forAgents = Effect.map(
      Effect.orDie(World.token({ team: T, mcpScopes: allScopes })),
      ({ text }): TestApp.Asked => ({ bearer: text })
    )
    const agentsToken: Credential = {
      name: "a write token for agents",
      kind: "api_token",
      presents: "credential",
      life: "live",
      teams: { T: { role: null, scopes: null } },
      grants: [],
      level: "write",
      projects: null,
      environments: null,
      crossSite: false,
      asked: yield* forAgents,
      again: forAgents
    }
    pools["entries"]?.push(JSON.stringify({ A: sealed }))
    const turn: Turn = {
      options,
      agent,
      port,
      pools,
      home: {
        password,
        email: signsIn.email,
        keyId: String(keypair.json.keyId),
        teamId: T.id,
        projectId: P1.id,
        envId: P1.development.id,
        environment: "development"
      },
      credentials: [...credentials, agentsToken],
      canaries: other.canaries,
      tally
    }
    const width = options.again === undefined ? lanes : 1
    yield* Effect.forEach(
      Array.from({ length: width }, (_, lane) => lane),
      (lane) =>
        Effect.gen(function* () {
          for (let index = from + lane; index < to; index += width) yield* once(turn, index)
        }),
      { concurrency: width, discard: true }
    )
  }).pipe(Effect.provide(Layer.fresh(worldLayer)))

export const run = (options: Options) =>
  Effect.gen(function* () {
    const agent = Exchange.agent()
    const tally = new Tally()
    for (let from = 0; from < options.requests; from += epoch) {
      const to = Math.min(options.requests, from + epoch)
      yield* inWorld(options, agent, tally, from, to)
      options.onProgress?.(to)
    }
    agent.destroy()
    const report: Report = {
      seed: options.seed,
      requests: options.requests,
      byPhase: tally.byPhase,
      byStatus: tally.byStatus,
      operations: operations.length,
      succeeded: tally.succeeded.size,
      neverSucceeded: operations.map(({ id }) => id).filter((id) => !tally.succeeded.has(id)),
      refusedValid: tally.refusedValid,
      findings: [...tally.findings.values()]
    }
    return report
  })

/**
 * Random cells of the matrix of access: a person, the way of a credential, a route or tool, a place and a time. The
 * running server answers as the oracle says, and lets through what the policies in Cedar allow, and nothing else.
 */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import { Crypto } from "#src/crypto/Crypto.ts"
import { AnyFailure } from "#test/support/Bodies.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as Clients from "#test/mcp/Clients.ts"
import * as McpApp from "#test/mcp/McpApp.ts"
import { expected, type Outcome, type Place, type Row } from "./AccessOracle.ts"
import { rows } from "./AccessRows.ts"
import { type CedarAction, judge } from "./CedarRules.ts"
import { atMcp, build, type Built, credentialOf, scene, type ScenePerson, times, type Way, ways } from "./Scene.ts"

/** Time is moved by the test; the address is the one that agents' tokens are for. */
export const layer = Layer.provideMerge(Layer.merge(McpApp.layer, Crypto.Default), MovableClock.layer)

interface Route {
  readonly name: string
  readonly row: Row
  readonly action: CedarAction
  readonly tool?: (place: Place) => Record<string, unknown>
}

/** They make something new each time, or end what the other cells are about. */
const skippedRoutes = new Set(["POST /environments/:envId/keypair/rotate", "GET /secrets/diff"])
const subjects: ReadonlySet<Row["subject"]> = new Set(["project", "environment", "environmentId", "secret"])
/** Routes that show a whole team, and end or replace things in it. */
const ofTeams = /\/(?:incident-report|incidents|leaked-credentials)(?:\/|$)/
const ofTheTeam: ReadonlyArray<Route> = Object.entries(rows)
  .filter(([name]) => ofTeams.test(name))
  .flatMap(([name, ofRoute]) => ofRoute.map((row) => ({ name, row })))
  .filter(({ row }) => row.subject === "team")
  .map(({ name, row }) => ({
    name,
    row,
    action: row.ofTheWholeTeam === true ? ("tell of the team" as const) : ("manage the team" as const)
  }))
const ofPlaces: ReadonlyArray<Route> = Object.entries(rows)
  .filter(([name]) => !skippedRoutes.has(name))
  .flatMap(([name, ofRoute]) =>
    ofRoute.map((row) => ({ name, row, action: row.tokensNeed ?? row.scope ?? ("manage" as const) }))
  )
  .filter(({ row }) => subjects.has(row.subject) && row.deletes === undefined && row.endsCredential === undefined)
/** Actions that bind owners and admins: with a second person they wait. */
const ofSecondPerson: ReadonlyArray<Route> = (rows["POST /teams/:teamId/invitations"] ?? [])
  .filter(({ needs, waits }) => waits === true && needs === "manage")
  .map((row) => ({ name: "POST /teams/:teamId/invitations", row, action: "raise in the team" }))
// Named three times, so that a sample of some hundred cells asks about it.
const routes = [...ofPlaces, ...ofTheTeam, ...ofSecondPerson, ...ofSecondPerson, ...ofSecondPerson]

const at = ({ ids }: Place) => ({ projectId: ids.projectId, environment: ids.slug })
const tool = (
  name: string,
  scope: "secrets:read" | "secrets:read_values" | "secrets:run" | "secrets:write",
  input: Record<string, unknown>,
  answers: Outcome = [200]
): Route => ({
  name,
  action: scope,
  tool: (place) => ({ ...at(place), ...input }),
  row: {
    takes: ["api_token", "oauth_token"],
    subject: "environment",
    scope,
    needs: scope === "secrets:write" ? "write" : scope === "secrets:read" ? "names" : "values",
    ask: () => ({ path: "/mcp" }),
    answers
  }
})
const tools: ReadonlyArray<Route> = [
  tool("list_secrets", "secrets:read", {}),
  tool("plan_run", "secrets:run", { command: ["true"] }),
  tool("reveal_secret_value", "secrets:read_values", { key: "BASE", reason: "A try" }),
  tool("create_secret", "secrets:write", { key: "BASE", value: "other" }, [409, "SECRET_ALREADY_EXISTS"])
]

interface Cell {
  readonly person: ScenePerson
  readonly way: Way
  readonly route: Route
  readonly place: Place
  /** Milliseconds from the beginning of the scene. */
  readonly time: number
}

/** A row that is not asked everywhere is not asked here. */
const cellOf = ({ places, scene: { people } }: Built): FastCheck.Arbitrary<Cell> =>
  FastCheck.constantFrom(...ways).chain((way) => {
    const kind = way === "api_token at /mcp" ? "api_token" : way
    const open = routes.filter(
      ({ row }) => row.takes !== "anyone" && row.takes.includes(kind) && row.where === undefined
    )
    return FastCheck.record({
      person: FastCheck.constantFrom(...people),
      way: FastCheck.constant(way),
      route: FastCheck.constantFrom(...(atMcp(way) ? tools : open)),
      place: FastCheck.constantFrom(...places),
      time: FastCheck.constantFrom(...times)
    })
  })

/** At `/mcp` a credential without the scope is challenged before anybody looks at the place. */
const oracle = (built: Built, { person, place, route: { name, row }, time, way }: Cell): string => {
  const credential = credentialOf(built, person, way)
  if (atMcp(way) && credential.life !== "live") return "401"
  const scopes = credential.teams.T?.scopes ?? null
  if (atMcp(way) && row.scope !== undefined && scopes?.includes(row.scope) === false) return "403"
  return expected(name.split(" ")[0], row, credential, place, built.start + time).outcome.join(" ")
}

const answerOf = (built: Built, { person, place, route: { name, row, tool: input }, way }: Cell) =>
  Effect.gen(function* () {
    const credential = built.asked(person, way)
    if (input !== undefined) {
      const call = Clients.modernCall(name, input(place))
      const answer = yield* Clients.raw(yield* McpApp.base, "POST", { bearer: String(credential.bearer), ...call })
      if (answer.status !== 200) return String(answer.status)
      if (answer.result.isError !== true) return "200"
      return `${answer.refusal.statusCode} ${answer.refusal.code}`
    }
    const { json, path } = row.ask(place)
    const answer = yield* TestApp.request(name.split(" ")[0], path, {
      ...credential,
      ...(json === undefined ? {} : { json })
    })
    return answer.status < 400 ? String(answer.status) : `${answer.status} ${answer.as(AnyFailure).code}`
  })

/** A server with too much to do says so, and is asked again: that is no answer to whether somebody may. */
const isBusy = (answer: string) => answer === "429" || answer.endsWith(" SERVER_BUSY")

/** Refusals of a caller; any other answer is the route's own. */
const refused = new Set([
  "ENVIRONMENT_NOT_FOUND",
  "PROJECT_NOT_FOUND",
  "TEAM_NOT_FOUND",
  "FORBIDDEN",
  "SCOPE_MISSING",
  "API_TOKEN_READ_ONLY",
  "API_TOKEN_NOT_SCOPED_TO_PROTECTED_ENVIRONMENT",
  "ENVIRONMENT_NOT_GRANTED",
  "CREDENTIAL_REVOKED"
])
const passes = (answer: string, { route: { row } }: Cell): boolean => {
  const [status, code] = answer.split(" ")
  if (code === undefined) return Number(status) < 400
  // In these cells every secret exists, so a missing secret is an invisible one.
  if (code === "SECRET_NOT_FOUND") return row.answers[1] === code
  return !refused.has(code)
}

const checkScene = Effect.fnUntraced(function* (count: number) {
  const audience = `${yield* McpApp.base}/mcp`
  const [drawn] = FastCheck.sample(scene, { numRuns: 1, seed: yield* nextSeed })
  const built = yield* build(drawn, audience)
  const cells = FastCheck.sample(cellOf(built), { numRuns: count, seed: yield* nextSeed })
  const says = judge(built)
  const seen = new Map<string, number>()
  const wrong: Array<string> = []
  let before = 0
  for (const time of times) {
    yield* MovableClock.advance(time - before)
    before = time
    const now = built.start + time
    yield* Effect.forEach(
      cells.filter((cell) => cell.time === time),
      (cell) =>
        Effect.map(Effect.repeat(answerOf(built, cell), { while: isBusy, times: 100 }), (answer) => {
          const { person, place, route, way } = cell
          const { subject } = route.row
          const on = subject === "project" || subject === "team" ? subject : ("environment" as const)
          const { alone, may, sees } = says(person, way, route.action, place, on, {
            now,
            direct: route.row.direct === true
          })
          const verdict = oracle(built, cell)
          seen.set(verdict, (seen.get(verdict) ?? 0) + 1)
          const waits = may && sees && !alone && route.row.waits === true
          if (answer === verdict && passes(answer, cell) === (may && sees) && (answer === "202") === waits) return
          wrong.push(
            JSON.stringify({
              answer,
              wanted: verdict,
              cedar: { alone, may, sees },
              person,
              way,
              route: route.name,
              place,
              time,
              rules: { ...drawn, people: undefined }
            })
          )
        }),
      { concurrency: 8 }
    )
  }
  return { seen, wrong }
})

let draws = Number(process.env["AMPOULE_TEST_SEED"] ?? "1")
/**
 * Every draw of a run is another one, and the same one when the run is repeated. Neighbouring seeds draw alike: one rule
 * was the same in twenty scenes. The factor, 2^32 over the golden ratio, spreads them.
 */
const nextSeed = Effect.sync(() => Math.imul(++draws, 0x9e_37_79_b1))

/** `count` cells of each of `scenes` teams. */
export const check = Effect.fnUntraced(function* (scenes: number, count: number) {
  const seen = new Map<string, number>()
  for (let i = 0; i < scenes; i++) {
    const checked = yield* checkScene(count)
    assert.deepStrictEqual(checked.wrong.slice(0, 3), [], `${checked.wrong.length} cells`)
    for (const [answer, n] of checked.seen) seen.set(answer, (seen.get(answer) ?? 0) + n)
  }
  // Both sides of every rule were asked about, by as many cells as make that certain.
  if (scenes * count < 5_000) return seen
  assert.lengthOf(ofTheTeam, 8)
  for (const answer of [
    "200",
    "201",
    "202",
    "404 MEMBER_NOT_FOUND",
    "404 TEAM_NOT_FOUND",
    "403 FORBIDDEN",
    "403 ENVIRONMENT_NOT_GRANTED",
    "404 ENVIRONMENT_NOT_FOUND"
  ]) {
    assert.isAbove(seen.get(answer) ?? 0, 0, answer)
  }
  return seen
})

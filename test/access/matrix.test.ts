/**
 * Every declared route, with every state of a credential, in every relation to what it is about: the answer is the one
 * that the oracle reads off the contract. A route without a row fails. `npm test` tries a quarter of the credentials at
 * each route, `npm run test:long` all of them.
 */
import * as HttpApi from "@effect/platform/HttpApi"
import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ServerApi } from "#schema/ServerApi.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { AnyFailure } from "#test/support/Bodies.ts"
import * as Sampled from "#test/support/Sampled.ts"
import * as TestApp from "#test/support/TestApp.ts"
import { expected, type Place, type Row, seesEnvironment, seesProject } from "./AccessOracle.ts"
import { rows } from "./AccessRows.ts"
import { AccessWorld, layer as worldLayer, type Made } from "./AccessWorld.ts"

const declared: Array<string> = []
HttpApi.reflect(ServerApi, {
  onGroup: () => {},
  onEndpoint: ({ endpoint }) => void declared.push(`${endpoint.method} ${endpoint.path}`)
})

// The limits would answer first; what they do is said in test/http/rateLimits.test.ts.
const unlimited = TestApp.unlimited
const matrix = worldLayer.pipe(Layer.provideMerge(Layer.merge(unlimited, Crypto.Default)))

/** Differences that two equal answers may have. */
const ownOfAnAnswer = new Set(["x-request-id", "date"])
const bytes = ({ headers, status, text }: TestApp.Answer): string =>
  JSON.stringify([status, text, [...headers].filter(([name]) => !ownOfAnAnswer.has(name)).sort()])

/** The code of our envelope; at the authorization server its own `error`, or a page for people. */
const said = ({ as, headers, status }: TestApp.Answer): string => {
  if (status < 400) return String(status)
  if (headers.get("content-type")?.startsWith("application/json") !== true) return `${status} page`
  const { code, error } = as(AnyFailure)
  return `${status} ${code ?? String(error)}`
}

/** Where a row is asked: everywhere, once per address of its subject, or just anywhere. */
const placesOf = (row: Row, all: ReadonlyArray<Place>): ReadonlyArray<Place> => {
  const per = (key: (place: Place) => string) =>
    all.filter((place, i) => all.findIndex((p) => key(p) === key(place)) === i)
  switch (row.subject) {
    case "team":
      return per(({ ids }) => ids.teamId)
    case "project":
      return per(({ ids }) => ids.projectId)
    case "environment":
    case "environmentId":
      return per(({ ids }) => `${ids.projectId} ${ids.environmentId}`)
    case "secret":
      return all
    default:
      return all.slice(0, 1)
  }
}

const ask = Effect.fnUntraced(function* (method: string, row: Row, credential: Made, place: Place) {
  const { copyOf } = yield* AccessWorld
  const at = row.deletes === undefined ? place : yield* copyOf(place, row.deletes)
  const credentials = row.endsCredential === true ? yield* credential.again : credential.asked
  const { json, path } = row.ask(at)
  return yield* TestApp.request(method, path, { ...credentials, ...(json === undefined ? {} : { json }) })
})

const checkRow = Effect.fnUntraced(function* (method: string, row: Row, name: string) {
  const { all, credentials } = yield* AccessWorld
  const wrong: Array<string> = []
  // All places of a credential, or none: "not visible" is compared between them.
  const tried = credentials.filter((credential) => Sampled.chosen(`${name} ${credential.name}`))
  const cells = tried.flatMap((credential) =>
    placesOf(row, all)
      .filter(row.where ?? (() => true))
      .map((place) => ({ credential, place, verdict: expected(method, row, credential, place) }))
      .filter(({ verdict }, i) => i < 2 || !verdict.early)
  )
  const answers = yield* Effect.forEach(
    cells,
    (cell) => Effect.map(ask(method, row, cell.credential, cell.place), (answer) => ({ ...cell, answer })),
    { concurrency: 16 }
  )
  const unseen = new Map<string, { readonly bytes: string; readonly place: string }>()
  for (const { answer, credential, place, verdict } of answers) {
    const where = `${credential.name} at ${place.name}`
    const outcome = verdict.outcome.join(" ")
    const scope = credential.kind === "api_token" ? row.tokensNeed : row.scope
    if (said(answer) !== outcome) wrong.push(`${where}: ${said(answer)}, not ${outcome}`)
    else if (verdict.outcome[1] === "SCOPE_MISSING" && answer.error.requiredScope !== scope) {
      wrong.push(`${where}: names the scope ${answer.error.requiredScope}`)
    }
    if (answer.status === 401 && answer.headers.get("www-authenticate") !== "Bearer") {
      wrong.push(`${where}: 401 without WWW-Authenticate: Bearer`)
    }
    if (!verdict.unseen) continue
    const key = `${credential.name} ${outcome}`
    const first = unseen.get(key)
    if (first === undefined) unseen.set(key, { bytes: bytes(answer), place: place.name })
    else if (first.bytes !== bytes(answer)) {
      wrong.push(`${where}: "not visible" differs from ${first.place}:\n  ${first.bytes}\n  ${bytes(answer)}`)
    }
  }
  return { wrong, cells: cells.length }
})

// Some rows delete what earlier rows are about: their order is that of the table.
describe("the access matrix", { shuffle: false }, () => {
  it("has a row for every route, and a route for every row", () => {
    assert.deepStrictEqual(
      declared.filter((route) => rows[route] === undefined),
      []
    )
  })

  layer(matrix, { excludeTestServices: true })((it) => {
    for (const route of declared) {
      const [method] = route.split(" ")
      for (const [i, row] of (rows[route] ?? []).entries()) {
        const name = i === 0 ? route : `${route} (${i + 1})`
        it.effect(name, () =>
          Effect.gen(function* () {
            const { wrong } = yield* checkRow(method, row, name)
            assert.strictEqual(wrong.join("\n"), "")
          })
        )
      }
    }

    it.effect("lists hold exactly what is visible, and name the only environment", () =>
      Effect.gen(function* () {
        const { all, credentials } = yield* AccessWorld
        const live = credentials.filter(
          (c) => c.presents === "credential" && c.life === "live" && c.kind !== "device_code" && c.kind !== "management"
        )
        let onlyOnes = 0
        for (const credential of live) {
          const listed = yield* TestApp.get("/projects", credential.asked)
          const projects = all.filter((place) => {
            const scopes = place.team === null ? undefined : credential.teams[place.team]?.scopes
            return (
              seesProject(credential, place, Date.now()) &&
              scopes !== undefined &&
              (scopes?.includes("projects:read") ?? true)
            )
          })
          const ids: ReadonlyArray<string> = listed.status === 200 ? listed.json.items.map(({ id }) => id) : []
          const environmentIds: Array<string> = []
          for (const id of ids) {
            const { json } = yield* TestApp.get(`/projects/${id}/environments`, credential.asked)
            environmentIds.push(...json.items.map((one) => one.id))
          }
          const verified = yield* TestApp.get("/me/verify", credential.asked)
          const listsAll = Object.values(credential.teams).every(
            ({ scopes }) => scopes?.includes("projects:read") ?? true
          )
          if (verified.status === 200 && listsAll) {
            const only = environmentIds.length === 1 ? environmentIds[0] : undefined
            onlyOnes += only === undefined ? 0 : 1
            assert.strictEqual(verified.json.only?.environmentId, only, `the only environment of ${credential.name}`)
          }
          const ownIds = new Set(all.map((place) => place.ids.projectId))
          assert.sameMembers(
            ids.filter((id) => ownIds.has(id)),
            [...new Set(projects.map((place) => place.ids.projectId))],
            credential.name
          )
          for (const projectId of new Set(projects.map((place) => place.ids.projectId))) {
            const { json } = yield* TestApp.get(`/projects/${projectId}/environments`, credential.asked)
            const seen = all.filter(
              (place) => place.ids.projectId === projectId && seesEnvironment(credential, place, Date.now())
            )
            const environments = new Set<string>(json.items.map(({ id }) => id))
            const there = all.filter((place) => place.ids.projectId === projectId)
            assert.sameMembers(
              [...new Set(there.map((place) => place.ids.environmentId))].filter((id) => environments.has(id)),
              [...new Set(seen.map((place) => place.ids.environmentId))],
              credential.name
            )
          }
        }
        assert.isAbove(onlyOnes, 1)
      })
    )
  })
})

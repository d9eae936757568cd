/** A bad day, as tests of incidents make one. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Seal } from "#src/trail/Seal.ts"
import { exportTrail } from "#src/trail/TrailExport.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { setUp } from "../cli/ProjectFolder.ts"

export const sessionOf = (person: World.Person) => Effect.map(World.session(person), ({ text }) => text)
export const sealed = Effect.flatMap(Seal, (seal) => seal.now)

/** Bob read a protected secret once, others more often, and one in a version that was replaced since. */
export const scene = Effect.gen(function* () {
  const { home, project, run } = yield* setUp()
  const { team } = project
  const owner = yield* sessionOf(team.owner)
  const bob = yield* World.member(team, "member")
  const login = yield* World.grant({
    person: bob,
    teams: [{ team, scopes: ["projects:read", "secrets:read", "secrets:read_values"] }]
  })
  const session = yield* sessionOf(bob)
  const write = (environment: string, key: string, value: string) =>
    Effect.map(
      TestApp.post("/secrets", { session: owner, json: { projectId: project.id, environment, key, value } }),
      ({ json, status, text }) => {
        assert.strictEqual(status, 201, text)
        return json.id
      }
    )
  const at = (environment: string) => `projectId=${project.id}&environment=${environment}`
  const reads = (environment: string, as: Parameters<typeof TestApp.get>[1] = { session }) =>
    Effect.map(TestApp.get(`/secrets/with-values?${at(environment)}`, as), ({ status }) =>
      assert.strictEqual(status, 200)
    )
  const ids = {
    prod: yield* write("production", "PROD", "p1"),
    api: yield* write("development", "API_KEY", "a1"),
    db: yield* write("development", "DB_PASSWORD", "d1"),
    url: yield* write("development", "DB_URL", "postgres://${DB_PASSWORD}@db"),
    old: yield* write("development", "OLD", "o1")
  }
  yield* reads("production")
  yield* reads("development")
  yield* TestApp.get(`/secrets/value?${at("development")}&key=API_KEY`, { bearer: login.text })
  yield* TestApp.patch(`/secrets/${ids.old}`, { session: owner, json: { value: "o2" } })
  yield* write("development", "NEVER", "n1")
  yield* sealed
  const incidents = `/teams/${team.id}/incidents` as const
  return { project, team, owner, bob, session, login, ids, incidents, reads, run, home }
})
export const keysOf = (items: ReadonlyArray<{ readonly key: string }>) => items.map(({ key }) => key)

/** The trail as a file. */
export const exported = Effect.gen(function* () {
  const lines: Array<string> = []
  yield* exportTrail({
    since: null,
    until: null,
    format: "jsonl",
    now: Date.now(),
    write: (text) => Effect.sync(() => void lines.push(text)),
    progress: () => Effect.void
  })
  return lines.join("")
})

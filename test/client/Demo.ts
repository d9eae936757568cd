/** An environment with values on the real server, and what a program needs to read it. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { Listening } from "#src/http/engine/Server.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

export const make = (values: Readonly<Record<string, string>>, accessLevel: "read" | "write" = "write") =>
  Effect.gen(function* () {
    const project = yield* World.project()
    const token = yield* World.token({ team: project.team, accessLevel: "write" })
    const put = (values: Readonly<Record<string, string>>) =>
      Effect.gen(function* () {
        const secrets = Object.entries(values).map(([key, value]) => ({ key, value }))
        const json = { projectId: project.id, environment: "development", secrets }
        const answer = yield* TestApp.post("/secrets/bulk", { bearer: token.text, json })
        if (answer.status !== 201) return yield* Effect.dieMessage(`bulk: ${answer.text}`)
      })
    if (Object.keys(values).length > 0) yield* put(values)
    const reader = accessLevel === "write" ? token : yield* World.token({ team: project.team, accessLevel })
    const { port } = yield* Listening
    const url = `http://127.0.0.1:${port}`
    return {
      project,
      token: reader,
      url,
      /** Creates or updates. */
      put,
      /** For `ampoule/client`. */
      client: { url, credential: Redacted.make(reader.text) },
      /** For `ampoule/client/config`. */
      options: { url, credential: Redacted.make(reader.text), project: project.slug, environment: "development" }
    }
  })

/** How many entries of this action the project's trail has. */
export const entries = (project: { readonly id: string }, action: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ readonly count: number }>`
      SELECT count(*)::int AS count FROM audit_entries WHERE project_id = ${project.id} AND action = ${action}`
    return row.count
  })

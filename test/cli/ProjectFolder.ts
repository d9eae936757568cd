/** A project on a real server, and the command line in a folder that names it. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as fs from "node:fs"
import * as path from "node:path"
import { Listening } from "#src/http/engine/Server.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { Ampoule, type RunOptions } from "./Ampoule.ts"

export const app = Layer.merge(TestApp.unlimited, Ampoule.Default)

/** A project, a token for it, and the command line in a folder that names it. */
export const setUp = (accessLevel: "read" | "write" = "write") =>
  Effect.gen(function* () {
    const ampoule = yield* Ampoule
    const { port } = yield* Listening
    const project = yield* World.project()
    const { text } = yield* World.token({ team: project.team, accessLevel })
    const home = yield* ampoule.home
    fs.writeFileSync(
      path.join(home, ".ampoule.json"),
      JSON.stringify({ project: project.slug, environment: "development" })
    )
    const env = { AMPOULE_URL: `http://127.0.0.1:${port}`, AMPOULE_API_TOKEN: text }
    const run = (args: ReadonlyArray<string>, more: RunOptions = {}) =>
      ampoule.run(args, { home, ...more, env: { ...env, ...more.env } })
    yield* run(["trust"])
    const secrets = (...args: ReadonlyArray<string>) => run(["secrets", ...args])
    const set = (key: string, value: string, ...options: ReadonlyArray<string>) =>
      run(["secrets", "set", key, ...options], { stdin: value })
    const file = (name: string, content: string) => {
      fs.writeFileSync(path.join(home, name), content)
      return name
    }
    return { ampoule, project, home, run, secrets, set, file, env }
  })

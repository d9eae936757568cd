/** `ampoule run` against a server that answers with these values. */
import * as Effect from "effect/Effect"
import { Ampoule, type RunOptions } from "./Ampoule.ts"
import * as FakeServer from "./FakeServer.ts"

export const token = "amp_at_0123456789abcdef_secretpart"
export const project = ["--project", FakeServer.projectId, "--env", "development"]

export const withServer = (values: Readonly<Record<string, string>>) =>
  Effect.gen(function* () {
    const ampoule = yield* Ampoule
    const server = yield* FakeServer.make(FakeServer.environment(() => values))
    const env = { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: token }
    const options = (more: RunOptions = {}): RunOptions => ({ ...more, env: { ...env, ...more.env } })
    return {
      server,
      options,
      run: (args: ReadonlyArray<string>, more?: RunOptions) => ampoule.run(["run", ...args], options(more)),
      start: (args: ReadonlyArray<string>, more?: RunOptions) => ampoule.start(["run", ...args], options(more)),
      terminal: (args: ReadonlyArray<string>, more?: RunOptions) => ampoule.terminal(["run", ...args], options(more))
    }
  })

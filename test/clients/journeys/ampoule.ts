/** The journey of our own library: what a program with Effect does, and one without. */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as Client from "ampoule/client"
import * as Ampoule from "ampoule/client/config"
import { SecretAlreadyExists, type SecretNotFound } from "ampoule/client/errors"
import { ProjectId } from "ampoule/client/ids"
import { AmpouleError, open } from "ampoule/client/promise"
import { EnvironmentSlug, SecretKey } from "ampoule/client/values"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"

declare const process: {
  readonly env: Record<string, string | undefined>
  readonly stdout: { readonly write: (text: string) => void }
}
const env = (name: string): string => process.env[name] ?? ""
const check = (holds: boolean, step: string) => {
  if (!holds) throw new Error(step)
  process.stdout.write(`${step}\n`)
}

const url = env("AMPOULE_URL")
const as = (token: string) => ({ url, credential: Redacted.make(env(token)) })
const projectId = Schema.decodeSync(ProjectId)(env("PROJECT"))
const environment = Schema.decodeSync(EnvironmentSlug)("development")
const key = Schema.decodeSync(SecretKey)

const program = Effect.gen(function* () {
  const reader = yield* Client.make({ ...as("READ_TOKEN"), retry: { times: 0, longest: 0 } })
  const writer = yield* Client.make(as("WRITE_TOKEN"))
  const host = { projectId, environment, key: key("HOST"), value: Redacted.make("x") }

  const { values } = yield* reader.secrets.inject({ headers: {}, urlParams: { projectId, environment } })
  check(values["DATABASE_URL"] === "postgres://db", "read an environment")

  const { limits } = yield* reader.capabilities.read()
  check(limits.expectedVersion === 9007199254740991, "read 64 bits")

  let seen = 0
  let page = 1
  for (let more = true; more; page++) {
    const urlParams = { projectId, environment, page, pageSize: 2 }
    const answer = yield* reader.secrets.list({ urlParams })
    seen += answer.items.length
    more = answer.hasMore
  }
  check(seen === 5 && page === 4, "paged")

  const forbidden = yield* reader.secrets.create({ headers: {}, payload: host }).pipe(
    Effect.as("created"),
    Effect.catchTag("API_TOKEN_READ_ONLY", ({ _tag }) => Effect.succeed(_tag))
  )
  check(forbidden === "API_TOKEN_READ_ONLY", "met a typed 403")

  const exists = yield* Effect.flip(writer.secrets.create({ headers: {}, payload: host }))
  check(exists instanceof SecretAlreadyExists, "met a typed 409")

  // A type alone: what reading a value can fail with is what its route declares.
  type Failure = Effect.Effect.Error<ReturnType<typeof reader.secrets.readValue>>
  const declared: SecretNotFound extends Failure ? true : false = true
  const foreign: SecretAlreadyExists extends Failure ? true : false = false
  check(declared && !foreign, "has the failures of a route")

  const limited = yield* Effect.flip(Effect.forever(reader.projects.list()))
  check(limited._tag === "RATE_LIMITED" && limited.retryAfterSeconds > 0, "met a typed 429")
  const patient = yield* Client.make({ ...as("READ_TOKEN"), retry: { times: 3, longest: "90 seconds" } })
  check((yield* patient.projects.list()).items.length === 1, "waited out a 429")

  const read = yield* Effect.map(Config.redacted("DATABASE_URL"), Redacted.value)
  check(read === "postgres://db", "read a setting")
})

const settings = Ampoule.layer({ ...as("WRITE_TOKEN"), project: env("PROJECT"), environment: "development" })
await Effect.runPromise(program.pipe(Effect.provide(settings), Effect.provide(FetchHttpClient.layer)))

const target = { url, credential: env("WRITE_TOKEN"), project: env("PROJECT") }
const opened = await open({ ...target, environment: "development", timeout: "30 seconds" })
check(opened.get("DATABASE_URL") === "postgres://db", "read an environment without Effect")
const code = await open({ ...target, environment: "nowhere" }).then(
  () => "",
  (error: unknown) => (error instanceof AmpouleError ? error.code : "")
)
check(code === "ENVIRONMENT_NOT_FOUND", "met a refusal without Effect")

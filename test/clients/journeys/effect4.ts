/** The journey of a program on Effect 4: settings, then routes with their types and refusals. */
import * as Ampoule from "ampoule/client/effect4"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"

declare const process: {
  readonly env: Record<string, string | undefined>
  readonly stdout: { readonly write: (text: string) => void }
}
const env = (name: string): string => process.env[name] ?? ""
const check = (holds: boolean, step: string) => {
  if (!holds) throw new Error(step)
  process.stdout.write(`${step}\n`)
}

const credential = Redacted.make(env("READ_TOKEN"))
const target = { projectId: env("PROJECT"), environment: "development" }

const program = Effect.gen(function* () {
  const url = yield* Config.Redacted("DATABASE_URL")
  check(Redacted.value(url) === "postgres://db" && !String(url).includes("db"), "read a setting")
  const nested = yield* Config.nested(Config.String("URL"), "DATABASE")
  check(nested === "postgres://db", "read a nested setting")
  check((yield* Config.String("PATH")) === env("PATH"), "fell back to the variables of the process")

  const reader = yield* Ampoule.makeClient({ credential })
  const writer = yield* Ampoule.makeClient({ credential: Redacted.make(env("WRITE_TOKEN")) })
  const { values } = yield* reader.secrets.inject({ query: target })
  check(values["DATABASE_URL"] === "postgres://db", "read an environment")
  const { limits } = yield* reader.capabilities.read()
  check(limits.expectedVersion === 9007199254740991, "read 64 bits")

  let seen = 0
  for (let page = 1, more = true; more; page++) {
    const answer = yield* reader.secrets.list({ query: { ...target, page, pageSize: 2 } })
    seen += answer.items.length
    more = answer.hasMore
  }
  check(seen === 5, "paged")

  const host = { ...target, key: "HOST", value: "canary" }
  const forbidden = yield* reader.secrets.create({ payload: host }).pipe(
    Effect.map(() => "created"),
    Effect.catchTag("API_TOKEN_READ_ONLY", ({ _tag, requestId, status }) =>
      Effect.succeed(`${_tag} ${status} ${requestId?.length}`)
    )
  )
  check(forbidden === "API_TOKEN_READ_ONLY 403 36", "met a typed 403")
  const exists = yield* Effect.flip(writer.secrets.create({ payload: host }))
  check(exists._tag === "SECRET_ALREADY_EXISTS" && exists.field === "key", "met a typed 409")
  check(!JSON.stringify(exists).includes("canary"), "no value in the refusal")

  const conflict = yield* writer.secrets
    .create({ payload: { ...target, key: "NEVER", expectedVersion: 7, value: "" } })
    .pipe(
      Effect.map(() => -1),
      Effect.catchTag("SECRET_VERSION_CONFLICT", ({ currentVersion }) => Effect.succeed(currentVersion))
    )
  check(conflict === 0, "read the member of a refusal")

  // A type alone: what reading a value can fail with is what its route declares.
  type Failure = Effect.Error<ReturnType<typeof reader.secrets.readValue>>["_tag"]
  const declared: "SECRET_NOT_FOUND" extends Failure ? true : false = true
  const foreign: "SECRET_ALREADY_EXISTS" extends Failure ? true : false = false
  check(declared && !foreign, "has the failures of a route")

  const closed = yield* Ampoule.makeClient({ credential, url: "http://127.0.0.1:9" })
  const unreachable = yield* Effect.flip(closed.projects.list())
  check(unreachable._tag === "ServerUnreachable" && unreachable.message.includes("127.0.0.1:9"), "named the address")
})

const settings = Ampoule.layer({ credential, project: env("PROJECT"), environment: "development" })
await Effect.runPromise(Effect.provide(program, settings))

const nowhere = Ampoule.layer({ credential, project: env("PROJECT"), environment: "nowhere" })
const failure = await Effect.runPromise(Effect.flip(Effect.provide(Effect.void, nowhere)))
check(failure._tag === "ENVIRONMENT_NOT_FOUND" && failure.message.includes("nowhere"), "met a refusal at the start")

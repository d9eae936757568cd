/** Tools that write secrets. */
import * as Effect from "effect/Effect"
import type { ToolOutput } from "#schema/McpTools.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { danger } from "#src/formats/DangerousNames.ts"
import { SecretWrites } from "#src/secrets/SecretWrites.ts"
import { type RequestState, ValueRequests } from "#src/secrets/ValueRequests.ts"
import { done, type Handlers, type Outcome } from "./Tool.ts"

/** How long a call waits for the person, once the client has opened the page; below the usual timeout of clients. */
const patience = 25_000

/** Keys that a question names; more are counted. */
const maxNamed = 20

/** What the person is asked, once for all. */
const confirmation = (removal: {
  readonly keys: ReadonlyArray<string>
  readonly environment: string
  readonly project: string
}) => {
  const { environment, keys, project } = removal
  const more = keys.length > maxNamed ? ` and ${keys.length - maxNamed} more` : ""
  const named = keys.slice(0, maxNamed).join(", ")
  return `Delete ${keys.length === 1 ? named : `${keys.length} secrets (${named}${more})`} from ${environment} of project ${project}?`
}

/** Written, with a warning for each key that can change which code runs, as the command line and the pages have it. */
const written = <O>(output: O, keys: ReadonlyArray<string>) => {
  const warnings = keys.flatMap((key) => {
    const reason = danger(key)
    return reason === undefined
      ? []
      : `${key} ${reason}. Whoever can write it could run code as those who run the environment; \`ampoule run\` passes it on only with --allow.`
  })
  return done(warnings.length === 0 ? output : { ...output, warnings })
}

const requestResult = (baseUrl: string, state: RequestState): Outcome<ToolOutput<"request_secret_value">> => {
  switch (state.status) {
    case "stored":
      return written({ status: "stored", id: state.id, key: state.key, version: state.version }, [state.key])
    case "declined":
      return done({ status: "declined" })
    case "pending": {
      const url = `${baseUrl}/app/provide/${state.code}`
      return {
        _tag: "OpenPage",
        requestId: state.requestId,
        url,
        message: "Open the page to type the value. It goes to Ampoule and not into this conversation.",
        otherwise: { status: "needs_human", url, expiresAt: state.expiresAt.toISOString() }
      }
    }
  }
}

const services = Effect.all({ writes: SecretWrites, requests: ValueRequests, settings: AppConfig })

export const handlers = Effect.map(
  services,
  ({ requests, settings, writes }) =>
    ({
      request_secret_value: (input, { continues, opensPages, said }) =>
        Effect.gen(function* () {
          if (said === "decline") return done({ status: "declined" })
          const state =
            continues !== undefined && opensPages && said === "accept"
              ? yield* requests.outcome(continues, patience)
              : yield* requests.ask(input)
          return requestResult(settings.baseUrl, state)
        }),

      create_secret: (input) => Effect.map(writes.createFrom(input), (one) => written(one, [one.key])),

      update_secret: (input) => Effect.map(writes.updateFrom(input), (one) => written(one, [one.key])),

      copy_secrets: (input) =>
        Effect.map(writes.copy(input), ({ created, skipped, updated }) =>
          written({ created, updated, skipped }, [...created, ...updated])
        ),

      bulk_upsert_secrets: (input) =>
        Effect.map(writes.upsert(input), ({ created, unchanged, updated }) =>
          written({ created, updated, unchanged }, [...created, ...updated])
        ),

      delete_secret: ({ disposition, secretId }, { confirms, said }) =>
        Effect.gen(function* () {
          if (confirms && said === undefined) {
            const question = confirmation(yield* writes.removal([secretId]))
            const more = disposition === "cascade" ? " Everything composed from it is deleted too." : ""
            return { _tag: "Confirm" as const, message: `${question}${more}` }
          }
          if (said === "decline") return done({ deleted: false, dependents: [] })
          const { cascaded, deleted, flattened } = yield* writes.remove(secretId, disposition)
          return done({ deleted, dependents: [...flattened, ...cascaded] })
        }),

      delete_secrets: (input, { confirms, said }) =>
        Effect.gen(function* () {
          if (confirms && said === undefined) {
            return { _tag: "Confirm" as const, message: confirmation(yield* writes.removal(input.ids)) }
          }
          if (said === "decline") return done({ deleted: [] })
          return done({ deleted: (yield* writes.deleteBulk(input)).ids })
        }),

      import_encrypted_env: (input) =>
        Effect.map(writes.importSealed(input), ({ created, skipped, updated }) =>
          written({ created, updated, skipped }, [...created, ...updated])
        )
    }) satisfies Partial<Handlers>
)

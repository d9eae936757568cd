/** Tools that write secrets. */
import * as Effect from "effect/Effect"
import type { ToolOutput } from "#schema/McpTools.ts"
import type { SecretWrites } from "#src/secrets/SecretWrites.ts"
import type { RequestState, ValueRequests } from "#src/secrets/ValueRequests.ts"
import type { Settings } from "#src/AppConfig.ts"
import { done, type Handlers, type Outcome } from "./Tool.ts"

/** How long a call waits for the person, once the client has opened the page; below the usual timeout of clients. */
const patience = 25_000

const requestResult = (baseUrl: string, state: RequestState): Outcome<ToolOutput<"request_secret_value">> => {
  switch (state.status) {
    case "stored":
      return done({ status: "stored", id: state.id, key: state.key, version: state.version })
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

export interface WriteToolNeeds {
  readonly writes: SecretWrites
  readonly requests: ValueRequests
  readonly settings: Settings
}

export const handlers = ({
  writes,
  requests,
  settings
}: WriteToolNeeds): Pick<
  Handlers,
  | "request_secret_value"
  | "create_secret"
  | "update_secret"
  | "copy_secrets"
  | "bulk_upsert_secrets"
  | "delete_secret"
  | "delete_secrets"
> => ({
  request_secret_value: (input, { continues, opensPages, said }) =>
    Effect.gen(function* () {
      if (said === "decline") return done({ status: "declined" })
      const state =
        continues !== undefined && opensPages && said === "accept"
          ? yield* requests.outcome(continues, patience)
          : yield* requests.ask(input)
      return requestResult(settings.baseUrl, state)
    }),

  create_secret: (input) => Effect.map(writes.createFrom(input), done),

  update_secret: (input) => Effect.map(writes.updateFrom(input), done),

  copy_secrets: (input) =>
    Effect.map(writes.copy(input), ({ created, skipped, updated }) => done({ created, updated, skipped })),

  bulk_upsert_secrets: (input) =>
    Effect.map(writes.upsert(input), ({ created, unchanged, updated }) => done({ created, updated, unchanged })),

  delete_secret: ({ disposition, secretId }, { confirms, said }) =>
    Effect.gen(function* () {
      if (confirms && said === undefined) {
        yield* writes.mayRemove(secretId)
        return {
          _tag: "Confirm" as const,
          message: `Delete the secret ${secretId}${disposition === "cascade" ? " and everything composed from it" : ""}?`
        }
      }
      if (said === "decline") return done({ deleted: false, dependents: [] })
      const { cascaded, deleted, flattened } = yield* writes.remove(secretId, disposition)
      return done({ deleted, dependents: [...flattened, ...cascaded] })
    }),

  delete_secrets: (input) => Effect.map(writes.deleteBulk(input), ({ ids }) => done({ deleted: ids }))
})

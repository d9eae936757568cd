/** Tools that write secrets, and the one that asks for access. */
import * as Effect from "effect/Effect"
import { SecretNotFound } from "#schema/Errors.ts"
import type { ProjectId, SecretId } from "#schema/Ids.ts"
import type { ToolInput, ToolOutput } from "#schema/McpTools.ts"
import type { EnvironmentSlug, SecretKey } from "#schema/Values.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { danger } from "#src/formats/DangerousNames.ts"
import { AccessRequests } from "#src/projects/AccessRequests.ts"
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

/** A member that was given; an empty text takes away. */
const given = (name: "owner" | "note" | "rotateBy", text: string | undefined) =>
  text === undefined ? {} : { [name]: text === "" ? null : text }

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

/** One secret as an input names it; the input's schema lets one of the two ways through. */
interface NamesSecret {
  readonly secretId?: SecretId
  readonly projectId?: ProjectId
  readonly environment?: EnvironmentSlug
  readonly key?: SecretKey
}

/** The page asks in the person's own words: an agent's reason does not go into an address. */
const accessResult = (
  baseUrl: string,
  { hours = 2, level }: ToolInput<"request_access">,
  access: Effect.Effect.Success<ReturnType<AccessRequests["accessAt"]>>,
  requestId: string
): Outcome<ToolOutput<"request_access">> => {
  switch (access.status) {
    case "granted":
      return done({ status: "granted" })
    case "pending":
      return done({ status: "pending", id: access.request.id, expiresAt: access.request.expiresAt })
    case "not_requested": {
      const { projectId, slug } = access.target
      const asked = new URLSearchParams({ level, hours: String(hours) }).toString()
      const url = `${baseUrl}/app/projects/${projectId}/env/${slug}/access?${asked}`
      return {
        _tag: "OpenPage",
        requestId,
        url,
        message: "Open the page to ask for access. An owner, an admin or an approver decides.",
        otherwise: { status: "needs_human", url }
      }
    }
  }
}

const services = Effect.all({
  access: AccessRequests,
  crypto: Crypto,
  writes: SecretWrites,
  requests: ValueRequests,
  settings: AppConfig
})

/** Ids of what inputs name by keys. */
const identify = (writes: SecretWrites) => ({
  one: ({ environment, key, projectId, secretId }: NamesSecret, audit: "secret.update" | "secret.delete") =>
    Effect.gen(function* () {
      if (secretId !== undefined) return secretId
      if (projectId === undefined || environment === undefined || key === undefined) {
        return yield* new SecretNotFound({ field: "key" })
      }
      const [id] = yield* writes.idsOf({ projectId, environment }, [key], { audit, field: () => "key" })
      return id
    }),
  several: ({ environment, ids, keys, projectId }: ToolInput<"delete_secrets">) =>
    ids === undefined
      ? writes.idsOf({ projectId, environment }, keys ?? [], { audit: "secret.delete", field: (i) => `keys.${i}` })
      : Effect.succeed(ids)
})

export const handlers = Effect.map(
  services,
  ({ access, crypto, requests, settings, writes }) =>
    ({
      request_access: (input, { continues, said }) =>
        Effect.gen(function* () {
          if (said === "decline") return done({ status: "declined" })
          const accessState = yield* access.accessAt(input, input.level)
          return accessResult(settings.baseUrl, input, accessState, continues ?? (yield* crypto.uuid))
        }),

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

      update_secret: (input) =>
        Effect.gen(function* () {
          const secretId = yield* identify(writes).one(input, "secret.update")
          const one = yield* writes.updateFrom({ ...input, secretId })
          return written(one, [one.key])
        }),

      rename_secret: ({ key, rewriteReferences, secretId }) =>
        Effect.map(
          writes.rename(secretId, { key, ...(rewriteReferences === true ? { references: "rewrite" } : {}) }),
          ({ formerKey, id, rewritten, version }) => written({ id, key, version, formerKey, rewritten }, [key])
        ),

      describe_secret: ({ note, owner, rotateBy, secretId }) =>
        Effect.map(
          writes.describe(secretId, {
            ...given("owner", owner),
            ...given("note", note),
            ...given("rotateBy", rotateBy)
          }),
          ({ id, key, note, owner, rotateBy }) => done({ id, key, owner, note, rotateBy })
        ),

      copy_secrets: (input) =>
        Effect.map(writes.copy(input), ({ created, skipped, updated }) =>
          written({ created, updated, skipped }, [...created, ...updated])
        ),

      bulk_upsert_secrets: (input) =>
        Effect.map(writes.upsert(input), ({ created, unchanged, updated }) =>
          written({ created, updated, unchanged }, [...created, ...updated])
        ),

      delete_secret: ({ disposition, ...input }, { confirms, said }) =>
        Effect.gen(function* () {
          const secretId = yield* identify(writes).one(input, "secret.delete")
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
          const ids = yield* identify(writes).several(input)
          if (confirms && said === undefined) {
            return { _tag: "Confirm" as const, message: confirmation(yield* writes.removal(ids)) }
          }
          if (said === "decline") return done({ deleted: [] })
          const { environment, projectId } = input
          return done({ deleted: (yield* writes.deleteBulk({ projectId, environment, ids })).ids })
        }),

      import_encrypted_env: (input) =>
        Effect.map(writes.importSealed(input), ({ created, skipped, updated }) =>
          written({ created, updated, skipped }, [...created, ...updated])
        )
    }) satisfies Partial<Handlers>
)

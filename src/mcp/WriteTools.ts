/** Tools that write secrets, and the tool that requests access. */
import * as Effect from "effect/Effect"
import { SecretNotFound } from "#schema/Errors.ts"
import type { ProjectId, SecretId } from "#schema/Ids.ts"
import type { ToolInput, ToolOutput } from "#schema/McpTools.ts"
import type { EnvironmentSlug, SecretKey } from "#schema/Values.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { danger } from "#src/formats/DangerousNames.ts"
import { AccessRequests } from "#src/projects/AccessRequests.ts"
import { SecretStore } from "#src/secrets/SecretStore.ts"
import { type RequestState, ValueRequests } from "#src/secrets/ValueRequests.ts"
import { done, type Handlers, type HandlerResult } from "./Tool.ts"

/** Milliseconds that a call waits for the person after the page opened; below the usual timeout of clients. */
const patience = 25_000

/** Keys that a question names; it counts the others. */
const maxNamed = 20

/** One question for all keys of a deletion. */
const confirmation = (removal: {
  readonly keys: ReadonlyArray<string>
  readonly environment: string
  readonly project: string
}) => {
  const { environment, keys, project } = removal
  const more = keys.length > maxNamed ? ` and ${keys.length - maxNamed} more` : ""
  const list = keys.slice(0, maxNamed).join(", ")
  return `Delete ${keys.length === 1 ? list : `${keys.length} secrets (${list}${more})`} from ${environment} of project ${project}?`
}

/** Result of a write, with a warning for each key that can change which code runs, as in the command line and pages. */
const withWarnings = <O>(output: O, keys: ReadonlyArray<string>) => {
  const warnings = keys.flatMap((key) => {
    const reason = danger(key)
    return reason === undefined
      ? []
      : `${key} ${reason}. Anyone who can write it could run code as the people who run the environment. \`ampoule run\` passes it on only with --allow.`
  })
  return done(warnings.length === 0 ? output : { ...output, warnings })
}

/** The member, if the input has it. An empty text clears it. */
const member = (name: "owner" | "note" | "rotateBy", text: string | undefined) =>
  text === undefined ? {} : { [name]: text === "" ? null : text }

const requestResult = (baseUrl: string, state: RequestState): HandlerResult<ToolOutput<"request_secret_value">> => {
  switch (state.status) {
    case "stored":
      return withWarnings({ status: "stored", id: state.id, key: state.key, version: state.version }, [state.key])
    case "declined":
      return done({ status: "declined" })
    case "pending": {
      const url = `${baseUrl}/app/provide/${state.code}`
      return {
        _tag: "OpenPage",
        requestId: state.requestId,
        url,
        message: "Open the page to enter the value. It goes to Ampoule and not into this conversation.",
        otherwise: { status: "needs_human", url, expiresAt: state.expiresAt.toISOString() }
      }
    }
  }
}

/** One secret, named by its id or by its key. The schema of the input allows one of the two. */
interface NamesSecret {
  readonly secretId?: SecretId
  readonly projectId?: ProjectId
  readonly environment?: EnvironmentSlug
  readonly key?: SecretKey
}

/** The person enters a reason on the page, because an agent's reason must not appear in an address. */
const accessResult = (
  baseUrl: string,
  { hours = 2, level }: ToolInput<"request_access">,
  access: Effect.Effect.Success<ReturnType<AccessRequests["accessAt"]>>,
  requestId: string
): HandlerResult<ToolOutput<"request_access">> => {
  switch (access.status) {
    case "granted":
      return done({ status: "granted" })
    case "pending":
      return done({ status: "pending", id: access.request.id, expiresAt: access.request.expiresAt })
    case "not_requested": {
      const { projectId, slug } = access.target
      const query = new URLSearchParams({ level, hours: String(hours) }).toString()
      const url = `${baseUrl}/app/projects/${projectId}/env/${slug}/access?${query}`
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
  writes: Effect.map(SecretStore, ({ writes }) => writes),
  requests: ValueRequests,
  settings: AppConfig
})

/** Ids of the secrets that inputs name by keys. */
const identify = (writes: SecretStore["writes"]) => ({
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
      request_access: (input, { continues, answer }) =>
        Effect.gen(function* () {
          if (answer === "decline") return done({ status: "declined" })
          const accessState = yield* access.accessAt(input, input.level)
          return accessResult(settings.baseUrl, input, accessState, continues ?? (yield* crypto.uuid))
        }),

      request_secret_value: (input, { continues, opensPages, answer }) =>
        Effect.gen(function* () {
          if (answer === "decline") return done({ status: "declined" })
          const state =
            continues !== undefined && opensPages && answer === "accept"
              ? yield* requests.outcome(continues, patience)
              : yield* requests.ask(input)
          return requestResult(settings.baseUrl, state)
        }),

      create_secret: (input) => Effect.map(writes.createFrom(input), (one) => withWarnings(one, [one.key])),

      update_secret: (input) =>
        Effect.gen(function* () {
          const secretId = yield* identify(writes).one(input, "secret.update")
          const one = yield* writes.updateFrom({ ...input, secretId })
          return withWarnings(one, [one.key])
        }),

      rename_secret: ({ key, rewriteReferences, secretId }) =>
        Effect.map(
          writes.rename(secretId, { key, ...(rewriteReferences === true ? { references: "rewrite" } : {}) }),
          ({ formerKey, id, rewritten, version }) => withWarnings({ id, key, version, formerKey, rewritten }, [key])
        ),

      describe_secret: ({ note, owner, rotateBy, secretId }) =>
        Effect.map(
          writes.describe(secretId, {
            ...member("owner", owner),
            ...member("note", note),
            ...member("rotateBy", rotateBy)
          }),
          ({ id, key, note, owner, rotateBy }) => done({ id, key, owner, note, rotateBy })
        ),

      copy_secrets: (input) =>
        Effect.map(writes.copy(input), ({ created, skipped, updated }) =>
          withWarnings({ created, updated, skipped }, [...created, ...updated])
        ),

      bulk_upsert_secrets: (input) =>
        Effect.map(writes.upsert(input), ({ created, unchanged, updated }) =>
          withWarnings({ created, updated, unchanged }, [...created, ...updated])
        ),

      delete_secret: ({ disposition, ...input }, { confirms, answer }) =>
        Effect.gen(function* () {
          const secretId = yield* identify(writes).one(input, "secret.delete")
          if (confirms && answer === undefined) {
            const question = confirmation(yield* writes.removal([secretId]))
            const more = disposition === "cascade" ? " Secrets that use it are deleted too." : ""
            return { _tag: "Confirm" as const, message: `${question}${more}` }
          }
          if (answer === "decline") return done({ deleted: false, dependents: [] })
          const { cascaded, deleted, flattened } = yield* writes.remove(secretId, disposition)
          return done({ deleted, dependents: [...flattened, ...cascaded] })
        }),

      delete_secrets: (input, { confirms, answer }) =>
        Effect.gen(function* () {
          const ids = yield* identify(writes).several(input)
          if (confirms && answer === undefined) {
            return { _tag: "Confirm" as const, message: confirmation(yield* writes.removal(ids)) }
          }
          if (answer === "decline") return done({ deleted: [] })
          const { environment, projectId } = input
          return done({ deleted: (yield* writes.deleteBulk({ projectId, environment, ids })).ids })
        }),

      import_encrypted_env: (input) =>
        Effect.map(writes.importSealed(input), ({ created, skipped, updated }) =>
          withWarnings({ created, updated, skipped }, [...created, ...updated])
        )
    }) satisfies Partial<Handlers>
)

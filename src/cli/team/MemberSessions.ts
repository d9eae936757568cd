/** `ampoule sessions --member`: where a member is signed in, seen and ended by who manages them, after an approval. */
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as Effect from "effect/Effect"
import { type HeldCredential, PersonAccessApi } from "#schema/PersonAccessApi.ts"
import { call } from "#src/cli/connection/Client.ts"
import { type CliError, ServerRefused } from "#src/cli/terminal/Failure.ts"
import type { Managed } from "./Management.ts"
import { memberOf } from "./Members.ts"

const api = HttpApi.make("ampoule").add(PersonAccessApi)

const kinds: ReadonlyMap<string, string> = new Map([
  ["session", "browser"],
  ["cli_grant", "CLI login"],
  ["oauth_grant", "agent"]
])
export const kindOf = ({ name, type }: HeldCredential): string =>
  type === "session" && name === "management" ? "command line that manages a team" : (kinds.get(type) ?? type)

const at = Effect.fnUntraced(function* (managed: Managed, email: string) {
  const userId = yield* memberOf(managed, email)
  const client = yield* HttpApiClient.group(api, { group: "personAccess", httpClient: managed.connection.http })
  return { client, path: { teamId: managed.team.id, userId } }
})

/** Browsers, logins and agents; what the person made for machines is on their page. */
export const list = (email: string) =>
  Effect.fnUntraced(function* (managed: Managed) {
    const { client, path } = yield* at(managed, email)
    const { credentials } = yield* call(managed.connection, client.show({ path }))
    return credentials.filter(({ type }) => kinds.has(type))
  })

export const end = (email: string, credentialId: string) =>
  Effect.fnUntraced(function* (managed: Managed) {
    const { client, path } = yield* at(managed, email)
    yield* call(managed.connection, client.endOne({ path: { ...path, credentialId } }))
  })

const isGone = (error: CliError) => error instanceof ServerRefused && error.code === "GRANT_NOT_FOUND"
const isForbidden = (error: CliError) => error instanceof ServerRefused && error.code === "FORBIDDEN"

/** A session opens all teams of a person: one whom somebody else manages elsewhere stays signed in. */
export const endAll = (email: string) =>
  Effect.fnUntraced(function* (managed: Managed) {
    const items = yield* list(email)(managed)
    const outcomes = yield* Effect.forEach(items, ({ id }) =>
      end(
        email,
        id
      )(managed).pipe(
        Effect.as("ended" as const),
        Effect.catchIf(isGone, () => Effect.succeed("ended" as const)),
        Effect.catchIf(isForbidden, () => Effect.succeed("kept" as const))
      )
    )
    const kept = outcomes.filter((outcome) => outcome === "kept").length
    return { ended: outcomes.length - kept, kept }
  })

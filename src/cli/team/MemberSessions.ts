/** `ampoule sessions --member`: sessions of a member, listed and ended by a manager after an approval. */
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

const pathOf = Effect.fnUntraced(function* (managed: Managed, email: string) {
  const userId = yield* memberOf(managed, email)
  const client = yield* HttpApiClient.group(api, { group: "personAccess", httpClient: managed.connection.http })
  return { client, path: { teamId: managed.team.id, userId } }
})

/** Browsers, logins and agents. The member's API tokens and CI rules are listed elsewhere. */
export const list = (email: string) =>
  Effect.fnUntraced(function* (managed: Managed) {
    const { client, path } = yield* pathOf(managed, email)
    const { credentials } = yield* call(managed.connection, client.show({ path }))
    return credentials.filter(({ type }) => kinds.has(type))
  })

export const end = (email: string, credentialId: string) =>
  Effect.fnUntraced(function* (managed: Managed) {
    const { client, path } = yield* pathOf(managed, email)
    yield* call(managed.connection, client.endOne({ path: { ...path, credentialId } }))
  })

const isGone = (error: CliError) => error instanceof ServerRefused && error.code === "GRANT_NOT_FOUND"
const isForbidden = (error: CliError) => error instanceof ServerRefused && error.code === "FORBIDDEN"

/** A session opens all teams of a person. It stays open if another team of theirs has a different manager. */
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
    const keptCount = outcomes.filter((outcome) => outcome === "kept").length
    return { ended: outcomes.length - keptCount, kept: keptCount }
  })

/** `ampoule whoami`: the credential in use, the reason for it, and its permissions. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { VerifyAuthResponse } from "#schema/IdentityApi.ts"
import { call } from "#src/cli/connection/Client.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { facts, json } from "#src/cli/terminal/Output.ts"
import { identity } from "#src/cli/connection/Routes.ts"

const kinds: ReadonlyMap<string, string> = new Map([
  ["api_token", "API token"],
  ["cli_grant", "CLI login"],
  ["session", "session"]
])

const lines = (session: Credential.Session, verified: VerifyAuthResponse): ReadonlyArray<readonly [string, string]> => {
  const { accessLevel, credential, mcpScopes, restrictions, scopes, teams } = verified
  const teamName = (id: string) => teams.find((team) => team.id === id)?.name ?? id
  return [
    ["server", `${session.url} (${session.chosen.urlFrom})`],
    [
      "credential",
      `${kinds.get(credential.type) ?? credential.type}${credential.name === undefined ? "" : ` ${credential.name}`}`
    ],
    ["from", session.chosen.why],
    ["id", credential.id],
    ["expires", credential.expiresAt ?? "never"],
    ...(accessLevel === undefined ? [] : [["access level", accessLevel] as const]),
    ...(scopes === undefined
      ? [["teams", teams.map((team) => team.name).join(", ")] as const]
      : scopes.map((entry) => ["scopes", `${teamName(entry.teamId)}: ${entry.scopes.join(" ")}`] as const)),
    ...(mcpScopes === undefined || mcpScopes.length === 0 ? [] : [["MCP scopes", mcpScopes.join(" ")] as const]),
    ...(restrictions.projectIds === null ? [] : [["only projects", restrictions.projectIds.join(", ")] as const]),
    ...(restrictions.environmentIds === null
      ? []
      : [["only environments", restrictions.environmentIds.join(", ")] as const])
  ]
}

export const whoami = Help.command(
  "whoami",
  {
    says: "Show the credential in use, why it was chosen, and what it may do.",
    examples: ["ampoule whoami", "ampoule whoami --credential env", "ampoule whoami --json"]
  },
  { ...Shared.connection, json: Shared.json },
  Effect.fnUntraced(function* (options) {
    const session = yield* Credential.open(options)
    const client = yield* identity(session)
    const verified = yield* call(session, client.verify())
    if (options.json) {
      const { source, urlFrom, why } = session.chosen
      const login = Option.getOrUndefined(
        Option.map(session.chosen.login, ({ email, protection }) => ({ email, protection }))
      )
      return yield* json({ ...verified, client: { server: session.url, serverFrom: urlFrom, source, why, login } })
    }
    yield* facts(lines(session, verified).map(([name, text]) => ({ name: `${`${name}:`.padEnd(18)} `, text })))
  })
)

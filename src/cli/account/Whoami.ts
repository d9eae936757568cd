/** `ampoule whoami`: the credential in use, the reason for it, and its permissions. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Choice from "#src/cli/connection/Choice.ts"
import type { Link } from "#src/cli/connection/Link.ts"
import * as Names from "#src/cli/connection/Names.ts"
import { type Verified, verify } from "#src/cli/connection/Verified.ts"
import * as Target from "#src/cli/connection/Target.ts"
import * as TargetWords from "#src/cli/connection/TargetWords.ts"
import { facts, json } from "#src/cli/terminal/Output.ts"

const kinds: ReadonlyMap<string, string> = new Map([
  ["api_token", "API token"],
  ["cli_grant", "CLI login"],
  ["session", "session"]
])

/** Names by id, where the credential is restricted. Empty where it may not read them; ids are shown then. */
const namesOf = (server: Link, { only, restrictions }: Verified): Effect.Effect<ReadonlyMap<string, string>> => {
  const { environmentIds, projectIds } = restrictions
  if (environmentIds === null && projectIds === null) return Effect.succeed(new Map())
  if (only !== undefined && only !== null && (environmentIds ?? []).length < 2 && (projectIds ?? []).length < 2) {
    const { environment, environmentId, project, projectId } = only
    return Effect.succeed(
      new Map([
        [projectId, project],
        [environmentId, `${project}/${environment}`]
      ])
    )
  }
  return Effect.orElseSucceed(Names.byId(server), () => new Map())
}

const lines = (
  session: Choice.ChosenLink,
  verified: Verified,
  names: ReadonlyMap<string, string>
): ReadonlyArray<readonly [string, string]> => {
  const { accessLevel, credential, mcpScopes, restrictions, scopes, teams } = verified
  const nameAll = (ids: ReadonlyArray<string>) => ids.map((id) => names.get(id) ?? id).join(", ")
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
    ...(restrictions.projectIds === null ? [] : [["only projects", nameAll(restrictions.projectIds)] as const]),
    ...(restrictions.environmentIds === null
      ? []
      : [["only environments", nameAll(restrictions.environmentIds)] as const])
  ]
}

interface WhoamiOptions extends Choice.ConnectionOptions {
  readonly json: boolean
}

export const showCredential = Effect.fnUntraced(function* (options: WhoamiOptions) {
  const session = yield* Choice.open(options)
  const verified = yield* verify(session)
  const { parts } = yield* Target.overview(Target.noOptions, verified.only ?? null)
  if (options.json) {
    const { source, urlFrom, why } = session.chosen
    const login = Option.getOrUndefined(
      Option.map(session.chosen.login, ({ email, protection }) => ({ email, protection }))
    )
    const target = {
      project: parts.project?.name ?? null,
      environment: parts.environment?.name ?? null,
      ...TargetWords.sources(parts)
    }
    return yield* json({
      ...verified,
      client: { server: session.url, serverFrom: urlFrom, source, why, login, target }
    })
  }
  const names = yield* namesOf(session, verified)
  const rows = [...lines(session, verified, names), ["target", TargetWords.overview(parts)] as const]
  yield* facts(rows.map(([name, text]) => ({ name: `${`${name}:`.padEnd(18)} `, text })))
})

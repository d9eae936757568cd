/**
 * Finds keys, projects, environments, people and tokens in all teams of a person, by words of their names. No value is
 * opened. Names that are not visible are not found.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import {
  EnvironmentIdOut,
  type EnvironmentId,
  type ProjectId,
  ProjectIdOut,
  type TeamId,
  type TokenId,
  type UserId
} from "#schema/Ids.ts"
import type { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import { Access } from "#src/access/Access.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import * as Actions from "#src/access/Actions.ts"
import { Tokens } from "#src/credentials/Tokens.ts"
import { methods } from "#src/Methods.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Members } from "#src/projects/Members.ts"
import { Projects } from "#src/projects/Projects.ts"
import * as Rows from "#src/database/Rows.ts"

const services = Effect.all({
  access: Access,
  sql: SqlClient.SqlClient,
  environments: Environments,
  members: Members,
  projects: Projects,
  tokens: Tokens
})
type Needs = Effect.Effect.Success<typeof services>

/** Results of each kind. */
export const maxFound = 12
/** Characters and words of a question that count. */
const maxLength = 200
const maxWords = 6

interface FoundEnvironment {
  readonly project: Project
  readonly environment: ProjectEnvironment
}
interface FoundKey {
  readonly key: string
  readonly project: Project
  /** Environments that have the key, as far as the words name them. */
  readonly environments: ReadonlyArray<ProjectEnvironment>
}
interface FoundPerson {
  readonly teamId: TeamId
  readonly userId: UserId
  readonly name: string
  readonly email: string
}
interface FoundToken {
  readonly teamId: TeamId
  readonly tokenId: TokenId
  readonly name: string
}
export interface Found {
  readonly keys: ReadonlyArray<FoundKey>
  readonly projects: ReadonlyArray<Project>
  readonly environments: ReadonlyArray<FoundEnvironment>
  readonly people: ReadonlyArray<FoundPerson>
  readonly tokens: ReadonlyArray<FoundToken>
}

export const wordsOf = (text: string): ReadonlyArray<string> =>
  text
    .slice(0, maxLength)
    .toLowerCase()
    .split(/[\s/\p{Cc}]+/u)
    .filter((word) => word !== "")
    .slice(0, maxWords)

/**
 * Rank of a name: 0 it is one of the words, 1 it begins with one, 2 a part of it does, 3 it has each; else undefined.
 */
const fitOf = (name: string, words: ReadonlyArray<string>): number | undefined => {
  const text = name.toLowerCase()
  if (!words.every((word) => text.includes(word))) return undefined
  const parts = text.split(/[^\p{L}\p{N}]+/u)
  if (words.some((word) => text === word || parts.includes(word))) return 0
  if (words.some((word) => text.startsWith(word))) return 1
  return words.some((word) => parts.some((part) => part.startsWith(word))) ? 2 : 3
}

/** The first matches, best first. */
export const fitting = <A>(all: ReadonlyArray<A>, nameOf: (one: A) => string, words: ReadonlyArray<string>) =>
  all
    .flatMap((one) => {
      const fit = fitOf(nameOf(one), words)
      return fit === undefined ? [] : [{ fit, one }]
    })
    .sort((a, b) => a.fit - b.fit)
    .slice(0, maxFound)
    .map(({ one }) => one)

const projectName = ({ name, slug }: Project) => `${name} ${slug}`
const environmentName = ({ name, slug }: ProjectEnvironment) => `${name} ${slug}`

const KeyRow = Schema.Struct({
  key: Schema.String,
  projectId: ProjectIdOut,
  environmentIds: Schema.Array(EnvironmentIdOut)
})

interface Place extends FoundEnvironment {
  readonly permit: EnvironmentPermit<"secrets:read">
  /** Words that neither the environment nor its project has: the key must have them. */
  readonly left: ReadonlyArray<string>
  readonly fit: number
}

/** Keys with at least one of the words, and with all that their environment and project lack. */
const keysIn = (sql: SqlClient.SqlClient, places: ReadonlyArray<Place>, words: ReadonlyArray<string>) =>
  Rows.findAll(
    KeyRow,
    sql`
      SELECT s.key, p.project_id, array_agg(p.environment_id ORDER BY p.place) AS environment_ids
      FROM unnest(
          ${places.map(({ permit }) => permit.target.environmentId)}::uuid[],
          ${places.map(({ permit }) => permit.target.projectId)}::uuid[],
          ${places.map(({ left }) => left.join(" ").toUpperCase())}::text[],
          ${places.map(({ fit }) => fit)}::int[]
        ) WITH ORDINALITY AS p (environment_id, project_id, missing, fit, place)
      JOIN secrets s ON s.environment_id = p.environment_id AND s.deleted_at IS NULL
      CROSS JOIN LATERAL (
        SELECT min(CASE
          WHEN s.key = w THEN 0 WHEN starts_with(s.key, w) THEN 1 WHEN strpos(s.key, '_' || w) > 0 THEN 2
          WHEN strpos(s.key, w) > 0 THEN 3 END) AS fit
        FROM unnest(${words.map((word) => word.toUpperCase())}::text[]) AS w) AS f
      WHERE f.fit IS NOT NULL
        AND NOT EXISTS (SELECT FROM unnest(string_to_array(p.missing, ' ')) AS m WHERE strpos(s.key, m) = 0)
      GROUP BY s.key, p.project_id
      ORDER BY min(f.fit), min(p.fit), length(s.key), s.key COLLATE "C", min(p.place) LIMIT ${maxFound}`
  )

type Reached = ReadonlyMap<ProjectId, ReadonlyArray<ProjectEnvironment>>

/** Environments to search for keys, those that the words name best first. */
const placesOf = (
  permits: ReadonlyArray<EnvironmentPermit<"secrets:read">>,
  projects: ReadonlyMap<ProjectId, Project>,
  reached: Reached,
  words: ReadonlyArray<string>
): ReadonlyArray<Place> =>
  permits
    .flatMap((permit): ReadonlyArray<Place> => {
      const { environmentId, projectId } = permit.target
      const project = projects.get(projectId)
      const environment = reached.get(projectId)?.find(({ id }) => id === environmentId)
      if (project === undefined || environment === undefined) return []
      const name = `${projectName(project)} ${environmentName(environment)}`
      const about = words.filter((word) => name.toLowerCase().includes(word))
      const fit = about.length === 0 ? 4 : (fitOf(name, about) ?? 4)
      return [{ permit, project, environment, fit, left: words.filter((word) => !about.includes(word)) }]
    })
    .sort((a, b) => a.fit - b.fit)

const findKeys = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  places: ReadonlyArray<Place>,
  words: ReadonlyArray<string>
) {
  if (words.length === 0 || places.length === 0) return []
  const rows = yield* keysIn(sql, places, words)
  const byId = new Map<EnvironmentId, Place>(places.map((place) => [place.permit.target.environmentId, place]))
  return rows.flatMap(({ environmentIds, key }): ReadonlyArray<FoundKey> => {
    const at = environmentIds.flatMap((id) => byId.get(id) ?? [])
    return at.length === 0
      ? []
      : [{ key, project: at[0].project, environments: at.map(({ environment }) => environment) }]
  })
})

const findPeople = ({ members }: Needs, { teams }: Caller, words: ReadonlyArray<string>) =>
  Effect.map(
    Effect.forEach(teams, ({ id }) =>
      Effect.map(members.list(id), (all) => all.map((one) => ({ ...one, teamId: id })))
    ),
    (all): ReadonlyArray<FoundPerson> => fitting(all.flat(), ({ email, name }) => `${name} ${email}`, words)
  )

/** Tokens are visible to those who manage them. */
const findTokens = ({ tokens }: Needs, { teams }: Caller, words: ReadonlyArray<string>) =>
  Effect.map(
    Effect.forEach(
      teams.filter(({ role }) => role !== null && Actions.byRole[role].has("tokens:manage")),
      ({ id }) =>
        Effect.map(tokens.list(id), (all) => all.map((one) => ({ teamId: id, tokenId: one.id, name: one.name })))
    ),
    (all): ReadonlyArray<FoundToken> => fitting(all.flat(), ({ name }) => name, words)
  )

/**
 * Names that have all the words of a text; case does not count. A key may have some of them and its project and
 * environment the others: `data 37 prod`. Without words: projects alone.
 */
const find = Effect.fn("Search.find")(function* (needs: Needs, text: string) {
  const caller = yield* CurrentCaller
  const words = wordsOf(text)
  const permits = yield* needs.access.eachEnvironment("secrets:read", { audit: "secret.list" })
  const projects = new Map((yield* needs.projects.list()).map((one) => [one.id, one]))
  const reached = yield* needs.environments.byProject("all")
  const all = [...projects.values()]
  const environments = all.flatMap((project) =>
    (reached.get(project.id) ?? []).map((environment): FoundEnvironment => ({ project, environment }))
  )
  const isNamed = ({ environment }: FoundEnvironment) =>
    words.some((word) => environmentName(environment).toLowerCase().includes(word))
  const matches: Found = {
    keys: yield* findKeys(needs.sql, placesOf(permits, projects, reached, words), words),
    projects: fitting(all, projectName, words),
    environments: fitting(
      environments.filter(isNamed),
      ({ environment, project }) => `${projectName(project)} ${environmentName(environment)}`,
      words
    ),
    people: words.length === 0 ? [] : yield* findPeople(needs, caller, words),
    tokens: words.length === 0 ? [] : yield* findTokens(needs, caller, words)
  }
  return matches
})

export class Search extends Effect.Service<Search>()("secrets/Search", {
  effect: Effect.map(services, (needs) => methods(needs, { find }))
}) {}

/** Items that need attention, for the first page: each with its words and a link. */
import * as Effect from "effect/Effect"
import type { ProjectId } from "#schema/Ids.ts"
import type { LeakedCredential } from "#schema/LeakReportsApi.ts"
import type { Project } from "#schema/ProjectsApi.ts"
import { days } from "#src/Days.ts"
import { ago } from "#src/dashboard/frame/Components.tsx"
import { subjectText } from "#src/dashboard/audit/IncidentViews.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import { may, type Visit } from "#src/dashboard/frame/Visit.ts"

export interface AttentionItem {
  readonly kind: "leaked" | "incident" | "webhook" | "token" | "address" | "due" | "missing" | "unread"
  readonly tone: "danger" | "amber" | "plain"
  /** A sentence without its full stop. */
  readonly title: string
  /** Names or details, shown beside the title. */
  readonly about: string
  readonly href: string
}
type Items = ReadonlyArray<AttentionItem>

const endsSoon = days(14)
const maxNamed = 3

const many = (count: number, one: string, several: string) => (count === 1 ? `1 ${one}` : `${count} ${several}`)
const listNames = (names: ReadonlyArray<string>, total = names.length) =>
  `${names.slice(0, maxNamed).join(", ")}${total > maxNamed ? ", …" : ""}`

const tokens = Effect.fnUntraced(function* ({ now }: Visit, team: NonNullable<Visit["team"]>) {
  const ending = (yield* UseCases.tokens.list(team.id)).filter(({ expiresAt }) => {
    const remaining = expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(expiresAt) - now
    return remaining > 0 && remaining <= endsSoon
  })
  const items: Items = ending.slice(0, maxNamed).map(({ expiresAt, id, name }) => ({
    kind: "token",
    tone: "amber",
    title: `The token ${name} ends on ${expiresAt?.slice(0, 10) ?? ""}`,
    about: "Replace it before then, or programs that use it stop",
    href: Paths.token(team.id, id)
  }))
  return items
})

const webhooks = Effect.fnUntraced(function* (team: NonNullable<Visit["team"]>) {
  const failing = yield* UseCases.webhooks.failing(team.id)
  if (failing.size === 0) return []
  const items: Items = (yield* UseCases.webhooks.list(team.id))
    .filter(({ id }) => failing.has(id))
    .slice(0, maxNamed)
    .map(({ id, name }) => ({
      kind: "webhook",
      tone: "danger",
      title: `The webhook ${name} fails`,
      about: "Its receiver refused the last delivery",
      href: Paths.webhook(team.id, id)
    }))
  return items
})

const kinds: ReadonlyMap<string, string> = new Map([
  ["api_token", "The API token"],
  ["cli_grant", "A CLI login of"],
  ["oauth_token", "A connected agent of"],
  ["session", "A session of"],
  ["management", "A management session of"],
  ["invitation", "The invitation of"],
  ["password_reset", "A link that sets the password of"]
])

/** A leaked credential as the subject of a sentence. */
const leakedText = ({ name, person, type }: LeakedCredential): string => `${kinds.get(type) ?? type} ${person ?? name}`

/** Age of the oldest leaked credential that the page shows. */
const maxLeakAge = days(30)
const maxLeaked = 5

const leaked = Effect.fnUntraced(function* ({ now }: Visit, team: NonNullable<Visit["team"]>) {
  const { items: all } = yield* UseCases.leakReports.list(team.id)
  const recent = all.filter(({ reportedAt }) => Date.parse(reportedAt) > now - maxLeakAge)
  const href = `${Paths.incidents(team.id)}#leaked`
  const items = recent.slice(0, maxLeaked).map((one): AttentionItem => ({
    kind: "leaked",
    tone: "danger",
    title: `${leakedText(one)} was found in public ${ago(Date.parse(one.reportedAt), now)}`,
    about: one.revoked ? "It no longer works" : "It still works: end it",
    href
  }))
  const more = recent.length - items.length
  const rest: Items =
    more > 0 ? [{ kind: "leaked", tone: "danger", title: `${more} more leaked credentials`, about: "", href }] : []
  return [...items, ...rest]
})

/**
 * Incidents need keys of the vault for their notes. Without it they are left out here, and their own page explains why.
 */
const incidents = (team: NonNullable<Visit["team"]>) =>
  Effect.map(
    Effect.catchAllCause(UseCases.incidents.unfinished(team.id), () => Effect.succeed([])),
    (rows): Items =>
      rows.map(({ id, out, subject }) => ({
        kind: "incident",
        tone: "danger",
        title: `Incident: ${subjectText(subject)}`,
        about: `${many(out, "value is", "values are")} still to be replaced`,
        href: Paths.incident(team.id, id)
      }))
  )

const due = (team: NonNullable<Visit["team"]>) =>
  Effect.map(UseCases.secretReads.dueInTeam(team.id), (rows): Items =>
    rows.map(({ environment, project, projectId, total }) => ({
      kind: "due",
      tone: "amber",
      title: `${many(total, "value is", "values are")} due for replacement in ${project} / ${environment}`,
      about: "",
      href: Paths.environment({ projectId, slug: environment })
    }))
  )

/** Age up to which an address counts as new. */
const newFor = days(7)

const addresses = ({ now }: Visit, team: NonNullable<Visit["team"]>) =>
  Effect.map(UseCases.auditTrail.newAddresses(team.id, now - newFor), (rows): Items =>
    rows.map(({ actorId, at, ip, lookedFrom, name }) => ({
      kind: "address",
      tone: "amber",
      title: `${name} read values from a new address`,
      about: `${ip}, ${ago(Date.parse(at), now)}; compared with reads since ${lookedFrom.slice(0, 10)}`,
      href: Paths.withQuery(Paths.audit(team.id), { actor: actorId, since: at })
    }))
  )

type Names = (id: ProjectId, environment: string) => string

const missing = Effect.fnUntraced(function* (
  team: NonNullable<Visit["team"]>,
  within: ReadonlyArray<ProjectId>,
  nameOf: Names
) {
  const gaps = yield* UseCases.gaps.missing(team.id, within)
  const items: Items = gaps.map(({ environment, keys, projectId, total }) => ({
    kind: "missing",
    tone: "amber",
    title: `${many(total, "key is", "keys are")} missing in ${nameOf(projectId, environment)}`,
    about: listNames(keys, total),
    href: Paths.withQuery(Paths.project(projectId), { show: "missing" })
  }))
  return items
})

/** An altered trail, or one whose index is incomplete, cannot prove missing reads; the trail's pages report it. */
const unread = (team: NonNullable<Visit["team"]>, within: ReadonlyArray<ProjectId>, nameOf: Names) =>
  Effect.map(
    Effect.catchTags(UseCases.exposure.unread(team.id, within), {
      INTEGRITY_FAILURE: () => Effect.succeed([]),
      SERVER_BUSY: () => Effect.succeed([])
    }),
    (rows): Items =>
      rows.map(({ environment, keys, projectId }) => ({
        kind: "unread",
        tone: "plain",
        title: `${many(keys.length, "value was", "values were")} not read in the last 90 days in ${nameOf(projectId, environment)}`,
        about: listNames(keys),
        href: Paths.environment({ projectId, slug: environment })
      }))
  )

/**
 * Items of the page's team that the person may see, worst first. Searches that visit environments cover only the
 * projects on the page, so that a team with many others stays fast.
 */
export const attentionFor = Effect.fnUntraced(function* (visit: Visit, projects: ReadonlyArray<Project>) {
  const { team } = visit
  if (team === null) return []
  const names = new Map(projects.map(({ id, name }) => [id, name]))
  const ids = projects.map(({ id }) => id)
  const nameOf: Names = (id, environment) => `${names.get(id) ?? "a project"} / ${environment}`
  const manages = may(visit, "tokens:manage")
  const items = [
    ...(may(visit, "audit:read") ? [...(yield* leaked(visit, team)), ...(yield* incidents(team))] : []),
    ...(may(visit, "audit-trail:read") ? yield* addresses(visit, team) : []),
    ...(manages ? [...(yield* webhooks(team)), ...(yield* tokens(visit, team))] : []),
    ...(yield* due(team)),
    ...(yield* missing(team, ids, nameOf)),
    ...(may(visit, "audit:read") ? yield* unread(team, ids, nameOf) : [])
  ]
  return items
})

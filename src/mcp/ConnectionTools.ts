/** Tools about the connection, and lists of what it reaches. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { ValidationFailed } from "#schema/Errors.ts"
import { deploymentOf } from "#src/Deployment.ts"
import { scopesOf } from "./Credentials.ts"
import type { Identity } from "#src/credentials/Identity.ts"
import type { AuditTrail } from "#src/access/AuditTrail.ts"
import type { Settings } from "#src/AppConfig.ts"
import type { Environments } from "#src/projects/Environments.ts"
import type { Projects } from "#src/projects/Projects.ts"
import { done, type Handlers } from "./Tool.ts"

const pageOfProjects = 100
const toCursor = (offset: number) => Buffer.from(String(offset)).toString("base64url")
const fromCursor = (cursor: string): Option.Option<number> => {
  const text = Buffer.from(cursor, "base64url").toString("latin1")
  return /^[1-9]\d{0,6}$/.test(text) && toCursor(Number(text)) === cursor ? Option.some(Number(text)) : Option.none()
}

export interface ConnectionToolNeeds {
  readonly identity: Identity
  readonly trail: AuditTrail
  readonly settings: Settings
  readonly environments: Environments
  readonly projects: Projects
}

export const handlers = ({
  identity,
  trail,
  settings,
  environments,
  projects
}: ConnectionToolNeeds): Pick<
  Handlers,
  "whoami" | "get_capabilities" | "list_projects" | "list_environments" | "list_audit_events"
> => ({
  whoami: () =>
    Effect.map(identity.caller(), (caller) =>
      done({
        credential: {
          type: caller.kind === "api_token" ? ("api_token" as const) : ("oauth_token" as const),
          id: caller.credentialId,
          ...(caller.name === null ? {} : { name: caller.name }),
          ...(caller.accessLevel === null ? {} : { accessLevel: caller.accessLevel }),
          ...(caller.expiresAt === null ? {} : { expiresAt: caller.expiresAt.toISOString() })
        },
        ...(caller.user === null ? {} : { user: caller.user }),
        teams: caller.teams.map(({ id, name, role }) => ({ id, name, role: role ?? "viewer" })),
        scopes: scopesOf(caller),
        restrictions: { projects: caller.restrictions.projectIds, environments: caller.restrictions.environmentIds }
      })
    ),

  get_capabilities: () =>
    Effect.succeed(done({ features: deploymentOf(settings).features, limits: deploymentOf(settings).limits })),

  list_projects: ({ cursor }) =>
    Effect.gen(function* () {
      const offset = cursor === undefined ? Option.some(0) : fromCursor(cursor)
      if (Option.isNone(offset)) {
        return yield* new ValidationFailed({
          field: "cursor",
          message: "must be the nextCursor of an earlier answer"
        })
      }
      const all = yield* projects.list()
      const next = offset.value + pageOfProjects
      return done({
        projects: all.slice(offset.value, next).map(({ id, name, slug, teamId }) => ({ id, name, slug, teamId })),
        ...(next < all.length ? { nextCursor: toCursor(next) } : {})
      })
    }),

  list_environments: ({ projectId }) =>
    Effect.gen(function* () {
      const { items } = yield* environments.list(projectId)
      return done({
        environments: items.map(({ id, name, protected: isProtected, slug }) => ({
          id,
          slug,
          name,
          protected: isProtected
        }))
      })
    }),

  list_audit_events: (query) =>
    Effect.map(trail.listReachable(query), ({ items, nextCursor }) =>
      done({ events: items, ...(nextCursor === null ? {} : { nextCursor }) })
    )
})

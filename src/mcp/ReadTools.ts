/** Read-only tools: the connection, names and metadata of secrets, uses of values, and plaintext. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { AuditEntry } from "#schema/Audit.ts"
import type { Caller } from "#schema/Caller.ts"
import { ValidationFailed } from "#schema/Errors.ts"
import { toolNames, tools } from "#schema/McpTools.ts"
import type { Scope } from "#schema/Scopes.ts"
import { AuditTrail } from "#src/trail-use/AuditTrail.ts"
import { Exposure } from "#src/trail-use/Exposure.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Identity } from "#src/credentials/Identity.ts"
import { deploymentOf } from "#src/Deployment.ts"
import { countsText } from "#src/formats/ExposureText.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Projects } from "#src/projects/Projects.ts"
import { SealingKeys } from "#src/projects/SealingKeys.ts"
import { cyclesOf } from "#src/secrets/KeyGraph.ts"
import { RunPlans } from "#src/secrets/RunPlans.ts"
import { SecretStore } from "#src/secrets/SecretStore.ts"
import { missingScopes, scopesOf } from "./Credentials.ts"
import { done, type Handlers } from "./Tool.ts"

const pageOfProjects = 50
const toCursor = (offset: number) => Buffer.from(String(offset)).toString("base64url")
const fromCursor = (cursor: string): Option.Option<number> => {
  const text = Buffer.from(cursor, "base64url").toString("latin1")
  return /^[1-9]\d{0,6}$/.test(text) && toCursor(Number(text)) === cursor ? Option.some(Number(text)) : Option.none()
}

const shortEntry = (entry: AuditEntry) => ({
  id: entry.id,
  at: entry.at,
  actor: entry.actor.name === null ? entry.actor.type : `${entry.actor.type} ${entry.actor.name}`,
  action: entry.action,
  outcome: entry.outcome,
  ...(entry.reason === undefined ? {} : { reason: entry.reason }),
  ...(entry.project === undefined ? {} : { project: entry.project }),
  ...(entry.environment === undefined ? {} : { environment: entry.environment }),
  ...(entry.target === undefined ? {} : { target: `${entry.target.type} ${entry.target.name}` }),
  keys: entry.keys.slice(0, 3),
  keyCount: entry.keys.length,
  via: entry.via
})

// Results give totals and a part that fits a model's context; `next` names the call for the rest.

/** Keys in one list. */
const maxKeys = 100
const maxEdges = 250
/** Items that a plan or a report names, beside their total. */
const maxShown = 20
/** Projects, and environments, that `whoami` names for a restricted connection. */
const maxRestrictions = 50

const names = (list: ReadonlyArray<{ readonly key: string }>) => list.slice(0, maxKeys).map(({ key }) => key)

const services = Effect.all({
  identity: Identity,
  trail: AuditTrail,
  exposure: Exposure,
  settings: AppConfig,
  environments: Environments,
  projects: Projects,
  plans: RunPlans,
  reads: Effect.map(SecretStore, ({ reads }) => reads),
  sealingKeys: SealingKeys
})
type Needs = Effect.Effect.Success<typeof services>

/** Names of the projects and environments of a restricted connection; empty without restrictions or `projects:read`. */
const restrictionNames = Effect.fnUntraced(function* ({ environments, projects }: Needs, caller: Caller) {
  const { environmentIds, projectIds } = caller.restrictions
  if (projectIds === null && environmentIds === null) return {}
  if (missingScopes(caller, ["projects:read"]).length > 0) return {}
  const ofProjects = projectIds === null ? [] : yield* projects.list()
  const ofEnvironments = environmentIds === null ? [] : yield* environments.reachable(maxRestrictions)
  const firstProjects = ofProjects.slice(0, maxRestrictions)
  return {
    named: {
      projects: firstProjects.map(({ id, name, slug }) => ({ id, slug, name })),
      environments: ofEnvironments.map(({ id, projectSlug, slug }) => ({ id, slug, project: projectSlug }))
    }
  }
})

const aboutTheConnection = (needs: Needs) => {
  const { environments, identity, projects, settings } = needs
  return {
    whoami: () =>
      Effect.gen(function* () {
        const caller = yield* identity.caller()
        return done({
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
          restrictions: {
            projects: caller.restrictions.projectIds,
            environments: caller.restrictions.environmentIds,
            ...(yield* restrictionNames(needs, caller))
          }
        })
      }),

    get_capabilities: () =>
      Effect.succeed(done({ features: deploymentOf(settings).features, limits: deploymentOf(settings).limits })),

    more_tools: ({ scope }) => {
      const matches = toolNames.filter((name) => {
        const { plaintext = false, scopes }: { readonly plaintext?: boolean; readonly scopes: ReadonlyArray<Scope> } =
          tools[name]
        return scopes.includes(scope) && (settings.mcpReveal || !plaintext)
      })
      return Effect.succeed(done({ tools: matches, next: "tools/list now has those of them that your scopes allow" }))
    },

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
      })
  } satisfies Partial<Handlers>
}

const aboutUses = ({ exposure, trail }: Needs) =>
  ({
    list_audit_events: ({ full = false, ...query }) =>
      Effect.map(trail.listReachable(query), ({ items, nextCursor }) =>
        done({
          events: full ? [] : items.map(shortEntry),
          ...(full ? { entries: items } : {}),
          ...(nextCursor === null ? {} : { nextCursor })
        })
      ),

    get_exposure: (input) =>
      Effect.map(
        exposure.ofKey(input, { pageSize: maxShown }),
        ({ formerly, items, renamedTo, total, upTo, versions }) =>
          done({
            upTo,
            ...(formerly.length === 0 ? {} : { formerly: formerly.slice(0, maxShown) }),
            ...(renamedTo.length === 0 ? {} : { renamedTo: renamedTo.slice(0, maxShown) }),
            versions: versions.slice(0, maxShown).map(({ handedTo, heldBy, version }) => ({
              version,
              handedTo: countsText(handedTo),
              heldBy: countsText(heldBy)
            })),
            latest: items.map(({ holder: { name, type }, lastAt, version, way }) => ({
              version,
              type,
              name,
              way,
              lastAt
            })),
            total
          })
      )
  }) satisfies Partial<Handlers>

const aboutNames = ({ reads }: Needs) =>
  ({
    list_secrets: ({ fields = ["kind", "version"], ...input }) =>
      Effect.map(reads.search(input), ({ groups, page, pageSize, rows, target, total }) => {
        const has = (field: (typeof fields)[number]) => fields.includes(field)
        return done({
          total,
          ...(groups === undefined ? {} : { groups }),
          secrets: rows.map((row) => ({
            ...(has("id") ? { id: row.id } : {}),
            key: row.key,
            ...(has("kind") ? { kind: row.kind } : {}),
            ...(has("version") ? { version: row.version } : {}),
            ...(has("updatedAt") ? { updatedAt: row.updatedAt.toISOString() } : {}),
            ...(has("reference") ? { reference: `secret://${target.projectId}/${target.slug}/${row.key}` } : {}),
            ...(has("references") ? { references: row.refs } : {}),
            ...(has("owner") ? { owner: row.owner } : {}),
            ...(has("note") ? { note: row.note } : {}),
            ...(has("rotateBy") ? { rotateBy: row.rotateBy } : {})
          })),
          page,
          pageSize,
          ...(page * pageSize < total
            ? { next: `list_secrets with page ${page + 1}, or with query, such as the prefix of a group` }
            : {})
        })
      }),

    check_secrets: (input) => Effect.map(reads.check(input), done),

    compare_environments: (input) =>
      Effect.map(reads.diff(input), (difference) => {
        const part = (input.query ?? "").toUpperCase()
        const of = (list: ReadonlyArray<{ readonly key: string }>) => list.filter(({ key }) => key.includes(part))
        const [added, removed, changed] = [of(difference.added), of(difference.removed), of(difference.changed)]
        const isCut = [added, removed, changed].some(({ length }) => length > maxKeys)
        return done({
          counts: { added: added.length, removed: removed.length, changed: changed.length },
          added: names(added),
          removed: names(removed),
          changed: names(changed),
          ...(isCut ? { next: "compare_environments with query narrows the lists" } : {})
        })
      }),

    get_composition: ({ key, ...at }) =>
      Effect.map(reads.composition(at), ({ edges, nodes }) => {
        const graph = new Map<string, Array<string>>(nodes.map((node) => [node.key, []]))
        for (const { from, to } of edges) graph.get(from)?.push(to)
        const matches = key === undefined ? edges : edges.filter(({ from, to }) => from === key || to === key)
        return done({
          secrets: nodes.length,
          total: matches.length,
          edges: matches.slice(0, maxEdges),
          cycles: cyclesOf(graph).slice(0, maxKeys),
          ...(matches.length > maxEdges ? { next: "get_composition with key shows the edges of one key" } : {})
        })
      })
  }) satisfies Partial<Handlers>

/** Advice for the person's machine, where the command line must be installed and logged in. */
const setupOf = (baseUrl: string): ReadonlyArray<string> => [
  `"ampoule: command not found": ask the person to install the Ampoule command line (README of the server at ${baseUrl}).`,
  `"No credential": ask the person to run \`ampoule login --url ${baseUrl}\`, or to set AMPOULE_API_TOKEN.`,
  "Exit code 125: ampoule refused before your program began; its message says why.",
  "--redact stops accidents, not intent: do not make the program print values in another form."
]

/** Command that writes `.env.sealed` on the person's machine; values pass from program to program. */
const sealing = (
  baseUrl: string,
  { projectId, slug }: { readonly projectId: string; readonly slug: string }
): ReadonlyArray<string> => ["ampoule", "seal", "export", "--url", baseUrl, "--project", projectId, "--env", slug]

/** Tools that use values without returning them. */
const uses = ({ plans, reads, sealingKeys, settings }: Needs) =>
  ({
    get_environment_keypair: (input) =>
      Effect.gen(function* () {
        const { keyId, publicKey } = yield* sealingKeys.keypairIn(input)
        return done({ keyId, publicKey })
      }),

    plan_run: (input) =>
      Effect.map(plans.plan(input), ({ id, injected, problems, target }) => {
        const { projectId, slug } = target
        const counts = { injected: injected.length, injectedKeys: injected.slice(0, maxShown) }
        if (id === undefined) {
          const next = "create_secret or request_secret_value for keys that are missing, then plan_run again"
          return done({ ...counts, problems: problems.slice(0, maxKeys), next })
        }
        const place = ["--url", settings.baseUrl, "--project", projectId, "--env", slug]
        const query = new URLSearchParams({ projectId, environment: slug, plan: id })
        return done({
          ...counts,
          problems,
          plan: id,
          command: ["ampoule", "run", ...place, "--plan", id, "--redact", "--", ...input.command],
          setup: setupOf(settings.baseUrl),
          http: { method: "GET", url: `${settings.baseUrl}/secrets/inject?${query.toString()}` },
          next: "Run command once, within 15 minutes; run_status with plan when it has ended"
        })
      }),

    run_status: ({ plan }) =>
      Effect.map(plans.status(plan), (status) =>
        done(
          status.status === "ended"
            ? status
            : { ...status, next: "run_status again, when the command that plan_run gave has ended" }
        )
      ),

    export_encrypted_env: ({ keys, recipientPublicKey, ...at }) =>
      Effect.gen(function* () {
        // A caller can open values that are sealed to its own key, so they count as plaintext.
        if (recipientPublicKey !== undefined && !settings.mcpReveal) {
          return yield* new ValidationFailed({
            field: "recipientPublicKey",
            message: "is not accepted here: plaintext tools are switched off"
          })
        }
        if (keys === undefined && recipientPublicKey === undefined) {
          const { injected, permit } = yield* reads.plan(at)
          const { environmentId, keyId } = yield* sealingKeys.keypairIn(at)
          return done({
            environmentId,
            keyId,
            count: injected.length,
            command: sealing(settings.baseUrl, permit.target)
          })
        }
        const place = { ...at, ...(keys === undefined ? {} : { keys }) }
        const sealed = yield* recipientPublicKey === undefined
          ? reads.sealedExport(place)
          : reads.sealedForOthers({ ...place, recipient: recipientPublicKey })
        return done({ ...sealed, count: Object.keys(sealed.entries).length })
      }),

    verify_encrypted_env: ({ entries, keyId, ...at }) =>
      Effect.map(sealingKeys.openIn(at, { entries, keyId }), ({ activeKey, values }) =>
        done({ keys: Object.keys(values), altered: false, ...(activeKey === undefined ? {} : { activeKey }) })
      )
  }) satisfies Partial<Handlers>

/** Tools that return values in plaintext. */
const reveals = ({ reads, sealingKeys }: Needs) =>
  ({
    reveal_secret_value: ({ reason, ...query }) =>
      Effect.map(reads.value(query, reason), (answer) => {
        const { key, value, version } = answer.value()
        return done({ key, version, value })
      }),

    resolve_environment: (query) =>
      Effect.map(reads.resolved({ page: 1, ...query }), ({ hasMore, page, total, values }) =>
        done({ values, total, ...(hasMore ? { next: `resolve_environment with page ${page + 1}` } : {}) })
      ),

    open_sealed_values: ({ entries, keyId, ...at }) =>
      Effect.map(sealingKeys.openIn(at, { entries, keyId }), ({ activeKey, values }) =>
        done({ values, ...(activeKey === undefined ? {} : { activeKey }) })
      )
  }) satisfies Partial<Handlers>

export const handlers = Effect.map(services, (needs) => ({
  ...aboutTheConnection(needs),
  ...aboutUses(needs),
  ...aboutNames(needs),
  ...uses(needs),
  ...reveals(needs)
}))

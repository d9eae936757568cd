/** Tools that change nothing: about the connection, names and metadata of secrets, values put to use, and plain text. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { ValidationFailed } from "#schema/Errors.ts"
import { AuditTrail } from "#src/access/AuditTrail.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Identity } from "#src/credentials/Identity.ts"
import { deploymentOf } from "#src/Deployment.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Projects } from "#src/projects/Projects.ts"
import { SealingKeys } from "#src/projects/SealingKeys.ts"
import { cyclesOf } from "#src/secrets/KeyGraph.ts"
import { SecretReads } from "#src/secrets/SecretReads.ts"
import { scopesOf } from "./Credentials.ts"
import { done, type Handlers } from "./Tool.ts"

const pageOfProjects = 100
const toCursor = (offset: number) => Buffer.from(String(offset)).toString("base64url")
const fromCursor = (cursor: string): Option.Option<number> => {
  const text = Buffer.from(cursor, "base64url").toString("latin1")
  return /^[1-9]\d{0,6}$/.test(text) && toCursor(Number(text)) === cursor ? Option.some(Number(text)) : Option.none()
}

const names = (list: ReadonlyArray<{ readonly key: string }>) => list.map(({ key }) => key)

const services = Effect.all({
  identity: Identity,
  trail: AuditTrail,
  settings: AppConfig,
  environments: Environments,
  projects: Projects,
  reads: SecretReads,
  sealingKeys: SealingKeys
})
type Needs = Effect.Effect.Success<typeof services>

const aboutTheConnection = ({ environments, identity, projects, settings, trail }: Needs) =>
  ({
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
  }) satisfies Partial<Handlers>

const aboutNames = ({ reads }: Needs) =>
  ({
    list_secrets: (input) =>
      Effect.map(reads.search(input), ({ page, pageSize, rows, target, total }) =>
        done({
          secrets: rows.map((row) => ({
            id: row.id,
            key: row.key,
            kind: row.kind,
            version: row.version,
            updatedAt: row.updatedAt.toISOString(),
            reference: `secret://${target.projectId}/${target.slug}/${row.key}`,
            references: row.refs
          })),
          page,
          pageSize,
          total
        })
      ),

    check_secrets: (input) => Effect.map(reads.check(input), done),

    compare_environments: (input) =>
      Effect.map(reads.diff(input), ({ added, changed, removed }) =>
        done({ added: names(added), removed: names(removed), changed: names(changed) })
      ),

    get_composition: (input) =>
      Effect.map(reads.composition(input), ({ edges, nodes }) => {
        const graph = new Map<string, Array<string>>(nodes.map(({ key }) => [key, []]))
        for (const { from, to } of edges) graph.get(from)?.push(to)
        return done({ nodes, edges, cycles: cyclesOf(graph) })
      })
  }) satisfies Partial<Handlers>

/** Values are put to use and not returned. */
const uses = ({ reads, sealingKeys, settings }: Needs) =>
  ({
    get_environment_keypair: (input) =>
      Effect.gen(function* () {
        const { keyId, publicKey } = yield* sealingKeys.keypairIn(input)
        return done({ keyId, publicKey })
      }),

    plan_run: (input) =>
      Effect.map(reads.plan(input), ({ injected, problems, target }) => {
        const query = new URLSearchParams({ projectId: target.projectId, environment: target.slug })
        const only = input.keys === undefined ? [] : injected.flatMap((key) => ["--only", key])
        return done({
          command: [
            "ampoule",
            "run",
            "--url",
            settings.baseUrl,
            "--project",
            target.projectId,
            "--env",
            target.slug,
            ...only,
            "--",
            ...input.command
          ],
          http: { method: "GET", url: `${settings.baseUrl}/secrets/inject?${query.toString()}` },
          injectedKeys: injected,
          problems
        })
      }),

    export_encrypted_env: ({ keys, recipientPublicKey, ...at }) =>
      Effect.gen(function* () {
        // Sealed to a key of the caller's choice is plaintext by another name.
        if (recipientPublicKey !== undefined && !settings.mcpReveal) {
          return yield* new ValidationFailed({
            field: "recipientPublicKey",
            message: "is not accepted here: plaintext tools are switched off"
          })
        }
        return done(
          yield* reads.sealedExport({
            ...at,
            ...(keys === undefined ? {} : { keys }),
            ...(recipientPublicKey === undefined ? {} : { recipient: recipientPublicKey })
          })
        )
      }),

    verify_encrypted_env: ({ entries, keyId, ...at }) =>
      Effect.map(sealingKeys.openIn(at, { entries, keyId }), ({ activeKey, values }) =>
        done({ keys: Object.keys(values), altered: false, ...(activeKey === undefined ? {} : { activeKey }) })
      )
  }) satisfies Partial<Handlers>

/** Values are returned in plain text. */
const reveals = ({ reads, sealingKeys }: Needs) =>
  ({
    reveal_secret_value: ({ reason, ...query }) =>
      Effect.map(reads.value(query, reason), (answer) => {
        const { key, value, version } = answer.value()
        return done({ key, version, value })
      }),

    resolve_environment: (query) => Effect.map(reads.resolved(query), (values) => done({ values })),

    open_sealed_values: ({ entries, keyId, ...at }) =>
      Effect.map(sealingKeys.openIn(at, { entries, keyId }), ({ activeKey, values }) =>
        done({ values, ...(activeKey === undefined ? {} : { activeKey }) })
      )
  }) satisfies Partial<Handlers>

export const handlers = Effect.map(services, (needs) => ({
  ...aboutTheConnection(needs),
  ...aboutNames(needs),
  ...uses(needs),
  ...reveals(needs)
}))

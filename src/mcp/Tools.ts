/** The table at work: each tool of `schema/McpTools.ts` over the same use cases as the REST routes. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { ValidationFailed } from "#schema/Errors.ts"
import { type ToolName, type ToolOutput, tools } from "#schema/McpTools.ts"
import type { OpenSealedValues } from "#schema/SealedApi.ts"
import type { EnvironmentQuery } from "#schema/SecretsApi.ts"
import { Access } from "#src/access/Access.ts"
import { AuditTrail } from "#src/access/AuditTrail.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { deploymentOf } from "#src/Deployment.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Projects } from "#src/projects/Projects.ts"
import { SealingKeys } from "#src/projects/SealingKeys.ts"
import { cyclesOf } from "#src/secrets/KeyGraph.ts"
import { SecretReads } from "#src/secrets/SecretReads.ts"
import { SecretWrites } from "#src/secrets/SecretWrites.ts"
import { type RequestState, ValueRequests } from "#src/secrets/ValueRequests.ts"
import { scopesOf } from "./Credentials.ts"
import { done, type Handlers, make as tool, type Outcome, type Tool } from "./Tool.ts"

const names = (list: ReadonlyArray<{ readonly key: string }>) => list.map(({ key }) => key)

const pageOfProjects = 100
const toCursor = (offset: number) => Buffer.from(String(offset)).toString("base64url")
const fromCursor = (cursor: string): Option.Option<number> => {
  const text = Buffer.from(cursor, "base64url").toString("latin1")
  return /^[1-9]\d{0,6}$/.test(text) && toCursor(Number(text)) === cursor ? Option.some(Number(text)) : Option.none()
}

/** How long a call waits for the person, once the client has opened the page; below the usual timeout of clients. */
const patience = 25_000

const tableOf = (handlers: Handlers): ReadonlyMap<string, Tool> => {
  const table: { readonly [N in ToolName]: Tool } = {
    whoami: tool("whoami", tools.whoami, handlers.whoami),
    get_capabilities: tool("get_capabilities", tools.get_capabilities, handlers.get_capabilities),
    list_projects: tool("list_projects", tools.list_projects, handlers.list_projects),
    list_environments: tool("list_environments", tools.list_environments, handlers.list_environments),
    list_secrets: tool("list_secrets", tools.list_secrets, handlers.list_secrets),
    check_secrets: tool("check_secrets", tools.check_secrets, handlers.check_secrets),
    compare_environments: tool("compare_environments", tools.compare_environments, handlers.compare_environments),
    get_composition: tool("get_composition", tools.get_composition, handlers.get_composition),
    get_environment_keypair: tool(
      "get_environment_keypair",
      tools.get_environment_keypair,
      handlers.get_environment_keypair
    ),
    plan_run: tool("plan_run", tools.plan_run, handlers.plan_run),
    export_encrypted_env: tool("export_encrypted_env", tools.export_encrypted_env, handlers.export_encrypted_env),
    verify_encrypted_env: tool("verify_encrypted_env", tools.verify_encrypted_env, handlers.verify_encrypted_env),
    import_encrypted_env: tool("import_encrypted_env", tools.import_encrypted_env, handlers.import_encrypted_env),
    request_secret_value: tool("request_secret_value", tools.request_secret_value, handlers.request_secret_value),
    create_secret: tool("create_secret", tools.create_secret, handlers.create_secret),
    update_secret: tool("update_secret", tools.update_secret, handlers.update_secret),
    copy_secrets: tool("copy_secrets", tools.copy_secrets, handlers.copy_secrets),
    bulk_upsert_secrets: tool("bulk_upsert_secrets", tools.bulk_upsert_secrets, handlers.bulk_upsert_secrets),
    delete_secret: tool("delete_secret", tools.delete_secret, handlers.delete_secret),
    delete_secrets: tool("delete_secrets", tools.delete_secrets, handlers.delete_secrets),
    reveal_secret_value: tool("reveal_secret_value", tools.reveal_secret_value, handlers.reveal_secret_value),
    resolve_environment: tool("resolve_environment", tools.resolve_environment, handlers.resolve_environment),
    open_sealed_values: tool("open_sealed_values", tools.open_sealed_values, handlers.open_sealed_values),
    list_audit_events: tool("list_audit_events", tools.list_audit_events, handlers.list_audit_events)
  }
  return new Map(Object.entries(table))
}

export const make = Effect.gen(function* () {
  const access = yield* Access
  const trail = yield* AuditTrail
  const settings = yield* AppConfig
  const environments = yield* Environments
  const projects = yield* Projects
  const reads = yield* SecretReads
  const writes = yield* SecretWrites
  const requests = yield* ValueRequests
  const sealingKeys = yield* SealingKeys
  const { features, limits } = deploymentOf(settings)

  const provided = (state: RequestState): Outcome<ToolOutput<"request_secret_value">> => {
    switch (state.status) {
      case "stored":
        return done({ status: "stored", id: state.id, key: state.key, version: state.version })
      case "declined":
        return done({ status: "declined" })
      case "pending": {
        const url = `${settings.baseUrl}/app/provide/${state.code}`
        return {
          _tag: "OpenPage",
          requestId: state.requestId,
          url,
          message: "Open the page to type the value. It goes to Ampoule and not into this conversation.",
          otherwise: { status: "needs_human", url, expiresAt: state.expiresAt.toISOString() }
        }
      }
    }
  }

  /** All or nothing; on record with the names before a value is seen (decisions 5). */
  const opened = (at: EnvironmentQuery, file: OpenSealedValues) => sealingKeys.openIn(at, file)

  const handlers: Handlers = {
    whoami: () =>
      Effect.map(access.allTeams("identity:read", { audit: "identity.read" }), (caller) =>
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

    get_capabilities: () => Effect.succeed(done({ features, limits })),

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

    get_environment_keypair: (input) =>
      Effect.gen(function* () {
        const { keyId, publicKey } = yield* sealingKeys.keypairIn(input)
        return done({ keyId, publicKey })
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
      Effect.map(opened(at, { entries, keyId }), ({ activeKey, values }) =>
        done({ keys: Object.keys(values), altered: false, ...(activeKey === undefined ? {} : { activeKey }) })
      ),

    import_encrypted_env: (input) =>
      Effect.map(writes.importSealed(input), ({ created, skipped, updated }) => done({ created, updated, skipped })),

    request_secret_value: (input, { continues, opensPages, said }) =>
      Effect.gen(function* () {
        if (said === "decline") return done({ status: "declined" })
        const state =
          continues !== undefined && opensPages && said === "accept"
            ? yield* requests.outcome(continues, patience)
            : yield* requests.ask(input)
        return provided(state)
      }),

    create_secret: (input) => Effect.map(writes.createFrom(input), done),

    update_secret: (input) => Effect.map(writes.updateFrom(input), done),

    copy_secrets: (input) =>
      Effect.map(writes.copy(input), ({ created, skipped, updated }) => done({ created, updated, skipped })),

    bulk_upsert_secrets: (input) =>
      Effect.map(writes.upsert(input), ({ created, unchanged, updated }) => done({ created, updated, unchanged })),

    delete_secret: ({ disposition, secretId }, { confirms, said }) =>
      Effect.gen(function* () {
        if (confirms && said === undefined) {
          yield* access.environmentOfSecret("secrets:write", secretId, { audit: "secret.delete" })
          return {
            _tag: "Confirm" as const,
            message: `Delete the secret ${secretId}${disposition === "cascade" ? " and everything composed from it" : ""}?`
          }
        }
        if (said === "decline") return done({ deleted: false, dependents: [] })
        const { cascaded, deleted, flattened } = yield* writes.remove(secretId, disposition)
        return done({ deleted, dependents: [...flattened, ...cascaded] })
      }),

    delete_secrets: (input) => Effect.map(writes.deleteBulk(input), ({ ids }) => done({ deleted: ids })),

    reveal_secret_value: ({ reason, ...query }) =>
      Effect.map(reads.value(query, reason), (answer) => {
        const { key, value, version } = answer.value()
        return done({ key, version, value })
      }),

    resolve_environment: (query) => Effect.map(reads.resolved(query), (values) => done({ values })),

    open_sealed_values: ({ entries, keyId, ...at }) =>
      Effect.map(opened(at, { entries, keyId }), ({ activeKey, values }) =>
        done({ values, ...(activeKey === undefined ? {} : { activeKey }) })
      ),

    list_audit_events: (query) =>
      Effect.map(trail.listReachable(query), ({ items, nextCursor }) =>
        done({ events: items, ...(nextCursor === null ? {} : { nextCursor }) })
      )
  }
  return tableOf(handlers)
})

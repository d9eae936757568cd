/** The table of tools: each definition of `schema/McpTools.ts` with its handler over the same use cases as REST. */
import * as Effect from "effect/Effect"
import { type ToolName, tools } from "#schema/McpTools.ts"
import { AuditTrail } from "#src/access/AuditTrail.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Identity } from "#src/credentials/Identity.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Projects } from "#src/projects/Projects.ts"
import { SealingKeys } from "#src/projects/SealingKeys.ts"
import { SecretReads } from "#src/secrets/SecretReads.ts"
import { SecretWrites } from "#src/secrets/SecretWrites.ts"
import { ValueRequests } from "#src/secrets/ValueRequests.ts"
import * as ConnectionTools from "./ConnectionTools.ts"
import * as NameTools from "./NameTools.ts"
import * as RevealTools from "./RevealTools.ts"
import { type Handlers, make as tool, type Tool } from "./Tool.ts"
import * as UseTools from "./UseTools.ts"
import * as WriteTools from "./WriteTools.ts"

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
  const needs = {
    identity: yield* Identity,
    trail: yield* AuditTrail,
    settings: yield* AppConfig,
    environments: yield* Environments,
    projects: yield* Projects,
    reads: yield* SecretReads,
    writes: yield* SecretWrites,
    requests: yield* ValueRequests,
    sealingKeys: yield* SealingKeys
  }
  return tableOf({
    ...ConnectionTools.handlers(needs),
    ...NameTools.handlers(needs),
    ...UseTools.handlers(needs),
    ...WriteTools.handlers(needs),
    ...RevealTools.handlers(needs)
  })
})

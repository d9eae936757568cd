/**
 * The programs that need the server's modules: `layers/Cli.ts` loads those of a group when one of them runs, not
 * before.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { AdminPrograms } from "./AdminPrograms.ts"
import type { MaintenancePrograms } from "./MaintenancePrograms.ts"
import type { ServerPrograms } from "./ServerPrograms.ts"
import type { VaultPrograms } from "./VaultPrograms.ts"

/** The command line is built from the contract alone: it knows the server side by these interfaces. */
export class ServerSide extends Context.Tag("cli/ServerSide")<
  ServerSide,
  {
    readonly server: Effect.Effect<ServerPrograms>
    readonly vault: Effect.Effect<VaultPrograms>
    readonly maintenance: Effect.Effect<MaintenancePrograms>
    readonly admin: Effect.Effect<AdminPrograms>
  }
>() {}

export const serverPrograms = Effect.flatMap(ServerSide, (side) => side.server)
export const vaultPrograms = Effect.flatMap(ServerSide, (side) => side.vault)
export const maintenancePrograms = Effect.flatMap(ServerSide, (side) => side.maintenance)
export const adminPrograms = Effect.flatMap(ServerSide, (side) => side.admin)

/** Commands that need the server's modules, each group loaded when one of its commands runs. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ServerSide } from "#src/cli/operator/ServerSide.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"

/** Checks the packages that the server's chunk imports, because it does not load without them. */
const withPackages = Effect.flatMap(
  Effect.promise(() => import("./ServerPackages.ts")),
  ({ missing }) => {
    const message = missing("@node-rs/argon2")
    return message === undefined ? Effect.void : new CliFailure({ message })
  }
)

export const serverSide = Layer.succeed(ServerSide, {
  server: Effect.zipRight(
    withPackages,
    Effect.promise(() => import("./ServerPrograms.ts"))
  ),
  vault: Effect.promise(() => import("./VaultPrograms.ts")),
  maintenance: Effect.promise(() => import("./MaintenancePrograms.ts")),
  admin: Effect.promise(() => import("./AdminPrograms.ts"))
})

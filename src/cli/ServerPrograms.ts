/** The programs of the server. Implementation: `layers/ServerPrograms.ts`. */
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { CliFailure } from "./Failure.ts"

/** A server of this process, for as long as its scope is open. */
export interface OwnServer {
  readonly url: string
  readonly setupCode: Redacted.Redacted
}

export interface ServerPrograms {
  /** Serves until it is interrupted. */
  readonly server: Effect.Effect<void, CliFailure>
  readonly migrate: Effect.Effect<void, CliFailure>
  /** For `setup` without a running server: one on a free loopback port, on the configured database. */
  readonly ownServer: Effect.Effect<OwnServer, CliFailure, Scope.Scope>
}

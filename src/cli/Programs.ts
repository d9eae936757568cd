/** The programs of the server side. The command line is built from the contract alone: it starts them, and knows no part of them. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { CliFailure } from "./Failure.ts"

/** A server of this process, for as long as its scope is open. */
export interface OwnServer {
  readonly url: string
  readonly setupCode: Redacted.Redacted
}

/** Implementation: `layers/Cli.ts`, which loads the modules of the server when one of these runs and not before. */
export class Programs extends Context.Tag("cli/Programs")<
  Programs,
  {
    /** Serves until it is interrupted. */
    readonly server: Effect.Effect<void, CliFailure>
    readonly migrate: Effect.Effect<void, CliFailure>
    /** For `setup` without a running server: one on a free loopback port, on the configured database. */
    readonly ownServer: Effect.Effect<OwnServer, CliFailure, Scope.Scope>
  }
>() {}

/** The programs of the vault and of key rotation. Implementation: `layers/VaultPrograms.ts`. */
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { CliFailure } from "./Failure.ts"

export interface RootKeyUse {
  readonly id: string
  readonly current: boolean
  /** Whether the vault holds it. */
  readonly held: boolean
  /** Rows that it wraps. */
  readonly rows: number
}

export interface Rotated {
  readonly rootKeyId: string
  /** True when a new root key was made; false when an earlier rotation was finished. */
  readonly made: boolean
  readonly rewrapped: number
  /** What could not be opened, by table and name, and stands as it was. */
  readonly refused: ReadonlyArray<string>
  /** Held still, and needed by backups that were made before. */
  readonly older: ReadonlyArray<string>
}

export interface DataKeysRotated {
  readonly environments: number
  readonly values: number
  readonly refused: ReadonlyArray<string>
}

type OnProgress = (done: number, total: number) => Effect.Effect<void>

export interface VaultPrograms {
  /** The vault process, until it is interrupted. */
  readonly serve: Effect.Effect<void, CliFailure>
  readonly status: Effect.Effect<ReadonlyArray<RootKeyUse>, CliFailure>
  /** A new root key in the key file, nothing else: for a vault's host without the database. Answers its id. */
  readonly newKey: Effect.Effect<string, CliFailure>
  readonly rotate: (onProgress: OnProgress) => Effect.Effect<Rotated, CliFailure>
  /** A signed word that nothing in the database needs an old root key (`src/vault/Release.ts`). */
  readonly releaseKey: (id: string) => Effect.Effect<string, CliFailure>
  /** `release`: of `releaseKey`, for a vault's host without the database. */
  readonly destroyKey: (id: string, release: Option.Option<string>) => Effect.Effect<void, CliFailure>
  readonly rotateDataKeys: (
    which: {
      readonly environment: Option.Option<string>
      readonly project: Option.Option<string>
      /** Keys made since then stay. */
      readonly before: Date
    },
    onProgress: OnProgress
  ) => Effect.Effect<DataKeysRotated, CliFailure>
  /** Entries and last hash of the vault's log; fails when it was changed. */
  readonly verifyLog: Effect.Effect<{ readonly entries: number; readonly hash: string }, CliFailure>
}

/**
 * The programs that maintain a database: its audit trail, its backups. They run on the machine of the server, with its
 * settings. Implementation: `layers/MaintenancePrograms.ts`.
 */
import type * as Effect from "effect/Effect"
import type { Head } from "#src/audit/Chain.ts"
import type { Accepted, Cut } from "#src/audit/Checkpoint.ts"
import type { NoteKey } from "#src/audit/SignedNote.ts"
import type { Report } from "#src/audit/Verify.ts"
import type { CliFailure } from "./Failure.ts"

export type Progress = (done: number) => Effect.Effect<void>

export interface VerifyAsked {
  /** None: the file of the settings, if it is there. */
  readonly checkpoints: ReadonlyArray<string>
  /** Besides those of the vault. */
  readonly publicKeys: ReadonlyArray<NoteKey>
  readonly progress: Progress
}

export interface VerifyOutcome extends Report {
  readonly cuts: ReadonlyArray<Cut>
  readonly seals: number
  readonly checkpoints: { readonly count: number; readonly lastAt: number | undefined; readonly fragments: number }
}

export interface ExportAsked {
  readonly since: Date | null
  readonly until: Date | null
  readonly format: "jsonl" | "csv"
  readonly write: (text: string) => Effect.Effect<void>
  readonly progress: Progress
}

export interface BackupAsked {
  /** Written beside its name first; a file that is there already is not touched. */
  readonly file: string
  /** 32 raw bytes each. */
  readonly recipients: ReadonlyArray<Uint8Array>
  /** Where the root key goes, sealed by itself. */
  readonly rootKey: { readonly file: string; readonly recipients: ReadonlyArray<Uint8Array> } | null
  readonly progress: (table: string, rows: number) => Effect.Effect<void>
}

export interface BackupOutcome {
  readonly tables: number
  readonly rows: number
  readonly bytes: number
  readonly rootKeyIds: ReadonlyArray<string>
}

export interface RestoreAsked {
  readonly file: string
  /** 32 raw bytes. */
  readonly identity: Uint8Array
  readonly rootKeyFile: string | null
  readonly progress: (what: string, rows: number) => Effect.Effect<void>
}

export interface RestoreOutcome {
  readonly createdAt: string
  readonly tables: number
  readonly rows: number
  readonly entries: number
  /** Names of root keys without which nothing can be read. */
  readonly rootKeyIds: ReadonlyArray<string>
  /** Data keys that were opened, with a value of each; null: no root key is at hand. */
  readonly opened: { readonly dataKeys: number; readonly values: number } | null
  readonly problems: ReadonlyArray<string>
}

export interface MaintenancePrograms {
  readonly auditVerify: (asked: VerifyAsked & { readonly values: boolean }) => Effect.Effect<VerifyOutcome, CliFailure>
  /** Answers how many entries were written. */
  readonly auditExport: (asked: ExportAsked) => Effect.Effect<number, CliFailure>
  /** Answers how many entries were removed. */
  readonly auditCut: (
    asked: VerifyAsked & { readonly before: Date; readonly removed: Progress }
  ) => Effect.Effect<number, CliFailure>
  /** False: nothing was accepted. */
  readonly auditAccept: (
    asked: VerifyAsked,
    decide: (found: {
      readonly accepted: ReadonlyArray<Accepted>
      readonly closed: ReadonlyArray<Head>
    }) => Effect.Effect<boolean>
  ) => Effect.Effect<boolean, CliFailure>
  readonly auditKeys: Effect.Effect<ReadonlyArray<NoteKey>, CliFailure>
  readonly backup: (asked: BackupAsked) => Effect.Effect<BackupOutcome, CliFailure>
  readonly restore: (asked: RestoreAsked) => Effect.Effect<RestoreOutcome, CliFailure>
}

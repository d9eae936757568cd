/**
 * The programs that need the server's modules: `layers/Cli.ts` loads those of a group when one of them runs, not
 * before. They run on the machine of the server, with its settings; implementations: `layers/*Programs.ts`.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { Head } from "#src/audit/Chain.ts"
import type { Accepted, Cut } from "#src/audit/Checkpoint.ts"
import type { NoteKey } from "#src/audit/SignedNote.ts"
import type { Report } from "#src/audit/Verify.ts"
import type { CliFailure } from "#src/cli/terminal/Failure.ts"

// --- server ---

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

// --- vault and key rotation ---

interface RootKeyUse {
  readonly id: string
  readonly current: boolean
  /** Whether the vault holds it. */
  readonly held: boolean
  /** Rows that it wraps. */
  readonly rows: number
}

interface Rotated {
  readonly rootKeyId: string
  /** True when a new root key was made; false when an earlier rotation was finished. */
  readonly made: boolean
  readonly rewrapped: number
  /** What could not be opened, by table and name, and stands as it was. */
  readonly refused: ReadonlyArray<string>
  /** Held still, and needed by backups that were made before. */
  readonly older: ReadonlyArray<string>
}

interface DataKeysRotated {
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

// --- the audit trail, backups ---

type Progress = (done: number) => Effect.Effect<void>

export interface VerifyAsked {
  /** None: the file of the settings, if it is there. */
  readonly checkpoints: ReadonlyArray<string>
  /** Besides those of the vault. */
  readonly publicKeys: ReadonlyArray<NoteKey>
  readonly progress: Progress
}

interface VerifyOutcome extends Report {
  readonly cuts: ReadonlyArray<Cut>
  readonly seals: number
  readonly checkpoints: { readonly count: number; readonly lastAt: number | undefined; readonly fragments: number }
}

interface ExportAsked {
  readonly since: Date | null
  readonly until: Date | null
  readonly format: "jsonl" | "csv"
  readonly write: (text: string) => Effect.Effect<void>
  readonly progress: Progress
}

interface BackupAsked {
  /** Written beside its name first; a file that is there already is not touched. */
  readonly file: string
  /** 32 raw bytes each. */
  readonly recipients: ReadonlyArray<Uint8Array>
  /** Where the root key goes, sealed by itself. */
  readonly rootKey: { readonly file: string; readonly recipients: ReadonlyArray<Uint8Array> } | null
  readonly progress: (table: string, rows: number) => Effect.Effect<void>
}

interface BackupOutcome {
  readonly tables: number
  readonly rows: number
  readonly bytes: number
  readonly rootKeyIds: ReadonlyArray<string>
}

interface RestoreAsked {
  readonly file: string
  /** 32 raw bytes. */
  readonly identity: Uint8Array
  readonly rootKeyFile: string | null
  readonly progress: (what: string, rows: number) => Effect.Effect<void>
}

interface RestoreOutcome {
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
  readonly auditRebuild: Effect.Effect<void, CliFailure>
  readonly auditKeys: Effect.Effect<ReadonlyArray<NoteKey>, CliFailure>
  readonly backup: (asked: BackupAsked) => Effect.Effect<BackupOutcome, CliFailure>
  readonly restore: (asked: RestoreAsked) => Effect.Effect<RestoreOutcome, CliFailure>
}

// --- accounts ---

export interface UserAccount {
  readonly id: string
  readonly email: string
  readonly name: string
  readonly createdAt: Date
  readonly memberships: ReadonlyArray<{
    readonly teamId: string
    readonly teamName: string
    readonly role: string
    readonly active: boolean
  }>
}

export interface TeamAccount {
  readonly id: string
  readonly name: string
  readonly plan: string
  readonly suspended: boolean
  readonly createdAt: Date
  readonly members: number
  readonly projects: number
  readonly owners: ReadonlyArray<string>
}

interface ResetLink {
  readonly url: Redacted.Redacted
  readonly expiresAt: Date
}

export interface AdminPrograms {
  readonly users: (options: {
    readonly search: string
    readonly limit: number
  }) => Effect.Effect<ReadonlyArray<UserAccount>, CliFailure>
  readonly resetLink: (email: string) => Effect.Effect<ResetLink, CliFailure>
  /** Answers the account as it is now. */
  readonly changeEmail: (email: string, to: string) => Effect.Effect<UserAccount, CliFailure>
  readonly removeFactor: (email: string) => Effect.Effect<UserAccount, CliFailure>
  /** Answers the account as it was. */
  readonly removeUser: (
    email: string,
    options: { readonly evenLastOwner: boolean }
  ) => Effect.Effect<UserAccount, CliFailure>
  /** In all teams. */
  readonly setUserActive: (
    email: string,
    active: boolean,
    options: { readonly evenLastOwner: boolean }
  ) => Effect.Effect<UserAccount, CliFailure>
  readonly teams: (options: {
    readonly search: string
    readonly limit: number
  }) => Effect.Effect<ReadonlyArray<TeamAccount>, CliFailure>
  /** `owner`: the e-mail address of an account. */
  readonly createTeam: (name: string, owner: string) => Effect.Effect<TeamAccount, CliFailure>
  readonly suspendTeam: (id: string, suspended: boolean) => Effect.Effect<TeamAccount, CliFailure>
  /** Answers the team as it was. */
  readonly removeTeam: (id: string) => Effect.Effect<TeamAccount, CliFailure>
}

// --- all of them ---

/** The command line is built from the contract alone: it knows the server side by these interfaces. */
export class ServerSide extends Context.Tag("cli/ServerSide")<
  ServerSide,
  {
    /** Fails where the packages of a server are not installed. */
    readonly server: Effect.Effect<ServerPrograms, CliFailure>
    readonly vault: Effect.Effect<VaultPrograms>
    readonly maintenance: Effect.Effect<MaintenancePrograms>
    readonly admin: Effect.Effect<AdminPrograms>
  }
>() {}

export const serverPrograms = Effect.flatMap(ServerSide, (side) => side.server)
export const vaultPrograms = Effect.flatMap(ServerSide, (side) => side.vault)
export const maintenancePrograms = Effect.flatMap(ServerSide, (side) => side.maintenance)
export const adminPrograms = Effect.flatMap(ServerSide, (side) => side.admin)

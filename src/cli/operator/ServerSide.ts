/**
 * Programs that need the server's modules. `layers/Cli.ts` loads a group when one of its programs runs. They run on the
 * server's machine, with its settings; implementations: `layers/*Programs.ts`.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { Head } from "#src/audit/Chain.ts"
import type { AcceptedHead, Cut } from "#src/audit/Checkpoint.ts"
import type { NoteKey } from "#src/audit/SignedNote.ts"
import type { Report } from "#src/audit/Verify.ts"
import type { CliFailure } from "#src/cli/terminal/Failure.ts"

// --- server ---

/** Server in this process, running while its scope is open. */
export interface OwnServer {
  readonly url: string
  readonly setupCode: Redacted.Redacted
}

export interface ServerPrograms {
  /** Serves until it is interrupted. */
  readonly server: Effect.Effect<void, CliFailure>
  readonly migrate: Effect.Effect<void, CliFailure>
  /** For `setup` without a running server: one on a free loopback port, with the configured database. */
  readonly ownServer: Effect.Effect<OwnServer, CliFailure, Scope.Scope>
}

// --- vault and key rotation ---

interface RootKeyUse {
  readonly id: string
  readonly current: boolean
  /** Whether the vault has it. */
  readonly held: boolean
  /** Number of rows that it wraps. */
  readonly rows: number
}

interface Rotated {
  readonly rootKeyId: string
  /** True for a new root key; false when an earlier rotation was completed. */
  readonly made: boolean
  readonly rewrapped: number
  /** Table and name of each row that could not be opened, and is unchanged. */
  readonly refused: ReadonlyArray<string>
  /** Root keys that the vault still has, because older backups need them. */
  readonly older: ReadonlyArray<string>
}

interface DataKeysRotated {
  readonly environments: number
  readonly values: number
  readonly refused: ReadonlyArray<string>
}

interface ServiceKeyGeneration {
  readonly name: string
  readonly generation: number
  readonly use: "writes" | "verifies" | "coming"
  /** Rows that need it. Null where the key has one generation. */
  readonly rows: number | null
  readonly createdAt: Date
}

interface CredentialCount {
  /** In the plural, such as "API tokens". */
  readonly label: string
  readonly count: number
}

interface ServiceKeyReport {
  readonly generations: ReadonlyArray<ServiceKeyGeneration>
  /** Credentials whose hash has an older pepper. */
  readonly counts: ReadonlyArray<CredentialCount>
  /** The API tokens and command-line logins among them, 200 at most, the longest unused first. */
  readonly listed: ReadonlyArray<{
    readonly type: "api_token" | "cli_grant"
    readonly id: string
    readonly name: string
    readonly owner: string
    readonly lastUsedAt: Date | null
  }>
}

export interface ServiceKeyPlan {
  /** `end`: ends credentials under an older pepper. */
  readonly action: "begin" | "finish" | "end"
  readonly generation: number
  /** Rows with a MAC. */
  readonly rows: number
  /** Connected agents with a refresh token that an earlier release derived from a key. */
  readonly agents: number
  readonly counts: ReadonlyArray<CredentialCount>
  /** Whether no server runs: the embedded database. */
  readonly alone: boolean
}

interface ServiceKeysRotated {
  readonly generation: number
  readonly rows: number
  readonly agents: number
  readonly ended: number
  /** Table and name of each row that no server wrote; it is unchanged. */
  readonly refused: ReadonlyArray<string>
  readonly removed: ReadonlyArray<{ readonly name: string; readonly generation: number }>
  /** Whether rows were in use all the time, so that they still have the older generation. */
  readonly unfinished: boolean
  /** Data keys of a release that did not bind them to the database. */
  readonly unboundDataKeys: number
  readonly older: ReadonlyArray<ServiceKeyGeneration>
  readonly remaining: ReadonlyArray<CredentialCount>
}

type OnProgress = (done: number, total: number) => Effect.Effect<void>

export interface VaultPrograms {
  /** Runs the vault process until it is interrupted. */
  readonly serve: Effect.Effect<void, CliFailure>
  readonly status: Effect.Effect<ReadonlyArray<RootKeyUse>, CliFailure>
  /** Adds a root key to the key file, for a vault's host without the database. Returns its id. */
  readonly newKey: Effect.Effect<string, CliFailure>
  readonly rotate: (onProgress: OnProgress) => Effect.Effect<Rotated, CliFailure>
  /** Signed statement that no row in the database needs an old root key (`src/vault/Release.ts`). */
  readonly releaseKey: (id: string) => Effect.Effect<string, CliFailure>
  /** `release`: from `releaseKey`, for a vault's host without the database. */
  readonly destroyKey: (id: string, release: Option.Option<string>) => Effect.Effect<void, CliFailure>
  readonly rotateDataKeys: (
    which: {
      readonly environment: Option.Option<string>
      readonly project: Option.Option<string>
      /** Data keys created after this time stay. */
      readonly before: Date
    },
    onProgress: OnProgress
  ) => Effect.Effect<DataKeysRotated, CliFailure>
  readonly serviceKeys: Effect.Effect<ServiceKeyReport, CliFailure>
  /** None when `decide` refused the plan. */
  readonly rotateServiceKeys: (
    options: { readonly revokeRemaining: boolean },
    decide: (plan: ServiceKeyPlan) => Effect.Effect<boolean, CliFailure>,
    onProgress: OnProgress
  ) => Effect.Effect<Option.Option<ServiceKeysRotated>, CliFailure>
  /** Number of entries and last hash of the vault's log. Fails when the log was changed. */
  readonly verifyLog: Effect.Effect<{ readonly entries: number; readonly hash: string }, CliFailure>
}

// --- the audit trail, backups ---

type Progress = (done: number) => Effect.Effect<void>

export interface VerifyRequest {
  /** Empty: the file in the settings, if it exists. */
  readonly checkpoints: ReadonlyArray<string>
  /** In addition to those of the vault. */
  readonly publicKeys: ReadonlyArray<NoteKey>
  readonly progress: Progress
}

interface VerifyResult extends Report {
  readonly cuts: ReadonlyArray<Cut>
  readonly seals: number
  readonly checkpoints: { readonly count: number; readonly lastAt: number | undefined; readonly fragments: number }
}

interface ExportRequest {
  readonly since: Date | null
  readonly until: Date | null
  readonly format: "jsonl" | "csv"
  readonly write: (text: string) => Effect.Effect<void>
  readonly progress: Progress
}

interface BackupRequest {
  /** Written to a temporary name first. An existing file is never overwritten. */
  readonly file: string
  /** 32 raw bytes each. */
  readonly recipients: ReadonlyArray<Uint8Array>
  /** File of the separately sealed root key. */
  readonly rootKey: { readonly file: string; readonly recipients: ReadonlyArray<Uint8Array> } | null
  readonly progress: (table: string, rows: number) => Effect.Effect<void>
}

interface BackupResult {
  readonly tables: number
  readonly rows: number
  readonly bytes: number
  readonly rootKeyIds: ReadonlyArray<string>
}

interface RestoreRequest {
  readonly file: string
  /** 32 raw bytes. */
  readonly identity: Uint8Array
  readonly rootKeyFile: string | null
  /** Gives the database an id and service keys that the original does not have. */
  readonly asCopy: boolean
  readonly progress: (what: string, rows: number) => Effect.Effect<void>
}

interface RestoreResult {
  readonly createdAt: string
  readonly tables: number
  readonly rows: number
  readonly entries: number
  /** Ids of the root keys that are needed to read anything. */
  readonly rootKeyIds: ReadonlyArray<string>
  /** Number of data keys that open, and of values tried, one for each; null without a root key. */
  readonly opened: { readonly dataKeys: number; readonly values: number } | null
  readonly problems: ReadonlyArray<string>
}

export interface MaintenancePrograms {
  readonly auditVerify: (asked: VerifyRequest & { readonly values: boolean }) => Effect.Effect<VerifyResult, CliFailure>
  /** Returns the number of entries written. */
  readonly auditExport: (asked: ExportRequest) => Effect.Effect<number, CliFailure>
  /** Returns the number of entries removed. */
  readonly auditCut: (
    asked: VerifyRequest & { readonly before: Date; readonly removed: Progress }
  ) => Effect.Effect<number, CliFailure>
  /** Returns false when nothing was accepted. */
  readonly auditAccept: (
    asked: VerifyRequest,
    decide: (found: {
      readonly accepted: ReadonlyArray<AcceptedHead>
      readonly closed: ReadonlyArray<Head>
    }) => Effect.Effect<boolean>
  ) => Effect.Effect<boolean, CliFailure>
  readonly auditRebuild: (request: { readonly progress: Progress }) => Effect.Effect<void, CliFailure>
  readonly auditKeys: Effect.Effect<ReadonlyArray<NoteKey>, CliFailure>
  readonly backup: (asked: BackupRequest) => Effect.Effect<BackupResult, CliFailure>
  readonly restore: (asked: RestoreRequest) => Effect.Effect<RestoreResult, CliFailure>
}

// --- accounts ---

export interface UserAccount {
  readonly id: string
  readonly email: string
  readonly name: string
  readonly createdAt: Date
  /** Witness of the address; `none`: provisional, null: made before 1.1. */
  readonly vouchedBy: string | null
  /** Name of the team whose invitation or issuer made the account. */
  readonly madeBy: string | null
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

export interface ListQuery {
  readonly search: string
  readonly limit: number
}

export interface AdminPrograms {
  /** Commands name an account by its address, its name ("address (by Team)") or its id. */
  readonly users: (
    query: ListQuery & { readonly unvouched: boolean }
  ) => Effect.Effect<ReadonlyArray<UserAccount>, CliFailure>
  readonly vouch: (account: string) => Effect.Effect<UserAccount, CliFailure>
  readonly resetLink: (email: string) => Effect.Effect<ResetLink, CliFailure>
  /** Returns the updated account. */
  readonly changeEmail: (email: string, to: string) => Effect.Effect<UserAccount, CliFailure>
  readonly removeFactor: (email: string) => Effect.Effect<UserAccount, CliFailure>
  /** Returns the account as it was before. */
  readonly removeUser: (
    email: string,
    options: { readonly evenLastOwner: boolean }
  ) => Effect.Effect<UserAccount, CliFailure>
  /** Applies to all teams. */
  readonly setUserActive: (
    email: string,
    active: boolean,
    options: { readonly evenLastOwner: boolean }
  ) => Effect.Effect<UserAccount, CliFailure>
  readonly teams: (query: ListQuery) => Effect.Effect<ReadonlyArray<TeamAccount>, CliFailure>
  /** `owner`: the e-mail address of an account. */
  readonly createTeam: (name: string, owner: string) => Effect.Effect<TeamAccount, CliFailure>
  readonly suspendTeam: (id: string, suspended: boolean) => Effect.Effect<TeamAccount, CliFailure>
  /** Returns the team as it was before. */
  readonly removeTeam: (id: string) => Effect.Effect<TeamAccount, CliFailure>
}

// --- all groups ---

/** The command line is built from the contract alone; it reaches the server side through these interfaces. */
export class ServerSide extends Context.Tag("cli/ServerSide")<
  ServerSide,
  {
    /** All fail in an executable of a client; this one also when the packages of a server are not installed. */
    readonly server: Effect.Effect<ServerPrograms, CliFailure>
    readonly vault: Effect.Effect<VaultPrograms, CliFailure>
    readonly maintenance: Effect.Effect<MaintenancePrograms, CliFailure>
    readonly admin: Effect.Effect<AdminPrograms, CliFailure>
  }
>() {}

export const serverPrograms = Effect.flatMap(ServerSide, (side) => side.server)
export const vaultPrograms = Effect.flatMap(ServerSide, (side) => side.vault)
export const maintenancePrograms = Effect.flatMap(ServerSide, (side) => side.maintenance)
export const adminPrograms = Effect.flatMap(ServerSide, (side) => side.admin)

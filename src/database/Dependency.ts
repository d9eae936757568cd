/**
 * A dependency of the service is down: a defect, which the HTTP envelope answers as `DEPENDENCY_UNAVAILABLE`
 * (docs/contract/outages.md).
 */
import type { VaultUnavailable } from "#schema/Vault.ts"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Causes from "./Causes.ts"

export class DependencyDown extends Data.TaggedError("DependencyDown")<{
  readonly dependency: "database" | "vault" | "cache"
  readonly cause?: unknown
}> {}

/** For `Effect.catchTag` with VaultUnavailable, where every request passes. */
export const dieOfVault = (cause: VaultUnavailable) => Effect.die(new DependencyDown({ dependency: "vault", cause }))

/** Turns an outage of the vault into a defect, for services above crypto: their callers cannot act on it. */
export const dieWhenVaultIsDown = <A, E, R>(
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, Exclude<E, Extract<E, VaultUnavailable>>, R> =>
  Effect.catchIf(
    self,
    (error): error is Extract<E, VaultUnavailable> => Predicate.isTagged(error, "VaultUnavailable"),
    (cause): Effect.Effect<never> => dieOfVault(cause)
  )

/** Error codes of `pg`, of Node's sockets and of the embedded database when the database is out of reach. */
const unavailableCodes = new Set(
  [
    "ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT EHOSTUNREACH EHOSTDOWN ENETUNREACH ENOTFOUND EAI_AGAIN",
    "QUERY_DEADLINE_EXCEEDED SERVER_REPLACED EMBEDDED_DATABASE_GONE",
    // SQLSTATE: statement_timeout; shutdown, crash, start or drop of the database; idle in a transaction for too long;
    // a standby that cannot write; refused sign-in; no such database.
    "57014 57P01 57P02 57P03 57P04 57P05 25P03 25P04 25006 28000 28P01 3D000"
  ].flatMap((codes) => codes.split(" "))
)

/** SQLSTATE classes: connection, insufficient resources, system error. */
const unavailableClass = /^(08|53|58)[0-9A-Z]{3}$/

/** Messages of `pg` and its pool for errors without a code. */
const unavailableMessages = new Set([
  "Connection terminated",
  "Connection terminated unexpectedly",
  "Connection terminated due to connection timeout",
  "timeout exceeded when trying to connect",
  "timeout expired",
  "Client has encountered a connection error and is not queryable",
  "Client was closed and is not queryable",
  "Cannot use a pool after calling end on the pool"
])

/**
 * Whether the database was out of reach. An error of a working database (a constraint, a syntax error) does not count.
 */
export const isDatabaseUnavailable = (cause: unknown): boolean =>
  Causes.some(cause, (error) => {
    if (error instanceof DependencyDown && error.dependency === "database") return true
    const code = Causes.codeOf(error)
    if (code !== undefined && (unavailableCodes.has(code) || unavailableClass.test(code))) return true
    // A Unix socket that does not exist, in contrast to a missing file.
    if (code === "ENOENT" && "syscall" in error && error.syscall === "connect") return true
    return code === undefined && error instanceof Error && unavailableMessages.has(error.message)
  })

/** The request waited too long for its turn. */
export class Busy extends Data.TaggedError("Busy")<{}> {
  readonly code = "BUSY"
}

/** SQLSTATE: lock_timeout. */
const busyCodes = new Set(["BUSY", "55P03"])

/** Whether it failed because too many callers wanted the same thing at once. */
export const isBusy = (cause: unknown): boolean =>
  Causes.some(cause, (error) => busyCodes.has(Causes.codeOf(error) ?? ""))

/** SQLSTATE classes: an invalid value, or a broken constraint. */
const rejectedDataClass = /^2[23]/

/** Whether the database refused the data itself: the same statement with fewer rows might succeed. */
export const isRefusedData = (cause: unknown): boolean =>
  Causes.some(cause, (error) => rejectedDataClass.test(Causes.codeOf(error) ?? ""))

/**
 * The defect of a write that must commit before any value leaves, for `Effect.orDieWith`. Its callers cannot act on a
 * failure.
 */
export const notWritten = (cause: unknown) => new DependencyDown({ dependency: "database", cause })

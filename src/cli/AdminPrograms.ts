/**
 * What the operator does to accounts. Runs on the machine of the server, with its settings. Implementation:
 * `layers/AdminPrograms.ts`.
 */
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import type { CliFailure } from "./Failure.ts"

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

export interface ResetLink {
  readonly url: Redacted.Redacted
  readonly expiresAt: Date
}

export interface AdminPrograms {
  readonly users: (options: {
    readonly search: string
    readonly limit: number
  }) => Effect.Effect<ReadonlyArray<UserAccount>, CliFailure>
  readonly resetLink: (email: string) => Effect.Effect<ResetLink, CliFailure>
  /** Answers the account as it was. */
  readonly removeUser: (
    email: string,
    options: { readonly evenLastOwner: boolean }
  ) => Effect.Effect<UserAccount, CliFailure>
}

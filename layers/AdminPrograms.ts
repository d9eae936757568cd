/**
 * Operator programs for accounts (`src/cli/operator/ServerSide.ts`): they use the server's settings, without a server.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Audit } from "#src/trail/Audit.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { AppConfig } from "#src/AppConfig.ts"
import type { AdminPrograms } from "#src/cli/operator/ServerSide.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { TeamIdOut } from "#schema/Ids.ts"
import * as OperatorTeams from "#src/credentials/OperatorTeams.ts"
import * as Operator from "#src/credentials/Operator.ts"
import { Revocation } from "#src/credentials/Revocation.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { asOperator, withCliFailures, writing } from "./MaintenancePrograms.ts"

const onDatabase = Revocation.Default.pipe(Layer.provideMerge(RowSeal.Default), Layer.provideMerge(writing))

const needs = Effect.gen(function* () {
  const needs: Operator.Needs = {
    sql: yield* SqlClient.SqlClient,
    crypto: yield* Crypto,
    audit: yield* Audit,
    revocation: yield* Revocation,
    rowSeal: yield* RowSeal,
    baseUrl: (yield* AppConfig).baseUrl
  }
  return needs
})

const program = <A, E, R>(use: (needs: Operator.Needs) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(needs, use).pipe(asOperator, Effect.provide(onDatabase), withCliFailures)

const notFound = () =>
  new CliFailure({
    message: "There is no account with this e-mail address.",
    hint: "`ampoule admin users` lists the accounts."
  })

const ambiguous = ({ accounts }: Operator.AccountAmbiguous) =>
  new CliFailure({
    message: `${accounts.length} accounts have this e-mail address, and no witness vouches for one of them.`,
    hint: `Name one by its id: ${accounts
      .slice(0, 10)
      .map(({ email, id }) => `${id} is ${email}`)
      .join("; ")}.`
  })

/** Refusals of a text that names no account, or several. */
const unclear = { AccountNotFound: notFound, AccountAmbiguous: ambiguous }

const lastOwner = ({ teams }: Operator.LastOwner) =>
  new CliFailure({
    message: `The person is the last active owner of ${teams.join(", ")}.`,
    hint: "Make another member an owner first, or use --even-last-owner."
  })

export const users: AdminPrograms["users"] = (options) => program((needs) => Operator.list(needs, options))

const addressHeld = () =>
  new CliFailure({
    message: "Another account has this address, and a witness vouches for it.",
    hint: "Change the address of that account first, or remove it."
  })

export const vouch: AdminPrograms["vouch"] = (account) =>
  program((needs) => Effect.catchTags(Operator.vouch(needs, account), { ...unclear, AddressHeld: addressHeld }))

export const resetLink: AdminPrograms["resetLink"] = (email) =>
  program((needs) => Effect.catchTags(Operator.resetLink(needs, email), unclear))

const addressInUse = () => new CliFailure({ message: "The new e-mail address belongs to an account." })
const notOurs = () =>
  new CliFailure({
    message: "The account was changed in the meantime, or was not written by a server. Nothing was changed."
  })

export const changeEmail: AdminPrograms["changeEmail"] = (email, to) =>
  program((needs) =>
    Effect.catchTags(Operator.changeEmail(needs, email, to), {
      ...unclear,
      NAME_TAKEN: addressInUse,
      FORBIDDEN: notOurs
    })
  )

export const removeFactor: AdminPrograms["removeFactor"] = (email) =>
  program((needs) => Effect.catchTags(Operator.removeFactor(needs, email), unclear))

export const removeUser: AdminPrograms["removeUser"] = (email, options) =>
  program((needs) => Effect.catchTags(Operator.removeUser(needs, email, options), { ...unclear, LastOwner: lastOwner }))

export const setUserActive: AdminPrograms["setUserActive"] = (email, active, options) =>
  program((needs) =>
    Effect.catchTags(Operator.setActive(needs, email, active, options), { ...unclear, LastOwner: lastOwner })
  )

const noTeam = () =>
  new CliFailure({ message: "There is no team with this id.", hint: "`ampoule admin teams` lists the teams." })

export const teams: AdminPrograms["teams"] = (options) => program((needs) => OperatorTeams.list(needs, options))

export const createTeam: AdminPrograms["createTeam"] = (name, owner) =>
  program((needs) => Effect.catchTags(OperatorTeams.create(needs, name, { email: owner }), unclear))

export const suspendTeam: AdminPrograms["suspendTeam"] = (id, suspended) =>
  program((needs) =>
    Effect.catchTag(OperatorTeams.setSuspended(needs, TeamIdOut.make(id), suspended), "OperatorTeamNotFound", noTeam)
  )

export const removeTeam: AdminPrograms["removeTeam"] = (id) =>
  program((needs) => Effect.catchTag(OperatorTeams.remove(needs, TeamIdOut.make(id)), "OperatorTeamNotFound", noTeam))

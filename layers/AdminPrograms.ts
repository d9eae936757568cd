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

const lastOwner = ({ teams }: Operator.LastOwner) =>
  new CliFailure({
    message: `The person is the last active owner of ${teams.join(", ")}.`,
    hint: "Make another member an owner first, or use --even-last-owner."
  })

export const users: AdminPrograms["users"] = (options) =>
  Effect.flatMap(needs, (made) => Operator.list(made, options)).pipe(
    asOperator,
    Effect.provide(onDatabase),
    withCliFailures
  )

const addressHeld = () =>
  new CliFailure({
    message: "Another account has this address, and a witness vouches for it.",
    hint: "Change the address of that account first, or remove it."
  })

export const vouch: AdminPrograms["vouch"] = (account) =>
  Effect.flatMap(needs, (made) => Operator.vouch(made, account)).pipe(
    Effect.catchTags({ AccountNotFound: notFound, AccountAmbiguous: ambiguous, AddressHeld: addressHeld }),
    asOperator,
    Effect.provide(onDatabase),
    withCliFailures
  )

export const resetLink: AdminPrograms["resetLink"] = (email) =>
  Effect.flatMap(needs, (made) => Operator.resetLink(made, email)).pipe(
    Effect.catchTags({ AccountNotFound: notFound, AccountAmbiguous: ambiguous }),
    asOperator,
    Effect.provide(onDatabase),
    withCliFailures
  )

const addressInUse = () => new CliFailure({ message: "The new e-mail address belongs to an account." })
const notOurs = () =>
  new CliFailure({
    message: "The account was changed in the meantime, or was not written by a server. Nothing was changed."
  })

export const changeEmail: AdminPrograms["changeEmail"] = (email, to) =>
  Effect.flatMap(needs, (made) => Operator.changeEmail(made, email, to)).pipe(
    Effect.catchTags({
      AccountNotFound: notFound,
      AccountAmbiguous: ambiguous,
      NAME_TAKEN: addressInUse,
      FORBIDDEN: notOurs
    }),
    asOperator,
    Effect.provide(onDatabase),
    withCliFailures
  )

export const removeFactor: AdminPrograms["removeFactor"] = (email) =>
  Effect.flatMap(needs, (made) => Operator.removeFactor(made, email)).pipe(
    Effect.catchTags({ AccountNotFound: notFound, AccountAmbiguous: ambiguous }),
    asOperator,
    Effect.provide(onDatabase),
    withCliFailures
  )

export const removeUser: AdminPrograms["removeUser"] = (email, options) =>
  Effect.flatMap(needs, (made) => Operator.removeUser(made, email, options)).pipe(
    Effect.catchTags({ AccountNotFound: notFound, AccountAmbiguous: ambiguous, LastOwner: lastOwner }),
    asOperator,
    Effect.provide(onDatabase),
    withCliFailures
  )

export const setUserActive: AdminPrograms["setUserActive"] = (email, active, options) =>
  Effect.flatMap(needs, (made) => Operator.setActive(made, email, active, options)).pipe(
    Effect.catchTags({ AccountNotFound: notFound, AccountAmbiguous: ambiguous, LastOwner: lastOwner }),
    asOperator,
    Effect.provide(onDatabase),
    withCliFailures
  )

const noTeam = () =>
  new CliFailure({ message: "There is no team with this id.", hint: "`ampoule admin teams` lists the teams." })

export const teams: AdminPrograms["teams"] = (options) =>
  Effect.flatMap(needs, (made) => OperatorTeams.list(made, options)).pipe(
    asOperator,
    Effect.provide(onDatabase),
    withCliFailures
  )

export const createTeam: AdminPrograms["createTeam"] = (name, owner) =>
  Effect.flatMap(needs, (made) => OperatorTeams.create(made, name, { email: owner })).pipe(
    Effect.catchTags({ AccountNotFound: notFound, AccountAmbiguous: ambiguous }),
    asOperator,
    Effect.provide(onDatabase),
    withCliFailures
  )

export const suspendTeam: AdminPrograms["suspendTeam"] = (id, suspended) =>
  Effect.flatMap(needs, (made) => OperatorTeams.setSuspended(made, TeamIdOut.make(id), suspended)).pipe(
    Effect.catchTag("OperatorTeamNotFound", noTeam),
    asOperator,
    Effect.provide(onDatabase),
    withCliFailures
  )

export const removeTeam: AdminPrograms["removeTeam"] = (id) =>
  Effect.flatMap(needs, (made) => OperatorTeams.remove(made, TeamIdOut.make(id))).pipe(
    Effect.catchTag("OperatorTeamNotFound", noTeam),
    asOperator,
    Effect.provide(onDatabase),
    withCliFailures
  )

/** Live secrets with their texts, as written or expanded. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { EnvironmentNotFound, IntegrityFailure } from "#schema/Errors.ts"
import type { Representation } from "#schema/Values.ts"
import type { Audit } from "#src/access/Audit.ts"
import type { DataKeys } from "#src/crypto/DataKeys.ts"
import * as Composition from "./Composition.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import type { OpenSecret } from "./SecretMetadata.ts"
import * as SecretRows from "./SecretRows.ts"

export interface Openers {
  readonly sql: SqlClient.SqlClient
  readonly dataKeys: DataKeys
  readonly audit: Audit
}

const open = ({ audit, dataKeys }: Openers, permit: SecretRows.ReadPermit, rows: ReadonlyArray<SecretRows.SealedRow>) =>
  SecretBoxes.recordingRefusals(audit, permit.event(), SecretBoxes.open(dataKeys, permit.target, rows))

/** Every live secret of the environment, and the revision that they have. */
export const all = Effect.fnUntraced(function* (openers: Openers, permit: SecretRows.ReadPermit) {
  const rows = yield* SecretRows.live(openers.sql, permit)
  if (rows.length === 0) return yield* new EnvironmentNotFound()
  const secrets = yield* open(openers, permit, rows[0].live ? rows : [])
  return { revision: rows[0].revision, secrets, keys: secrets.map(({ key }) => key), total: secrets.length }
})

/** A page of the live secrets (`keys`); with `expand`, `secrets` also holds what they build on. */
export const page = Effect.fnUntraced(function* (
  openers: Openers,
  permit: SecretRows.ReadPermit,
  { page, pageSize }: { readonly page: number; readonly pageSize: number },
  expand: boolean
) {
  const rows = yield* SecretRows.livePage(openers.sql, permit, pageSize, (page - 1) * pageSize, expand)
  if (rows.length === 0) return yield* new EnvironmentNotFound()
  return {
    revision: rows[0].revision,
    total: rows[0].total,
    keys: rows.filter((row) => row.live && row.shown).map((row) => row.key),
    secrets: yield* open(openers, permit, rows[0].live ? rows : [])
  }
})

/** Secrets by key, as far as they are live; with `expand` also everything that they build on. */
export const named = Effect.fnUntraced(function* (
  openers: Openers,
  permit: SecretRows.ReadPermit,
  keys: ReadonlyArray<string>,
  expand: boolean
) {
  const rows = yield* SecretRows.closure(openers.sql, permit, keys, expand)
  return {
    /** 0: none of the keys is live. */
    revision: rows.length === 0 ? 0 : rows[0].revision,
    secrets: yield* open(openers, permit, rows)
  }
})

const stateOf = (secrets: ReadonlyArray<OpenSecret>) =>
  Effect.gen(function* () {
    const state = new Map<string, Composition.Entry>()
    for (const secret of secrets) state.set(secret.key, yield* Composition.entry(secret.kind, secret.text))
    return state
  })

/**
 * The text of each key in the representation. A stored environment can always be resolved (it was checked when it was
 * written), so a problem here means that its rows do not belong together any more.
 */
export const represent = (secrets: ReadonlyArray<OpenSecret>, representation: Representation) =>
  representation === "source"
    ? Effect.succeed<ReadonlyMap<string, string>>(new Map(secrets.map((secret) => [secret.key, secret.text])))
    : Effect.flatMap(stateOf(secrets), Composition.resolve).pipe(Effect.mapError(() => new IntegrityFailure()))

/** Issuers for sign-ins: those of the server, from its settings, and those of teams. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { type TeamId, TeamIdOut, uuidPattern } from "#schema/Ids.ts"
import { InstallationIssuers } from "#schema/SignInApi.ts"
import { dieWhenVaultIsDown } from "#src/database/Dependency.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { sealedColumns } from "#src/rows/SealedColumns.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import * as ServiceBox from "#src/crypto/ServiceBox.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import type { Issuer } from "./Protocol.ts"

/** Scopes of an issuer without a setting for them. */
export const defaultScopes = "openid email profile"
/** An abuse limit; a list shows all. */
export const issuersPerTeam = 20

const services = Effect.all({
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  keys: ServiceKeys,
  rowSeal: RowSeal,
  installation: Effect.map(AppConfig, ({ signInIssuers }) => ofInstallation(signInIssuers))
})
export type Needs = Effect.Effect.Success<typeof services>

const decodeInstallation = Schema.decodeSync(InstallationIssuers)

/** `layers/Config.ts` has checked the setting at the start. */
const ofInstallation = (setting: Option.Option<Redacted.Redacted>): ReadonlyArray<Issuer> =>
  Option.isNone(setting)
    ? []
    : decodeInstallation(Redacted.value(setting.value)).map((one) => ({
        key: one.key,
        teamId: null,
        name: one.name,
        issuer: one.issuer,
        clientId: one.clientId,
        secret: one.clientSecret === undefined ? null : Redacted.make(one.clientSecret),
        scopes: one.scopes ?? defaultScopes,
        factors: one.factors ?? [],
        trustsEmail: one.trustsEmail ?? false
      }))

export const IssuerRow = Schema.Struct({
  id: Schema.String,
  teamId: TeamIdOut,
  name: Schema.String,
  issuer: Schema.String,
  clientId: Schema.String,
  scopes: Schema.String,
  sealed: Schema.Uint8ArrayFromSelf,
  factors: Schema.Array(Schema.String),
  enabled: Schema.Boolean,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})
export type IssuerRow = typeof IssuerRow.Type
const columns = (sql: SqlClient.SqlClient) =>
  sql.literal("id, team_id, name, issuer, client_id, scopes, sealed, factors, enabled, mac")

const keyOf = ({ keys }: Needs) => Effect.orDie(dieWhenVaultIsDown(keys.ring("issuer-secrets")))

/** Secret null: a public client. Call it before a transaction, since the vault may be slow. */
export const sealSecret = Effect.fnUntraced(function* (
  needs: Needs,
  at: Pick<IssuerRow, "id" | "teamId">,
  secret: Redacted.Redacted | null
) {
  const bytes = Buffer.from(secret === null ? "" : Redacted.value(secret))
  const salt = yield* needs.crypto.randomBytes(Envelope.saltLength)
  return ServiceBox.seal(yield* keyOf(needs), sealedColumns.sign_in_issuers.placeOf(at), bytes, salt)
})

const openSecret = Effect.fnUntraced(function* (needs: Needs, row: IssuerRow) {
  const bytes = yield* Effect.orDie(
    ServiceBox.open(yield* keyOf(needs), sealedColumns.sign_in_issuers.placeOf(row), row.sealed)
  )
  return bytes.length === 0 ? null : Redacted.make(bytes.toString())
})

const issuerOf = (needs: Needs, row: IssuerRow) =>
  Effect.map(openSecret(needs, row), (secret): Issuer => ({ ...row, key: row.id, secret, trustsEmail: false }))

/** Issuers of the team, without rows whose MAC fails. */
export const ofTeam = Effect.fnUntraced(function* (needs: Needs, teamId: TeamId) {
  const { rowSeal, sql } = needs
  const macs = yield* rowSeal.ready
  const rows = yield* Rows.findAll(
    IssuerRow,
    sql`
      SELECT ${columns(sql)} FROM sign_in_issuers WHERE team_id = ${teamId}
      ORDER BY id LIMIT ${issuersPerTeam}`
  )
  return rows.filter((row) => macs.isAuthentic("sign_in_issuers", row))
})

/** An enabled issuer; undefined for an unknown or disabled one. */
const find = Effect.fn("IssuerRows.find")(function* (needs: Needs, key: string) {
  const configured = needs.installation.find((one) => one.key === key)
  if (configured !== undefined || !uuidPattern.test(key)) return configured
  const { rowSeal, sql } = needs
  const macs = yield* rowSeal.ready
  const row = yield* Rows.findOne(
    IssuerRow,
    sql`SELECT ${columns(sql)} FROM sign_in_issuers WHERE id = ${key} AND enabled`
  )
  return row !== undefined && macs.isAuthentic("sign_in_issuers", row) ? yield* issuerOf(needs, row) : undefined
})

const RequiredRow = Schema.Struct({ signInOnly: Schema.NullOr(Schema.Array(Schema.String)) })

/**
 * Issuers of a sign-in page: the server's, and those of the page's team. `only`: the issuers that the team requires.
 */
const listForPage = Effect.fn("IssuerRows.listForPage")(function* (needs: Needs, teamId: TeamId | null) {
  const own = teamId === null ? [] : (yield* ofTeam(needs, teamId)).filter(({ enabled }) => enabled)
  const all = [...needs.installation, ...own.map((row) => ({ ...row, key: row.id }))]
  const row =
    teamId === null
      ? undefined
      : yield* Rows.findOne(
          RequiredRow,
          needs.sql`SELECT sign_in_only FROM teams WHERE id = ${teamId} AND NOT suspended`
        )
  return { issuers: all.map(({ key, name }) => ({ key, name })), only: row?.signInOnly ?? null }
})

export class SignInIssuers extends Effect.Service<SignInIssuers>()("openid/SignInIssuers", {
  effect: Effect.map(services, (needs) => ({ needs, ...methods(needs, { find, listForPage }) }))
}) {}

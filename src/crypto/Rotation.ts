/**
 * Rotation without downtime (docs/security.md). Root keys: `RewrapKeys.ts` wraps keys again with the current one. Data
 * keys: `ResealValues.ts` seals values again under a new one. Both run in batches, may be interrupted anywhere and
 * restarted. At every moment each row names keys that open it.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Housekeeping from "#src/Housekeeping.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import { Crypto } from "./Crypto.ts"
import { DataKeys } from "./DataKeys.ts"
import * as Envelope from "./Envelope.ts"
import { removeUnused, rotateDataKeys } from "./ResealValues.ts"
import { rewrapAll } from "./RewrapKeys.ts"
import { ServiceKeys } from "./ServiceKeys.ts"
import { Vault } from "./Vault.ts"
import { rowsPerRootKey } from "./WrappedKeys.ts"

/** Seals of the audit trail under another key, which servers will renew. */
const auditSeals = ({ sql }: { readonly sql: SqlClient.SqlClient }, rootKeyId: string) =>
  Effect.map(
    Rows.single(Rows.CountRow, sql`SELECT count(*) AS n FROM audit_seals WHERE root_key_id = ${rootKeyId}`),
    ({ n }) => n
  )

export class Rotation extends Effect.Service<Rotation>()("crypto/Rotation", {
  scoped: Effect.gen(function* () {
    const needs = {
      sql: yield* SqlClient.SqlClient,
      vault: yield* Vault,
      crypto: yield* Crypto,
      dataKeys: yield* DataKeys,
      serviceKeys: yield* ServiceKeys,
      cipher: yield* Envelope.ValueCipher
    }
    yield* Housekeeping.every("10 minutes", removeUnused(needs))
    return {
      ...methods(needs, { rewrapAll, rotateDataKeys, auditSeals }),
      removeUnused: removeUnused(needs),
      named: rowsPerRootKey(needs.sql)
    }
  })
}) {}

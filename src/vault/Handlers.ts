/** Handlers of the vault process: a local vault behind a token, a limit, and its own log. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { createHash } from "node:crypto"
import type { IntegrityFailure } from "#schema/Errors.ts"
import { VaultUnavailable } from "#schema/Vault.ts"
import { tokenHeader, VaultAuthentication, VaultRefused, VaultRpc, type WrappedItem } from "#schema/VaultRpc.ts"
import { safeEqual } from "#src/crypto/Crypto.ts"
import { Vault } from "#src/crypto/Vault.ts"
import * as UnwrapLimit from "./UnwrapLimit.ts"
import type { Operation, VaultLog } from "./VaultLog.ts"

export interface Options {
  readonly token: Redacted.Redacted<string>
  readonly unwrapsPerSecond: number
  readonly log: VaultLog
}

const digest = (text: string) => createHash("sha256").update(text).digest()

/** Compares digests, in constant time whatever the length. */
const authentication = (token: Redacted.Redacted<string>) =>
  Layer.sync(VaultAuthentication, () => {
    const expected = digest(Redacted.value(token))
    return ({ headers }) =>
      Effect.suspend(() => (safeEqual(digest(headers[tokenHeader] ?? ""), expected) ? Effect.void : new VaultRefused()))
  })

/** Replaces a defect with an outage, so that no key material goes over the wire. */
const withoutDefects = <A, E, R>(name: string, handler: Effect.Effect<A, E, R>) =>
  Effect.catchAllDefect(handler, (defect) =>
    Effect.zipRight(
      Effect.logError("internal error").pipe(
        Effect.annotateLogs({ call: name, error: defect instanceof Error ? defect.name : "unknown" })
      ),
      new VaultUnavailable({ reason: "The vault failed." })
    )
  )

export const layer = ({ log, token, unwrapsPerSecond }: Options) =>
  VaultRpc.toLayer(
    Effect.gen(function* () {
      const vault = yield* Vault
      const limit = yield* UnwrapLimit.make(unwrapsPerSecond)

      /** Handles each item separately, and logs all of them before any result is sent. */
      const each = <A>(
        operation: Operation,
        items: ReadonlyArray<WrappedItem>,
        open: (item: WrappedItem) => Effect.Effect<A, VaultUnavailable | IntegrityFailure>
      ) =>
        Effect.gen(function* () {
          const results: Array<A | null> = []
          for (const item of items) {
            results.push(yield* Effect.catchTag(open(item), "INTEGRITY_FAILURE", () => Effect.succeed(null)))
          }
          yield* log.append(
            items.map(({ context, rootKeyId }, i) => ({
              operation,
              outcome: results[i] === null ? ("refused" as const) : ("done" as const),
              context,
              rootKeyId
            }))
          )
          return results
        })

      const withLimit = (items: ReadonlyArray<WrappedItem>) =>
        Effect.tapError(limit(items.length), () =>
          Effect.zipRight(
            Effect.logWarning("More keys were requested than AMPOULE_VAULT_UNWRAPS_PER_SECOND allows."),
            log.append(
              items
                .slice(0, 1)
                .map(({ context, rootKeyId }) => ({ operation: "unwrap", outcome: "limited", context, rootKeyId }))
            )
          )
        )

      return {
        GenerateDataKey: ({ context }) =>
          withoutDefects(
            "GenerateDataKey",
            Effect.gen(function* () {
              const { key, rootKeyId, wrapped } = yield* vault.generateDataKey(context)
              yield* log.append([{ operation: "generate", outcome: "done", context, rootKeyId }])
              return { key: key.export(), wrapped, rootKeyId }
            })
          ),
        Unwrap: ({ items }) =>
          withoutDefects(
            "Unwrap",
            Effect.zipRight(
              withLimit(items),
              each("unwrap", items, ({ context, rootKeyId, wrapped }) =>
                Effect.map(vault.unwrapBytes(context, wrapped, rootKeyId), (bytes) => Redacted.value(bytes))
              )
            )
          ),
        // No key leaves here, so a rotation has no rate limit.
        Rewrap: ({ items }) =>
          withoutDefects(
            "Rewrap",
            each("rewrap", items, ({ context, rootKeyId, wrapped }) => vault.rewrap(context, wrapped, rootKeyId))
          ),
        WrapBytes: ({ bytes, context }) =>
          withoutDefects(
            "WrapBytes",
            Effect.gen(function* () {
              const wrapped = yield* vault.wrapBytes(context, Redacted.make(bytes))
              yield* log.append([{ operation: "wrap", outcome: "done", context, rootKeyId: wrapped.rootKeyId }])
              return wrapped
            })
          ),
        MacAuditHead: ({ head }) => withoutDefects("MacAuditHead", vault.macAuditHead(head)),
        AuditHeadMatches: ({ head, mac }) => withoutDefects("AuditHeadMatches", vault.auditHeadMatches(head, mac)),
        SignCheckpoint: ({ text }) => withoutDefects("SignCheckpoint", vault.signCheckpoint(text)),
        CheckpointKeys: () => withoutDefects("CheckpointKeys", vault.checkpointKeys),
        Status: () => withoutDefects("Status", vault.status)
      }
    })
  ).pipe(Layer.merge(authentication(token)))

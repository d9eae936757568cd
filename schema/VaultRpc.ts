/**
 * Protocol between the server and the vault process (docs/security.md, "Keys"). Keys travel as bytes, never as text.
 * Each call carries the shared token in the header `x-vault-token`. A refusal by the vault is a value, not an error, so
 * that the rest of a batch succeeds.
 */
import * as Rpc from "@effect/rpc/Rpc"
import * as RpcGroup from "@effect/rpc/RpcGroup"
import * as RpcMiddleware from "@effect/rpc/RpcMiddleware"
import * as Schema from "effect/Schema"
import { KeyContext, VaultStatus, VaultUnavailable } from "./Vault.ts"

export const tokenHeader = "x-vault-token"

/** The call had no token, or a wrong one. */
export class VaultRefused extends Schema.TaggedError<VaultRefused>()("VaultRefused", {}) {}

export class VaultAuthentication extends RpcMiddleware.Tag<VaultAuthentication>()("schema/VaultAuthentication", {
  failure: VaultRefused
}) {}

const Bytes = Schema.Uint8ArrayFromSelf

const WrappedKey = Schema.Struct({ wrapped: Bytes, rootKeyId: Schema.String })
type WrappedKey = typeof WrappedKey.Type

/** Wrapped key with its place. */
export const WrappedItem = Schema.Struct({ context: KeyContext, wrapped: Bytes, rootKeyId: Schema.String })
export type WrappedItem = typeof WrappedItem.Type

/** Maximum number of items of a call. */
export const maxBatch = 500
const Items = Schema.Array(WrappedItem).pipe(Schema.maxItems(maxBatch))

/** Null: refused, because the key was altered, belongs elsewhere, or its root key is missing. */
const Opened = Schema.Array(Schema.NullOr(Bytes))
const Rewrapped = Schema.Array(Schema.NullOr(WrappedKey))

const AuditMac = Schema.Struct({ mac: Bytes, rootKeyId: Schema.String })

const CheckpointKey = Schema.Struct({ publicKey: Bytes, rootKeyId: Schema.String })

const call = <const Tag extends string, Payload extends Schema.Struct.Fields, Success extends Schema.Schema.Any>(
  tag: Tag,
  payload: Payload,
  success: Success
) => Rpc.make(tag, { payload, success, error: VaultUnavailable })

export class VaultRpc extends RpcGroup.make(
  call("GenerateDataKey", { context: KeyContext }, Schema.Struct({ ...WrappedKey.fields, key: Bytes })),
  call("Unwrap", { items: Items }, Opened),
  call("Rewrap", { items: Items }, Rewrapped),
  call("WrapBytes", { context: KeyContext, bytes: Bytes }, WrappedKey),
  call("MacAuditHead", { head: Bytes }, AuditMac),
  call("AuditHeadMatches", { head: Bytes, mac: AuditMac }, Schema.Boolean),
  call("SignCheckpoint", { text: Bytes }, Schema.Struct({ ...CheckpointKey.fields, signature: Bytes })),
  call("CheckpointKeys", {}, Schema.Array(CheckpointKey)),
  call("Status", {}, VaultStatus)
).middleware(VaultAuthentication) {}

import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { AnyCredential, SessionCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { EnvironmentId, EnvironmentIdOut } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { has, optional, strict } from "./Strict.ts"
import { MemberName, SealingKeyId, sizedFirst, Timestamp } from "./Values.ts"
import { answers, openEnum } from "./Wire.ts"

export const EnvironmentKeypair = Schema.Struct({
  environmentId: EnvironmentIdOut,
  keyId: Schema.String,
  publicKey: Schema.String.annotations({ description: "32 bytes, base64url without padding." }),
  algorithm: openEnum("hpke-x25519-hkdf-sha256-aes-256-gcm"),
  createdAt: Timestamp
}).annotations({ identifier: "EnvironmentKeypair", description: "The public half. The private half never leaves." })
export type EnvironmentKeypair = typeof EnvironmentKeypair.Type

export const SealingKey = Schema.Struct({ keyId: Schema.String, publicKey: Schema.String }).annotations({
  identifier: "SealingKey"
})
export type SealingKey = typeof SealingKey.Type

/**
 * Longest sealed text of a value: 65,536 code points of 4 bytes, 32 of HPKE, 16 of tag, in base64url, plus its head.
 */
const maxSealedLength = 360_000

const SealedEntry = Schema.String.pipe(
  Schema.filter((s) => s.length <= maxSealedLength || "must be at most 360000 characters", {
    jsonSchema: { type: "string", maxLength: maxSealedLength }
  })
)

/** `shown`: what the document says beside the bounds. */
const entriesOf = (shown: object) =>
  sizedFirst(
    Schema.Record({ key: MemberName, value: SealedEntry }),
    (entries) => {
      if (typeof entries !== "object" || entries === null || Array.isArray(entries)) return true
      // The manifest speaks about the others and is none of them (docs/contract/sealed-values.md).
      const n = Object.keys(entries).length - (Object.hasOwn(entries, "_manifest") ? 1 : 0)
      return (n >= 1 && n <= 500) || "must have 1 to 500 entries"
    },
    {
      type: "object",
      additionalProperties: { type: "string", maxLength: maxSealedLength },
      minProperties: 1,
      maxProperties: 501,
      ...shown
    }
  )

/** As tools of agents take them: what the manifest changes is said by the refusal. */
export const sealedEntries = entriesOf({})

/**
 * Names are checked by the opener, which answers a bad one with the same error as an altered value
 * (docs/contract/sealed-values.md).
 */
export const OpenSealedValues = strict(
  Schema.Struct({
    keyId: SealingKeyId,
    // No `allOf`: beside `additionalProperties` a generator of Go clients writes what does not compile.
    entries: entriesOf({
      if: has({ _manifest: {} }),
      else: { maxProperties: 500 },
      dependentSchemas: { _manifest: { minProperties: 2 } }
    })
  })
).annotations({
  identifier: "OpenSealedValues",
  description:
    "entries: 1 to 500 names, each with sealed:v1:<keyId>:<base64url(enc || ciphertext)>; optionally _manifest."
})
export type OpenSealedValues = typeof OpenSealedValues.Type

export const OpenedSealedValues = Schema.Struct({
  keyId: Schema.String,
  values: Schema.Record({ key: Schema.String, value: Schema.String }),
  activeKey: optional(SealingKey)
}).annotations({
  identifier: "OpenedSealedValues",
  description: "activeKey is present when the key was rotated since: seal the file again with it."
})
export type OpenedSealedValues = typeof OpenedSealedValues.Type

const environmentId = "01980a5e-7c12-7000-8a1b-2c3d4e5f6071"
const keypair = {
  environmentId,
  keyId: "ek_5f0c2a9d",
  publicKey: "zmFqXwT7Yc1p9wE3k5o2Jb8r4uV6n0sQ1dHhLxPyGkI",
  algorithm: "hpke-x25519-hkdf-sha256-aes-256-gcm",
  createdAt: "2026-11-21T08:00:00.000Z"
}
const EnvironmentPath = Schema.Struct({ envId: EnvironmentId })

/** Keypairs of environments, and opening an encrypted `.env` file on the server. */
export class SealedApi extends HttpApiGroup.make("sealed")
  .add(
    HttpApiEndpoint.get("keypair", "/environments/:envId/keypair")
      .setPath(EnvironmentPath)
      .addSuccess(answers(200, EnvironmentKeypair))
      .addError(Errors.EnvironmentNotFound)
      .addError(Errors.Forbidden)
      .addError(Errors.ScopeMissing)
      .addError(Errors.IntegrityFailure)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "Read the public key of an environment",
          description: "Encrypts values into a committable encrypted .env file. Only the public half.",
          response: keypair
        })
      )
  )
  .add(
    HttpApiEndpoint.post("open", "/environments/:envId/sealed-values/open")
      .setPath(EnvironmentPath)
      .setPayload(OpenSealedValues)
      .addSuccess(answers(200, OpenedSealedValues))
      .addError(Errors.EnvironmentNotFound)
      .addError(Errors.SealingKeyNotFound)
      .addError(Errors.Forbidden)
      .addError(Errors.ScopeMissing)
      .addError(Errors.EnvironmentNotGranted)
      .addError(Errors.SealedValueInvalid)
      .addError(Errors.SealingKeyExpired)
      .addError(Errors.IntegrityFailure)
      .addError(Errors.PayloadTooLarge)
      .addError(Errors.UnsupportedMediaType)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:run",
          summary: "Open an encrypted .env file",
          description:
            "Decrypts with the key that the file names. Refused as a whole if any value was altered; recorded in the audit trail with the variable names.",
          request: {
            keyId: "ek_5f0c2a9d",
            entries: { DATABASE_URL: "sealed:v1:ek_5f0c2a9d:dGhpcyBpcyBub3QgYSByZWFsIHNlYWxlZCB2YWx1ZQ" }
          },
          response: { keyId: "ek_5f0c2a9d", values: { DATABASE_URL: "postgres://app@db.internal/app" } }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Keypairs of environments and sealed values." })) {}

/** Rotation and retirement of keypairs: owner or admin, in a session. */
export class SealingKeysApi extends HttpApiGroup.make("sealingKeys")
  .add(
    HttpApiEndpoint.post("rotate", "/environments/:envId/keypair/rotate")
      .setPath(EnvironmentPath)
      .addSuccess(answers(200, EnvironmentKeypair))
      .addError(Errors.EnvironmentNotFound)
      .addError(Errors.Forbidden)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Rotate the keypair",
          description: "Makes a new active key. The old private key stays for opening.",
          response: keypair
        })
      )
  )
  .add(
    HttpApiEndpoint.post("retire", "/environments/:envId/keypair/:keyId/retire")
      .setPath(Schema.Struct({ envId: EnvironmentId, keyId: SealingKeyId }))
      .addSuccess(answers(200, EnvironmentKeypair))
      .addError(Errors.EnvironmentNotFound)
      .addError(Errors.SealingKeyNotFound)
      .addError(Errors.Forbidden)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Retire an old keypair",
          description: "Not the active one. From then on a file sealed with it answers SEALING_KEY_EXPIRED.",
          response: keypair
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Rotation of environment keypairs." })) {}

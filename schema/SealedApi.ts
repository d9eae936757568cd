import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { AnyCredential, SessionCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { EnvironmentId, EnvironmentIdOut } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { BadBody, MayNotManageEnvironment, MayNotReadEnvironment } from "./RouteErrors.ts"
import { eachOnce, has, optional, strict } from "./Strict.ts"
import { boundedList, MemberName, SealingKeyId, SecretKey, sizedFirst, Timestamp } from "./Values.ts"
import { answers, openEnum } from "./Wire.ts"

export const EnvironmentKeypair = Schema.Struct({
  environmentId: EnvironmentIdOut,
  keyId: Schema.String,
  publicKey: Schema.String.annotations({ description: "32 bytes, base64url without padding." }),
  algorithm: openEnum("hpke-x25519-hkdf-sha256-aes-256-gcm"),
  createdAt: Timestamp
}).annotations({
  identifier: "EnvironmentKeypair",
  description: "Public half of the key pair. The private half never leaves the server."
})
export type EnvironmentKeypair = typeof EnvironmentKeypair.Type

export const SealingKey = Schema.Struct({ keyId: Schema.String, publicKey: Schema.String }).annotations({
  identifier: "SealingKey"
})
export type SealingKey = typeof SealingKey.Type

/**
 * Maximum length of a sealed value: 65,536 code points of 4 bytes, 32 of HPKE and 16 of tag, in base64url, plus its
 * head.
 */
const maxSealedLength = 360_000

const SealedEntry = Schema.String.pipe(
  Schema.filter((s) => s.length <= maxSealedLength || "must be at most 360000 characters", {
    jsonSchema: { type: "string", maxLength: maxSealedLength }
  })
)

/** `documented`: members that the document shows beside the bounds. */
const entriesOf = (documented: object) =>
  sizedFirst(
    Schema.Record({ key: MemberName, value: SealedEntry }),
    (entries) => {
      if (typeof entries !== "object" || entries === null || Array.isArray(entries)) return true
      // The manifest lists the other entries, and does not count (docs/contract/sealed-values.md).
      const n = Object.keys(entries).length - (Object.hasOwn(entries, "_manifest") ? 1 : 0)
      return (n >= 1 && n <= 500) || "must have 1 to 500 entries"
    },
    {
      type: "object",
      additionalProperties: { type: "string", maxLength: maxSealedLength },
      minProperties: 1,
      maxProperties: 501,
      ...documented
    }
  )

/** Entries for the tools of agents. Only the refusal explains the effect of a manifest. */
export const sealedEntries = entriesOf({})

/**
 * The opener checks names, and returns the same error for a bad one as for an altered value
 * (docs/contract/sealed-values.md).
 */
export const OpenSealedValues = strict(
  Schema.Struct({
    keyId: SealingKeyId,
    // Without `allOf`: beside `additionalProperties` a generator of Go clients writes code that does not compile.
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
  description: "activeKey is present after a rotation of the key: seal the file again with it."
})
export type OpenedSealedValues = typeof OpenedSealedValues.Type

export const ExportSealedValues = strict(
  Schema.Struct({
    keys: optional(
      eachOnce(boundedList(SecretKey, 1, 500), String, "must not repeat a key").annotations({
        description: "Only these keys; all by default, at most 500."
      })
    )
  })
).annotations({ identifier: "ExportSealedValues" })
export type ExportSealedValues = typeof ExportSealedValues.Type

const ExportedSealedValues = Schema.Struct({
  keyId: Schema.String,
  entries: Schema.Record({ key: Schema.String, value: Schema.String })
}).annotations({
  identifier: "ExportedSealedValues",
  description: "Entries in the form that open takes, with their _manifest."
})

const environmentId = "01980a5e-7c12-7000-8a1b-2c3d4e5f6071"
const keypair = {
  environmentId,
  keyId: "ek_5f0c2a9d",
  publicKey: "zmFqXwT7Yc1p9wE3k5o2Jb8r4uV6n0sQ1dHhLxPyGkI",
  algorithm: "hpke-x25519-hkdf-sha256-aes-256-gcm",
  createdAt: "2026-11-21T08:00:00.000Z"
}
const EnvironmentPath = Schema.Struct({ envId: EnvironmentId })

const MayNotUseSealedValues = Schema.Union(
  MayNotReadEnvironment,
  Errors.EnvironmentNotGranted,
  Errors.IntegrityFailure,
  BadBody
)

/** Key pairs of environments, and encrypted `.env` files that the server opens and makes. */
export class SealedApi extends HttpApiGroup.make("sealed")
  .add(
    HttpApiEndpoint.get("keypair", "/environments/:envId/keypair")
      .setPath(EnvironmentPath)
      .addSuccess(answers(200, EnvironmentKeypair))
      .addError(Schema.Union(MayNotReadEnvironment, Errors.IntegrityFailure))
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "Read the public key of an environment",
          description: "The key encrypts values for a committable .env file. Only the public half is returned.",
          response: keypair
        })
      )
  )
  .add(
    HttpApiEndpoint.post("open", "/environments/:envId/sealed-values/open")
      .setPath(EnvironmentPath)
      .setPayload(OpenSealedValues)
      .addSuccess(answers(200, OpenedSealedValues))
      .addError(
        Schema.Union(
          MayNotUseSealedValues,
          Errors.SealingKeyNotFound,
          Errors.SealedValueInvalid,
          Errors.SealingKeyExpired
        )
      )
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:run",
          summary: "Open an encrypted .env file",
          description:
            "Decrypts with the key that the file names. An altered value fails the whole file. The audit trail records the variable names.",
          request: {
            keyId: "ek_5f0c2a9d",
            entries: { DATABASE_URL: "sealed:v1:ek_5f0c2a9d:dGhpcyBpcyBub3QgYSByZWFsIHNlYWxlZCB2YWx1ZQ" }
          },
          response: { keyId: "ek_5f0c2a9d", values: { DATABASE_URL: "postgres://app@db.internal/app" } }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("export", "/environments/:envId/sealed-values/export")
      .setPath(EnvironmentPath)
      .setPayload(ExportSealedValues)
      .addSuccess(answers(200, ExportedSealedValues))
      .addError(Schema.Union(MayNotUseSealedValues, Errors.SecretNotFound))
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:run",
          summary: "Export an encrypted .env file",
          description:
            "Current values, each sealed on the server to the environment's own key. No value is handed out: only the server can open the file.",
          request: { keys: ["DATABASE_URL"] },
          response: {
            keyId: "ek_5f0c2a9d",
            entries: { DATABASE_URL: "sealed:v1:ek_5f0c2a9d:dGhpcyBpcyBub3QgYSByZWFsIHNlYWxlZCB2YWx1ZQ" }
          }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Keypairs of environments and sealed values." })) {}

/** Rotation and retirement of key pairs, for owners and admins in a session. */
export class SealingKeysApi extends HttpApiGroup.make("sealingKeys")
  .add(
    HttpApiEndpoint.post("rotate", "/environments/:envId/keypair/rotate")
      .setPath(EnvironmentPath)
      .addSuccess(answers(200, EnvironmentKeypair))
      .addError(MayNotManageEnvironment)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Rotate the keypair",
          description: "Creates a new active key. The old private key still opens files.",
          response: keypair
        })
      )
  )
  .add(
    HttpApiEndpoint.post("retire", "/environments/:envId/keypair/:keyId/retire")
      .setPath(Schema.Struct({ envId: EnvironmentId, keyId: SealingKeyId }))
      .addSuccess(answers(200, EnvironmentKeypair))
      .addError(Schema.Union(MayNotManageEnvironment, Errors.SealingKeyNotFound))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Retire an old keypair",
          description:
            "The active one cannot be retired. Files sealed with a retired one fail with SEALING_KEY_EXPIRED.",
          response: keypair
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Rotation of environment keypairs." })) {}

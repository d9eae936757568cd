/** Tools that write secrets. */
import * as Schema from "effect/Schema"
import {
  keyList,
  keys,
  location,
  namesOneSecret,
  namesSecrets,
  oneSecret,
  otherEnvironment,
  outcomes,
  overwrites,
  plainText,
  projectId,
  refOutput,
  secretsOf,
  tool,
  warnings,
  writes
} from "./McpToolParts.ts"
import { exactlyOneSource, valueSourceFields } from "./ValueSource.ts"
import { boundedList, CalendarDay, Disposition, ExpectedVersion, SecretKey, Timestamp } from "./Values.ts"
import { Integer, Key, openEnum, Uuid } from "./Wire.ts"
import { SecretNote, SecretOwner } from "./SecretRequests.ts"
import { SecretId } from "./Ids.ts"
import { atLeastOne, optional, strict } from "./Strict.ts"

/** An empty text clears a member: a single type, which models use correctly. */
const orNothing = (text: Schema.Schema<string>) =>
  Schema.Union(Schema.Literal("").annotations({ message: () => "must be text" }), text).annotations({
    jsonSchema: { type: "string" }
  })

export const writeTools = {
  request_secret_value: tool({
    title: "Ask a person for a value",
    description:
      "Opens a one-time page where a signed-in person types the value. It is stored without passing through this conversation. Answers stored, declined, or needs_human with the address of the page: give it to the person, and call again with the same arguments when they are done.",
    scopes: ["secrets:write"],
    input: strict(
      Schema.Struct({
        ...location,
        key: SecretKey,
        note: optional(plainText(300, "Why the value is needed; the page shows it. Never a value.")),
        replace: optional(
          Schema.Boolean.annotations({ description: "Replace the value of an existing key; false by default." })
        )
      })
    ),
    output: Schema.Struct({
      status: openEnum("stored", "needs_human", "declined"),
      id: optional(Uuid),
      key: optional(Key),
      version: optional(Integer),
      warnings,
      url: optional(Schema.String),
      expiresAt: optional(Timestamp)
    }),
    annotations: { ...overwrites, idempotentHint: true }
  }),
  create_secret: tool({
    title: "Create a secret",
    description:
      "Creates a secret from exactly one of generate, copyFrom, template or value. Fails when the key exists. A value given here becomes part of this conversation: prefer the other three, or request_secret_value. copyFrom needs secrets:read_values or secrets:run as well.",
    scopes: ["secrets:write"],
    input: strict(
      Schema.Struct({ ...location, key: SecretKey, ...valueSourceFields }).pipe(
        Schema.filter(exactlyOneSource, { jsonSchema: {} })
      )
    ),
    output: Schema.Struct(refOutput),
    annotations: writes
  }),
  update_secret: tool({
    title: "Update a secret",
    description: "Writes a new version of a secret, from exactly one of generate, copyFrom, template or value.",
    scopes: ["secrets:write"],
    input: strict(
      Schema.Struct({ ...oneSecret, expectedVersion: optional(ExpectedVersion), ...valueSourceFields }).pipe(
        Schema.filter((input) => namesOneSecret(input) ?? exactlyOneSource(input), { jsonSchema: {} })
      )
    ),
    output: Schema.Struct(refOutput),
    annotations: overwrites
  }),
  rename_secret: tool({
    title: "Rename a secret",
    description: "With its versions. Templates that use it refuse, or are rewritten.",
    scopes: ["secrets:write"],
    input: strict(Schema.Struct({ secretId: SecretId, key: SecretKey, rewriteReferences: optional(Schema.Boolean) })),
    output: Schema.Struct({ ...refOutput, formerKey: Key, rewritten: keyList }),
    annotations: overwrites
  }),
  describe_secret: tool({
    title: "Describe a secret",
    description: 'rotateBy: the day (2027-01-31) to replace the value by; "" takes one away. Never a value.',
    scopes: ["secrets:write"],
    input: strict(
      atLeastOne(
        Schema.Struct({
          secretId: SecretId,
          owner: optional(orNothing(SecretOwner)),
          note: optional(orNothing(SecretNote)),
          rotateBy: optional(orNothing(CalendarDay))
        }),
        "owner",
        "note",
        "rotateBy"
      )
    ),
    output: Schema.Struct({
      id: Uuid,
      key: Key,
      owner: Schema.NullOr(Schema.String),
      note: Schema.NullOr(Schema.String),
      rotateBy: Schema.NullOr(Schema.String)
    }),
    annotations: { ...overwrites, idempotentHint: true }
  }),
  copy_secrets: tool({
    title: "Copy secrets between environments",
    description:
      "Copies secrets of a project from one environment to another inside the server: no value leaves it. Needs secrets:read_values or secrets:run as well. Existing keys are skipped unless overwrite is true.",
    scopes: ["secrets:read", "secrets:write"],
    input: strict(
      Schema.Struct({
        projectId,
        sourceEnv: otherEnvironment,
        targetEnv: otherEnvironment,
        keys: keys(100),
        overwrite: optional(Schema.Boolean.annotations({ description: "false by default." }))
      })
    ),
    output: Schema.Struct({ ...outcomes, skipped: keyList }),
    annotations: { ...overwrites, idempotentHint: true }
  }),
  bulk_upsert_secrets: tool({
    title: "Create or update several secrets",
    description: "Each from exactly one of generate, copyFrom, template or value, in one transaction.",
    scopes: ["secrets:write"],
    input: strict(
      Schema.Struct({
        ...location,
        secrets: boundedList(
          strict(
            Schema.Struct({ key: SecretKey, ...valueSourceFields }).pipe(
              Schema.filter(exactlyOneSource, { jsonSchema: {} })
            )
          ),
          1,
          100
        ).pipe(
          Schema.filter(
            (list): Schema.FilterOutput => {
              const at = list.findIndex((one, i) => list.findIndex((other) => other.key === one.key) < i)
              return at < 0 ? undefined : { path: [at, "key"], message: "must not repeat an earlier key" }
            },
            { jsonSchema: {} }
          )
        )
      })
    ),
    output: Schema.Struct({ ...outcomes, unchanged: keyList }),
    annotations: { ...overwrites, idempotentHint: true }
  }),
  delete_secret: tool({
    title: "Delete a secret",
    description:
      "Deletes a secret; it can be restored for 30 days. When other secrets are composed from it, set disposition to flatten (they keep their current text) or cascade (they are deleted too).",
    scopes: ["secrets:write"],
    input: strict(
      Schema.Struct({ ...oneSecret, disposition: optional(Disposition) }).pipe(
        Schema.filter(namesOneSecret, { jsonSchema: {} })
      )
    ),
    output: Schema.Struct({
      deleted: Schema.Boolean,
      dependents: keyList.annotations({ description: "Keys that were composed from it, flattened or deleted." })
    }),
    annotations: { ...overwrites, idempotentHint: true }
  }),
  delete_secrets: tool({
    title: "Delete several secrets",
    description:
      "Deletes secrets of one environment in one transaction, by keys or ids; they can be restored for 30 days.",
    scopes: ["secrets:write"],
    input: strict(
      Schema.Struct({ ...location, ...secretsOf(100) }).pipe(Schema.filter(namesSecrets, { jsonSchema: {} }))
    ),
    output: Schema.Struct({ deleted: Schema.Array(Uuid) }),
    annotations: { ...overwrites, idempotentHint: true }
  })
} as const

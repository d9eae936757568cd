/**
 * Changes of secrets in several environments of a project, in one transaction (docs/contract/secrets.md, "Changes").
 */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as Schema from "effect/Schema"
import { AnyCredential } from "./Authentication.ts"
import { ChangeRequest } from "./ChangeRequestsApi.ts"
import * as Errors from "./Errors.ts"
import { ProjectId } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { BadBody, BreaksTheEnvironment, EnvironmentMissing, MayNotWrite } from "./RouteErrors.ts"
import { eachOnce, has, hasNoneOf, hasOneOf, optional, strict } from "./Strict.ts"
import { boundedList, EnvironmentSlug, ExpectedVersion, Reason, SecretKey, SecretKind, SecretText } from "./Values.ts"
import * as ValueSource from "./ValueSource.ts"
import { answers, Integer, Key, openEnum, Slug } from "./Wire.ts"

/** Entries of one request, over all its environments. */
const maxChanges = 1_000

const sources = ["value", "copyFrom", "generate"] as const
interface Sources {
  readonly op: "set" | "delete"
  readonly kind?: unknown
  readonly value?: unknown
  readonly copyFrom?: unknown
  readonly generate?: unknown
}
const oneSource = (entry: Sources): Schema.FilterIssue | undefined => {
  const [first, second] = sources.filter((name) => entry[name] !== undefined)
  if (entry.op === "delete") {
    if (entry.kind !== undefined) return { path: ["kind"], message: "must not be given when op is delete" }
    return first === undefined ? undefined : { path: [first], message: "must not be given when op is delete" }
  }
  if (first === undefined) return { path: ["value"], message: "must be given, or one of copyFrom, generate" }
  if (entry.kind !== undefined && entry.value === undefined) {
    return { path: ["kind"], message: "must be given together with value" }
  }
  return second === undefined
    ? undefined
    : { path: [second], message: "must not be given together with another of them" }
}
const ChangeOp = Schema.Literal("set", "delete").annotations({
  message: () => "must be set or delete",
  identifier: "ChangeOp"
})

/** Named for clients that are generated from the document; the tools of agents have theirs inline. */
const CopyFrom = ValueSource.CopyFrom.annotations({ identifier: "CopyFrom" })
const Generate = Schema.Struct({
  ...ValueSource.Generate.fields,
  charset: optional(ValueSource.Charset.annotations({ identifier: "Charset" }))
}).annotations({ identifier: "GenerateValue", description: "Random, made on the server." })

export const SecretChange = strict(
  Schema.Struct({
    environment: EnvironmentSlug,
    key: SecretKey,
    op: ChangeOp,
    kind: optional(SecretKind),
    value: optional(SecretText),
    copyFrom: optional(CopyFrom),
    generate: optional(Generate),
    expectedVersion: optional(ExpectedVersion)
  }).pipe(
    Schema.filter(oneSource, {
      jsonSchema: {
        allOf: [
          { if: { not: has({ op: { const: "delete" } }) }, else: hasNoneOf(sources) },
          { if: has({ op: { const: "delete" } }), else: hasOneOf(sources) },
          { if: { not: has({ kind: {} }) }, else: has({ value: {} }) }
        ]
      }
    })
  )
).annotations({
  identifier: "SecretChange",
  description:
    "Change of a key in an environment. set takes one of value, copyFrom and generate. kind goes with value: literal keeps a text that looks like a template a text. expectedVersion is the version that the caller saw, 0 for a missing key. Without it any version is replaced."
})
export type SecretChange = typeof SecretChange.Type

export const ChangeSecrets = strict(
  Schema.Struct({
    entries: eachOnce(
      boundedList(SecretChange, 1, maxChanges),
      ({ environment, key }) => `${environment} ${key}`,
      "must not repeat an earlier key of the same environment",
      "key"
    ),
    reason: optional(Reason)
  })
).annotations({ identifier: "ChangeSecrets" })
export type ChangeSecrets = typeof ChangeSecrets.Type

const ChangedSecret = Schema.Struct({
  key: Key,
  outcome: openEnum("created", "updated", "unchanged", "deleted"),
  version: Integer.annotations({
    jsonSchema: { type: "integer" },
    description: "Version after the change; for a deleted key, the last one."
  })
}).annotations({ identifier: "ChangedSecret" })

export const ChangedEnvironment = Schema.Struct({
  environment: Slug,
  items: Schema.Array(ChangedSecret).annotations({ description: "Written secrets; empty when the change waits." }),
  request: Schema.NullOr(ChangeRequest).annotations({
    description: "Request that waits for an approval, if the environment requires one (docs/contract/access.md)."
  })
}).annotations({ identifier: "ChangedEnvironment" })
export type ChangedEnvironment = typeof ChangedEnvironment.Type

export const SecretsChangedResult = Schema.Struct({ environments: Schema.Array(ChangedEnvironment) }).annotations({
  identifier: "SecretsChangedResult",
  description: "By environment, in the order of the request."
})
export type SecretsChangedResult = typeof SecretsChangedResult.Type

export const change = HttpApiEndpoint.post("change", "/projects/:projectId/changes")
  .setPath(Schema.Struct({ projectId: ProjectId }))
  .setPayload(ChangeSecrets)
  .addSuccess(answers(200, SecretsChangedResult))
  .addError(
    Schema.Union(
      EnvironmentMissing,
      MayNotWrite,
      BreaksTheEnvironment,
      Errors.SecretNotFound,
      Errors.SecretHasDependents,
      Errors.SecretsChanged,
      BadBody
    )
  )
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:write",
      summary: "Change secrets of several environments",
      description:
        "Sets and deletes 1 to 1000 secrets of the environments of a project in a single transaction: all or none. For an environment that requires approvals its part waits, and the others are written.",
      request: {
        entries: [
          { environment: "development", key: "LOG_LEVEL", op: "set", value: "debug", expectedVersion: 2 },
          {
            environment: "staging",
            key: "SENTRY_DSN",
            op: "set",
            copyFrom: { environment: "development", key: "SENTRY_DSN" },
            expectedVersion: 0
          },
          { environment: "staging", key: "OLD_FLAG", op: "delete", expectedVersion: 1 }
        ],
        reason: "Staging gets its own error tracking."
      },
      response: {
        environments: [
          {
            environment: "development",
            items: [{ key: "LOG_LEVEL", outcome: "updated", version: 3 }],
            request: null
          },
          {
            environment: "staging",
            items: [
              { key: "SENTRY_DSN", outcome: "created", version: 1 },
              { key: "OLD_FLAG", outcome: "deleted", version: 1 }
            ],
            request: null
          }
        ]
      }
    })
  )

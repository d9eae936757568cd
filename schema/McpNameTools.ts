/** Tools that read names and metadata of secrets, never a value. */
import * as Schema from "effect/Schema"
import {
  groups,
  keyList,
  keys,
  location,
  next,
  otherEnvironment,
  projectId,
  query,
  reads,
  tool
} from "./McpToolParts.ts"
import { integer, boundedList, SecretKey, Timestamp } from "./Values.ts"
import { Integer, Key, KindOut, Uuid } from "./Wire.ts"
import { optional, strict } from "./Strict.ts"

const counts = Schema.Struct({ added: Integer, removed: Integer, changed: Integer })

export const nameTools = {
  list_secrets: tool({
    title: "List secrets",
    description:
      "Keys of an environment, by name: how many, which groups, and a page of them. Never a value, its length or a digest.",
    scopes: ["secrets:read"],
    input: strict(
      Schema.Struct({
        ...location,
        query,
        fields: optional(
          boundedList(
            Schema.Literal(
              "id",
              "kind",
              "version",
              "updatedAt",
              "reference",
              "references",
              "owner",
              "note",
              "rotateBy"
            ).annotations({
              message: () => "must be id, kind, version, updatedAt, reference, references, owner, note or rotateBy"
            }),
            1,
            9
          ).annotations({ description: "kind and version by default." })
        ),
        page: optional(integer(1, 10_000, "1 by default.")),
        pageSize: optional(integer(1, 500, "100 by default."))
      })
    ),
    output: Schema.Struct({
      total: Integer,
      groups,
      secrets: Schema.Array(
        Schema.Struct({
          id: optional(Uuid),
          key: Key,
          kind: optional(KindOut),
          version: optional(Integer),
          updatedAt: optional(Timestamp),
          reference: optional(Schema.String.annotations({ description: "secret://<project>/<environment>/<KEY>" })),
          owner: optional(Schema.NullOr(Schema.String)),
          note: optional(Schema.NullOr(Schema.String)),
          rotateBy: optional(Schema.NullOr(Schema.String)),
          references: optional(keyList.annotations({ description: "Keys that its template uses." }))
        })
      ),
      page: Integer,
      pageSize: Integer,
      next
    }),
    annotations: reads
  }),
  check_secrets: tool({
    title: "Check secrets",
    description: "Which of these keys an environment has, and which of them cannot be resolved. No values.",
    scopes: ["secrets:read"],
    input: strict(Schema.Struct({ ...location, keys: keys(200) })),
    output: Schema.Struct({ present: keyList, missing: keyList, unresolved: keyList }),
    annotations: reads
  }),
  compare_environments: tool({
    title: "Compare environments",
    description: "Keys that only the target has, only the source has, or whose values differ. No values.",
    scopes: ["secrets:read"],
    input: strict(Schema.Struct({ projectId, sourceEnv: otherEnvironment, targetEnv: otherEnvironment, query })),
    output: Schema.Struct({ counts, added: keyList, removed: keyList, changed: keyList, next }),
    annotations: reads
  }),
  get_composition: tool({
    title: "Composition graph",
    description: "Which secrets are composed from which. No values.",
    scopes: ["secrets:read"],
    input: strict(Schema.Struct({ ...location, key: optional(SecretKey) })),
    output: Schema.Struct({
      secrets: Integer,
      total: Integer.annotations({ description: "Edges." }),
      edges: Schema.Array(Schema.Struct({ from: Key, to: Key })).annotations({
        description: "From the template to what it uses; with key, those of that key alone."
      }),
      cycles: Schema.Array(keyList),
      next
    }),
    annotations: reads
  })
} as const

/** Tools that read names and metadata of secrets, never a value. */
import * as Schema from "effect/Schema"
import { integer, keyList, keys, location, plainText, projectId, reads, tool } from "./McpToolParts.ts"
import { EnvironmentSlug, Timestamp } from "./Values.ts"
import { Integer, Key, KindOut, Uuid } from "./Wire.ts"
import { optional, strict } from "./Strict.ts"
export const nameTools = {
  list_secrets: tool({
    title: "List secrets",
    description: "Keys and metadata of an environment, by name. Never a value, its length or a digest.",
    scopes: ["secrets:read"],
    input: strict(
      Schema.Struct({
        ...location,
        query: optional(plainText(255, "Only keys that contain this text; case does not count.")),
        page: optional(integer(1, 10_000, "1 by default.")),
        pageSize: optional(integer(1, 500, "100 by default."))
      })
    ),
    output: Schema.Struct({
      secrets: Schema.Array(
        Schema.Struct({
          id: Uuid,
          key: Key,
          kind: KindOut,
          version: Integer,
          updatedAt: Timestamp,
          reference: Schema.String.annotations({ description: "secret://<project>/<environment>/<KEY>" }),
          references: keyList.annotations({ description: "Keys that its template uses." })
        })
      ),
      page: Integer,
      pageSize: Integer,
      total: Integer
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
    input: strict(Schema.Struct({ projectId, sourceEnv: EnvironmentSlug, targetEnv: EnvironmentSlug })),
    output: Schema.Struct({ added: keyList, removed: keyList, changed: keyList }),
    annotations: reads
  }),
  get_composition: tool({
    title: "Composition graph",
    description: "Which secrets are composed from which. No values.",
    scopes: ["secrets:read"],
    input: strict(Schema.Struct(location)),
    output: Schema.Struct({
      nodes: Schema.Array(Schema.Struct({ id: Uuid, key: Key, kind: KindOut })),
      edges: Schema.Array(Schema.Struct({ from: Key, to: Key })).annotations({
        description: "From the template to what it uses."
      }),
      cycles: Schema.Array(keyList)
    }),
    annotations: reads
  })
} as const

/** Tools that return values in plain text. The operator can disable them. */
import * as Schema from "effect/Schema"
import { location, newerKey, next, plainText, reads, sealedFile, tool } from "./McpToolParts.ts"
import { integer, Representation, SecretKey } from "./Values.ts"
import { Integer, Key } from "./Wire.ts"
import { optional, strict } from "./Strict.ts"
export const revealTools = {
  reveal_secret_value: tool({
    title: "Reveal one value (enters the model's context)",
    description:
      "Returns one value in plain text. The value becomes part of this conversation and of every copy of it. The audit trail records the reason. plan_run or check_secrets is almost always the better choice.",
    scopes: ["secrets:read_values"],
    input: strict(
      Schema.Struct({
        ...location,
        key: SecretKey,
        representation: optional(Representation),
        reason: plainText(200, "Why the value itself is needed; recorded in the audit trail.")
      })
    ),
    output: Schema.Struct({ key: Key, version: Integer, value: Schema.String }),
    annotations: reads,
    plaintext: true
  }),
  resolve_environment: tool({
    title: "Resolve an environment (enters the model's context)",
    description:
      "Returns the values of an environment in plain text, page by page. For agents that run where the ampoule program cannot: everywhere else use plan_run, which gives the values to the process only.",
    scopes: ["secrets:run", "secrets:read_values"],
    input: strict(
      Schema.Struct({
        ...location,
        representation: optional(Representation),
        page: optional(integer(1, 10_000, "1 by default.")),
        pageSize: optional(integer(1, 500, "100 by default."))
      })
    ),
    output: Schema.Struct({
      values: Schema.Record({ key: Schema.String, value: Schema.String }),
      total: Integer,
      next
    }),
    annotations: reads,
    plaintext: true
  }),
  open_sealed_values: tool({
    title: "Open an encrypted .env file (enters the model's context)",
    description:
      "Returns every value of a sealed file in plain text. For agents that run where the ampoule program cannot: otherwise use verify_encrypted_env or import_encrypted_env, which return none.",
    scopes: ["secrets:run", "secrets:read_values"],
    input: strict(Schema.Struct(sealedFile)),
    output: Schema.Struct({
      values: Schema.Record({ key: Schema.String, value: Schema.String }),
      activeKey: newerKey
    }),
    annotations: reads,
    plaintext: true
  })
} as const

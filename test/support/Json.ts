/**
 * JSON as tests read it: through a schema, so that a member that is not there fails where it is read. What
 * `JSON.parse` and `json()` answer is `unknown` (platform.d.ts).
 */
import * as Schema from "effect/Schema"
import { AuditEntry } from "#schema/Audit.ts"
import { optional } from "#schema/Strict.ts"

/** Text as the schema reads it; members that the schema does not name stay, in their order. */
export const parsed = <A, I>(schema: Schema.Schema<A, I>) => {
  const read = Schema.decodeUnknownSync(Schema.parseJson(schema), {
    onExcessProperty: "preserve",
    propertyOrder: "original"
  })
  return (text: string): A => read(text)
}

/** The body of an answer, of which the test needs so much. */
export const bodyOf = async <A, I>(schema: Schema.Schema<A, I>, response: Response): Promise<A> =>
  parsed(schema)(await response.text())

export const Texts = Schema.Array(Schema.String)

export const TextsByName = Schema.Record({ key: Schema.String, value: Schema.String })
export const AnyObject = Schema.Record({ key: Schema.String, value: Schema.Unknown })

const readFailure = parsed(
  Schema.Struct({
    error: Schema.Struct({ code: Schema.String, message: Schema.String, hint: optional(Schema.String) })
  })
)
/** Standard error of a failed command with `--json`. */
export const failureOf = (stderr: string) => readFailure(stderr).error

const readDocument = parsed(Schema.Struct({ paths: AnyObject }))
/** The paths of an OpenAPI document, as it is served. */
export const pathsOf = (document: object): ReadonlyArray<string> =>
  Object.keys(readDocument(JSON.stringify(document)).paths)

/** An entry as its row keeps it: of a long list of keys the hash (docs/contract/audit.md). */
const readEntry = Schema.decodeUnknownSync(
  Schema.parseJson(
    Schema.Struct({
      ...AuditEntry.fields,
      keyList: optional(Schema.String),
      rows: optional(Schema.Array(Schema.String))
    })
  ),
  { onExcessProperty: "error", propertyOrder: "original" }
)

/** A row of `audit_entries`, read whole: a member that the trail does not declare is a failure. */
export const auditEntry = ({ body }: { readonly body: string }) => readEntry(body)

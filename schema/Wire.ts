/**
 * Building blocks of response bodies: plain types, no refinements, open to what a later server adds
 * (docs/architecture.md, "The hot path", H9).
 */
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as AST from "effect/SchemaAST"

/**
 * An enumeration in a response. The document lists the values sent today; the program takes any text, so that a client
 * built today still reads an answer of a later server (docs/contract/README.md).
 */
export const openEnum = <const A extends string>(
  ...values: ReadonlyArray<A>
): Schema.Schema<A | (string & {}), string> =>
  Schema.make<A | (string & {}), string>(Schema.String.ast).annotations({
    jsonSchema: { type: "string", enum: [...values] }
  })

/**
 * A success with its status. Annotating a schema drops its name, which is the one in the document: it is said again.
 */
export const answers = <S extends Schema.Schema.Any>(status: 200 | 201 | 503, schema: S): S =>
  schema.annotations({
    ...HttpApiSchema.annotations({ status }),
    ...Option.match(AST.getIdentifierAnnotation(schema.ast), {
      onNone: () => ({}),
      onSome: (identifier) => ({ identifier })
    })
  }) as S

export const Integer = Schema.Number.annotations({ jsonSchema: { type: "integer" } })
export const Slug = Schema.String.annotations({ jsonSchema: { type: "string" }, description: "Environment slug." })
export const Key = Schema.String.annotations({ jsonSchema: { type: "string" }, description: "Secret key." })
export const Uuid = Schema.String.annotations({ jsonSchema: { type: "string", format: "uuid" } })
export const KindOut = openEnum("literal", "template")
export const RepresentationOut = openEnum("materialized", "source")
export const ScopeOut = openEnum(
  "identity:read",
  "projects:read",
  "secrets:read",
  "secrets:read_values",
  "secrets:write",
  "secrets:run",
  "audit:read"
)
export const RoleOut = openEnum("owner", "admin", "member", "viewer")
export const PlanOut = openEnum("developer", "team")
export const AccessLevelOut = openEnum("read", "write")

/** Who did something. A token is named, not its creator (docs/contract/audit.md). */
export const Actor = Schema.Struct({
  type: openEnum("user", "api_token", "cli_grant", "oauth_client", "system"),
  id: Schema.String,
  name: Schema.NullOr(Schema.String)
}).annotations({ identifier: "Actor", description: "Who did it." })
export type Actor = typeof Actor.Type

/** What narrows a credential below its teams; null = not narrowed. */
export const RestrictionsOut = Schema.Struct({
  projectIds: Schema.NullOr(Schema.Array(Uuid)),
  environmentIds: Schema.NullOr(Schema.Array(Uuid))
}).annotations({ identifier: "Restrictions" })

/** Members of every list that pages (docs/contract/secrets.md). */
export const pageFields = {
  page: Integer,
  pageSize: Integer,
  total: Integer,
  hasMore: Schema.Boolean
} as const

export const DeletedAck = Schema.Struct({ deleted: Schema.Boolean }).annotations({ identifier: "DeletedAck" })
export type DeletedAck = typeof DeletedAck.Type

/**
 * Building blocks of response bodies: plain types without refinements, open to members of later servers
 * (docs/architecture.md, "The hot path", H9).
 */
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as AST from "effect/SchemaAST"
import { AccessLevel, allScopes, Changes, GrantLevel, LeakRule, Plan, Readers, Role, Visibility } from "./Scopes.ts"
import { Representation, SecretKind } from "./Values.ts"

/** Text whose known values the document lists. With `enum`, clients would refuse values of later releases. */
export const openText = (values: ReadonlyArray<string>) =>
  ({ type: "string", "x-extensible-enum": [...values] }) as const

/**
 * Enumeration in a response. The document lists today's values. The program accepts any text, so that an older client
 * can read the response of a later server (docs/contract/README.md).
 */
export const openEnum = <const A extends string>(...values: ReadonlyArray<A>) => vocabulary({}, values)

/** `title` becomes its name in the document, unless a request has a closed enumeration of that name (OpenApi.ts). */
const vocabulary = <const A extends string>(
  named: { readonly title?: string },
  values: ReadonlyArray<A>
): Schema.Schema<A | (string & {}), string> =>
  Schema.make<A | (string & {}), string>(Schema.String.ast).annotations({
    jsonSchema: { ...openText(values), ...named }
  })

/** Success with its status. Annotating a schema drops its name in the document, so it is set again. */
export const answers = <S extends Schema.Schema.Any>(status: 200 | 201 | 202 | 503, schema: S): S =>
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
export const KindOut = vocabulary({ title: "SecretKind" }, SecretKind.literals)
export const RepresentationOut = vocabulary({ title: "Representation" }, Representation.literals)
export const ScopeOut = vocabulary({ title: "Scope" }, allScopes)
export const RoleOut = vocabulary({ title: "Role" }, Role.literals)
export const PlanOut = vocabulary({ title: "Plan" }, Plan.literals)
export const AccessLevelOut = vocabulary({ title: "AccessLevel" }, AccessLevel.literals)
export const GrantLevelOut = vocabulary({ title: "GrantLevel" }, GrantLevel.literals)
export const ReadersOut = vocabulary({ title: "Readers" }, Readers.literals)
export const VisibilityOut = vocabulary({ title: "Visibility" }, Visibility.literals)
export const ChangesOut = vocabulary({ title: "Changes" }, Changes.literals)
export const LeakRuleOut = vocabulary({ title: "LeakRule" }, LeakRule.literals)

/** Author of an action. A token counts as the author, not its creator (docs/contract/audit.md). */
export const Actor = Schema.Struct({
  type: openEnum("user", "api_token", "cli_grant", "oauth_client", "system"),
  id: Schema.String,
  name: Schema.NullOr(Schema.String)
}).annotations({ identifier: "Actor", description: "Author of the action." })
export type Actor = typeof Actor.Type

/** Limits of a credential within its teams; null = unrestricted. */
export const RestrictionsOut = Schema.Struct({
  projectIds: Schema.NullOr(Schema.Array(Uuid)),
  environmentIds: Schema.NullOr(Schema.Array(Uuid))
}).annotations({ identifier: "Restrictions" })

/** Members of every paged list (docs/contract/secrets.md). */
export const pageFields = {
  page: Integer,
  pageSize: Integer,
  total: Integer,
  hasMore: Schema.Boolean
} as const

export const DeletedAck = Schema.Struct({ deleted: Schema.Boolean }).annotations({ identifier: "DeletedAck" })
export type DeletedAck = typeof DeletedAck.Type

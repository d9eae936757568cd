/** One class per error code. It is thrown, matched by `_tag`, and is its own wire schema (docs/contract/errors.md). */
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as Data from "effect/Data"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as AST from "effect/SchemaAST"
import type * as Types from "effect/Types"
import type { YieldableError } from "effect/Cause"

/** Members of every error body. `field` is the dotted path of the offending member of the request. */
export interface ErrorBody<Code extends string> {
  readonly statusCode: number
  readonly code: Code
  readonly message: string
  readonly field?: string
}

/** Wire schemas of these members. `code` is missing, because each class has its own. */
export const members = {
  statusCode: Schema.Number.annotations({
    jsonSchema: { type: "integer", minimum: 400, maximum: 599, description: "The HTTP status, repeated." }
  }),
  message: Schema.String.annotations({ description: "For people; wording may change. Never repeats an input." }),
  field: Schema.String.annotations({ description: "The offending member of the request, as a dotted path." })
}

type Extra<F extends Schema.Struct.Fields> = Types.Simplify<Schema.Struct.Type<F>>

/** Members that the client library adds to the error of an answer. No body has them. */
interface Received {
  /** HTTP status of the answer. */
  readonly status: number
  /** Address of the server. */
  readonly address?: string
  /** `X-Request-Id` of the answer, which the server's log and trail have too. */
  readonly requestId?: string
}

export interface ApiErrorClass<Self, Code extends string, F extends Schema.Struct.Fields> extends Schema.Schema<
  Self,
  ErrorBody<Code> & Schema.Struct.Encoded<F>
> {
  new (
    props: keyof F extends never
      ? { readonly field?: string; readonly message?: string } | void
      : Extra<F> & { readonly field?: string; readonly message?: string }
  ): YieldableError & { readonly _tag: Code; readonly field?: string } & Received & Extra<F>
  readonly code: Code
  readonly status: number
  readonly sentence: string
  /** Members beyond the four common ones, in the order of the body. */
  readonly extra: F
}

/** Any error of the closed list (docs/contract/errors.md). */
export interface AnyApiError {
  readonly _tag: string
  readonly message: string
  readonly field?: string
  readonly constructor: Function
}

const marker = Symbol.for("ampoule/ApiError")

/**
 * `class SecretNotFound extends ApiError<SecretNotFound>()("SECRET_NOT_FOUND", 404, "No such secret.") {}`
 *
 * The message is a fixed sentence, so no error can repeat an input (docs/contract/errors.md). A caller may replace it
 * by another fixed sentence, never by text from a request.
 */
export const ApiError =
  <Self = never>() =>
  <const Code extends string, F extends Schema.Struct.Fields = {}>(
    code: Code,
    status: number,
    sentence: string,
    extra?: F
  ): ApiErrorClass<Self, Code, F> => {
    // Without `extra`, F is its default, the empty record.
    const fields: F = extra ?? ({} as F)
    const extraKeys = Object.keys(fields)
    const Base = Data.TaggedError(code)<{ readonly message: string; readonly field?: string }>

    const propsOf = (input: Record<string, unknown> | void): Record<string, unknown> => {
      const props: Record<string, unknown> = {}
      for (const key of ["message", "field", ...extraKeys]) if (input?.[key] !== undefined) props[key] = input[key]
      return props
    }

    class Generated extends Base {
      static readonly code = code
      static readonly status = status
      static readonly sentence = sentence
      static readonly extra = fields
      static readonly extraKeys: ReadonlyArray<string> = extraKeys
      readonly [marker] = true
      get status(): number {
        return status
      }
      constructor(props?: Record<string, unknown> | void) {
        super({ message: sentence, ...propsOf(props) })
      }
    }

    const Wire = Schema.Struct({
      statusCode: members.statusCode,
      code: Schema.Literal(code),
      message: members.message,
      field: Schema.optionalWith(members.field, { exact: true }),
      ...fields
    })

    let cached: Schema.Schema.Any | undefined
    const schemaOf = (self: typeof Generated): Schema.Schema.Any =>
      (cached ??= Schema.transform(
        Wire,
        Schema.declare((u): u is Generated => u instanceof self),
        {
          strict: false,
          decode: (body: Record<string, unknown>) => new self(body),
          encode: (error: Generated) => bodyOf(error)
        }
      ).annotations(HttpApiSchema.annotations({ status, identifier: code, description: sentence })))

    Object.defineProperty(Generated, "ast", {
      get(this: typeof Generated) {
        return schemaOf(this).ast
      }
    })
    // The result is a class and its own wire schema, which the type of `Object.assign` cannot express.
    return Object.assign(Generated, {
      [Schema.TypeId]: Schema.Void[Schema.TypeId],
      pipe: Schema.Void.pipe,
      annotations(
        this: { readonly ast: Schema.Schema.Any["ast"] },
        annotations: Schema.Annotations.GenericSchema<unknown>
      ) {
        return Schema.make(this.ast).annotations(annotations)
      }
    }) as unknown as ApiErrorClass<Self, Code, F>
  }

/** Codes of the errors in an error schema. */
export const codesOf = (ast: AST.AST): ReadonlyArray<string> =>
  AST.isUnion(ast) ? ast.types.flatMap(codesOf) : Option.toArray(AST.getIdentifierAnnotation(ast))

export const isApiError = (u: unknown): u is AnyApiError => typeof u === "object" && u !== null && marker in u

interface Statics {
  readonly code: string
  readonly status: number
  readonly extraKeys: ReadonlyArray<string>
}

/** Only the generated class sets the marker of `isApiError`, and it has these members. */
const staticsOf = (error: AnyApiError): Statics => error.constructor as unknown as Statics

export const statusOf = (error: AnyApiError): number => staticsOf(error).status

/** Body on the wire: the four fixed members, then the extra ones of the code. */
export const bodyOf = (error: AnyApiError): ErrorBody<string> & Record<string, unknown> => {
  const { code, extraKeys, status } = staticsOf(error)
  const body: Record<string, unknown> = {}
  // An error is an object with the extra members that its class declares.
  const source = error as unknown as Record<string, unknown>
  for (const key of extraKeys) if (source[key] !== undefined) body[key] = source[key]
  const { field, message } = error
  return { statusCode: status, code, message, ...(field === undefined ? {} : { field }), ...body }
}

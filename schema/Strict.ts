import * as Schema from "effect/Schema"

/**
 * Marks a request body or query as strict: an unknown member is a 400 that names it (docs/contract/errors.md,
 * docs/contract/errors.md).
 */
export const strict = <S extends Schema.Annotable.All>(schema: S): Schema.Annotable.Self<S> =>
  schema.annotations({ parseOptions: { onExcessProperty: "error" } }) as Schema.Annotable.Self<S>

/** A member that is absent when there is nothing to say, and never `undefined`. */
export const optional = <S extends Schema.Schema.All>(schema: S) => Schema.optionalWith(schema, { exact: true })

/** A change that changes nothing is refused; `field` names the first member that would have made one. */
export const atLeastOne = <A extends object, I, R>(
  schema: Schema.Schema<A, I, R>,
  ...members: ReadonlyArray<keyof A & string>
) =>
  schema.pipe(
    Schema.filter(
      (body) =>
        members.some((member) => body[member] !== undefined)
          ? undefined
          : { path: members.slice(0, 1), message: `must be given, or another of ${members.join(", ")}` },
      { jsonSchema: { minProperties: 1 } }
    )
  )

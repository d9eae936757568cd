import * as Schema from "effect/Schema"

/** Marks a request body or query as strict: an unknown member is a 400 that names it (docs/contract/errors.md). */
export const strict = <S extends Schema.Annotable.All>(schema: S): Schema.Annotable.Self<S> =>
  schema.annotations({ parseOptions: { onExcessProperty: "error" } }) as Schema.Annotable.Self<S>

/** A member that may be absent, but never `undefined`. */
export const optional = <S extends Schema.Schema.All>(schema: S) => Schema.optionalWith(schema, { exact: true })

/** Refuses a change without members; `field` names the first possible one. */
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

/**
 * Refuses two entries of a list with the same key; the error points to `member` of the later one. JSON Schema can only
 * express that no two entries are equal.
 */
export const eachOnce = <A, I, R>(
  schema: Schema.Schema<ReadonlyArray<A>, I, R>,
  of: (entry: A) => string,
  message: string,
  member?: string
) =>
  schema.pipe(
    Schema.filter(
      (entries): Schema.FilterOutput => {
        const seen = new Set<string>()
        const at = entries.findIndex((entry) => seen.size === seen.add(of(entry)).size)
        return at < 0 ? undefined : { path: member === undefined ? [at] : [at, member], message }
      },
      { jsonSchema: { uniqueItems: true } }
    )
  )

/**
 * JSON Schema of an object with at least these members. It declares them as required and allows others explicitly,
 * since some tools would report them.
 */
export const has = (properties: Readonly<Record<string, object>>) => ({
  required: Object.keys(properties),
  properties,
  unevaluatedProperties: true
})

/** JSON Schema: none of these members. */
export const hasNoneOf = (members: ReadonlyArray<string>) => {
  const [first, ...others] = members.map((member) => has({ [member]: {} }))
  return { not: others.length === 0 ? first : { anyOf: [first, ...others] } }
}

/**
 * JSON Schema: exactly one of these members. A filter needs it below `allOf`, beside which it would replace the rest.
 */
export const hasOneOf = ([first, ...others]: ReadonlyArray<string>): object =>
  others.length === 0
    ? has({ [String(first)]: {} })
    : {
        allOf: [
          { if: { not: has({ [String(first)]: {} }) }, else: hasNoneOf(others) },
          { if: has({ [String(first)]: {} }), else: hasOneOf(others) }
        ]
      }

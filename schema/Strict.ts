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

/**
 * Entries of a list of which no two mean the same, by `of`; `member` is where the error points to in the later one. A
 * document says it as far as JSON Schema can: no two entries are equal.
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
 * In a document: an object that has these members, whatever else it has. What is required is declared, and what else is
 * there is allowed in words, or tools take it for a mistake.
 */
export const has = (properties: Readonly<Record<string, object>>) => ({
  required: Object.keys(properties),
  properties,
  unevaluatedProperties: true
})

/** In a document: none of these members. */
export const hasNoneOf = (members: ReadonlyArray<string>) => {
  const [first, ...others] = members.map((member) => has({ [member]: {} }))
  return { not: others.length === 0 ? first : { anyOf: [first, ...others] } }
}

/** In a document: one of these members, and no two. A filter takes it below `allOf`: beside it, it would replace the rest. */
export const hasOneOf = ([first, ...others]: ReadonlyArray<string>): object =>
  others.length === 0
    ? has({ [String(first)]: {} })
    : {
        allOf: [
          { if: { not: has({ [String(first)]: {} }) }, else: hasNoneOf(others) },
          { if: has({ [String(first)]: {} }), else: hasOneOf(others) }
        ]
      }

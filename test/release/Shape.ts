/** Content of a schema of the OpenAPI documents, as lines that can be compared: names, types, values, bounds. */
import * as Schema from "effect/Schema"
import { AnyObject } from "#test/support/Json.ts"

export type Json = Readonly<Record<string, unknown>>
export const object = Schema.is(AnyObject)
export const objects = (value: unknown): ReadonlyArray<Json> =>
  Array.isArray(value) ? value.filter((one) => object(one)) : []
export const texts = (value: unknown): ReadonlyArray<string> => (Array.isArray(value) ? value.map(String) : [])
export const at = (value: unknown, ...path: ReadonlyArray<string>): unknown =>
  path.reduce<unknown>((found, name) => (object(found) ? found[name] : undefined), value)

export interface Shape {
  /** `name: type (format)`, `name = value` of a closed list, `name ~ value` of an open one, `name is open`. */
  readonly lines: Set<string>
  readonly required: Set<string>
  /** `name maxLength`: 255. Where there are alternatives, the loosest of them. */
  readonly bounds: Map<string, number | string>
}

const upper = ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"]
const lower = ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"]
/** More is looser, less is looser, or nobody can tell. */
export const kindOf = (keyword: string): "upper" | "lower" | "other" =>
  upper.includes(keyword) ? "upper" : lower.includes(keyword) ? "lower" : "other"

/** Bounds of a value of a type. */
const bounding: Readonly<Record<string, ReadonlyArray<string>>> = {
  string: ["minLength", "maxLength", "pattern"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
  array: ["minItems", "maxItems", "uniqueItems"],
  object: ["minProperties", "maxProperties"]
}

/** The type that a keyword is about; integers are numbers. */
export const typeOf = (keyword: string): string | undefined =>
  Object.entries(bounding).find(([, keywords]) => keywords.includes(keyword))?.[0]

/** A schema without references and combinations: one of the ways in which a value may look. */
interface Variant {
  readonly own: Json
  /** References that led here: none of them is followed again. */
  readonly refs: ReadonlyArray<string>
}

const bothOf = (one: Variant, other: Variant): Variant => {
  const properties = { ...(object(one.own["properties"]) ? one.own["properties"] : {}) }
  for (const [name, schema] of Object.entries(at(other.own, "properties") ?? {})) {
    properties[name] = name in properties ? { allOf: [properties[name], schema] } : schema
  }
  return {
    own: {
      ...one.own,
      ...other.own,
      properties,
      required: [...texts(one.own["required"]), ...texts(other.own["required"])]
    },
    refs: [...one.refs, ...other.refs]
  }
}

const variantsOf = (document: Json, schema: unknown, refs: ReadonlyArray<string>): ReadonlyArray<Variant> => {
  if (!object(schema)) return []
  const { $ref, allOf, anyOf, oneOf, ...own } = schema
  if (typeof $ref === "string" && refs.includes($ref)) return []
  const all = (schemas: unknown) => objects(schemas).flatMap((one) => variantsOf(document, one, refs))
  const parts = [
    ...(typeof $ref === "string"
      ? [variantsOf(document, at(document, ...$ref.slice(2).split("/")), [...refs, $ref])]
      : []),
    ...objects(allOf).map((one) => variantsOf(document, one, refs)),
    ...[anyOf, oneOf].filter((one) => Array.isArray(one)).map(all)
  ]
  return parts.reduce<ReadonlyArray<Variant>>(
    (found, part) => found.flatMap((one) => part.map((other) => bothOf(one, other))),
    [{ own, refs }]
  )
}

const typesOf = ({ own }: Variant): ReadonlyArray<string> => texts([own["type"] ?? []].flat())
const valuesOf = ({ own }: Variant): ReadonlyArray<string> | undefined =>
  Array.isArray(own["enum"]) ? texts(own["enum"]) : "const" in own ? [String(own["const"])] : undefined

/** The loosest of the alternatives; undefined: one of them has none. */
const loosest = (keyword: string, variants: ReadonlyArray<Variant>): number | string | undefined => {
  const constraints = variants.map(({ own }) => own[keyword])
  if (constraints.length === 0 || constraints.includes(undefined)) return undefined
  if (kindOf(keyword) === "other") return [...new Set(texts(constraints))].sort().join(" or ")
  const numbers = constraints.map(Number)
  return kindOf(keyword) === "upper" ? Math.max(...numbers) : Math.min(...numbers)
}

const describeValue = (variants: ReadonlyArray<Variant>, name: string, { bounds, lines }: Shape): void => {
  for (const variant of variants) {
    const format = typeof variant.own["format"] === "string" ? ` (${variant.own["format"]})` : ""
    for (const type of typesOf(variant)) lines.add(`${name}: ${type}${type === "null" ? "" : format}`)
    for (const value of texts(variant.own["x-extensible-enum"])) lines.add(`${name} ~ ${value}`)
  }
  const notNull = variants.filter((one) => typesOf(one).join() !== "null")
  const isInside = (type: string) => type === "object" || type === "array"
  const values = notNull.filter((one) => typesOf(one).length === 0 || !typesOf(one).every(isInside)).map(valuesOf)
  if (values.includes(undefined)) lines.add(`${name} is open`)
  else for (const value of values.flat()) lines.add(`${name} = ${String(value)}`)
  for (const [type, keywords] of Object.entries(bounding)) {
    const ofType = notNull.filter((one) => {
      const types = typesOf(one)
      return types.length === 0 || types.some((other) => other.replace("integer", "number") === type)
    })
    for (const keyword of keywords) {
      const bound = loosest(keyword, ofType)
      if (bound !== undefined) bounds.set(`${name} ${keyword}`, bound)
    }
  }
}

const describeVariants = (document: Json, variants: ReadonlyArray<Variant>, name: string, shape: Shape): void => {
  if (variants.length === 0) return
  describeValue(variants, name, shape)
  const below = (keyword: string) => variants.flatMap(({ own, refs }) => variantsOf(document, own[keyword], refs))
  const withMembers = variants.filter(({ own }) => own["properties"] !== undefined)
  const members = new Set(withMembers.flatMap(({ own }) => Object.keys(at(own, "properties") ?? {})))
  for (const member of members) {
    const path = name === "" ? member : `${name}.${member}`
    // A member that one alternative requires may be optional in another.
    if (withMembers.every(({ own }) => texts(own["required"]).includes(member))) shape.required.add(path)
    const schemas = withMembers.flatMap(({ own, refs }) => variantsOf(document, at(own, "properties", member), refs))
    describeVariants(document, schemas, path, shape)
  }
  describeVariants(document, below("items"), `${name}[]`, shape)
  describeVariants(document, below("additionalProperties"), `${name}.*`, shape)
}

/** Every member that a schema describes, as `name.of[].member`; a schema inside itself is not followed again. */
export const shapeOf = (document: Json, schema: unknown, name: string): Shape => {
  const shape: Shape = { lines: new Set(), required: new Set(), bounds: new Map() }
  describeVariants(document, variantsOf(document, schema, []), name, shape)
  return shape
}

/** Schemas of an OpenAPI document as tables in Markdown. */

/** Members of JSON Schema that our documents use. */
export interface ApiSchema {
  readonly $ref?: string
  readonly type?: string | ReadonlyArray<string>
  readonly format?: string
  readonly description?: string
  readonly enum?: ReadonlyArray<unknown>
  readonly "x-extensible-enum"?: ReadonlyArray<unknown>
  readonly const?: unknown
  readonly default?: unknown
  readonly pattern?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly items?: ApiSchema
  readonly properties?: Readonly<Record<string, ApiSchema>>
  readonly required?: ReadonlyArray<string>
  readonly additionalProperties?: boolean | ApiSchema
  readonly allOf?: ReadonlyArray<ApiSchema>
  readonly anyOf?: ReadonlyArray<ApiSchema>
  readonly oneOf?: ReadonlyArray<ApiSchema>
}

const refPrefix = "#/components/schemas/"
const nameOf = ($ref: string) => $ref.slice(refPrefix.length)

/** A cell of a table holds no line break and no bar. */
export const cell = (text: string): string =>
  text
    .split("\n")
    .map((line) => line.trim())
    .join(" ")
    .replaceAll("|", "\\|")

/** A pattern longer than this says less than its description (characters). */
const maxPattern = 60

const span = (low: number | undefined, high: number | undefined, unit: string): string | undefined => {
  if (low === undefined && high === undefined) return undefined
  if (low === undefined) return `at most ${high}${unit}`
  return high === undefined ? `at least ${low}${unit}` : `${low} to ${high}${unit}`
}

const choices = (label: string, values: ReadonlyArray<unknown> | undefined) =>
  values === undefined ? undefined : `${label} ${values.map((value) => `\`${String(value)}\``).join(", ")}`

/** Limits and description of a value, as one line. */
export const notesOf = (schema: ApiSchema): string =>
  [
    schema.description,
    choices("One of", schema.enum),
    choices("Today one of", schema["x-extensible-enum"]),
    schema.const === undefined ? undefined : `Always \`${String(schema.const)}\``,
    span(schema.minLength, schema.maxLength, " characters"),
    span(schema.minimum, schema.maximum, ""),
    span(schema.minItems, schema.maxItems, " items"),
    schema.pattern === undefined || schema.format !== undefined || schema.pattern.length > maxPattern
      ? undefined
      : `matches \`${schema.pattern}\``,
    schema.default === undefined ? undefined : `default \`${String(schema.default)}\``
  ]
    .filter((note) => note !== undefined && note !== "")
    .join("; ")

/** Type of a value, with links to `schemas`, the path of the page that has them. */
export const typeOf = (schema: ApiSchema, schemas: string): string => {
  if (schema.$ref !== undefined) return `[${nameOf(schema.$ref)}](${schemas}#${nameOf(schema.$ref).toLowerCase()})`
  if (schema.items !== undefined) return `array of ${typeOf(schema.items, schemas)}`
  const parts = schema.anyOf ?? schema.oneOf ?? schema.allOf
  if (parts !== undefined && schema.properties === undefined) {
    const joined = schema.allOf === undefined ? " or " : " and "
    return [...new Set(parts.map((part) => typeOf(part, schemas)))].join(joined)
  }
  if (schema.properties === undefined && typeof schema.additionalProperties === "object") {
    return `record of ${typeOf(schema.additionalProperties, schemas)}`
  }
  const { type = "any" } = schema
  const name = typeof type === "string" ? type : type.join(" or ")
  return schema.format === undefined ? name : `${name} (${schema.format})`
}

/** Members of an object, those of its parts included. */
const membersOf = (schema: ApiSchema): ReadonlyArray<readonly [name: string, member: ApiSchema, required: boolean]> => [
  ...Object.entries(schema.properties ?? {}).map(
    ([name, member]) => [name, member, schema.required?.includes(name) === true] as const
  ),
  ...(schema.allOf ?? []).flatMap(membersOf)
]

/** One schema: its description, and a table of its members. */
export const schemaText = (schema: ApiSchema, schemas: string): string => {
  const members = membersOf(schema)
  const strict = schema.additionalProperties === false ? " No other members are accepted." : ""
  const parts = (schema.allOf ?? []).filter(({ $ref }) => $ref !== undefined).map((part) => typeOf(part, schemas))
  const first = `${schema.description ?? ""}${strict}`.trim()
  if (members.length === 0) {
    const notes = notesOf({ ...schema, description: undefined as never })
    return [first, `Type: ${typeOf(schema, schemas)}${notes === "" ? "" : `. ${notes}`}.`].filter(Boolean).join("\n\n")
  }
  const rows = members.map(
    ([name, member, required]) =>
      `| \`${name}\`${required ? "" : "?"} | ${typeOf(member, schemas)} | ${cell(notesOf(member))} |`
  )
  return [
    first,
    parts.length === 0 ? "" : `Has the members of ${parts.join(", ")}, and these:`,
    ["| member | type | notes |", "|---|---|---|", ...rows].join("\n")
  ]
    .filter((part) => part !== "")
    .join("\n\n")
}

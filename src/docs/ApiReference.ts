/** The API reference: Markdown pages made from the OpenAPI documents, one for each group of routes. */
import { type ApiSchema, cell, notesOf, schemaText, typeOf } from "./ApiSchemas.ts"

interface Media {
  readonly schema?: ApiSchema
  readonly example?: unknown
}
interface Body {
  readonly description?: string
  readonly required?: boolean
  readonly content?: Readonly<Record<string, Media>>
  readonly "x-error-codes"?: ReadonlyArray<string>
}
interface Operation {
  readonly operationId: string
  readonly tags?: ReadonlyArray<string>
  readonly summary?: string
  readonly description?: string
  readonly security?: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly "x-cli-scope"?: string
  readonly parameters?: ReadonlyArray<{
    readonly name: string
    readonly in: string
    readonly required?: boolean
    readonly description?: string
    readonly schema: ApiSchema
  }>
  readonly requestBody?: Body
  readonly responses: Readonly<Record<string, Body>>
}

/** Members of an OpenAPI document that the reference uses. */
export interface ApiDocument {
  readonly info: { readonly title: string; readonly description?: string }
  readonly tags: ReadonlyArray<{ readonly name: string; readonly description?: string }>
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, ApiSchema>>
    readonly securitySchemes: Readonly<
      Record<string, { readonly description?: string; readonly bearerFormat?: string; readonly name?: string }>
    >
  }
}

export interface ApiPage {
  /** Path from the root of the repository, as if the page were a file. */
  readonly file: string
  readonly title: string
  readonly summary: string
  readonly text: string
}

/** Pages are linked as if they were files of this folder. */
const folder = "docs/api"

interface Call {
  readonly method: string
  readonly path: string
  readonly operation: Operation
}

const callsOf = ({ paths }: ApiDocument): ReadonlyArray<Call> =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation }))
  )

const kebab = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
/** Spellings of words that are no plain words. */
const spellings: ReadonlyMap<string, string> = new Map([
  ["api", "API"],
  ["cli", "CLI"],
  ["mcp", "MCP"],
  ["oauth", "OAuth"]
])
/** `apiTokens`: "API tokens". */
const words = (name: string): string => {
  const [first = "", ...rest] = kebab(name).split("-")
  const start = spellings.get(first) ?? `${first.charAt(0).toUpperCase()}${first.slice(1)}`
  return [start, ...rest].join(" ")
}
const json = (value: unknown) => `\`\`\`json\n${JSON.stringify(value, undefined, 2)}\n\`\`\``
const titleOf = ({ method, operation, path }: Call) => operation.summary ?? `${method} ${path}`

const credentials = (operation: Operation, { components }: ApiDocument): string => {
  const names = (operation.security ?? []).flatMap((one) => Object.keys(one))
  if (names.length === 0) return "**Credential.** None."
  const listed = names.map((name) => {
    const { bearerFormat, name: cookie } = components.securitySchemes[name] ?? {}
    const form = bearerFormat === undefined ? `cookie \`${cookie ?? ""}\`` : `\`${bearerFormat}\``
    return `${words(name)} (${form})`
  })
  const scope = operation["x-cli-scope"]
  const needs = scope === undefined || scope === "none" ? "" : ` A CLI grant needs the scope \`${scope}\`.`
  return `**Credential.** ${listed.join(", ")}.${needs}`
}

const parameterTable = ({ parameters = [] }: Operation, schemas: string): string => {
  if (parameters.length === 0) return ""
  const rows = parameters.map(({ description, in: place, name, required, schema }) => {
    const notes = [description, notesOf(schema)].filter(Boolean).join("; ")
    return `| \`${name}\`${required === true ? "" : "?"} | ${place} | ${typeOf(schema, schemas)} | ${cell(notes)} |`
  })
  return ["| parameter | in | type | notes |", "|---|---|---|---|", ...rows].join("\n")
}

const mediaText = (label: string, body: Body, schemas: string): ReadonlyArray<string> => {
  const entries = Object.entries(body.content ?? {})
  if (entries.length === 0) return [`**${label}.** ${body.description ?? "No body."}`]
  return entries.flatMap(([contentType, { example, schema }]) => {
    const type = schema === undefined ? "" : `: ${typeOf(schema, schemas)}`
    const other = contentType === "application/json" ? "" : ` (\`${contentType}\`)`
    const words = body.description === undefined ? "" : `. ${body.description}`
    return [`**${label}**${other}${type}${words}`, ...(example === undefined ? [] : [json(example)])]
  })
}

const failures = ({ responses }: Operation): string => {
  const rows = Object.entries(responses).flatMap(([status, { "x-error-codes": codes = [] }]) =>
    codes.length === 0 ? [] : [`| ${status} | ${codes.map((code) => `\`${code}\``).join(", ")} |`]
  )
  return rows.length === 0 ? "" : ["| failure | codes |", "|---|---|", ...rows].join("\n")
}

const operationText = (call: Call, document: ApiDocument, schemas: string): string => {
  const { method, operation, path } = call
  const results = Object.entries(operation.responses).filter(([, { "x-error-codes": codes }]) => codes === undefined)
  return [
    `## ${titleOf(call)}`,
    `\`\`\`http\n${method} ${path}\n\`\`\``,
    operation.description ?? "",
    credentials(operation, document),
    parameterTable(operation, schemas),
    ...(operation.requestBody === undefined ? [] : mediaText("Body", operation.requestBody, schemas)),
    ...results.flatMap(([status, body]) => mediaText(`Response ${status}`, body, schemas)),
    failures(operation)
  ]
    .filter((part) => part !== "")
    .join("\n\n")
}

/** A page for each tag, and one with the schemas. `schemas`: name of that page's file. */
const pagesOf = (document: ApiDocument, schemas: { readonly name: string; readonly title: string }) => {
  const file = `${schemas.name}.md`
  const calls = callsOf(document)
  const groups: ReadonlyArray<ApiPage> = document.tags.map(({ description = "", name }) => {
    const own = calls.filter(({ operation }) => operation.tags?.includes(name) === true)
    const text = own.map((call) => operationText(call, document, file)).join("\n\n")
    const title = words(name)
    return {
      file: `${folder}/${kebab(name)}.md`,
      title,
      summary: description,
      text: `# ${title}\n\n${description}\n\n${text}\n`
    }
  })
  const sections = Object.entries(document.components.schemas)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, schema]) => `## ${name}\n\n${schemaText(schema, file)}`)
  const summary = "every body by name; a `?` marks an optional member."
  const last: ApiPage = {
    file: `${folder}/${file}`,
    title: schemas.title,
    summary,
    text: `# ${schemas.title}\n\nBodies of requests and responses by name. A \`?\` marks an optional member.\n\n${sections.join("\n\n")}\n`
  }
  return [...groups, last]
}

const overview = (contract: ApiDocument, dashboard: ApiDocument): ApiPage => {
  const schemes = Object.entries(contract.components.securitySchemes).map(
    ([name, { bearerFormat, description = "", name: cookie = "" }]) =>
      `| ${words(name)} | ${bearerFormat === undefined ? `cookie \`${cookie}\`` : `\`Authorization: Bearer ${bearerFormat}\``} | ${cell(description)} |`
  )
  const lists = [contract, dashboard].map((document) =>
    document.tags
      .map(({ name }) => {
        const rows = callsOf(document)
          .filter(({ operation }) => operation.tags?.includes(name) === true)
          .map(({ method, operation, path }) => `| \`${method} ${path}\` | ${cell(operation.summary ?? "")} |`)
        const table = ["| route | does |", "|---|---|", ...rows].join("\n")
        return `### [${words(name)}](api/${kebab(name)}.md)\n\n${table}`
      })
      .join("\n\n")
  )
  const [ofContract = "", ofDashboard = ""] = lists
  return {
    file: `${folder}.md`,
    title: "API reference",
    summary: "every route, with parameters, bodies, examples and error codes.",
    text: [
      "# API reference",
      contract.info.description ?? "",
      "These pages are made from the OpenAPI documents that this server publishes: `/openapi.json` for the contract, `/dashboard/openapi.json` for routes of the dashboard.",
      "## Credentials",
      ["| credential | sent as | meaning |", "|---|---|---|", ...schemes].join("\n"),
      "## Routes of the contract",
      ofContract,
      "## Routes of the dashboard",
      "They need a session of a signed-in person, or a management session of the command line.",
      ofDashboard,
      ""
    ].join("\n\n")
  }
}

/** Groups of the navigation: the contract, then the routes of the dashboard. */
export const apiGroups = (contract: ApiDocument, dashboard: ApiDocument) => [
  {
    name: "API reference",
    pages: [overview(contract, dashboard), ...pagesOf(contract, { name: "schemas", title: "Schemas" })]
  },
  {
    name: "API of the dashboard",
    pages: pagesOf(dashboard, { name: "dashboard-schemas", title: "Schemas of the dashboard" })
  }
]

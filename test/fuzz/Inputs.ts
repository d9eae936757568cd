/** Requests: as the documents allow them, with one thing wrong, or hostile as a whole. */
import { gzipSync } from "node:zlib"
import { parsed, TextsByName } from "#test/support/Json.ts"
import type { Dice } from "./Dice.ts"
import type { Json, Operation, Schema } from "./Documents.ts"

/** JSON text that JSON.stringify would not write. */
class Raw {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}
type Tree = null | boolean | number | string | Raw | ReadonlyArray<Tree> | { readonly [member: string]: Tree }

const write = (tree: Tree | undefined): string => {
  if (tree instanceof Raw) return tree.text
  if (Array.isArray(tree)) return `[${tree.map(write).join(",")}]`
  if (typeof tree === "object" && tree !== null) {
    return `{${Object.entries(tree)
      .map(([name, member]) => `${JSON.stringify(name)}:${write(member)}`)
      .join(",")}}`
  }
  return JSON.stringify(tree) ?? "null"
}

export interface Request {
  readonly method: string
  readonly path: string
  readonly query: ReadonlyArray<readonly [name: string, value: string]>
  /** The text behind the question mark; takes the place of `query`. */
  readonly search?: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Buffer
}

/** Existing things, by the name under which requests ask for them. */
export interface Known {
  readonly pools: Readonly<Record<string, ReadonlyArray<string>>>
  /** One place where most things are: requests that go there together find something. */
  readonly home: Readonly<Record<string, string>>
}

/**
 * Texts that are recognized in every output. `text`: must not come back in any refusal. `secret`: in
 * values and passwords, must not come back at all but where values are asked for.
 */
export interface Marks {
  readonly text: string
  readonly secret: string
}

export const secretMark = /sVq7[0-9a-z]+Zx/

const uuid = "0123456789abcdef"
const randomUuid = (dice: Dice) => {
  const hex = (length: number) => Array.from({ length }, () => dice.pick([...uuid])).join("")
  return `${hex(8)}-${hex(4)}-7${hex(3)}-a${hex(3)}-${hex(12)}`
}

const keys = ["BASE", "DEPENDENT", "A", "B", "C", "D", "E", "F_1", "LONG_NAME_OF_A_KEY"]
const slugs = ["development", "staging", "production", "preview", "copy-1"]

/** `name` of a member to the pool that it is taken from. */
const poolOf: Record<string, string> = {
  environments: "environment",
  sourceEnv: "environment",
  targetEnv: "environment",
  environmentId: "envId",
  environmentIds: "envId",
  projectIds: "projectId",
  projects: "projectId",
  ids: "secretId"
}

const secretNames = new Set(["value", "source", "password", "newPassword", "currentPassword"])

const secretText = (dice: Dice, marks: Marks) =>
  dice.weighted<() => string>([
    [6, () => marks.secret],
    [2, () => `${marks.secret}\${${dice.pick(keys)}}`],
    [1, () => `$\${${marks.secret}}\${A}`],
    [1, () => `${marks.secret}\${B}\${B}\${C}`],
    [1, () => ""],
    [1, () => `${marks.secret}\u0000\u{1f600}\r\n\ufeff\u202e`],
    [0.2, () => marks.secret + "x".repeat(65_536 - marks.secret.length)],
    [0.1, () => marks.secret + "\u{1f511}".repeat(65_536 - marks.secret.length)]
  ])()

/** A value that the schema allows, from what exists where the name of the member says what it is. */
const valid = (dice: Dice, known: Known, marks: Marks, operation: Operation, given: Schema, name: string): Tree => {
  const schema = operation.resolve(given)
  const at = poolOf[name] ?? name
  const pool = known.pools[at]
  const inPool = (): string | undefined => {
    if (known.home[at] !== undefined && dice.chance(0.6)) return known.home[at]
    return pool !== undefined && pool.length > 0 && dice.chance(0.95) ? dice.pick(pool) : undefined
  }
  if (schema.const !== undefined) return schema.const as Tree
  if (schema.enum !== undefined) return dice.pick(schema.enum) as Tree
  if (schema.anyOf !== undefined) return valid(dice, known, marks, operation, dice.pick(schema.anyOf), name)
  switch (schema.type) {
    case "null":
      return null
    case "boolean":
      return dice.chance(0.5)
    case "integer":
    case "number": {
      const least = schema.minimum ?? 0
      return dice.weighted([
        [6, least + dice.below(3)],
        [1, least],
        [0.5, schema.maximum ?? least]
      ])
    }
    case "array": {
      const least = schema.minItems ?? 0
      const count = Math.min(schema.maxItems ?? 4, dice.chance(0.02) ? (schema.maxItems ?? 4) : least + dice.below(3))
      const items = schema.items ?? {}
      return Array.from({ length: count }, () => valid(dice, known, marks, operation, items, name))
    }
    case "object": {
      const out: Record<string, Tree> = {}
      for (const [member, inner] of Object.entries(schema.properties ?? {})) {
        if (schema.required?.includes(member) === true || dice.chance(0.45)) {
          out[member] = valid(dice, known, marks, operation, inner, member)
        }
      }
      if (typeof schema.additionalProperties === "object") {
        const sealed = known.pools["entries"] ?? []
        if (name === "entries" && sealed.length > 0 && dice.chance(0.8)) return parsed(TextsByName)(dice.pick(sealed))
        const member = name === "entries" ? dice.pick(keys) : "repository"
        out[member] = valid(dice, known, marks, operation, schema.additionalProperties, name)
      }
      return out
    }
    default: {
      if (/^(?:p|currentP)assword$/.test(name) && dice.chance(0.5)) return known.home["password"] ?? ""
      if (secretNames.has(name)) {
        return schema.minLength === undefined ? secretText(dice, marks) : `${marks.secret} battery`
      }
      const value = inPool()
      if (value !== undefined) return value
      if (name === "key") return dice.pick(keys)
      if (at === "environment") return dice.pick(slugs)
      if (name === "slug") return `e-${dice.below(1000)}`
      if (schema.format === "uuid") return randomUuid(dice)
      if (schema.format === "email") return `p${dice.below(50)}@example.com`
      if (schema.pattern === "^ek_[0-9a-f]{8}$") return "ek_01234567"
      if (schema.format === "date") return dice.pick(["2020-02-29", "2031-12-31"])
      if (schema.format === "date-time") return dice.pick(["2026-01-02T03:04:05.678Z", "2020-02-29T00:00:00Z"])
      if (schema.pattern === "^[\\x21-\\x7e]+$") return marks.text
      if (name === "cursor") return "AAAA"
      const longest = schema.maxLength ?? 40
      return dice.weighted<() => string>([
        [8, () => `${marks.text} ü`.slice(0, longest)],
        [1, () => marks.text.padEnd(longest, "a").slice(0, longest)],
        [1, () => "\u{1f600}".repeat(Math.min(longest, 300))]
      ])()
    }
  }
}

/** Wrong or strange as text. */
const strangeTexts = (marks: Marks): ReadonlyArray<string> => [
  "",
  " ",
  `${marks.text}\u0000`,
  `${marks.text}\ud800`,
  `\udfff${marks.text}`,
  `\ufeff${marks.text}`,
  `${marks.text}\u202e\u200b`,
  `${marks.text}\r\nSet-Cookie: a=b`,
  `<script>${marks.text}</script>`,
  `'; DROP TABLE secrets; -- ${marks.text}`,
  `\${${marks.text}}`,
  "${A}${B}${A}",
  "${",
  "$${",
  `../../${marks.text}`,
  "%00%2e%2e",
  "__proto__",
  "constructor",
  "null",
  "undefined",
  "NaN",
  "0",
  "-1",
  "1e309",
  "01",
  " 1",
  "1 ",
  "0x1f",
  "9007199254740993",
  "true",
  "[]",
  "\u{1f600}".repeat(51),
  "\u{1f600}".repeat(256),
  "a".repeat(51),
  "a".repeat(101),
  "A".repeat(256),
  "e\u0301".repeat(60),
  marks.text.repeat(300)
]

const strangeUuids = (uuid: string): ReadonlyArray<string> => [
  uuid.toUpperCase(),
  `{${uuid}}`,
  `${uuid}\n`,
  ` ${uuid}`,
  uuid.replaceAll("-", ""),
  uuid.slice(0, -1),
  `${uuid}0`,
  "00000000-0000-0000-0000-000000000000",
  "ffffffff-ffff-ffff-ffff-ffffffffffff",
  "00000000-0000-9000-8000-000000000000",
  `urn:uuid:${uuid}`
]

const strangeNumbers: ReadonlyArray<Tree> = [
  0,
  -1,
  new Raw("-0"),
  0.5,
  1e-7,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 53,
  new Raw("9007199254740993"),
  new Raw("1e309"),
  new Raw("1E2"),
  new Raw("1.0"),
  new Raw(`1${"0".repeat(400)}`),
  "1",
  501,
  10_001
]

const strangeTrees = (dice: Dice, marks: Marks): Tree =>
  dice.pick<Tree>([
    null,
    true,
    false,
    [],
    {},
    "",
    [null],
    { a: marks.text },
    new Raw('{"__proto__":{"isAdmin":true}}'),
    new Raw("[".repeat(200) + "]".repeat(200)),
    new Raw(`{"a":${"[".repeat(5000)}${"]".repeat(5000)}}`),
    ...strangeNumbers
  ])

const isObject = (tree: Tree): tree is { readonly [member: string]: Tree } =>
  typeof tree === "object" && tree !== null && !Array.isArray(tree) && !(tree instanceof Raw)

/** One thing of the tree changed. */
const mutated = (dice: Dice, marks: Marks, tree: Tree): Tree => {
  if (isObject(tree)) {
    const names = Object.keys(tree)
    if (names.length > 0 && dice.chance(0.75)) {
      const name = dice.pick(names)
      const rest = { ...tree }
      return dice.weighted<() => Tree>([
        [
          1,
          () => {
            delete rest[name]
            return rest
          }
        ],
        [5, () => ({ ...rest, [name]: mutated(dice, marks, tree[name]) })],
        [1, () => ({ ...rest, [name]: strangeTrees(dice, marks) })],
        [0.5, () => ({ ...rest, [name]: [tree[name]] })]
      ])()
    }
    const extra = dice.pick([`u${marks.text}`, "constructor", "toString", "", "id", "teamId", "$ref", "a.b", "value"])
    return dice.chance(0.15)
      ? new Raw(`{"__proto__":{"isAdmin":true},${write(tree).slice(1)}`.replace(",}", "}"))
      : { ...tree, [extra]: dice.pick<Tree>([null, 1, marks.text, {}]) }
  }
  if (Array.isArray(tree)) {
    return dice.weighted<() => Tree>([
      [3, () => (tree.length === 0 ? [null] : tree.map((one, i) => (i === 0 ? mutated(dice, marks, one) : one)))],
      [1, () => []],
      [1, () => [...tree, ...tree]],
      [0.3, () => Array.from({ length: 1001 }, (_, i) => tree[i % Math.max(1, tree.length)] ?? null)],
      [0.5, () => [...tree, strangeTrees(dice, marks)]]
    ])()
  }
  if (typeof tree === "number") return dice.pick([tree - 1, tree + 1, -tree, tree + 0.5, ...strangeNumbers])
  if (typeof tree === "string") {
    if (/^[0-9a-f]{8}-/.test(tree) && dice.chance(0.5)) return dice.pick(strangeUuids(tree))
    return dice.chance(0.15) ? strangeTrees(dice, marks) : dice.pick(strangeTexts(marks))
  }
  return strangeTrees(dice, marks)
}

const encode = (text: string) => encodeURIComponent(text.toWellFormed())

/** No name is ever asked for over the network, and no host but this one called: an address is ours or it is none. */
const harmless = (text: string, receiver: string) =>
  text.replace(/https?:\/\/[^"\\\s]*/gi, (url) => (url.startsWith(receiver) ? url : receiver))

const strangeHeaders = (dice: Dice, marks: Marks): Readonly<Record<string, string>> =>
  dice.pick<Readonly<Record<string, string>>>([
    { "idempotency-key": "" },
    { "idempotency-key": "k".repeat(256) },
    { "idempotency-key": `${marks.text}\u00ff` },
    { "idempotency-key": `k${dice.below(5)}` },
    { "if-none-match": "*" },
    { "if-none-match": `W/"${marks.text}", "b"` },
    { "if-none-match": `"${"a".repeat(4000)}"` },
    { accept: "text/html" },
    { accept: `application/${marks.text}` },
    { "accept-encoding": "gzip, br;q=0" },
    { "content-type": "text/plain" },
    { "content-type": "application/json; charset=utf-16" },
    { "content-type": "application/json; charset=utf-8" },
    { "content-type": `application/${marks.text}+json` },
    { "content-type": "multipart/form-data; boundary=x" },
    { "content-type": "" },
    { "content-encoding": "gzip" },
    { "content-length": "0" },
    { expect: "100-continue" },
    { origin: `https://${marks.text}.invalid` },
    { origin: "null" },
    { "sec-fetch-site": "cross-site" },
    { "x-forwarded-for": `${marks.text}, 1.2.3.4` },
    { "x-forwarded-host": marks.text },
    { "x-http-method-override": "DELETE" },
    { "x-request-id": marks.text },
    { traceparent: "00-00000000000000000000000000000000-0000000000000000-00" },
    { traceparent: marks.text },
    { range: "bytes=0-1" },
    { host: `${marks.text}.invalid` },
    { host: "" },
    { cookie: `ampoule_session=${marks.text}; ampoule_session=x; =; ;;` },
    { cookie: `a=%ff; ampoule_session="${marks.text}` },
    { authorization: "Bearer" },
    { authorization: `Basic ${marks.text}` },
    { authorization: `Bearer ${marks.text}` },
    { authorization: `Bearer amp_at_${marks.text}` },
    { authorization: `Bearer ${"a".repeat(9000)}` },
    { "user-agent": `${marks.text}\u00e9`.repeat(60) },
    { "mcp-protocol-version": marks.text },
    { "mcp-session-id": marks.text },
    { "x-large": "a".repeat(12_000) }
  ])

const strangeSearches = (marks: Marks, search: string): ReadonlyArray<string> => [
  `${search}&${search}`,
  `${search}&u${marks.text}=1`,
  `${search}&page[]=1`,
  `${search}&page=1&page=2`,
  `${search}&page=%31`,
  `${search}&page=1;pageSize=2`,
  `${search}&pageSize=0`,
  `${search}&pageSize=501`,
  `${search}&page=10001`,
  `${search}&page=1e1`,
  `${search}&page=+1`,
  `${search}&page=`,
  `${search}&=`,
  `${search}&&&`,
  `${search}&%`,
  `${search}&a=%zz`,
  `${search}&a=%ff%fe`,
  `${search}&a=%00`,
  `${search}&__proto__=1`,
  `${search}&__proto__[x]=1`,
  `${search}&constructor=1`,
  `${search}&x=${marks.text.repeat(400)}`,
  search.replace("=", "=%00"),
  search.replace("=", `=${marks.text}`),
  search.replace("=", ""),
  search.slice(0, Math.floor(search.length / 2)),
  `?${search}`,
  `${search}#${marks.text}`
]

const strangePaths = (marks: Marks, path: string): ReadonlyArray<string> => [
  `${path}/`,
  `/${path}`,
  `${path}/..`,
  `${path}/../..${path}`,
  `${path}%2f..`,
  `${path}%00`,
  `${path}%ff`,
  `${path}%`,
  `${path};${marks.text}`,
  `${path}/${marks.text}`,
  path.toUpperCase(),
  path.replace(/[a-z]/, (letter) => `%${letter.charCodeAt(0).toString(16)}`),
  path.replace(/[^/]+$/, marks.text),
  path.replace(/[^/]+$/, "%F0%9F%98%80"),
  path.replace(/[^/]+$/, "a".repeat(3000)),
  path.replace(/[0-9a-f-]{36}/, "undefined"),
  path.replace(/[0-9a-f-]{36}/, (id) => id.toUpperCase()),
  path.replace(/[0-9a-f-]{36}/, `${marks.text}%0a`),
  `http://${marks.text}.invalid${path}`,
  "*",
  "/",
  `/.well-known/${marks.text}`
]

const strangeBodies = (dice: Dice, marks: Marks, body: string): string | Buffer =>
  dice.weighted<() => string | Buffer>([
    [1, () => ""],
    [1, () => " \n"],
    [1, () => body.slice(0, dice.below(body.length + 1))],
    [1, () => `${body}${marks.text}`],
    [1, () => `\ufeff${body}`],
    [1, () => `[${body},${body}]`],
    [1, () => marks.text],
    [1, () => `"${marks.text}"`],
    [1, () => "null"],
    [1, () => "1e309"],
    [1, () => body.replace("{", `{"${marks.text}":1,`)],
    [1, () => (/^\{"([^"]+)":/.test(body) ? body.replace(/^\{("[^"]+":)/, `{$1null,$1`) : body)],
    [1, () => body.replaceAll('"', "'")],
    [1, () => Buffer.from(body, "utf16le")],
    [1, () => Buffer.concat([Buffer.from(body), Buffer.of(0xff, 0xfe, 0xc0, 0x80)])],
    [1, () => gzipSync(body)],
    [0.3, () => "[".repeat(100_000)],
    [0.3, () => `{"a":`.repeat(20_000) + "1" + "}".repeat(20_000)],
    [0.1, () => `{"${marks.text}":"${"x".repeat(1_100_000)}"}`],
    [0.3, () => `[${"0,".repeat(50_000)}0]`],
    [0.3, () => `{${Array.from({ length: 5000 }, (_, i) => `"k${i}":1`).join(",")}}`]
  ])()

export type Phase = "valid" | "mutated" | "hostile"
export const phases: ReadonlyArray<readonly [weight: number, phase: Phase]> = [
  [45, "valid"],
  [42, "mutated"],
  [13, "hostile"]
]

const mcpCalls = ["tools/list", "tools/call", "initialize", "ping", "resources/list", "prompts/list", "x"]
const mcpTools = ["list_projects", "list_secrets", "get_secret_value", "whoami", "set_secret", "diff_environments"]

/** A message for /mcp, whose schema in the document says no more than that it is JSON-RPC. */
const mcpMessage = (dice: Dice, known: Known, marks: Marks): Tree => ({
  jsonrpc: "2.0",
  id: dice.below(100),
  method: dice.pick(mcpCalls),
  params: dice.pick<Tree>([
    {},
    {
      name: dice.pick(mcpTools),
      arguments: { project: known.home["projectId"] ?? "", environment: dice.pick(slugs), key: "A" }
    },
    { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: marks.text, version: "1" } }
  ])
})

export interface Made {
  readonly request: Request
  /** Something of it is not as the documents allow: it must not be answered with success. */
  readonly refusable: boolean
  /** Path or method are not the operation's any more: another one, or none, may answer. */
  readonly elsewhere: boolean
}

export const make = (
  dice: Dice,
  operation: Operation,
  known: Known,
  marks: Marks,
  phase: Phase,
  receiver: string
): Made => {
  const one = (schema: Schema, name: string) => valid(dice, known, marks, operation, schema, name)
  let path = operation.path
  let refusable = false
  let elsewhere = false
  const query: Array<readonly [string, string]> = []
  let headers: Record<string, string> = {}
  const target = phase === "mutated" ? dice.pick(["body", "body", "body", "parameter", "search", "headers"]) : undefined
  const wrongParameter = target === "parameter" ? dice.below(Math.max(1, operation.parameters.length)) : -1
  for (const [i, parameter] of operation.parameters.entries()) {
    if (!parameter.required && i !== wrongParameter && dice.chance(0.6)) continue
    let text = String(one(parameter.schema, parameter.name))
    if (i === wrongParameter) {
      const changed = mutated(dice, marks, text)
      text = typeof changed === "string" ? changed : write(changed)
      const integer = parameter.schema.type === "integer"
      const value: Json = integer && /^-?(?:0|[1-9]\d{0,14})$/.test(text) ? Number(text) : text
      // A header loses its outer blanks on the way, a user code its dashes and blanks.
      if (parameter.in !== "header" && parameter.name !== "userCode") refusable = !parameter.accepts(value)
    }
    // Leaves out what HTTP could not carry at all.
    // eslint-disable-next-line no-control-regex
    if (parameter.in === "header") {
      headers[parameter.name.toLowerCase()] =
        phase === "valid" ? text.replace(/[^\x20-\x7e]/g, "-") : text.replace(/[^\t\x20-\x7e\x80-\xff]/g, "?")
    } else if (parameter.in === "query") query.push([parameter.name, text])
    else {
      path = path.replace(`{${parameter.name}}`, encode(text) || "%20")
      // A path that could be read in two ways names no route.
      elsewhere ||= encode(text).includes("%")
    }
  }
  if (operation.path === "/mcp") headers["accept"] = "application/json, text/event-stream"

  let body: string | Buffer | undefined
  if (operation.body !== undefined) {
    let tree = operation.path === "/mcp" ? mcpMessage(dice, known, marks) : one(operation.body.schema, "")
    if (target === "body") {
      tree = mutated(dice, marks, tree)
      if (dice.chance(0.2)) tree = mutated(dice, marks, tree)
    }
    body = harmless(write(tree), receiver)
    if (target === "body" && operation.path !== "/mcp") {
      // As a reader sees it that lets the last of two equal names win, which is what ours does.
      refusable = !operation.body.accepts(JSON.parse(body))
    }
    headers["content-type"] = "application/json"
  }

  let search = query.map(([name, value]) => `${name}=${encode(value)}`).join("&")
  let method = operation.method
  if (target === "search") {
    search = dice.pick(strangeSearches(marks, search))
  }
  if (target === "headers") headers = { ...headers, ...strangeHeaders(dice, marks) }
  if (phase === "hostile") {
    dice.weighted<() => void>([
      [3, () => (body = strangeBodies(dice, marks, typeof body === "string" ? body : "{}"))],
      [2, () => ((elsewhere = true), (path = dice.pick(strangePaths(marks, path))))],
      [
        1,
        () => (method = dice.pick(["PUT", "OPTIONS", "HEAD", "PATCH", "DELETE", "POST", "GET", "TRACE", "PROPFIND"]))
      ],
      [1, () => (search = dice.pick(strangeSearches(marks, search)))],
      [1, () => (headers = { ...headers, ...strangeHeaders(dice, marks), ...strangeHeaders(dice, marks) })]
    ])()
    if (body !== undefined && headers["content-type"] === undefined && dice.chance(0.8)) {
      headers["content-type"] = "application/json"
    }
  }
  // Node sends a body without saying so where a method has none as a rule.
  if (body !== undefined && headers["content-length"] === undefined) {
    headers["content-length"] = String(Buffer.byteLength(body))
  }
  return {
    request: { method, path, query, search, headers, ...(body === undefined ? {} : { body }) },
    refusable,
    elsewhere: elsewhere || method !== operation.method
  }
}

/** Needs of generators, validators and their clients. */
import { assert, describe, it } from "@effect/vitest"
import { Ajv2020 } from "ajv/dist/2020.js"
import * as FastCheck from "effect/FastCheck"
import * as Either from "effect/Either"
import * as JSONSchema from "effect/JSONSchema"
import * as Schema from "effect/Schema"
import { CreateApiToken } from "#schema/ApiTokensApi.ts"
import { CreateMachineRule } from "#schema/MachineIdentityApi.ts"
import { ApproveDevice } from "#schema/DeviceApi.ts"
import { OpenIncident } from "#schema/IncidentApi.ts"
import { CreateProject, UpdateEnvironment } from "#schema/ManageProjectsApi.ts"
import { ChangeSecrets } from "#schema/ProjectChangesApi.ts"
import { OpenSealedValues } from "#schema/SealedApi.ts"
import * as OpenApi from "#schema/OpenApi.ts"
import * as Requests from "#schema/SecretRequests.ts"
import { optional } from "#schema/Strict.ts"
import { HostText, IdempotencyKey, Name } from "#schema/Values.ts"
import { UpdateTeam } from "#schema/TeamsApi.ts"
import { AnyObject, parsed, TextsByName } from "#test/support/Json.ts"

const named = <A, I>(value: Schema.Schema<A, I>) => Schema.Record({ key: Schema.String, value })
const Node = AnyObject
type Node = typeof Node.Type
const Media = Schema.Struct({ schema: Node, example: optional(Schema.Unknown) })
const Link = Schema.Struct({ operationId: Schema.String, parameters: TextsByName })
const Operation = Schema.Struct({
  operationId: Schema.String,
  parameters: optional(Schema.Array(Schema.Struct({ name: Schema.String, in: Schema.String, schema: Node }))),
  requestBody: optional(Schema.Struct({ required: Schema.Boolean, content: named(Media) })),
  responses: named(Schema.Struct({ content: optional(named(Media)), links: optional(named(Link)) }))
})
type Operation = typeof Operation.Type
const Document = Schema.Struct({
  paths: named(named(Operation)),
  components: Schema.Struct({ schemas: named(Node), headers: Node })
})
type Document = typeof Document.Type
const served = (document: object) => parsed(Document)(JSON.stringify(document))

const documents: Record<string, Document> = {
  contract: served(OpenApi.contractDocument),
  dashboard: served(OpenApi.dashboardDocument)
}
const operationsOf = (document: Document) => Object.values(document.paths).flatMap((path) => Object.values(path))

/** Validates as a tool of JSON Schema 2020-12 does, formats included. */
const validatorOf = (document: Document) => {
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  ajv.addFormat("uuid", /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i)
  ajv.addFormat("date-time", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/)
  ajv.addFormat("date", /^\d{4}-\d\d-\d\d$/)
  ajv.addFormat("uri", (text: string) => URL.canParse(text) && /^[!-;=?-Z\]_a-z~]+$/.test(text))
  ajv.addFormat("email", /^[^\s@]+@[^\s@]+$/)
  for (const free of ["int64", "password"]) ajv.addFormat(free, true)
  ajv.addSchema({ $id: "document", ...document })
  return (at: string, value: unknown): ReadonlyArray<string> => {
    const validate = ajv.compile({ $ref: `document#${at}` })
    return validate(value)
      ? []
      : (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`)
  }
}
const pointer = (...segments: ReadonlyArray<string>) =>
  segments.map((one) => `/${encodeURIComponent(one.replaceAll("~", "~0").replaceAll("/", "~1"))}`).join("")

/** Every schema inside a schema, with its place. */
const within = (schema: Node, at: string): ReadonlyArray<readonly [string, Node]> => [
  [at, schema],
  ...Object.entries((schema["properties"] ?? {}) as Record<string, Node>).flatMap(([name, one]) =>
    within(one, `${at}.${name}`)
  ),
  ...["anyOf", "allOf", "oneOf"].flatMap((several) =>
    ((schema[several] ?? []) as ReadonlyArray<Node>).flatMap((one) => within(one, at))
  ),
  ...["items", "additionalProperties"].flatMap((one) =>
    typeof schema[one] === "object" ? within(schema[one] as Node, `${at}[]`) : []
  )
]

/** Operations of the dashboard that take what the contract's document lists. */
const listedThere = new Set([
  "accessDecisions.approve",
  "accessDecisions.deny",
  "changeDecisions.reveal",
  "changeDecisions.approve",
  "changeDecisions.deny",
  "incidentWork.replace",
  "incidentWork.ask"
])

/** Types of a schema, without null. */
const alternativesOf = (schema: Node): ReadonlyArray<Node> =>
  ["anyOf", "oneOf"]
    .flatMap((several) => (schema[several] ?? []) as ReadonlyArray<Node>)
    .filter(({ type }) => type !== "null")

for (const [name, document] of Object.entries(documents)) {
  const schemas = Object.entries(document.components.schemas).flatMap(([component, schema]) =>
    within(schema, component)
  )
  const requested = operationsOf(document).flatMap(({ operationId, parameters = [], requestBody }) =>
    [...parameters, ...Object.values(requestBody?.content ?? {})].flatMap(({ schema }) => within(schema, operationId))
  )
  const answered = operationsOf(document).flatMap(({ operationId, responses }) =>
    Object.values(responses).flatMap(({ content = {} }) =>
      Object.values(content).flatMap(({ schema }) => within(schema, operationId))
    )
  )
  const all = [...schemas, ...requested, ...answered]
  /** Schemas that these reach, by name. */
  const reach = (from: ReadonlyArray<readonly [string, Node]>, found = new Set<string>()): Set<string> => {
    for (const [, { $ref }] of from) {
      const target = typeof $ref === "string" ? $ref.split("/")[3] : undefined
      if (target === undefined || found.has(target)) continue
      found.add(target)
      reach(within(document.components.schemas[target], target), found)
    }
    return found
  }

  describe(`the ${name} document`, () => {
    it("says int64 of every integer that 32 bits may not hold", () => {
      const integers = all.filter(([, { type, enum: values }]) => type === "integer" && values === undefined)
      assert.isNotEmpty(integers)
      for (const [at, { format, maximum }] of integers) {
        assert.strictEqual(format, Number(maximum) < 2 ** 31 ? undefined : "int64", at)
      }
    })

    it("has no list of types: several generators stop at one", () => {
      for (const [at, { type }] of all) assert.isFalse(Array.isArray(type), at)
    })

    it("closes enumerations of requests only", () => {
      const inRequests = reach(requested)
      const inAnswers = reach(answered)
      const enumerations = all.filter(([, schema]) => Array.isArray(schema["enum"]) && schema["enum"].length > 1)
      assert.isNotEmpty(enumerations)
      for (const [at] of enumerations) assert.isFalse(inAnswers.has(at.split(".")[0]), at)
      const open = schemas.filter(([, schema]) => "x-extensible-enum" in schema)
      assert.isNotEmpty(open)
      for (const [at] of open) assert.isFalse(inRequests.has(at.split(".")[0]), at)
    })

    it("names every object and every closed enumeration", () => {
      const anonymous = all.filter(
        ([at, schema]) =>
          !(at in document.components.schemas) &&
          // Members that an error adds to the common ones are in line: `allOf` joins them.
          !at.endsWith("Error") &&
          ("properties" in schema ||
            (Array.isArray(schema["enum"]) && schema["enum"].length > 1) ||
            alternativesOf(schema).length > 1)
      )
      assert.deepStrictEqual(
        anonymous.map(([at]) => at),
        []
      )
    })

    it("says of each component what it is: an object with members, a text, a number, or several named ones", () => {
      for (const [name, schema] of Object.entries(document.components.schemas)) {
        const parts = alternativesOf(schema).concat((schema["allOf"] ?? []) as ReadonlyArray<Node>)
        assert.isTrue(
          "type" in schema || (parts.length > 0 && parts.every((part) => "type" in part || "$ref" in part)),
          name
        )
      }
    })

    it("has whole numbers only, and enumerates none but the status of an error", () => {
      for (const [at, schema] of all) {
        assert.notStrictEqual(schema["type"], "number", at)
        if (schema["type"] === "integer" && "enum" in schema) assert.match(at, /\.statusCode$/)
      }
    })

    it("closes what is sent and nothing that is answered", () => {
      const inRequests = reach(requested)
      const inAnswers = reach(answered)
      for (const [at, { additionalProperties }] of schemas) {
        const component = at.split(/[.[]/)[0]
        if (inAnswers.has(component) && !inRequests.has(component))
          assert.notStrictEqual(additionalProperties, false, at)
      }
      for (const [at, { additionalProperties }] of answered) assert.notStrictEqual(additionalProperties, false, at)
    })

    it("has no schema with the name that oapi-codegen gives to what an operation answers", () => {
      for (const { operationId } of operationsOf(document)) {
        const pascal = operationId.replace(/(?:^|\.)(\w)/g, (_, first: string) => first.toUpperCase())
        for (const suffix of ["Response", "Params", "JSONBody", "JSONRequestBody"]) {
          assert.notProperty(document.components.schemas, `${pascal}${suffix}`)
        }
      }
    })

    it("has patterns that every engine reads: no flag, no group but plain ones, no escape beyond \\uXXXX", () => {
      for (const [at, { pattern }] of all) {
        if (typeof pattern !== "string") continue
        assert.doesNotThrow(() => [new RegExp(pattern), new RegExp(pattern, "u")], at)
        assert.notMatch(pattern, /\(\?|\\[pPkbB]|\\u(?![0-9a-f]{4})|\\x(?![0-9a-f]{2})|[^\x20-\x7e]/, at)
      }
    })

    it("has examples that are valid", () => {
      const validate = validatorOf(document)
      let seen = 0
      for (const [path, item] of Object.entries(document.paths)) {
        for (const [method, { requestBody, responses }] of Object.entries(item)) {
          const bodies = [
            ["requestBody", requestBody] as const,
            ...Object.entries(responses).map(([status, response]) => [`responses/${status}`, response] as const)
          ]
          for (const [where, body] of bodies) {
            for (const [type, { example }] of Object.entries(body?.content ?? {})) {
              if (example === undefined) continue
              seen++
              const at = pointer("paths", path, method, ...where.split("/"), "content", type, "schema")
              assert.deepStrictEqual(validate(at, example), [], `${method} ${path} ${where}`)
            }
          }
        }
      }
      assert.isAbove(seen, 30)
    })

    it("has links that lead to operations, with values that the answer has", () => {
      const operations = new Map(operationsOf(document).map((one) => [one.operationId, one]))
      let seen = 0
      for (const from of operations.values()) {
        for (const { content, links = {} } of Object.values(from.responses)) {
          for (const { operationId, parameters } of Object.values(links)) {
            const target = operations.get(operationId)
            for (const [parameter, expression] of Object.entries(parameters)) {
              seen++
              assert.isTrue(
                target?.parameters?.some(({ name }) => name === parameter),
                operationId
              )
              const [, kind, rest] = /^\$(request\.path\.|response\.body#\/)(.+)$/.exec(expression) ?? []
              const value =
                kind === "request.path."
                  ? from.parameters?.find(({ name }) => name === rest)
                  : rest
                      .split("/")
                      .reduce((at: unknown, member) => (at as Node)[member], content?.["application/json"].example)
              assert.isDefined(value, `${from.operationId} ${expression}`)
            }
          }
        }
      }
      assert.isAbove(seen, 10)
      const led = [...operations.values()].flatMap(({ responses }) =>
        Object.values(responses).flatMap(({ links = {} }) => Object.keys(links))
      )
      for (const { operationId, parameters = [] } of operations.values()) {
        // A code of a device is what a person types.
        const needed = parameters.filter((one) => one.in === "path" && one.name !== "userCode")
        if (needed.length === 0 || listedThere.has(operationId)) continue
        assert.include(led, operationId)
      }
    })
  })
}

const patternOf = (schema: Schema.Schema.Any) => String((JSONSchema.make(schema) as unknown as Node)["pattern"])

describe("what the server refuses", () => {
  const id = "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e"
  const secret = { projectId: id, environment: "development", key: "A" }
  const same = { key: "A", value: "" }
  const set = { environment: "a", key: "A", op: "set", value: "x" }
  const withoutUndefined = (body: unknown): unknown => parsed(AnyObject)(JSON.stringify(body))
  const sealed = (...names: ReadonlyArray<string>) => Object.fromEntries(names.map((name) => [name, "sealed:v1:x:y"]))
  const sealingKeyId = "ek_0123abcd"
  const claims = { repository: "acme/shop" }
  const rule = { name: "ci", issuer: "https://issuer.example", claims }
  const named = { contract: validatorOf(documents["contract"]), dashboard: validatorOf(documents["dashboard"]) }

  /** Bodies that fit and bodies that do not: the schema of the program and that of the document must agree. */
  const cases: ReadonlyArray<
    readonly [keyof typeof named, string, Schema.Schema.Any, ReadonlyArray<unknown>, ReadonlyArray<unknown>]
  > = [
    [
      "contract",
      "CreateSecret",
      Requests.CreateSecret,
      [secret, { ...secret, value: "" }, { ...secret, source: "", kind: "template" }, { ...secret, source: "" }],
      [
        { ...secret, value: "", source: "" },
        { ...secret, source: "", kind: "literal" }
      ]
    ],
    [
      "contract",
      "UpdateSecret",
      Requests.UpdateSecret,
      [{ kind: "literal" }, { value: "", expectedVersion: 1 }, { source: "", kind: "template" }],
      [{}, { expectedVersion: 1 }, { value: "", source: "" }, { source: "", kind: "literal", expectedVersion: 1 }]
    ],
    [
      "contract",
      "DeleteSecretsBulk",
      Requests.DeleteSecretsBulk,
      [{ projectId: id, environment: "a", ids: [id] }],
      [{ projectId: id, environment: "a", ids: [id, id] }]
    ],
    [
      "contract",
      "CreateSecretsBulk",
      Requests.CreateSecretsBulk,
      [{ projectId: id, environment: "a", secrets: [{ key: "A", value: "" }] }],
      [
        { projectId: id, environment: "a", secrets: [] },
        { projectId: id, environment: "a", secrets: [same, same] },
        { projectId: id, environment: "a", secrets: [{ key: "A" }] }
      ]
    ],
    [
      "contract",
      "ChangeSecrets",
      ChangeSecrets,
      [
        { entries: [set] },
        { entries: [{ ...set, value: undefined, generate: { length: 16 } }] },
        { entries: [{ ...set, value: undefined, copyFrom: { environment: "b", key: "A" } }] },
        { entries: [{ environment: "a", key: "A", op: "delete" }], reason: "why" }
      ].map(withoutUndefined),
      [
        {},
        { entries: [] },
        { entries: [{}] },
        { entries: [{ environment: "a", key: "A", op: "set" }] },
        { entries: [{ ...set, op: "delete" }] },
        { entries: [{ ...set, op: "other" }] },
        { entries: [{ ...set, generate: { length: 16 } }] },
        { entries: [{ ...set, more: 1 }] },
        { entries: [set, set] }
      ]
    ],
    [
      "contract",
      "RestoreEnvironment",
      Requests.RestoreEnvironment,
      [{ at: "2026-11-01T00:00:00.000Z" }],
      [{}, { at: "soon" }]
    ],
    [
      "contract",
      "DescribeSecret",
      Requests.DescribeSecret,
      [{ note: "x" }, { owner: null }],
      [{}, { rotateBy: "soon" }]
    ],
    [
      "dashboard",
      "OpenIncident",
      OpenIncident,
      [
        { person: "a@b.example" },
        { token: "ci", deactivate: false },
        { grant: "x", since: "2026-11-01T00:00:00.000Z" }
      ],
      [{}, { since: "2026-11-01T00:00:00.000Z" }, { person: "a@b.example", token: "ci" }, { person: "a", grant: "b" }]
    ],
    [
      "dashboard",
      "UpdateEnvironment",
      UpdateEnvironment,
      [{ approvals: 2 }, { approvers: [] }, { approvers: [id] }],
      [{}, { approvals: 3 }, { approvals: 1.5 }, { approvals: "1" }, { approvers: [id, id] }]
    ],
    ["dashboard", "CreateProject", CreateProject, [{ name: "A" }], [{}, { name: "" }, { name: "A", slug: "A B" }]],
    [
      "dashboard",
      "ApproveDevice",
      ApproveDevice,
      [{ teams: [{ teamId: id, scopes: ["secrets:read"] }] }],
      [
        { teams: [] },
        { teams: [{ teamId: id, scopes: [] }] },
        { teams: [1, 2].map(() => ({ teamId: id, scopes: ["secrets:read"] })) }
      ]
    ],
    [
      "contract",
      "OpenSealedValues",
      OpenSealedValues,
      [
        { keyId: sealingKeyId, entries: sealed("A") },
        { keyId: sealingKeyId, entries: sealed("A", "_manifest") }
      ],
      [
        { keyId: sealingKeyId, entries: {} },
        { keyId: sealingKeyId, entries: sealed("_manifest") },
        { keyId: sealingKeyId, entries: sealed(...Array.from({ length: 501 }, (_, n) => `K${n}`)) }
      ]
    ],
    ["dashboard", "UpdateTeam", UpdateTeam, [{ name: "A" }, { plan: "team" }], [{}, { plan: "free" }, { name: " " }]],
    [
      "dashboard",
      "CreateApiToken",
      CreateApiToken,
      [
        { name: "a" },
        { name: "a", mcpOnly: true, mcpScopes: ["secrets:read"] },
        { name: "a", mcpOnly: false },
        { name: "a", accessLevel: "write", mcpScopes: ["secrets:write"] }
      ],
      [
        { name: "a", mcpOnly: true },
        { name: "a", mcpOnly: true, mcpScopes: [] },
        { name: "a", mcpScopes: ["secrets:write"] },
        { name: "a", accessLevel: "read", mcpScopes: ["secrets:write"] }
      ]
    ],
    [
      "dashboard",
      "CreateMachineRule",
      CreateMachineRule,
      [rule, { ...rule, claims: { repository: "acme/*" } }],
      [
        { ...rule, issuer: "a b" },
        { ...rule, claims: {} },
        { ...rule, claims: { iss: "x" } },
        { ...rule, claims: { "re po": "x" } },
        { ...rule, claims: { repository: "*" } },
        { ...rule, claims: { repository: "a*b" } },
        { ...rule, claims: { repository: "a\u0000" } }
      ]
    ]
  ]
  for (const [document, name, schema, good, bad] of cases) {
    it(`${name} is refused by the document too`, () => {
      const verdict = (body: unknown) => [
        // Request schemas are self-contained; `Schema.Any` only hides their types.
        Either.isRight(Schema.decodeUnknownEither(schema as Schema.Schema<unknown>)(body)),
        named[document](`/components/schemas/${name}`, body).length === 0
      ]
      for (const body of good) assert.deepStrictEqual(verdict(body), [true, true], JSON.stringify(body))
      for (const body of bad) assert.deepStrictEqual(verdict(body), [false, false], JSON.stringify(body))
    })
  }

  it("a name, a host and an idempotency key have the pattern of the program, up to U+FFFF", () => {
    const character = FastCheck.oneof(
      FastCheck.integer({ min: 0, max: 0xffff }).filter((code) => code < 0xd800 || code > 0xdfff),
      FastCheck.constantFrom(0x20, 0xa0, 0x3000, 0x200b, 0xfeff, 0xad, 0x0a, 0x2028, 0x7f, 0x3164, 0x41)
    ).map((code) => String.fromCharCode(code))
    for (const schema of [Name, HostText, IdempotencyKey]) {
      const accepts = new RegExp(patternOf(schema), "u")
      const isTaken = Schema.is(Schema.typeSchema(schema) as Schema.Schema<string>)
      FastCheck.assert(
        FastCheck.property(FastCheck.array(character, { maxLength: 4 }), (characters) => {
          const text = characters.join("")
          // The bounds of the length stand beside the pattern.
          return text === "" || isTaken(text) === accepts.test(text)
        }),
        { numRuns: 2_000 }
      )
    }
  })

  it("the start of a device authorization needs no body", () => {
    const { requestBody } = documents["contract"].paths["/auth/cli/device"]["post"]
    assert.isFalse(requestBody?.required)
    for (const operation of operationsOf(documents["contract"])) {
      if (operation.requestBody !== undefined && operation.operationId !== "device.start") {
        assert.isTrue(operation.requestBody.required, operation.operationId)
      }
    }
  })
})

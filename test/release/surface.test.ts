/**
 * Commands and operations against the record of the last release: everything that people and programs rely on still
 * exists.
 * `npm run release:record` writes the record of a release that is made.
 */
import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import { version } from "#src/Release.ts"
import * as OpenApi from "#schema/OpenApi.ts"
import { manual } from "#src/cli/Commands.ts"
import { breaks, commandsOf, operationsOf, read, recorded, type Surface } from "./Surface.ts"

const file = "test/records/surface.json"
const now = {
  commands: commandsOf(manual()),
  operations: operationsOf(OpenApi.contractDocument, OpenApi.dashboardDocument)
}
const before = read(fs.readFileSync(file, "utf8"))
if (process.env["AMPOULE_RECORD_SURFACE"] === "1") {
  fs.writeFileSync(file, `${JSON.stringify(recorded(before, { release: version, ...now }), null, 1)}\n`)
}

type Document = ReturnType<typeof declared>

/** A document with one operation, in which each case below changes something. */
const declared = () => ({
  info: { title: "API" },
  components: {
    schemas: {
      Secret: {
        type: "object",
        required: ["key"],
        properties: {
          key: { type: "string" as string | ReadonlyArray<string>, maxLength: 255 } as Record<string, unknown>,
          state: { type: "string", "x-extensible-enum": ["live", "deleted"] },
          kind: { type: "string", enum: ["literal", "template"] },
          inside: { $ref: "#/components/schemas/Secret" }
        } as Record<string, object>
      },
      New: {
        type: "object",
        required: ["key"],
        properties: {
          key: { type: "string", minLength: 1, maxLength: 255, pattern: "^[A-Z]+$" } as Record<string, unknown>,
          note: { type: "string" } as Record<string, unknown>,
          kind: { type: "string", enum: ["literal", "template"] }
        } as Record<string, object>
      },
      Conflict: {
        allOf: [
          { type: "object", required: ["code"], properties: { code: { type: "string" } } },
          { type: "object", properties: { code: { "x-extensible-enum": ["CHANGED", "CYCLE"] } } }
        ]
      }
    }
  },
  paths: {
    "/secrets": {
      post: {
        operationId: "secrets.create",
        security: [{ apiToken: [] }, { session: [] }] as Array<object>,
        "x-cli-scope": "secrets:write",
        parameters: [{ in: "query", name: "force", schema: { type: "boolean" } }] as Array<object>,
        requestBody: {
          required: true,
          content: { "application/json": { schema: { $ref: "#/components/schemas/New" } } }
        },
        responses: {
          "201": { content: { "application/json": { schema: { $ref: "#/components/schemas/Secret" } } } },
          "409": {
            content: { "application/json": { schema: { $ref: "#/components/schemas/Conflict" } } },
            "x-error-codes": ["CHANGED", "CYCLE"]
          }
        } as Record<string, object>
      }
    }
  }
})

const commands = {
  "ampoule secrets get": { usage: "ampoule secrets get [options] KEY", options: ["-p, --project TEXT", "--raw"] }
}
const sample = (): Surface => ({ release: "0.0.0", commands, operations: operationsOf(declared()) })
/** Breaks of a changed document. */
const changing = (change: (document: Document) => void): ReadonlyArray<string> => {
  const document = declared()
  change(document)
  return breaks(sample(), { commands, operations: operationsOf(document) })
}
const operation = ({ paths }: Document) => paths["/secrets"].post
const newMembers = ({ components }: Document) => components.schemas.New.properties
const answered = ({ components }: Document) => components.schemas.Secret.properties

const worse: Readonly<
  Record<string, readonly [change: (document: Document) => void, expected: ReadonlyArray<string>]>
> = {
  "a credential is refused": [
    (document) => (operation(document).security = [{ apiToken: [] }]),
    ["takes no more credential session"]
  ],
  "a credential is asked for together with another": [
    (document) => (operation(document).security = [{ apiToken: [], session: [] }]),
    ["takes no more credential apiToken", "takes no more credential session"]
  ],
  "another scope is needed": [
    (document) => (operation(document)["x-cli-scope"] = "secrets:admin"),
    ["requires scope secrets:admin now"]
  ],
  "the operation has another name": [
    (document) => (operation(document).operationId = "secrets.make"),
    ["answers no more named secrets.create"]
  ],
  "a refusal is gone": [
    (document) => delete operation(document).responses["409"],
    [
      "answers no more 409",
      "answers no more 409 application/json",
      "answers no more 409 code CHANGED",
      "answers no more 409 code CYCLE",
      "answers no more 409 is Conflict"
    ]
  ],
  "a code of a refusal is gone": [
    (document) => Object.assign(operation(document).responses["409"] ?? {}, { "x-error-codes": ["CHANGED"] }),
    ["answers no more 409 code CYCLE"]
  ],
  "a value of an open list is gone": [
    (document) => (answered(document)["state"] = { type: "string", "x-extensible-enum": ["live"] }),
    ["answers no more 201.state ~ deleted"]
  ],
  "a closed list of an answer has another value": [
    (document) => (answered(document)["kind"] = { type: "string", enum: ["literal", "template", "sealed"] }),
    ["answers 201.kind = sealed now"]
  ],
  "an answer can be null": [
    (document) => (answered(document)["key"] = { type: ["string", "null"], maxLength: 255 }),
    ["answers 201.key: null now"]
  ],
  "an answer can be null, by an alternative": [
    (document) => (answered(document)["key"] = { anyOf: [{ type: "string", maxLength: 255 }, { type: "null" }] }),
    ["answers 201.key: null now"]
  ],
  "an answer is longer": [
    (document) => (answered(document)["key"] = { type: "string", maxLength: 300 }),
    ["answers 201.key maxLength 300 now, which was 255"]
  ],
  "an answer has no bound": [
    (document) => (answered(document)["key"] = { type: "string" }),
    ["answers 201.key maxLength without a bound now, which was 255"]
  ],
  "less can be sent": [
    (document) => (newMembers(document)["key"] = { type: "string", minLength: 1, maxLength: 10, pattern: "^[A-Z]+$" }),
    ["takes body.key maxLength 10 now, which was 255"]
  ],
  "more must be sent": [
    (document) => (newMembers(document)["key"] = { type: "string", minLength: 2, maxLength: 255, pattern: "^[A-Z]+$" }),
    ["takes body.key minLength 2 now, which was 1"]
  ],
  "a bound comes": [
    (document) => (newMembers(document)["note"] = { type: "string", maxLength: 10 }),
    ["takes body.note maxLength 10 now, which was not bounded"]
  ],
  "another pattern is asked for": [
    (document) => (newMembers(document)["key"] = { type: "string", minLength: 1, maxLength: 255, pattern: "^[AB]+$" }),
    ["takes body.key pattern ^[AB]+$ now, which was ^[A-Z]+$"]
  ],
  "a member is closed to one value": [
    (document) => (newMembers(document)["note"] = { type: "string", enum: ["none"] }),
    ["takes no more body.note is open"]
  ],
  "a value is refused": [
    (document) => (newMembers(document)["kind"] = { type: "string", enum: ["literal"] }),
    ["takes no more body.kind = template"]
  ],
  "a member must be sent": [
    (document) => document.components.schemas.New.required.push("note"),
    ["requires body.note now"]
  ],
  "a parameter must be sent": [
    (document) => operation(document).parameters.push({ in: "query", name: "why", required: true }),
    ["requires query why now"]
  ],
  "a member may be absent": [
    (document) => (document.components.schemas.Secret.required = []),
    ["answers no more 201.key is always there"]
  ]
}

const growth: Readonly<Record<string, (document: Document) => void>> = {
  "another credential is taken": (document) => operation(document).security.push({ cliGrant: [] }),
  "no scope is needed": (document) => delete (operation(document) as { "x-cli-scope"?: string })["x-cli-scope"],
  "a code of a refusal comes": (document) =>
    Object.assign(operation(document).responses["409"] ?? {}, { "x-error-codes": ["CHANGED", "CYCLE", "LATER"] }),
  "a refusal comes": (document) => (operation(document).responses["429"] = {}),
  "a value of an open list comes": (document) =>
    (answered(document)["state"] = { type: "string", "x-extensible-enum": ["live", "deleted", "later"] }),
  "an answer is shorter": (document) => (answered(document)["key"] = { type: "string", maxLength: 10 }),
  "an answer has another member, which can be null": (document) =>
    (answered(document)["note"] = { type: ["string", "null"] }),
  "more can be sent": (document) => (newMembers(document)["key"] = { type: "string" }),
  "null can be sent": (document) => (newMembers(document)["note"] = { type: ["string", "null"] }),
  "another value can be sent": (document) =>
    (newMembers(document)["kind"] = { type: "string", enum: ["literal", "template", "sealed"] }),
  "any value can be sent": (document) => (newMembers(document)["kind"] = { type: "string" }),
  "something new can be sent, which has a member that it needs": (document) =>
    (newMembers(document)["generate"] = {
      type: "object",
      required: ["length"],
      properties: { length: { type: "integer", minimum: 16 } }
    }),
  "an alternative with another bound can be sent": (document) =>
    (newMembers(document)["key"] = {
      anyOf: [
        { type: "string", minLength: 1, maxLength: 255, pattern: "^[A-Z]+$" },
        { type: "string", maxLength: 300 },
        { type: "integer", maximum: 7 }
      ]
    }),
  "what is not passed on in an answer is said elsewhere": (document) =>
    (answered(document)["key"] = { allOf: [{ type: "string" }, { maxLength: 255 }] })
}

describe("the surface", () => {
  it("has all that the last release had", () => {
    assert.isAbove(Object.keys(before.commands).length, 40)
    assert.isAbove(Object.keys(before.operations).length, 60)
    assert.deepStrictEqual(breaks(before, now), [])
  })

  it("is read from what is declared", () => {
    assert.deepStrictEqual(sample().operations["POST /secrets"], {
      takes: [
        "body application/json",
        "body.key is open",
        "body.key: string",
        "body.kind = literal",
        "body.kind = template",
        "body.kind: string",
        "body.note is open",
        "body.note: string",
        "body: object",
        "credential apiToken",
        "credential session",
        "query force",
        "query force is open",
        "query force: boolean"
      ],
      requires: ["body", "body.key", "scope secrets:write"],
      bounds: { "body.key maxLength": 255, "body.key minLength": 1, "body.key pattern": "^[A-Z]+$" },
      answers: [
        "201",
        "201 application/json",
        "201.key is always there",
        "201.key is open",
        "201.key: string",
        "201.kind = literal",
        "201.kind = template",
        "201.kind: string",
        "201.state is open",
        "201.state ~ deleted",
        "201.state ~ live",
        "201.state: string",
        "201: object",
        "409",
        "409 application/json",
        "409 code CHANGED",
        "409 code CYCLE",
        "409 is Conflict",
        "named secrets.create"
      ],
      promises: { "201.key maxLength": 255 }
    })
    assert.deepStrictEqual(sample().operations["Conflict of API"]?.answers, [
      "body.code is always there",
      "body.code is open",
      "body.code ~ CHANGED",
      "body.code ~ CYCLE",
      "body.code: string",
      "body: object"
    ])
    assert.include(now.commands["ampoule run"]?.options.join(), "--project")
  })

  for (const [name, [change, expected]] of Object.entries(worse)) {
    it(`breaks when ${name}`, () => {
      const lines = expected.map((line) => `POST /secrets: ${line}`)
      // A refusal that nobody gives any more has no body either.
      const breakages = changing(change).filter((line) => !line.startsWith("Conflict of API:"))
      assert.deepStrictEqual(breakages, lines)
    })
  }

  for (const [name, change] of Object.entries(growth)) {
    it(`grows when ${name}`, () => assert.deepStrictEqual(changing(change), []))
  }

  it("is recorded anew for its own release only where nothing breaks", () => {
    const there = sample()
    const broken = { ...there, commands: {} }
    assert.throws(() => recorded(there, broken), /release 0\.0\.0 is recorded.*\n.*the command is gone/)
    assert.deepStrictEqual(recorded(there, { ...broken, release: "1.0.0" }), { ...broken, release: "1.0.0" })
    const grown = { ...there, commands: { ...commands, "ampoule new": { usage: "ampoule new", options: [] } } }
    assert.deepStrictEqual(recorded(there, grown), grown)
  })

  it("breaks when a command, an option or an argument is not there any more", () => {
    const changed = (change: Partial<(typeof commands)["ampoule secrets get"]>) =>
      breaks(sample(), {
        ...sample(),
        commands: { "ampoule secrets get": { ...commands["ampoule secrets get"], ...change } }
      })
    assert.deepStrictEqual(changed({ options: [...commands["ampoule secrets get"].options, "--json"] }), [])
    assert.deepStrictEqual(breaks(sample(), { commands: {}, operations: {} }), [
      "ampoule secrets get: the command is gone",
      "POST /secrets: the operation is gone",
      "Conflict of API: the operation is gone"
    ])
    assert.deepStrictEqual(changed({ options: ["-p, --project TEXT"] }), [
      "ampoule secrets get: the option --raw is gone"
    ])
    for (const usage of ["[options] KEY KEY", "[options]", "[options] NAME", "[options] [NAME]"]) {
      assert.strictEqual(changed({ usage: `ampoule secrets get ${usage}` }).length, 1, usage)
    }
    // An argument that may be left out now, and options that come or go beside those that are looked at.
    for (const usage of ["[options] [KEY]", "KEY"]) {
      assert.deepStrictEqual(changed({ usage: `ampoule secrets get ${usage}` }), [], usage)
    }
  })
})

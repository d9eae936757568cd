/**
 * Commands and operations against the record of the last release: what people and programs rely on is still there.
 * `npm run release:record` writes the record of a release that is made.
 */
import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import { version } from "#schema/Api.ts"
import * as OpenApi from "#schema/OpenApi.ts"
import { manual } from "#src/cli/Commands.ts"
import { breaks, commandsOf, operationsOf, read, type Surface } from "./Surface.ts"

const file = "test/records/surface.json"
const now = {
  commands: commandsOf(manual()),
  operations: operationsOf(OpenApi.contractDocument, OpenApi.dashboardDocument)
}
if (process.env["AMPOULE_RECORD_SURFACE"] === "1") {
  fs.writeFileSync(file, `${JSON.stringify({ release: version, ...now }, null, 1)}\n`)
}

const sample = (): Surface => ({
  release: "0.0.0",
  commands: {
    "ampoule secrets get": { usage: "ampoule secrets get [options] KEY", options: ["-p, --project TEXT", "--raw"] }
  },
  operations: operationsOf({
    components: {
      schemas: {
        Secret: {
          type: "object",
          required: ["key"],
          properties: { key: { type: "string" }, inside: { $ref: "#/components/schemas/Secret" } }
        },
        New: {
          type: "object",
          required: ["key"],
          properties: { key: { type: "string" }, kind: { type: "string", enum: ["literal", "template"] } }
        }
      }
    },
    paths: {
      "/secrets": {
        post: {
          parameters: [{ in: "query", name: "force", schema: { type: "boolean" } }],
          requestBody: {
            required: true,
            content: { "application/json": { schema: { $ref: "#/components/schemas/New" } } }
          },
          responses: {
            "201": { content: { "application/json": { schema: { $ref: "#/components/schemas/Secret" } } } },
            "404": { content: { "application/json": { schema: { type: "object" } } } }
          }
        }
      }
    }
  })
})

describe("the surface", () => {
  it("has all that the last release had", () => {
    const before = read(fs.readFileSync(file, "utf8"))
    assert.isAbove(Object.keys(before.commands).length, 40)
    assert.isAbove(Object.keys(before.operations).length, 60)
    assert.deepStrictEqual(breaks(before, now), [])
  })

  it("is read from what is declared", () => {
    assert.deepStrictEqual(sample().operations["POST /secrets"], {
      takes: [
        "body application/json",
        "body.key: string",
        "body.kind = literal",
        "body.kind = template",
        "body.kind: string",
        "body: object",
        "query force",
        "query force: boolean"
      ],
      requires: ["body", "body.key"],
      answers: ["201", "201 application/json", "201.key is always there", "201.key: string", "201: object"]
    })
    assert.include(now.commands["ampoule run"]?.options.join(), "--project")
  })

  it("may grow, and breaks by what goes away or becomes necessary", () => {
    const before = sample()
    const [command] = Object.values(before.commands)
    const [operation] = Object.values(before.operations)
    const changed = (
      inCommand: Partial<typeof command>,
      inOperation: { readonly [K in keyof typeof operation]?: ReadonlyArray<string> }
    ) => ({
      commands: { "ampoule secrets get": { ...command, ...inCommand } },
      operations: { "POST /secrets": { ...operation, ...inOperation } }
    })
    const more = changed(
      { options: [...command.options, "--json"] },
      { takes: [...operation.takes, "query soft"], answers: [...operation.answers, "201.id: string"] }
    )
    assert.deepStrictEqual(breaks(before, more), [])
    assert.deepStrictEqual(breaks(before, { commands: {}, operations: {} }), [
      "ampoule secrets get: the command is gone",
      "POST /secrets: the operation is gone"
    ])
    assert.deepStrictEqual(breaks(before, changed({ options: ["-p, --project TEXT"] }, {})), [
      "ampoule secrets get: the option --raw is gone"
    ])
    const twoArguments = changed({ usage: "ampoule secrets get [options] KEY KEY" }, {})
    assert.strictEqual(breaks(before, twoArguments).length, 1)
    const worse = changed({}, { takes: [], requires: [...operation.requires, "query force"], answers: ["200"] })
    const found = breaks(before, worse)
    assert.include(found, "POST /secrets: takes no more body.kind = template")
    assert.include(found, "POST /secrets: requires query force now")
    assert.include(found, "POST /secrets: answers no more 201.key: string")
  })
})

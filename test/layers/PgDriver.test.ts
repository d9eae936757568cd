/** The inside of `pg` that `layers/PgDriver.ts` depends on, as the installed releases have it. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as Pg from "pg"
import { Driver, readFrom, wireOf } from "#layers/PgDriver.ts"
import { filesBelow, read } from "#test/imports.ts"
import { parsed } from "#test/support/Json.ts"

const versionOf = parsed(Schema.Struct({ version: Schema.String }))

class Probe extends Driver {
  readonly calls: Array<string> = []
  protected open(callback: (error?: Error) => void) {
    this.calls.push("open")
    callback()
  }
  protected ask(config: unknown) {
    this.calls.push(`ask ${String(config)}`)
  }
  protected leave(error: Error | boolean | undefined) {
    this.calls.push("leave")
    this.giveBack(error)
  }
}

/** Names of the members that `pg.Client` calls on a query. */
const handlers = (text: string) => [
  ...new Set(Array.from(text.matchAll(/\b\w+\.(handle[A-Z]\w+)\(/g), ([, name]) => name))
]

describe("the driver", () => {
  it("is of the releases that its inside was read from: read layers/PgDriver.ts again before these lines change", () => {
    const installed = Object.keys(readFrom).map((name) => [
      name,
      versionOf(fs.readFileSync(`node_modules/${name}/package.json`, "utf8")).version
    ])
    assert.deepStrictEqual(Object.fromEntries(installed), readFrom)
  })

  it("has the messages of the protocol and the list of parsed statements that a statement uses", () => {
    const { connection } = new Probe() as unknown as { readonly connection: Pg.Connection }
    const wire = wireOf(connection)
    for (const message of ["parse", "bind", "describe", "execute", "sync"] as const) {
      assert.isFunction(wire[message], message)
    }
    assert.isObject(wire.parsedStatements)
    assert.isFunction(wire.stream.cork)
    assert.isFunction(wire.stream.uncork)
  })

  it("calls no member of a query that a statement lacks, but for those of COPY and of portals", () => {
    const called = handlers(fs.readFileSync("node_modules/pg/lib/client.js", "utf8"))
    const own = handlers(fs.readFileSync("layers/PgStatement.ts", "utf8").replace(/^ {2}(handle)/gm, "  x.$1"))
    assert.include(own, "handleReadyForQuery")
    assert.deepStrictEqual(
      called.filter((name) => !own.includes(name)),
      ["handlePortalSuspended", "handleCopyInResponse", "handleCopyData"]
    )
  })

  it("hides its process from @effect/sql-pg, and hears each release that the pool assigns", () => {
    const probe = new Probe()
    Object.assign(probe, { processID: 7 })
    assert.isUndefined(probe.processID)
    const released: Array<unknown> = []
    for (const name of ["first", "second"]) {
      probe.release = (error) => void released.push(name, error)
      probe.release()
    }
    assert.deepStrictEqual(released, ["first", undefined, "second", undefined])
    assert.deepStrictEqual(probe.calls, ["leave", "leave"])
  })

  it("asks and connects in the ways of its subclass, with a callback or without", async () => {
    const probe = new Probe()
    probe.query("SELECT 1", () => {})
    probe.query("SELECT 2", [], () => {})
    probe.connect(() => {})
    assert.strictEqual(await probe.connect(), probe)
    assert.deepStrictEqual(probe.calls, ["ask SELECT 1", "ask SELECT 2", "open", "open"])
  })

  it("is the one place for it: no file redefines members of a driver, or reads what pg does not document", () => {
    const wrong = filesBelow("layers")
      // The start of an executable replaces streams of its process, and knows no driver.
      .filter((file) => !["layers/PgDriver.ts", "layers/ExecutableStart.ts"].includes(file))
      .filter((file) => {
        const { packages, text } = read(file)
        return (
          packages.some((name) => name.startsWith("pg/") || name.startsWith("pg-")) ||
          /\bdefineProperty\b|parsedStatements: |\.connection\.stream\b|\bprocessID\b/.test(text)
        )
      })
    assert.deepStrictEqual(wrong, [])
  })
})

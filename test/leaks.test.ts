/**
 * A value shows up where it was asked for and nowhere else: not in other answers, not in logs, not in files of the data
 * folder (write-ahead log included), not in a dump of the database (docs/security.md, "Threat model").
 */
import { assert, describe, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { parsed } from "#test/support/Json.ts"
import * as Needles from "#test/leaks/Needles.ts"
import * as Release from "#test/support/Release.ts"
import * as ReportSigner from "#test/machines/ReportSigner.ts"

const files = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    return entry.isDirectory() ? files(path) : entry.isFile() ? [path] : []
  })

const canary = (what: string) => `canary-${what}-${randomBytes(12).toString("hex")}`

const Identified = Schema.Struct({ id: Schema.String })

describe("leaks", () => {
  it.scopedLive(
    "values and credentials stand in no other answer, no log line and no file",
    () =>
      Effect.gen(function* () {
        const folder = yield* Release.build
        const data = join(folder, "data")
        const scanner = ReportSigner.make()
        const server = yield* Release.server(folder, {
          AMPOULE_DATA_DIR: data,
          AMPOULE_LOG_LEVEL: "debug",
          AMPOULE_LEAK_REPORT_KEYS: ReportSigner.documentOf(scanner)
        })
        const setup = spawnSync(
          process.execPath,
          [
            join(folder, "dist/ampoule.cjs"),
            ..."setup --email ada@example.com --name Ada --team T --generate-password".split(" "),
            ..."--project demo --token --access write".split(" ")
          ],
          { env: { PATH: process.env["PATH"], HOME: folder, AMPOULE_URL: server.url, AMPOULE_DATA_DIR: data } }
        )
        const token = setup.stdout.toString().trim()
        assert.match(token, /^amp_at_/)

        const kept: Array<string> = []
        const call = (method: string, path: string, body?: unknown) =>
          Effect.promise(async () => {
            const response = await fetch(server.url + path, {
              method,
              headers: {
                authorization: `Bearer ${token}`,
                ...(body === undefined ? {} : { "content-type": "application/json" })
              },
              ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) })
            })
            const text = await response.text()
            kept.push(`${JSON.stringify([...response.headers])} ${text}`)
            return { status: response.status, text }
          })
        const listed = yield* call("GET", "/projects")
        const { items } = parsed(Schema.Struct({ items: Schema.Array(Identified) }))(listed.text)
        const at = { projectId: items[0].id, environment: "development" }
        const query = `projectId=${at.projectId}&environment=development`

        const values = {
          literal: canary("literal"),
          template: canary("template"),
          replaced: canary("replaced"),
          refused: canary("refused"),
          malformed: canary("malformed"),
          bulk: canary("bulk")
        }
        const needles: ReadonlyArray<string> = [...Object.values(values), token.slice(-49, -6)]

        const secret = yield* call("POST", "/secrets", { ...at, key: "LITERAL", value: values.literal })
        assert.strictEqual(secret.status, 201)
        const { id } = parsed(Identified)(secret.text)
        yield* call("POST", "/secrets", { ...at, key: "TEMPLATE", source: `${values.template}\${LITERAL}` })
        yield* call("POST", "/secrets/bulk", { ...at, secrets: [{ key: "BULK", value: values.bulk }] })
        yield* call("PATCH", `/secrets/${id}`, { value: values.replaced })
        // Every way to be refused, with the value in the refused part.
        const refused = values.refused
        yield* call("POST", "/secrets", { ...at, key: "LITERAL", value: refused })
        yield* call("POST", "/secrets", { ...at, key: "X", value: `${refused}\${MISSING}` })
        yield* call("POST", "/secrets", { ...at, key: "X", source: `${refused}\${bad` })
        yield* call("POST", "/secrets", { ...at, key: "X", value: refused.repeat(2000) })
        yield* call("POST", "/secrets", { ...at, key: "X", value: { nested: refused } })
        yield* call("POST", "/secrets", { ...at, key: refused, value: "x" })
        yield* call("POST", "/secrets", { ...at, key: "X", kind: refused, value: "x" })
        yield* call("POST", "/secrets", { ...at, environment: refused, key: "X" })
        yield* call("POST", "/secrets", { projectId: refused, environment: "development", key: "X" })
        yield* call("POST", "/secrets/bulk", { ...at, secrets: refused })
        yield* call("POST", "/secrets/bulk", { ...at, secrets: [{ key: "X", value: refused, more: refused }] })
        yield* call("POST", "/secrets", `{"value": "${values.malformed}`)
        yield* call("PATCH", `/secrets/${id}`, { value: `\${LITERAL}${refused}` })
        yield* call("GET", `/secrets?${query}`)
        yield* call("GET", `/secrets/composition?${query}`)
        yield* call("GET", `/secrets/${id}/versions`)
        yield* call("GET", `/secrets/diff?projectId=${at.projectId}&sourceEnv=development&targetEnv=staging`)
        for (const [where, answer] of kept.entries()) {
          for (const needle of needles) assert.notInclude(answer, needle, `answer ${where}`)
        }

        // The counter-check: the needles do come out where they are asked for.
        const inject = yield* call("GET", `/secrets/inject?${query}`)
        assert.include(inject.text, values.replaced)
        assert.include(inject.text, values.template)
        assert.include(inject.text, values.bulk)

        // Last, since it ends the token: a report holds it in every member, in good order and not.
        const one = { token, type: token, url: `https://example.com/${token}?t=${token}`, source: token }
        for (const body of [JSON.stringify([one]), JSON.stringify({ one }), `[{"token":"${token}`]) {
          yield* Effect.promise(() =>
            fetch(`${server.url}/reports/leaked-credentials`, { method: "POST", headers: scanner.headers(body), body })
          )
        }
        assert.strictEqual((yield* call("GET", `/secrets?${query}`)).status, 401)

        for (const needle of needles) assert.notInclude(server.output.text, needle, "log")
        const scanned = files(data)
        assert.isAbove(scanned.length, 500, "the data folder was scanned")
        const shapes = needles.flatMap((needle) => Needles.forms(needle).map(([, bytes]) => bytes))
        for (const path of scanned) {
          const bytes = readFileSync(path)
          for (const shape of shapes) assert.strictEqual(bytes.indexOf(shape), -1, path.slice(data.length))
        }
        // And the scan finds what does lie there in clear: key names.
        assert.isTrue(scanned.some((path) => readFileSync(path).includes("LITERAL")))
      }),
    120_000
  )
})

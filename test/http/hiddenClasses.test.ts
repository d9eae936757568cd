/**
 * Objects of each request have hidden classes that V8 knows already. A copy that gets a member more, and a
 * generator function that is made anew, have one of their own every time: slow to make, slow to read, and left behind
 * where only the long collection takes it (docs/architecture.md, "The hot path").
 */
import { assert, describe, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { parsed } from "#test/support/Json.ts"
import * as Release from "#test/support/Release.ts"

/** The code is warm: V8 has seen all of it often. */
const warm = 250
const measured = 200

const password = randomBytes(16).toString("hex")

const setUp = (folder: string, env: Record<string, string>) => {
  const words = "setup --email ada@example.com --name Ada --team T --project demo --token --access write"
  const { stdout } = spawnSync(process.execPath, [path.join(folder, "dist/ampoule.cjs"), ...words.split(" ")], {
    env: { PATH: process.env["PATH"], HOME: folder, ...env },
    input: `${password}\n`
  })
  return stdout.toString().trim()
}

const projectsOf = parsed(Schema.Struct({ items: Schema.Array(Schema.Struct({ id: Schema.String })) }))

/** `Schema.Redacted` of effect makes one for each text that it decodes. */
const platforms = "isEffectAllowed"

const asking = (url: string, token: string) => (route: string, body?: unknown) =>
  Effect.promise(async () => {
    const answer = await fetch(url + route, {
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) })
    })
    const text = await answer.text()
    assert.isTrue(answer.ok, `${route} answered ${answer.status}: ${text}`)
    return text
  })

/** The log of the thread that serves requests; the embedded database has a thread, and so a log, of its own. */
const logIn = (folder: string) => {
  const logs = fs.readdirSync(folder).map((name) => path.join(folder, name))
  const own = logs.find((log) => fs.readFileSync(log, "latin1").includes("dist/cli.mjs"))
  if (own === undefined) throw new Error("V8 wrote no log of the server's own thread")
  return own
}

/** Where hidden classes were made, the most frequent first. */
const places = (log: string, from: number) => {
  const counted = new Map<string, number>()
  for (const line of fs.readFileSync(log, "latin1").slice(from).split("\n")) {
    if (!line.startsWith("map,")) continue
    const [, kind, , , , , row, column, , name] = line.split(",")
    const place = `${kind} of ${name} at ${row}:${column}`
    counted.set(place, (counted.get(place) ?? 0) + 1)
  }
  return [...counted].toSorted(([, a], [, b]) => b - a)
}

describe("hidden classes", () => {
  it.scopedLive(
    "are not made anew for each request of the hot routes",
    () =>
      Effect.gen(function* () {
        const folder = yield* Release.build
        const logs = path.join(folder, "logs")
        fs.mkdirSync(logs)
        const env = { AMPOULE_DATA_DIR: path.join(folder, "data"), AMPOULE_RATE_LIMITS: "off" }
        const server = yield* Release.server(folder, env, ["--log-maps", `--logfile=${path.join(logs, "v8.log")}`])
        const token = setUp(folder, { ...env, AMPOULE_URL: server.url })
        const call = asking(server.url, token)
        const [{ id: projectId }] = projectsOf(yield* call("/projects")).items
        const at = `projectId=${projectId}&environment=development`
        const secrets = Array.from({ length: 20 }, (_, i) => ({ key: `KEY_${i}`, value: `value ${i}` }))
        yield* call("/secrets/bulk", { projectId, environment: "development", secrets })
        let count = 0
        const hot: Record<string, () => Effect.Effect<unknown>> = {
          verify: () => call("/me/verify"),
          "list of names": () => call(`/secrets?${at}`),
          inject: () => call(`/secrets/inject?${at}`),
          "one value": () => call(`/secrets/value?${at}&key=KEY_7`),
          create: () => call("/secrets", { projectId, environment: "staging", key: `NEW_${count++}`, value: "v" })
        }
        const log = logIn(logs)
        for (const [name, request] of Object.entries(hot)) {
          for (let i = 0; i < warm; i++) yield* request()
          const from = fs.statSync(log).size
          for (let i = 0; i < measured; i++) yield* request()
          const classes = places(log, from)
          const often = classes.filter(([place, times]) => times > measured / 2 && !place.includes(platforms))
          assert.deepStrictEqual(often, [], `${name}: for each of ${measured} requests`)
        }
      }),
    300_000
  )
})

/** Parts that the trials of faults share: a world to write in, readiness, the trail afterwards, and the record. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { execFile } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { promisify } from "node:util"
import { version } from "#src/Release.ts"

export type Env = Record<string, string>
export const setupCode = "the first owner"

export const folderOf = (name: string) =>
  Effect.acquireRelease(
    Effect.sync(() => fs.mkdtempSync(path.join(tmpdir(), `ampoule-${name}-`))),
    (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
  )

/** The first team, and how it gets projects and tokens that write. */
export const team = (url: string) =>
  Effect.promise(async () => {
    let cookie = ""
    const post = async <A>(to: string, body: object, shape: Schema.Schema<A>) => {
      const headers = { origin: url, cookie, "content-type": "application/json" }
      const response = await fetch(url + to, { method: "POST", headers, body: JSON.stringify(body) })
      assert.isTrue(response.ok, `POST ${to}: ${response.status}`)
      cookie ||= response.headers.getSetCookie()[0]?.split(";")[0] ?? ""
      return Schema.decodeUnknownSync(shape, { onExcessProperty: "ignore" })(await response.json())
    }
    const Made = Schema.Struct({ id: Schema.String })
    const person = { email: "ada@example.com", password: "vial of thirty drops" }
    const { team } = await post(
      "/setup",
      { setupCode, ...person, name: "Ada", teamName: "Ops" },
      Schema.Struct({ team: Made })
    )
    const Issued = Schema.Struct({ value: Schema.String })
    let named = 0
    const project = async () => (await post(`/teams/${team.id}/projects`, { name: `Shop ${++named}` }, Made)).id
    const issue = async (lifetime: "1d" | "30d", more: object = {}) => {
      const body = { name: `writer ${++named}`, accessLevel: "write", lifetime, ...more }
      return (await post(`/teams/${team.id}/api-tokens`, body, Issued)).value
    }
    const mcpScopes = ["identity:read", "projects:read", "secrets:read"]
    return {
      id: team.id,
      person,
      post: (to: string, body: object) => Effect.promise(() => post(to, body, Made)),
      tokenOfAnAgent: Effect.promise(() => issue("30d", { mcpScopes })),
      project: Effect.promise(project),
      token: Effect.promise(() => issue("30d")),
      tokenOfADay: Effect.promise(() => issue("1d"))
    }
  })

/** The first team with a project, and a token that writes. */
export const setUp = (url: string) =>
  Effect.flatMap(team(url), ({ project, token }) => Effect.all({ projectId: project, token }))

/** Milliseconds. A worker that is killed just as it is given a connection may leave the client without an answer. */
const patience = 5_000

export const isReady = (url: string) =>
  Effect.tryPromise(async () => {
    const { ok } = await fetch(`${url}/health/ready`, { signal: AbortSignal.timeout(patience) })
    return ok
  }).pipe(Effect.orElseSucceed(() => false))

/** Milliseconds from `began` until it holds; fails after a minute. */
export const until = (what: string, began: number, holds: Effect.Effect<boolean>) =>
  Effect.gen(function* () {
    while (performance.now() - began < 60_000) {
      if (yield* holds) return performance.now() - began
      yield* Effect.sleep("20 millis")
    }
    return assert.fail(`${what}: not within a minute`)
  })

export const untilReady = (url: string, began: number) => until("it is ready", began, isReady(url))

/** The program's command line on the data that `env` names; answers its exit code and what it said. */
export const ampoule = (release: string, env: Env, ...words: ReadonlyArray<string>) =>
  promisify(execFile)(process.execPath, [path.join(release, "dist/ampoule.cjs"), ...words], {
    env: { PATH: process.env["PATH"], ...env },
    maxBuffer: 2 ** 30
  }).then(
    ({ stderr, stdout }) => ({ code: 0, stdout, stderr }),
    ({ code, stderr, stdout }: { readonly code?: number; readonly stdout?: string; readonly stderr?: string }) => ({
      code: code ?? -1,
      stdout: stdout ?? "",
      stderr: stderr ?? ""
    })
  )

/** `ampoule audit verify --values`. */
export const verify = (release: string, env: Env) =>
  Effect.promise(() => ampoule(release, env, "audit", "verify", "--values"))

/** The trail verifies, and has every request that was answered. */
export const trailHas = (release: string, env: Env, answered: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const verified = yield* verify(release, env)
    // 2: it cannot tell of all, since the vault seals the last entries only later. 1 stands for what was altered.
    assert.include([0, 2], verified.code, verified.stdout + verified.stderr)
    const exported = yield* Effect.promise(() => ampoule(release, env, "audit", "export"))
    assert.strictEqual(exported.code, 0, exported.stderr)
    const recorded = new Set([...exported.stdout.matchAll(/"requestId":"([^"]+)"/g)].map(([, id]) => id))
    assert.isAbove(recorded.size, answered.length / 2)
    assert.deepStrictEqual(
      answered.filter((id) => !recorded.has(id)),
      []
    )
  })

/** Puts figures under a name into the file of a record, beside the existing ones. */
export const record = (file: string | undefined, what: string, name: string, figures: object) =>
  Effect.sync(() => {
    if (file === undefined) return
    const before: Record<string, unknown> = fs.existsSync(file)
      ? { ...(JSON.parse(fs.readFileSync(file, "utf8")) as object) }
      : {}
    const credentials = {
      ...before,
      what,
      date: new Date().toISOString().slice(0, 10),
      versions: { ampoule: version, node: process.versions.node },
      [name]: figures
    }
    fs.writeFileSync(file, `${JSON.stringify(credentials, undefined, 2)}\n`)
  })

/** Head of test/records/faults.json, for each trial that writes there. */
export const faults =
  "The released program under 4 writers and 4 readers while a dependency, its disk or its clock misbehaves: acknowledged writes lost, bulks there in part, answered requests missing in the trail: none, or the run fails. toldMillis: from the fault to the first 503 of readiness (null: it is only slow); of a disk and a read-only database from the first read that was refused, which came refusedMillis after the fault began (0: readiness told before); servingMillis, readyMillis: from the end of the fault to a write and a read that are answered, and to readiness. npm run test:faults"

/** Of times in milliseconds. */
export const spread = (times: ReadonlyArray<number>) => {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (part: number) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0)
  return { p50: at(0.5), p95: at(0.95), max: at(1) }
}

/** Exposure of a secret over HTTP, on pages and on the command line. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { SecretExposure } from "#schema/ExposureApi.ts"
import type { Scope } from "#schema/Scopes.ts"
import { Seal } from "#src/trail/Seal.ts"
import { parsed } from "#test/support/Json.ts"
import * as Statements from "#test/support/Statements.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { app, setUp } from "../cli/ProjectFolder.ts"

/** A secret of two versions, typed by one token: the token `old` read the first alone, the owner's session the second. */
const read = Effect.gen(function* () {
  const { project, run, set } = yield* setUp()
  const { team } = project
  const owner = (yield* World.session(team.owner)).text
  const old = yield* World.token({ team, name: "old" })
  const at = `projectId=${project.id}&environment=development`
  const value = (as: { readonly bearer: string } | { readonly session: string }) =>
    Effect.map(TestApp.get(`/secrets/value?${at}&key=API_KEY`, as), ({ status }) => assert.strictEqual(status, 200))
  yield* set("API_KEY", "one")
  yield* value({ bearer: old.text })
  yield* set("API_KEY", "two")
  yield* value({ session: owner })
  yield* Effect.flatMap(Seal, (seal) => seal.now)
  const listed = yield* TestApp.get(`/secrets?${at}`, { session: owner })
  const id = listed.json.items[0]?.id ?? ""
  const grantOf = (person: World.Person, scopes: ReadonlyArray<Scope>) =>
    Effect.map(World.grant({ person, teams: [{ team, scopes }] }), ({ text }) => text)
  return { project, run, owner, old, id, grantOf }
})
const sentence = "v2: 1 person, 1 token; v1 is still held by 1 token that has not read since"

layer(app, { excludeTestServices: true, timeout: "120 seconds" })("who was handed a secret", (it) => {
  it.scoped("is shown to owners and admins, and to tokens with audit:read", () =>
    Effect.gen(function* () {
      const { grantOf, id, old, owner, project } = yield* read
      const { team } = project
      const ofSecret = `/secrets/${id}/exposure` as const
      const ofProject = `/projects/${project.id}/exposure` as const
      const { items, versions } = (yield* TestApp.get(ofSecret, { session: owner })).json
      assert.deepStrictEqual(
        versions.map(({ handedTo, heldBy, version }) => [version, handedTo.people, handedTo.tokens, heldBy.tokens]),
        [
          [2, 1, 1, 1],
          [1, 0, 2, 1]
        ]
      )
      assert.deepStrictEqual(
        items
          .filter(({ way }) => way !== "wrote")
          .map(({ holder, version, via, way }) => [holder.type, holder.name, version, way, via]),
        [
          ["user", team.owner.email, 2, "read", "dashboard"],
          ["api_token", "old", 1, "read", "rest"]
        ]
      )
      const authors = items.filter(({ way }) => way === "wrote")
      assert.deepStrictEqual(
        authors.map(({ holder, version }) => [holder.type, version]),
        [
          ["api_token", 2],
          ["api_token", 1]
        ]
      )
      const listing = `/secrets?projectId=${project.id}&environment=development&lastRead=true` as const
      const [listed] = (yield* TestApp.get(listing, { session: owner })).json.items
      assert.deepStrictEqual(
        [listed?.lastRead?.holder.name, listed?.lastRead?.way, listed?.notReadFor90Days],
        [team.owner.email, "read", false]
      )
      const plain = yield* TestApp.get(listing.replace("&lastRead=true", "") as typeof listing, { session: owner })
      assert.notProperty(plain.json.items[0], "lastRead")
      assert.deepStrictEqual(TestApp.codeOf(yield* TestApp.get(listing, { bearer: old.text })), [403, "SCOPE_MISSING"])
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE exposure_reads SET last_at = last_at - interval '91 days' WHERE project_id = ${project.id}`
      const [unread] = (yield* TestApp.get(listing, { session: owner })).json.items
      assert.isTrue(unread?.notReadFor90Days)
      yield* sql`UPDATE exposure_reads SET last_at = last_at + interval '91 days' WHERE project_id = ${project.id}`
      // The page of who reaches the environment says when each person was last handed a value there.
      const bob = yield* World.member(team, "member")
      const reach = yield* TestApp.get(`/app/projects/${project.id}/env/development/access`, { session: owner })
      const lastReads = [...reach.text.matchAll(/data-label="Last read" class="hint">(<time|never)/g)].map(
        ([, at]) => at
      )
      assert.include(reach.text, bob.email)
      assert.sameMembers(lastReads, ["<time", "never"])
      // One look at the index for the report and its omissions, one for its progress, at any size.
      const statements = yield* Statements.during(TestApp.get(ofProject, { session: owner }))
      assert.lengthOf(
        statements.filter(({ text }) => text.includes("exposure_reads")),
        2
      )
      // A row of the index that is too much for one report, and everything before it.
      yield* sql`
        INSERT INTO exposure_reads SELECT ${Buffer.from("busy")}, project_id, environment_id,
          array_fill('BUSY'::text, ARRAY[100000]), NULL, NULL, revision, way, via, actor_type, actor_id, actor_name, ip,
          first_at, last_at - interval '1 day', count FROM exposure_reads WHERE project_id = ${project.id} LIMIT 1`
      const busy = (yield* TestApp.get(ofProject, { session: owner })).json
      assert.deepStrictEqual([busy.items.length, busy.items.some(({ key }) => key === "BUSY")], [4, false])
      assert.isString(busy.leftOutBefore)
      const page = yield* TestApp.get(`/app/projects/${project.id}/env/development`, { session: owner })
      assert.include(page.text, "at least 1 person")
      yield* sql`DELETE FROM exposure_reads WHERE id = ${Buffer.from("busy")}`
      assert.isNull((yield* TestApp.get(ofProject, { session: owner })).json.leftOutBefore)
      const narrowed = yield* TestApp.get(`${ofProject}?token=${old.id}`, { session: owner })
      assert.deepStrictEqual(
        narrowed.json.items.map(({ holder }) => holder.id),
        [old.id]
      )
      const auditor = yield* World.token({ team, accessLevel: "read", mcpScopes: ["audit:read"] })
      const admin = yield* World.member(team, "admin")
      const status = (as: Parameters<typeof TestApp.get>[1]) =>
        Effect.forEach([ofSecret, ofProject], (path) => Effect.map(TestApp.get(path, as), TestApp.codeOf))
      const both = (answer: ReadonlyArray<unknown>) => [answer, answer]
      assert.deepStrictEqual(yield* status({ bearer: auditor.text }), both([200, undefined]))
      assert.deepStrictEqual(yield* status({ bearer: yield* grantOf(admin, ["secrets:read"]) }), both([200, undefined]))
      assert.deepStrictEqual(yield* status({ bearer: old.text }), both([403, "SCOPE_MISSING"]))
      assert.deepStrictEqual(
        yield* status({ bearer: yield* grantOf(admin, ["projects:read"]) }),
        both([403, "SCOPE_MISSING"])
      )
      const member = yield* World.member(team, "member")
      assert.deepStrictEqual(
        yield* status({ bearer: yield* grantOf(member, ["secrets:read"]) }),
        both([403, "FORBIDDEN"])
      )
      const other = yield* World.session((yield* World.team()).owner)
      assert.deepStrictEqual(yield* status({ session: other.text }), [
        [404, "SECRET_NOT_FOUND"],
        [404, "PROJECT_NOT_FOUND"]
      ])
    })
  )

  it.scoped("is on the page of the secret, and on one of each person and token", () =>
    Effect.gen(function* () {
      const { id, old, owner, project } = yield* read
      const here = `/app/projects/${project.id}/env/development/secrets/${id}` as const
      const html = yield* TestApp.get(here, { session: owner })
      assert.include(html.text, sentence)
      // The list says how many were handed each current version.
      const list = `/app/projects/${project.id}/env/development` as const
      const current = sentence.slice(sentence.indexOf(": ") + 2).split(";")[0]
      assert.match(
        (yield* TestApp.get(list, { session: owner })).text,
        new RegExp(`Who has v2"[^>]*>${current}</span>`)
      )
      const page = yield* TestApp.get(`${here}/exposure`, { session: owner })
      assert.strictEqual(page.status, 200)
      const link = `/app/projects/${project.id}/exposure?token=${old.id}` as const
      assert.include(page.text, `href="${link}"`)
      const ofToken = yield* TestApp.get(link, { session: owner })
      assert.match(ofToken.text, /<span class="hint">v1<\/span>/)
      assert.notMatch(ofToken.text, /<span class="hint">v2<\/span>/)
      const member = yield* World.session(yield* World.member(project.team, "member"))
      assert.notInclude((yield* TestApp.get(here, { session: member.text })).text, `id="exposure"`)
      assert.strictEqual((yield* TestApp.get(`${here}/exposure`, { session: member.text })).status, 403)
    })
  )

  it.scoped("is printed by `ampoule exposed`", () =>
    Effect.gen(function* () {
      const { grantOf, old, project, run } = yield* read
      const AMPOULE_API_TOKEN = yield* grantOf(project.team.owner, ["projects:read", "secrets:read"])
      const exposed = (...words: ReadonlyArray<string>) => run(["exposed", ...words], { env: { AMPOULE_API_TOKEN } })
      const printed = yield* exposed("API_KEY")
      assert.strictEqual(printed.code, 0, printed.stderr)
      assert.include(printed.stdout, `API_KEY ${sentence}\n`)
      assert.match(printed.stdout, /API_KEY +v1 +development +token old +read \(rest\) +1 /)
      assert.include(printed.stderr, "As of ")
      const report = parsed(SecretExposure)((yield* exposed("API_KEY", "--json")).stdout)
      assert.lengthOf(report.items, 4)
      const ofOwner = yield* exposed("--by", project.team.owner.email)
      assert.notInclude(ofOwner.stdout, "token old")
      assert.include(ofOwner.stdout, project.team.owner.email)
      assert.include((yield* exposed("--token", "old")).stdout, "token old")
      assert.include(
        (yield* exposed("--token", old.id, "--since", "2999-01-01")).stderr,
        "The trail records no access."
      )
      const listed = yield* run(["secrets", "list", "--last-read"], { env: { AMPOULE_API_TOKEN } })
      assert.match(listed.stdout, new RegExp(`API_KEY .* by ${project.team.owner.email}`))
      const refused = yield* run(["exposed", "API_KEY"])
      assert.strictEqual(refused.code, 1)
      assert.include(refused.stderr, "audit:read")
      assert.strictEqual((yield* exposed("--since", "yesterday")).code, 2)
    })
  )

  it.scoped("is found by a key that the secret had before, and says what it is called now", () =>
    Effect.gen(function* () {
      const { grantOf, id, owner, project, run } = yield* read
      const renamed = yield* TestApp.post(`/secrets/${id}/rename`, { session: owner, json: { key: "API_TOKEN" } })
      assert.strictEqual(renamed.status, 200, renamed.text)
      yield* Effect.flatMap(Seal, (seal) => seal.now)
      const at = `projectId=${project.id}&environment=development` as const
      const of = (key: string) => TestApp.get(`/secrets/exposure?${at}&key=${key}`, { session: owner })
      const before = (yield* of("API_KEY")).json
      assert.deepStrictEqual(
        [before.key, before.renamedTo, before.formerly, before.items.length],
        ["API_KEY", ["API_TOKEN"], [], 4]
      )
      const now = (yield* of("API_TOKEN")).json
      assert.deepStrictEqual([now.renamedTo, now.formerly], [[], ["API_KEY"]])
      assert.deepStrictEqual(TestApp.codeOf(yield* of("NEVER")), [404, "SECRET_NOT_FOUND"])

      const env = {
        AMPOULE_API_TOKEN: yield* grantOf(project.team.owner, ["identity:read", "projects:read", "secrets:read"])
      }
      const printed = yield* run(["exposed", "API_KEY"], { env })
      assert.strictEqual(printed.code, 0, printed.stderr)
      assert.match(printed.stdout, /API_KEY +v2/)
      assert.include(printed.stderr, "API_KEY is now called API_TOKEN: `ampoule exposed API_TOKEN`.")
    })
  )
})

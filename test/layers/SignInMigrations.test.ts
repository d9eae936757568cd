/**
 * Rows of a release before passkeys, reports of leaks, issuers, notices and lists of addresses (0035 to 0039) live on:
 * the
 * tables are taken back to that release's with the rows in them, migrated, and used as before and by what is new.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Migrations from "#layers/Migrations.ts"
import { authorizationTables, type AuthorizationRow, type AuthorizationTable } from "#src/rows/AuthorizationRows.ts"
import { textOf } from "#src/rows/RowMac.ts"
import * as SignIn from "#test/support/SignIn.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const steps = [
  "0035_passkeys",
  "0036_leaked_credentials",
  "0037_openid",
  "0038_account_notices",
  "0039_addresses",
  "0046_ways_in"
]
const newTables = [
  "passkey_challenges",
  "passkeys",
  "leaked_credentials",
  "sign_in_rules",
  "sign_in_identities",
  "sign_in_issuers",
  "account_notices"
]
const newColumns: ReadonlyArray<readonly [table: string, columns: ReadonlyArray<string>]> = [
  ["users", ["proposal_declined", "recovering"]],
  ["teams", ["leaked_credentials", "sign_in_only", "suspended", "session_addresses"]],
  ["memberships", ["ruled_by", "role_limit", "break_glass"]],
  [
    "sessions",
    ["issuer", "only_team", "issuer_subject", "issuer_session", "proved_at", "closed_teams", "confirmed_teams"]
  ],
  [
    "sign_in_steps",
    ["issuer", "only_team", "issuer_subject", "issuer_session", "closed_teams", "confirmed_teams", "recovery"]
  ],
  ["totp_factors", ["suspended_at", "young_until", "closed_teams"]],
  ["recovery_codes", ["young_until", "closed_teams"]],
  ["api_tokens", ["addresses"]]
]

/** Texts of rows, each as that release put a MAC over it: what a new column says by itself is not in them. */
const texts: ReadonlyArray<readonly [table: AuthorizationTable, row: Record<string, unknown>, text: string]> = [
  [
    "teams",
    {
      plan: "team",
      leakedCredentials: "revoke",
      stepUpMinutes: 15,
      signInOnly: null,
      sessionAddresses: null,
      secondPerson: false,
      allowedKeys: null
    },
    '["teams","teams id","team",false,false]'
  ],
  [
    "memberships",
    { role: "owner", active: true, deactivatedAt: null, updatedAt: new Date(0), ruledBy: null, roleLimit: null },
    '["memberships","memberships teamId","memberships userId","owner",true,null,0]'
  ],
  [
    "users",
    { email: "ada@example.com", passwordHash: "$argon2id$", vouchedBy: null, madeBy: null },
    '["users","users id","ada@example.com","$argon2id$"]'
  ],
  [
    "sign_in_steps",
    {
      hash: Buffer.from([1, 2, 3]),
      expiresAt: new Date(1_000),
      issuer: null,
      onlyTeam: null,
      closedTeams: null,
      confirmedTeams: null
    },
    '["sign_in_steps","sign_in_steps id","sign_in_steps lookupId","AQID","sign_in_steps userId",1000]'
  ]
]
const flags: ReadonlySet<string> = new Set([
  "adminsNeedGrants",
  "tokensFollowCreators",
  "secondFactorRequired",
  "secondFactor",
  "suspended",
  "breakGlass",
  "recovering",
  "recovery"
])

describe("the MAC of a row of the release before", () => {
  it("is over the text that it always was", () => {
    for (const [table, said, text] of texts) {
      const row = Object.fromEntries(
        authorizationTables[table].columns.map((column) => [column, flags.has(column) ? false : `${table} ${column}`])
      )
      // All columns of the table, by construction.
      assert.strictEqual(textOf(table, { ...row, ...said } as AuthorizationRow<typeof table>), text)
    }
  })
})

layer(TestApp.layer, { excludeTestServices: true })("a database of the release before issuers and passkeys", (it) => {
  it.effect("is migrated with its rows, which open what they opened, and take what is new", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const plain = yield* SignIn.signedIn
      const guarded = yield* SignIn.signedIn
      const enrolled = yield* SignIn.enrol(guarded.jar)
      yield* SignIn.agedFactors(guarded.person)
      const project = yield* World.project({ team: plain.team })
      const member = yield* World.member(plain.team, "member")
      const session = yield* World.session(member)
      const login = yield* World.grant({ person: member, teams: [{ team: plain.team, scopes: ["secrets:run"] }] })
      const token = yield* World.token({ team: plain.team, creator: plain.person })
      const gone = yield* World.token({ team: plain.team, creator: plain.person })
      yield* World.revoke("api_tokens", gone)
      const waiting = SignIn.kept(
        yield* SignIn.submit("/app/sign-in", new Map(), { email: guarded.person.email, password: SignIn.password })
      )
      const path = `/secrets/inject?projectId=${project.id}&environment=development` as const
      const reached = Effect.map(
        Effect.forEach(
          [{ session: session.text }, { bearer: login.text }, { bearer: token.text }, { bearer: gone.text }],
          (way) => TestApp.get(path, way)
        ),
        (answers) => answers.map(({ status }) => status)
      )
      assert.deepStrictEqual(yield* reached, [200, 200, 200, 401])
      const macs = sql<{ readonly mac: string }>`
        SELECT encode(mac, 'hex') AS mac FROM users UNION ALL SELECT encode(mac, 'hex') FROM teams
        UNION ALL SELECT encode(mac, 'hex') FROM memberships UNION ALL SELECT encode(mac, 'hex') FROM sessions
        UNION ALL SELECT encode(mac, 'hex') FROM api_tokens ORDER BY 1`
      const before = yield* macs

      yield* sql.withTransaction(
        Effect.gen(function* () {
          for (const table of newTables) yield* sql.unsafe(`DROP TABLE ${table}`)
          for (const [table, columns] of newColumns) {
            for (const column of columns) yield* sql.unsafe(`ALTER TABLE ${table} DROP COLUMN ${column}`)
          }
        })
      )
      for (const name of steps) yield* Migrations.registry[name] ?? Effect.dieMessage(name)

      // Not a row was touched, and all that was given opens what it opened.
      assert.deepStrictEqual(yield* macs, before)
      assert.deepStrictEqual(yield* reached, [200, 200, 200, 401])
      const again = yield* SignIn.submit("/app/sign-in", new Map(), {
        email: plain.person.email,
        password: SignIn.password
      })
      assert.deepStrictEqual([again.status, again.headers.get("location")], [303, "/app"])
      // A sign-in between its steps, and the second factor behind it.
      const done = yield* SignIn.submit("/app/sign-in/code", waiting, {
        code: yield* SignIn.codeOf(enrolled.secret, 1)
      })
      assert.strictEqual(done.status, 303, done.text)
      const recovered = yield* TestApp.post("/auth/session", {
        json: { email: guarded.person.email, password: SignIn.password, code: enrolled.codes[0] }
      })
      assert.strictEqual(recovered.status, 200, recovered.text)
      const owner = { session: SignIn.kept(again).get("ampoule_session") ?? "" }
      const rules = yield* TestApp.patch(`/teams/${plain.team.id}`, { ...owner, json: { name: "Still here" } })
      assert.deepInclude(rules.json, { leakedCredentials: "revoke", sessionAddresses: null, stepUpMinutes: 15 })
      const settings = yield* TestApp.get(`/teams/${plain.team.id}/sign-in`, owner)
      assert.deepStrictEqual(settings.json, { issuers: [], rules: [], only: null, breakGlass: [] })
      const listed = yield* TestApp.get(`/teams/${plain.team.id}/api-tokens`, owner)
      assert.deepStrictEqual(
        listed.json.items.map(({ addresses, id }) => [id, addresses]),
        [[token.id, null]]
      )

      // An old row takes what is new, and a writer of the database does not take it back.
      const bound = yield* TestApp.patch(`/teams/${plain.team.id}/api-tokens/${token.id}`, {
        ...owner,
        json: { addresses: ["198.51.100.0/24"] }
      })
      assert.strictEqual(bound.status, 200, bound.text)
      assert.strictEqual((yield* TestApp.get(path, { bearer: token.text })).status, 401)
      yield* sql`UPDATE api_tokens SET addresses = NULL WHERE id = ${token.id}`
      assert.strictEqual((yield* TestApp.get(path, { bearer: token.text })).status, 401)
      // An unknown browser gives a notice, in the new table.
      assert.include((yield* SignIn.see("/app", SignIn.kept(again))).text, "New sign-in:")
    })
  )
})

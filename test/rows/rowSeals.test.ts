/** Gains of a writer of the database: authorization rows, inserted, altered, swapped and brought back by SQL. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { createHash, createSecretKey } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import * as OldRows from "#src/rows/OldRows.ts"
import * as KeyRing from "#src/crypto/KeyRing.ts"
import * as RowMac from "#src/rows/RowMac.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import {
  columnName,
  columnsOf,
  type AuthorizationRow,
  type AuthorizationTable,
  authorizationTables
} from "#src/rows/AuthorizationRows.ts"
import * as TrailVerification from "#src/trail/TrailVerification.ts"
import { Passwords } from "#src/credentials/Passwords.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Vault } from "#src/crypto/Vault.ts"
import { RateLimits } from "#src/limits/RateLimiter.ts"
import * as TrailWorld from "#test/audit/TrailWorld.ts"
import * as Seals from "#test/support/Seals.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { oauthToken } from "#test/access/Scene.ts"
import { initialize } from "#test/mcp/Clients.ts"

// Object.keys loses the names that `sealed` has.
const tables = Object.keys(authorizationTables) as ReadonlyArray<AuthorizationTable>
const password = "vial of thirty drops"

describe("the MAC of a row", () => {
  const key = (text: string) => KeyRing.unbound(createSecretKey(Buffer.from(text)))
  const macsOf = (rows: string) =>
    RowMac.make({ rows: key(rows), credentials: key("pepper"), passwords: key("passwords") }, () => {})
  const macs = macsOf("rows")
  const rowOf = (table: AuthorizationTable): Record<string, string> =>
    Object.fromEntries(authorizationTables[table].columns.map((column) => [column, `${column} as it was`]))

  it("is good for every column as it was, and for this table alone", () => {
    for (const table of tables) {
      // The columns of the table, by construction.
      const row = rowOf(table) as AuthorizationRow<typeof table>
      const mac = macs.of(table, row)
      assert.isTrue(macs.isAuthentic(table, { ...row, mac }))
      assert.isTrue(macs.isAuthentic(table, { ...row, mac: mac.toString("hex") }))
      for (const column of authorizationTables[table].columns) {
        for (const forged of ["another", "", null, 1, [`${column} as it was`, ""]]) {
          assert.isFalse(macs.isAuthentic(table, { ...row, [column]: forged, mac }), `${table}.${column}`)
        }
      }
      for (const mac of [null, Buffer.alloc(0), Buffer.alloc(32), "", "00"]) {
        assert.isFalse(macs.isAuthentic(table, { ...row, mac }), table)
      }
      const another = macsOf("other rows")
      assert.isFalse(another.isAuthentic(table, { ...row, mac }), table)
    }
    const macOf = new Map(tables.map((table) => [macs.of(table, rowOf(table) as never).toString("hex"), table]))
    assert.strictEqual(macOf.size, tables.length)
  })
})

/** Good for minutes, which the MAC says, or for a grant that has a row of its own: their end is not in the trail. */
const shortLived: ReadonlySet<string> = new Set<AuthorizationTable>([
  "oauth_codes",
  "oauth_access_tokens",
  "oauth_interactions",
  "passkey_challenges",
  "value_requests",
  "run_plans"
])

describe("a statement of the server", () => {
  const files = ["src", "layers"].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => /\.tsx?$/.test(name))
      .map((name) => `${folder}/${name}`)
  )

  it("writes or empties the MAC with each authorization row, and notes each end", () => {
    const wrong: Array<string> = []
    let count = 0
    for (const file of files) {
      const text = readFileSync(file, "utf8")
      for (const [whole, table] of text.matchAll(/INSERT INTO ([a-z_]+)\b(?! AS \w+ \$\{)(?!\s+\$\{)/g)) {
        if (table in authorizationTables) wrong.push(`${file}: ${whole}`)
      }
      for (const [whole, before, verb, table, rest] of text.matchAll(
        /([^`]{0,80})`\s*(UPDATE|DELETE FROM) ([a-z_]+)\b([^`]*)/g
      )) {
        const ends = verb === "DELETE FROM" || /\bmac = ''/.test(rest)
        if (!(table in authorizationTables) || !ends || shortLived.has(table)) continue
        if (!/RowJournal\.noteEnds\([^)]*\)$/.test(before)) wrong.push(`${file}: ${whole}`)
      }
      for (const [whole, table, set] of text.matchAll(
        /UPDATE ([a-z_]+)(?: \w+)?\s+SET\s([^`]*?)(?:\sWHERE\s|\sFROM\s|`)/g
      )) {
        if (!(table in authorizationTables)) continue
        count++
        // Checked just above.
        const { columns, ended } = authorizationTables[table as AuthorizationTable]
        const names = [...columns.map(columnName), ...(ended === null ? [] : [ended])]
        const changed = names.filter((name) => new RegExp(`(^|[\\s,])${name} =`).test(set))
        if (changed.length > 0 && !/\bmac = (''|NULL)/.test(set)) wrong.push(`${file}: ${whole}`)
      }
    }
    assert.deepStrictEqual(wrong, [])
    assert.isAbove(count, 10)
  })
})

/** Two teams: the victim's, with a value, and the attacker's own. */
const scene = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const passwords = yield* Passwords
  const passwordHash = yield* passwords.hash(Redacted.make(password), "password")
  const plainHash = Either.getOrThrow((yield* (yield* RowSeal).ready).openPassword(passwordHash))
  const owner = yield* World.person({ passwordHash })
  const victim = yield* World.project({ team: yield* World.team({ owner }) })
  const session = yield* World.session(owner)
  const where = { projectId: victim.id, environment: "development" }
  const secret = yield* TestApp.post("/secrets", {
    session: session.text,
    json: { ...where, key: "K", value: "the value" }
  })
  assert.strictEqual(secret.status, 201, secret.text)
  const member = yield* World.member(victim.team, "member")
  const granted = yield* World.member(victim.team, "member")
  yield* sql`
    INSERT INTO access_grants (id, team_id, user_id, project_id, environment_id, level, created_by, created_at)
    VALUES (gen_random_uuid(), ${victim.team.id}, ${granted.id}, ${victim.id}, ${victim.staging.id}, 'values', ${owner.id}, now())`
  yield* Seals.give("access_grants")
  const closed = { session: session.text, json: { readers: "granted" } }
  const restricted = yield* TestApp.patch(`/environments/${victim.staging.id}`, closed)
  assert.strictEqual(restricted.status, 200, restricted.text)
  const asker = yield* World.member(victim.team, "member")
  const accessRequest = yield* TestApp.post(`/environments/${victim.staging.id}/access-requests`, {
    session: (yield* World.session(asker)).text,
    json: { level: "values", hours: 2, reason: "Incident 42" }
  })
  assert.strictEqual(accessRequest.status, 201, accessRequest.text)
  const attacker = yield* World.project()
  const invited = { session: session.text, json: { email: `${granted.id}@invited.example`, role: "member" } }
  const invitation = yield* TestApp.post(`/teams/${victim.team.id}/invitations`, invited)
  assert.strictEqual(invitation.status, 201, invitation.text)
  const hook = yield* TestApp.post(`/teams/${victim.team.id}/webhooks`, {
    session: session.text,
    json: { name: "hook", url: "https://hooks.example/team" }
  })
  assert.strictEqual(hook.status, 201, hook.text)
  const device = yield* TestApp.post("/auth/cli/device", { headers: { "x-forwarded-for": "127.0.0.1" } })
  assert.isBelow(device.status, 300, device.text)
  const lookupId = TokenText.parse(device.json.deviceCode)?.id ?? ""
  const [request] = yield* sql<{ readonly mac: string }>`
    SELECT encode(mac, 'hex') AS mac FROM device_requests WHERE lookup_id = ${lookupId}`
  const scopes = ["identity:read", "secrets:run", "secrets:read_values"] as const
  return {
    victim,
    owner,
    plainHash,
    attacker,
    invitation: { id: invitation.json.id, code: new URL(invitation.json.inviteUrl).searchParams.get("code") ?? "" },
    device: { code: device.json.deviceCode, mac: request.mac },
    agent: yield* oauthToken(owner, victim.team, `${TestApp.baseUrl}/mcp`, {
      scopes,
      projects: null,
      environments: null
    }),
    request: accessRequest.json.id,
    webhook: hook.json.id,
    granted,
    ofGranted: yield* World.session(granted),
    ofOwner: session,
    member,
    ofMember: yield* World.session(member),
    token: yield* World.token({ team: victim.team, creator: owner }),
    grant: yield* World.grant({ person: owner, teams: [{ team: victim.team, scopes }] }),
    ofAttacker: yield* World.session(attacker.team.owner),
    attackersToken: yield* World.token({ team: attacker.team })
  }
})
type Scene = Effect.Effect.Success<typeof scene>

/** Whether the credential is given the victim's value. */
const readsValue = ({ victim }: Pick<Scene, "victim">, asked: TestApp.Asked) =>
  Effect.map(
    TestApp.get(`/secrets/inject?projectId=${victim.id}&environment=development`, asked),
    ({ status, text }) => status === 200 && text.includes("the value")
  )

type Needs = Effect.Effect.Context<ReturnType<typeof readsValue>>
interface Probe<Table extends AuthorizationTable> {
  /** The row, as SQL finds it. */
  readonly row: (scene: Scene) => string
  /** Whether it still gives what it gave. */
  readonly works: (scene: Scene) => Effect.Effect<boolean, never, Needs>
  /** SQL of another value, of each column that decides. The database itself refuses some: a key that others name. */
  readonly forged: Readonly<Record<(typeof authorizationTables)[Table]["columns"][number], (scene: Scene) => string>>
}

const id = () => "gen_random_uuid()"
const bytes = () => "decode(repeat('ab', 32), 'hex')"
const text = () => "'x' || gen_random_uuid()"
const flipped = (column: string) => () => `NOT ${column}`
const later = (column: string) => () => `coalesce(${column}, now()) + interval '1 hour'`
const withValue = (value: string) => () => value
const attackers = {
  team: (s: Scene) => `'${s.attacker.team.id}'`,
  person: (s: Scene) => `'${s.attacker.team.owner.id}'`
}
const attackersProject = (s: Scene) => `'${s.attacker.id}'`
const attackersList = (s: Scene) => `ARRAY['${s.attacker.id}']::uuid[]`
const attackersEnvironments = (s: Scene) => `ARRAY['${s.attacker.development.id}']::uuid[]`
/** Whether `/mcp` knows the credential. */
const isAccepted = (bearer: string) =>
  Effect.map(
    TestApp.post("/mcp", {
      bearer,
      headers: { accept: "application/json, text/event-stream", host: new URL(TestApp.baseUrl).host },
      json: initialize
    }),
    ({ status }) => status !== 401
  )
/** Requests for access that the owner may decide about. */
const requests = (s: Pick<Scene, "ofOwner">) =>
  Effect.map(TestApp.get("/access-requests", { session: s.ofOwner.text }), ({ json }) => json.items.map(({ id }) => id))
const byToken = (s: Scene) => readsValue(s, { bearer: s.token.text })
const byMember = (s: Scene) => readsValue(s, { session: s.ofMember.text })

/** Used once, or by others' programs: tried in the journeys of `test/oauth`, `test/machines`, `test/mcp` and of reset links. */
type Elsewhere =
  | "second_person_requests"
  | "value_requests"
  | "run_plans"
  | "totp_factors"
  | "recovery_codes"
  | "sign_in_steps"
  | "passkeys"
  | "passkey_challenges"
  | "sign_in_issuers"
  | "sign_in_identities"
  | "sign_in_rules"
  | "machine_rules"
  | "password_resets"
  | "oauth_codes"
  | "oauth_refresh_tokens"
  | "oauth_interactions"
type Probed = Exclude<AuthorizationTable, Elsewhere>
const isProbed = (table: AuthorizationTable): table is Probed => Object.hasOwn(probes, table)

const probes: { readonly [Table in Probed]: Probe<Table> } = {
  users: {
    row: (s) => `id = '${s.owner.id}'`,
    works: (s) =>
      Effect.map(
        TestApp.post("/auth/session", { json: { email: s.owner.email, password } }),
        ({ status }) => status === 200
      ),
    forged: {
      id,
      email: text,
      passwordHash: text,
      secondFactor: flipped("second_factor"),
      recovering: flipped("recovering"),
      vouchedBy: withValue("'operator'"),
      madeBy: attackers.team
    }
  },
  teams: {
    row: (s) => `id = '${s.victim.team.id}'`,
    works: byToken,
    forged: {
      id,
      plan: withValue("'developer'"),
      adminsNeedGrants: flipped("admins_need_grants"),
      tokensFollowCreators: flipped("tokens_follow_creators"),
      secondFactorRequired: flipped("second_factor_required"),
      stepUpMinutes: withValue("1440"),
      leakedCredentials: withValue("'notify'"),
      signInOnly: withValue("'{corp}'"),
      suspended: flipped("suspended"),
      sessionAddresses: withValue("ARRAY['127.0.0.1']"),
      secondPerson: flipped("second_person"),
      allowedKeys: withValue("ARRAY['*']")
    }
  },
  memberships: {
    row: (s) => `team_id = '${s.victim.team.id}' AND user_id = '${s.member.id}'`,
    works: byMember,
    forged: {
      teamId: attackers.team,
      userId: attackers.person,
      role: withValue("'owner'"),
      active: flipped("active"),
      deactivatedAt: later("deactivated_at"),
      updatedAt: later("updated_at"),
      ruledBy: withValue("'corp'"),
      roleLimit: withValue("'viewer'"),
      breakGlass: flipped("break_glass")
    }
  },
  projects: {
    row: (s) => `id = '${s.victim.id}'`,
    works: byToken,
    forged: { id, teamId: attackers.team, slug: text, visibility: withValue("'granted'") }
  },
  environments: {
    row: (s) => `id = '${s.victim.development.id}'`,
    works: byToken,
    forged: {
      id,
      teamId: attackers.team,
      projectId: attackersProject,
      slug: text,
      protected: flipped("protected"),
      readers: withValue("'granted'"),
      changes: withValue("'proposed'"),
      approvers: (s) => `ARRAY[${attackers.person(s)}]::uuid[]`,
      approvals: withValue("2")
    }
  },
  access_grants: {
    row: (s) => `user_id = '${s.granted.id}'`,
    works: (s) =>
      Effect.map(
        TestApp.get(`/secrets/inject?projectId=${s.victim.id}&environment=staging`, { session: s.ofGranted.text }),
        ({ status }) => status === 200
      ),
    forged: {
      id,
      teamId: attackers.team,
      userId: attackers.person,
      projectId: attackersProject,
      environmentId: withValue("NULL"),
      level: withValue("'write'"),
      until: later("until")
    }
  },
  access_requests: {
    row: (s) => `id = '${s.request}'`,
    works: (s) => Effect.map(requests(s), (ids) => ids.includes(s.request)),
    forged: {
      id,
      teamId: attackers.team,
      userId: (s) => `'${s.member.id}'`,
      environmentId: (s) => `'${s.victim.development.id}'`,
      level: withValue("'write'"),
      hours: withValue("hours + 1000"),
      status: withValue("'approved'"),
      approvedBy: (s) => `'${s.member.id}'`,
      createdAt: later("created_at"),
      expiresAt: later("expires_at")
    }
  },
  sessions: {
    row: (s) => `id = '${s.ofMember.id}'`,
    works: byMember,
    forged: {
      id,
      lookupId: text,
      hash: bytes,
      userId: attackers.person,
      createdAt: later("created_at"),
      expiresAt: later("expires_at"),
      factorAt: later("factor_at"),
      manages: attackers.team,
      loginId: id,
      issuer: withValue("'corp'"),
      onlyTeam: id,
      provedAt: withValue("now()"),
      closedTeams: withValue("ARRAY[]::uuid[]"),
      confirmedTeams: withValue("ARRAY[]::uuid[]")
    }
  },
  api_tokens: {
    row: (s) => `id = '${s.token.id}'`,
    works: byToken,
    forged: {
      id,
      lookupId: text,
      hash: bytes,
      teamId: attackers.team,
      accessLevel: withValue("'read'"),
      projectIds: attackersList,
      environmentIds: attackersEnvironments,
      mcpScopes: withValue("'{secrets:run}'"),
      mcpOnly: flipped("mcp_only"),
      createdBy: attackers.person,
      createdAt: later("created_at"),
      expiresAt: later("expires_at"),
      ruleId: id,
      addresses: withValue("ARRAY['127.0.0.1']")
    }
  },
  cli_grants: {
    row: (s) => `id = '${s.grant.id}'`,
    works: (s) => readsValue(s, { bearer: s.grant.text }),
    forged: {
      id,
      lookupId: text,
      hash: bytes,
      userId: (s) => `'${s.member.id}'`,
      machine: flipped("machine"),
      projectIds: attackersList,
      environmentIds: attackersEnvironments,
      createdAt: later("created_at"),
      expiresAt: later("expires_at"),
      factorAt: later("factor_at")
    }
  },
  invitations: {
    row: (s) => `id = '${s.invitation.id}'`,
    works: (s) => Effect.map(TestApp.get(`/invite?code=${s.invitation.code}`), ({ status }) => status === 200),
    forged: {
      id,
      lookupId: text,
      hash: bytes,
      teamId: attackers.team,
      email: text,
      role: withValue("'owner'"),
      expiresAt: later("expires_at")
    }
  },
  device_requests: {
    row: (s) => `mac = decode('${s.device.mac}', 'hex')`,
    // A pending login reads that it waits; a missing one that it failed.
    works: (s) =>
      Effect.map(
        TestApp.post("/auth/cli/device/token", { json: { deviceCode: s.device.code } }),
        ({ json }) => json.status === "pending"
      ),
    forged: {
      id,
      lookupId: text,
      hash: bytes,
      userCodeHash: bytes,
      status: withValue("'approved'"),
      machineRequested: flipped("machine_requested"),
      expiresAt: later("expires_at"),
      decidedBy: attackers.person,
      machine: withValue("true"),
      teams: withValue("'[]'"),
      projectIds: attackersList,
      environmentIds: attackersEnvironments,
      factorAt: later("factor_at"),
      manages: attackers.team,
      loginId: id,
      askedBy: attackers.person
    }
  },
  webhooks: {
    row: (s) => `id = '${s.webhook}'`,
    works: (s) =>
      Effect.map(TestApp.get(`/teams/${s.victim.team.id}/webhooks`, { session: s.ofOwner.text }), ({ json }) =>
        json.items.some(({ id }) => id === s.webhook)
      ),
    forged: {
      id,
      teamId: attackers.team,
      url: withValue("'https://evil.example/hook'"),
      events: withValue("ARRAY['access.break_glass']"),
      format: withValue("'slack'"),
      enabled: flipped("enabled")
    }
  },
  oauth_grants: {
    row: (s) => `id = '${s.agent.id}'`,
    works: (s) => isAccepted(s.agent.text),
    forged: {
      id,
      userId: (s) => `'${s.member.id}'`,
      clientId: text,
      scopes: withValue("scopes || '{secrets:write}'::text[]"),
      projectIds: attackersList,
      environmentIds: attackersEnvironments,
      payload: withValue(`'{"kind": "Grant"}'`),
      createdAt: later("created_at"),
      expiresAt: later("expires_at"),
      factorAt: later("factor_at")
    }
  },
  oauth_grant_teams: {
    row: (s) => `grant_id = '${s.agent.id}'`,
    works: (s) => isAccepted(s.agent.text),
    forged: { grantId: id, teamId: attackers.team }
  },
  oauth_access_tokens: {
    row: (s) => `grant_id = '${s.agent.id}'`,
    works: (s) => isAccepted(s.agent.text),
    forged: {
      lookupId: text,
      hash: bytes,
      grantId: id,
      audience: text,
      scopes: withValue("scopes || '{secrets:write}'::text[]"),
      expiresAt: later("expires_at")
    }
  },
  cli_grant_teams: {
    row: (s) => `grant_id = '${s.grant.id}'`,
    works: (s) => readsValue(s, { bearer: s.grant.text }),
    forged: { grantId: id, teamId: attackers.team, scopes: withValue("scopes || '{secrets:write}'::text[]") }
  }
}

const app = TestApp.layer.pipe(Layer.provide(Layer.succeed(RateLimits, "off")), Layer.provideMerge(TrailWorld.alarms))

layer(app, { excludeTestServices: true, timeout: "120 seconds" })("a writer of the database", (it) => {
  for (const table of tables.filter(isProbed)) {
    it.effect(`alters no column that decides of ${table} so that a server believes it`, () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const s = yield* scene
        const { forged, row, works } = probes[table]
        assert.isTrue(yield* works(s), "as it was")
        let tried = 0
        for (const column of authorizationTables[table].columns) {
          // By column of its own table, which the type of `probes` says.
          const value = (forged as Record<string, (s: Scene) => string>)[column](s)
          const name = columnName(column)
          const [before] = yield* sql<{ readonly at: string; readonly value: unknown }>`
            SELECT ctid::text AS at, ${sql(name)} AS value FROM ${sql(table)} WHERE ${sql.literal(row(s))}`
          // The row moves when somebody notes its last use: its MAC, which stays, says which one it is.
          const altered = yield* sql<{ readonly mac: Uint8Array }>`
            UPDATE ${sql(table)} SET ${sql.literal(`${name} = ${value}`)} WHERE ctid = ${before.at}::tid
            RETURNING mac`.pipe(Effect.catchAll(() => Effect.succeed([])))
          // A key that other rows name: the database refuses.
          if (altered.length === 0) continue
          tried++
          assert.isFalse(yield* works(s), `${table}.${column}`)
          yield* sql`UPDATE ${sql(table)} SET ${sql(name)} = ${before.value} WHERE mac = ${altered[0].mac}`
          assert.isTrue(yield* works(s), `${table}.${column} as it was`)
        }
        assert.isAtLeast(tried, authorizationTables[table].columns.length - 2)
      })
    )
  }

  it.effect("inserts no token: neither with a hash of its own, nor with the MAC of another", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const alarms = yield* TrailWorld.Alarms
      const s = yield* scene
      const crypto = yield* Crypto
      const secret = Redacted.value(yield* crypto.credentialSecret)
      const lookupId = yield* crypto.lookupId
      const salt = yield* crypto.randomBytes(16)
      const text = TokenText.print({ kind: "at", id: lookupId, secret })
      const hash = createHash("sha256").update(salt).update(secret).digest()
      const insert = (mac: string) => sql`
        INSERT INTO api_tokens (id, lookup_id, salt, hash, team_id, name, access_level, mcp_scopes, created_by, created_at, mac)
        SELECT gen_random_uuid(), ${lookupId}, ${salt}, ${hash}, ${s.victim.team.id}, 'forged', 'read', '{}',
          ${s.owner.id}, now(), ${sql.literal(mac)} FROM api_tokens WHERE id = ${s.attackersToken.id}`
      for (const mac of ["NULL", "mac", "''"]) {
        yield* insert(mac)
        assert.isFalse(yield* readsValue(s, { bearer: text }), mac)
        yield* sql`DELETE FROM api_tokens WHERE lookup_id = ${lookupId}`
      }
      // The attacker's own token, whose secret and pepper are right, moved into the victim's team.
      const raised = alarms.length
      yield* sql`UPDATE api_tokens SET team_id = ${s.victim.team.id} WHERE id = ${s.attackersToken.id}`
      for (let i = 0; i < 3; i++) assert.isFalse(yield* readsValue(s, { bearer: s.attackersToken.text }))
      assert.strictEqual(alarms.length, raised + 1, "told once")
      assert.include(alarms.at(-1), "was not written by a server: api_tokens")
    })
  )

  it.effect("joins no team: neither with a new membership, nor with that of another team or a copy of another's", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const s = yield* scene
      const me = s.attacker.team.owner.id
      const tries = [
        sql`INSERT INTO memberships (team_id, user_id, role, created_at, updated_at)
          VALUES (${s.victim.team.id}, ${me}, 'owner', now(), now())`,
        sql`INSERT INTO memberships (team_id, user_id, role, active, deactivated_at, created_at, updated_at, mac)
          SELECT ${s.victim.team.id}, user_id, role, active, deactivated_at, created_at, updated_at, mac
          FROM memberships WHERE user_id = ${me}`,
        sql`INSERT INTO memberships (team_id, user_id, role, active, deactivated_at, created_at, updated_at, mac)
          SELECT team_id, ${me}, role, active, deactivated_at, created_at, updated_at, mac
          FROM memberships WHERE user_id = ${s.owner.id}`
      ]
      for (const forge of tries) {
        yield* forge
        assert.isFalse(yield* readsValue(s, { session: s.ofAttacker.text }))
        const listed = yield* TestApp.get(`/teams/${s.victim.team.id}/members`, { session: s.ofAttacker.text })
        assert.strictEqual(listed.status, 404)
        yield* sql`DELETE FROM memberships WHERE user_id = ${me} AND team_id = ${s.victim.team.id}`
      }
    })
  )

  it.effect("asks for no access, approves no request, and brings none back that was decided", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const s = yield* scene
      const as = { session: s.ofOwner.text }
      const decide = (id: string, how: "approve" | "deny") => TestApp.post(`/access-requests/${id}/${how}`, as)
      const copies = [
        ["NULL", `'${s.member.id}'`],
        ["mac", `'${s.member.id}'`],
        ["mac", "user_id"]
      ] as const
      for (const [mac, person] of copies) {
        const [made] = yield* sql<{ readonly id: string }>`
          INSERT INTO access_requests (id, team_id, user_id, environment_id, level, hours, reason, created_at, expires_at, mac)
          SELECT gen_random_uuid(), team_id, ${sql.literal(person)}, environment_id, level, hours, reason, created_at,
            expires_at, ${sql.literal(mac)} FROM access_requests WHERE id = ${s.request} RETURNING id`
        assert.deepStrictEqual(yield* requests(s), [s.request])
        assert.strictEqual((yield* decide(made.id, "approve")).status, 404)
      }
      // Where two have to approve, a first one that nobody gave.
      const two = { ...as, json: { approvals: 2, protected: true } }
      assert.strictEqual((yield* TestApp.patch(`/environments/${s.victim.staging.id}`, two)).status, 200)
      yield* sql`UPDATE access_requests SET approved_by = ${s.member.id} WHERE id = ${s.request}`
      assert.strictEqual((yield* decide(s.request, "approve")).status, 404)
      yield* sql`UPDATE access_requests SET approved_by = NULL WHERE id = ${s.request}`
      assert.strictEqual((yield* decide(s.request, "deny")).status, 200)
      yield* sql`UPDATE access_requests SET status = 'pending' WHERE id = ${s.request}`
      assert.strictEqual((yield* decide(s.request, "approve")).status, 404)
      assert.deepStrictEqual(yield* requests(s), [])
    })
  )

  it.effect("takes back no end: of a token, a session, a CLI login, an environment, a project", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const s = yield* scene
      const path = `/teams/${s.victim.team.id}/api-tokens/${s.token.id}`
      assert.isBelow((yield* TestApp.post(`${path}/revoke`, { session: s.ofOwner.text })).status, 300)
      yield* sql`UPDATE api_tokens SET revoked_at = NULL WHERE id = ${s.token.id}`
      assert.isFalse(yield* byToken(s))
      assert.isBelow((yield* TestApp.post("/auth/cli/logout", { bearer: s.grant.text })).status, 300)
      yield* sql`UPDATE cli_grants SET revoked_at = NULL WHERE id = ${s.grant.id}`
      assert.isFalse(yield* readsValue(s, { bearer: s.grant.text }))
      assert.isBelow((yield* TestApp.del("/auth/session", { session: s.ofMember.text })).status, 300)
      yield* sql`UPDATE sessions SET revoked_at = NULL WHERE id = ${s.ofMember.id}`
      assert.isFalse(yield* byMember(s))
      const another = yield* World.token({ team: s.victim.team, creator: s.owner })
      const reads = readsValue(s, { bearer: another.text })
      assert.isTrue(yield* reads)
      const environment = `/environments/${s.victim.development.id}`
      const removed = yield* TestApp.del(environment, { session: s.ofOwner.text })
      assert.isBelow(removed.status, 300, removed.text)
      yield* sql`UPDATE environments SET deleted_at = NULL WHERE id = ${s.victim.development.id}`
      assert.isFalse(yield* reads)
    })
  )
})

layer(TestApp.layer, { excludeTestServices: true })("the verification of a trail", (it) => {
  const said = Effect.gen(function* () {
    const report = yield* TrailVerification.verify({
      vault: yield* Vault,
      keys: [],
      checkpoints: [],
      values: false,
      alone: true,
      now: Date.now(),
      progress: () => Effect.void
    })
    return report.problems.filter(({ stream }) => stream === "").map(({ what }) => what)
  })

  it.effect("names rows that no server wrote, and those that were put back as they were, each with its MAC", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const s = yield* scene
      const team = s.victim.team.id
      assert.deepStrictEqual(yield* said, [])
      const hourAgo = new Date(Date.now() - 3_600_000)
      yield* Seals.after(
        "memberships",
        sql`UPDATE memberships SET updated_at = ${hourAgo} WHERE user_id = ${s.member.id}`
      )
      const keep = (table: string, where: string) =>
        Effect.map(
          sql<{ readonly row: string }>`
            SELECT to_jsonb(r)::text AS row FROM ${sql(table)} r WHERE ${sql.literal(where)}`,
          ([kept]) =>
            Effect.zipRight(
              sql`DELETE FROM ${sql(table)} WHERE ${sql.literal(where)}`,
              sql`INSERT INTO ${sql(table)} SELECT * FROM jsonb_populate_record(NULL::${sql(table)}, ${kept.row}::jsonb)`
            )
        )
      const putBack = [
        yield* keep("memberships", `user_id = '${s.member.id}'`),
        yield* keep("api_tokens", `id = '${s.token.id}'`),
        yield* keep("access_grants", `user_id = '${s.granted.id}'`),
        yield* keep("access_requests", `id = '${s.request}'`)
      ]
      const [{ id: grant }] = yield* sql<{ readonly id: string }>`
        SELECT id FROM access_grants WHERE user_id = ${s.granted.id}`
      const as = { session: s.ofOwner.text }
      const role = { ...as, json: { role: "viewer" } }
      assert.isBelow((yield* TestApp.patch(`/teams/${team}/members/${s.member.id}`, role)).status, 300)
      assert.isBelow((yield* TestApp.post(`/teams/${team}/api-tokens/${s.token.id}/revoke`, as)).status, 300)
      assert.isBelow((yield* TestApp.del(`/access-grants/${grant}`, as)).status, 300)
      assert.isBelow((yield* TestApp.post(`/access-requests/${s.request}/approve`, as)).status, 300)
      assert.deepStrictEqual(yield* said, [])
      for (const undo of putBack) yield* undo
      yield* sql`INSERT INTO memberships (team_id, user_id, role, created_at, updated_at)
        VALUES (${team}, ${s.attacker.team.owner.id}, 'owner', now(), now())`
      assert.sameMembers(
        [...(yield* said)],
        [
          `The row ${team} ${s.attacker.team.owner.id} of memberships was not written by a server as it is, and grants nothing.`,
          `The row ${team} ${s.member.id} of memberships was put back as it was before its last change.`,
          `The row ${s.token.id} of api_tokens was put back after it had ended.`,
          `The row ${grant} of access_grants was put back after it had ended.`,
          `The row ${s.request} of access_requests was put back after it had ended.`
        ]
      )
    })
  )
})

layer(TestApp.layer, { excludeTestServices: true })("a database of a release before", (it) => {
  it.effect("is sealed once, when its operator says so, and its credentials go on; never by itself", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const s = yield* scene
      const macs = yield* (yield* RowSeal).ready
      // As a release before left it: no MAC, no pepper, and nothing that says otherwise.
      for (const table of tables) yield* sql`UPDATE ${sql(table)} SET mac = NULL`
      yield* sql`DELETE FROM sealed_tables`
      const { secret } = TokenText.parse(s.token.text) ?? assert.fail("no token")
      yield* sql`UPDATE api_tokens SET hash = sha256(salt || ${secret}::text::bytea) WHERE id = ${s.token.id}`
      assert.isFalse(yield* byToken(s))
      const refused = yield* Effect.flip(OldRows.sealTables({ sql, macs }, "never"))
      assert.include(refused.message, "AMPOULE_SEAL_ROWS=once")
      assert.isFalse(yield* byToken(s))
      yield* sql`UPDATE users SET password_hash = ${s.plainHash} WHERE id = ${s.owner.id}`
      yield* OldRows.sealTables({ sql, macs }, "once")
      assert.isTrue(yield* byToken(s))
      const [{ passwordHash }] = yield* sql<{ readonly passwordHash: string }>`
        SELECT password_hash FROM users WHERE id = ${s.owner.id}`
      assert.match(passwordHash, /^sealed\$/)
      assert.isTrue(yield* probes.users.works(s))
      // From then on a row without a MAC is nobody's, whatever the setting says.
      yield* sql`UPDATE api_tokens SET mac = NULL WHERE id = ${s.token.id}`
      yield* OldRows.sealTables({ sql, macs }, "once")
      assert.isFalse(yield* byToken(s))
    })
  )

  it.effect("is served beside servers of that release, until one seals it: all hold to it from then on", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const s = yield* scene
      const macs = yield* (yield* RowSeal).ready
      yield* sql`DELETE FROM sealed_tables`
      const beside = yield* Effect.provide(
        RowSeal,
        Layer.fresh(RowSeal.Default).pipe(Layer.provide(Layer.succeed(OldRows.UnsealedRows, "later")))
      )
      const { secret } = TokenText.parse(s.token.text) ?? assert.fail("no token")
      yield* sql`UPDATE api_tokens SET hash = sha256(salt || ${secret}::text::bytea) WHERE id = ${s.token.id}`
      const reads = Effect.gen(function* () {
        const macs = yield* beside.ready
        const [row] = yield* sql<AuthorizationRow<"api_tokens"> & { salt: Buffer; hash: Buffer; mac: Buffer | null }>`
          SELECT ${sql.literal(columnsOf("api_tokens"))}, salt, mac FROM api_tokens WHERE id = ${s.token.id}`
        return TokenText.verify(macs, "at", row, secret) && macs.isAuthentic("api_tokens", row)
      })
      const rename = (name: string, level: string) =>
        sql`UPDATE api_tokens SET name = ${name}, access_level = ${level} WHERE id = ${s.token.id}`
      // As a server of the release before makes and changes rows.
      yield* rename("old", "read")
      assert.isTrue(yield* reads)
      const token = yield* TokenText.issue({ crypto: yield* Crypto, rowSeal: beside }, "at")
      const text = TokenText.parse(Redacted.value(token.text)) ?? assert.fail("no token")
      const plain = createHash("sha256").update(token.proof.salt).update(text.secret).digest()
      assert.deepStrictEqual(Buffer.from(token.proof.hash), plain)

      yield* OldRows.sealTables({ sql, macs }, "once")
      assert.isTrue(yield* reads)
      assert.isTrue(yield* byToken(s))
      yield* rename("altered", "write")
      assert.isFalse(yield* reads)
      assert.isFalse(yield* byToken(s))
    })
  )

  it.effect("that gave MACs to other tables is believed in the new tables alone", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const s = yield* scene
      const macs = yield* (yield* RowSeal).ready
      yield* sql`UPDATE webhooks SET mac = NULL`
      yield* sql`DELETE FROM sealed_tables WHERE name IN ('webhooks', 'value_requests', 'run_plans')`
      const unsealed = yield* OldRows.unsealed({ sql, macs })
      assert.sameMembers([...unsealed], ["webhooks", "value_requests", "run_plans"])
      const refused = yield* Effect.flip(OldRows.sealTables({ sql, macs }, "never"))
      assert.include(refused.message, "AMPOULE_SEAL_ROWS=once")
      const beside = yield* Effect.provide(
        RowSeal,
        Layer.fresh(RowSeal.Default).pipe(Layer.provide(Layer.succeed(OldRows.UnsealedRows, "later")))
      )
      const believes = (table: "webhooks" | "memberships", where: string) =>
        Effect.gen(function* () {
          const [row] = yield* sql<AuthorizationRow<AuthorizationTable> & { readonly mac: Uint8Array | null }>`
            SELECT ${sql.literal(columnsOf(table))}, mac FROM ${sql(table)} WHERE ${sql.literal(where)}`
          return (yield* beside.ready).isAuthentic(table, row as never)
        })
      assert.isTrue(yield* believes("webhooks", `id = '${s.webhook}'`))
      const membership = `user_id = '${s.member.id}'`
      assert.isTrue(yield* believes("memberships", membership))
      yield* sql`UPDATE memberships SET role = 'owner' WHERE ${sql.literal(membership)}`
      assert.isFalse(yield* believes("memberships", membership))
      const { secret } = TokenText.parse(s.token.text) ?? assert.fail("no token")
      const [token] = yield* sql<{ readonly salt: Uint8Array; readonly hash: Uint8Array }>`
        SELECT salt, hash FROM api_tokens WHERE id = ${s.token.id}`
      assert.isTrue(TokenText.verify(yield* beside.ready, "at", token, secret))

      yield* OldRows.sealTables({ sql, macs }, "once")
      assert.isTrue(yield* probes.webhooks.works(s))
      yield* sql`UPDATE webhooks SET mac = NULL WHERE id = ${s.webhook}`
      assert.isFalse(yield* believes("webhooks", `id = '${s.webhook}'`))
    })
  )
})

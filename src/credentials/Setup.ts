/** First setup of a server. A code proves that the person can read the server's data folder or its output. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { CredentialInvalid, SetupAlreadyDone } from "#schema/Errors.ts"
import type { Person } from "#schema/IdentityApi.ts"
import { TeamIdOut, UserIdOut } from "#schema/Ids.ts"
import type { Setup as SetupRequest, SetupResult } from "#schema/SessionApi.ts"
import { Audit } from "#src/trail/Audit.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Accounts from "./Accounts.ts"
import * as ProvisionalAccounts from "./ProvisionalAccounts.ts"
import { Passwords } from "./Passwords.ts"
import { insertTeam } from "#src/access/TeamRows.ts"
import * as TokenText from "./TokenText.ts"

const CodeRow = Schema.Struct({ lookupId: Schema.String, ...TokenText.ProofRow.fields })
type CodeRow = typeof CodeRow.Type

/** Look-up id of the code from `AMPOULE_SETUP_CODE`, which may be any text; generated codes have their own. */
const presetId = "preset"
/** Key of the advisory lock, an arbitrary constant. Setups and first starts wait for one another. */
const lock = 97_109_113
/** Stored codes at most. Each start without a readable file makes one, and all of them work. */
const maxCodes = 16

const services = Effect.all({
  sql: SqlClient.SqlClient,
  fs: FileSystem.FileSystem,
  crypto: Crypto,
  config: AppConfig,
  passwords: Passwords,
  audit: Audit,
  rowSeal: RowSeal
})
type Needs = Effect.Effect.Success<typeof services>

const fileOf = ({ config }: Needs) => `${config.dataDir}/setup-url`

const isDone = ({ sql }: Needs) => Rows.exists(sql`SELECT 1 FROM users LIMIT 1`)

const parse = (code: Redacted.Redacted) => {
  const text = Redacted.value(code)
  const token = TokenText.parse(text)
  return token?.kind === "su" ? { lookupId: token.id, secret: token.secret } : { lookupId: presetId, secret: text }
}

const isValid = ({ rowSeal, sql }: Needs, code: Redacted.Redacted) => {
  const { lookupId, secret } = parse(code)
  return Effect.zipWith(
    rowSeal.ready,
    Rows.findOne(
      CodeRow,
      sql`SELECT lookup_id, salt, hash FROM setup_codes WHERE lookup_id = ${lookupId} AND used_at IS NULL`
    ),
    (macs, row) => TokenText.verify(macs, "su", row, secret)
  )
}

const storeCode = Effect.fnUntraced(function* ({ sql }: Needs, row: CodeRow) {
  const now = yield* DateTime.nowAsDate
  yield* Rows.run(sql`
    INSERT INTO setup_codes (lookup_id, salt, hash, created_at)
    VALUES (${row.lookupId}, ${row.salt}, ${row.hash}, ${now})
    ON CONFLICT (lookup_id) DO UPDATE SET salt = excluded.salt, hash = excluded.hash, created_at = excluded.created_at`)
  yield* Rows.run(sql`
    DELETE FROM setup_codes WHERE lookup_id NOT IN (
      SELECT lookup_id FROM setup_codes ORDER BY created_at DESC, lookup_id LIMIT ${maxCodes})`)
})

const presetCode = Effect.fnUntraced(function* (needs: Needs, code: Redacted.Redacted) {
  const { lookupId, secret } = parse(code)
  const salt = yield* needs.crypto.randomBytes(16)
  yield* storeCode(needs, { lookupId, salt, hash: TokenText.hash(yield* needs.rowSeal.ready, "su", salt, secret) })
  return code
})

/** The code in the file of an earlier start, while it works. */
const codeFromFile = Effect.fnUntraced(function* (needs: Needs) {
  const url = yield* Effect.option(needs.fs.readFileString(fileOf(needs)))
  const text = Option.flatMap(url, (line) => {
    const match = /[?&]code=([^&\s]+)/.exec(line)
    return match?.[1] === undefined ? Option.none() : Option.some(Redacted.make(match[1]))
  })
  if (Option.isNone(text) || !(yield* isValid(needs, text.value))) return Option.none<Redacted.Redacted>()
  return text
})

const newCode = Effect.fnUntraced(function* (needs: Needs) {
  const { proof, text } = yield* TokenText.issue(needs, "su")
  yield* storeCode(needs, proof)
  return text
})

/** Mode 0600 from the first byte, and renamed when complete. */
const writeFile = Effect.fnUntraced(function* (needs: Needs, url: Redacted.Redacted) {
  const { config, crypto, fs } = needs
  yield* fs.makeDirectory(config.dataDir, { recursive: true, mode: 0o700 })
  const temporary = `${fileOf(needs)}.${yield* crypto.uuid}`
  yield* fs.writeFileString(temporary, `${Redacted.value(url)}\n`, { mode: 0o600, flag: "wx" })
  yield* fs.rename(temporary, fileOf(needs))
})

/** None: the instance is set up. */
const codeOf = (needs: Needs) =>
  Rows.transaction(needs.sql, function* () {
    const { config, sql } = needs
    yield* Rows.run(sql`SELECT pg_advisory_xact_lock(${lock}::bigint)`)
    if (yield* isDone(needs)) return Option.none<Redacted.Redacted>()
    if (Option.isSome(config.setupCode)) return Option.some(yield* presetCode(needs, config.setupCode.value))
    yield* Rows.run(sql`DELETE FROM setup_codes WHERE lookup_id = ${presetId}`)
    const earlier = yield* codeFromFile(needs)
    return Option.isSome(earlier) ? earlier : Option.some(yield* newCode(needs))
  })

/**
 * Call at every start. None: the instance is set up. Some: the address to print, also written to the file `setup-url`
 * in the data folder. An unwritable folder leaves only the printed address.
 */
const prepare = (needs: Needs) =>
  Effect.gen(function* () {
    const code = yield* codeOf(needs)
    if (Option.isNone(code)) {
      yield* Effect.ignore(needs.fs.remove(fileOf(needs)))
      return Option.none<Redacted.Redacted>()
    }
    const query = encodeURIComponent(Redacted.value(code.value))
    const url = Redacted.make(`${needs.config.baseUrl}/setup?code=${query}`)
    yield* writeFile(needs, url).pipe(
      Effect.catchAll(() => Effect.logWarning("The setup address could not be written to the data folder."))
    )
    return Option.some(url)
  }).pipe(Effect.orDie, Effect.withSpan("Setup.prepare"))

type FirstOwner = Omit<SetupRequest, "setupCode">

/** Part of the setup's transaction. */
const insertOwner = Effect.fnUntraced(function* (needs: Needs, input: FirstOwner, phc: string) {
  const { crypto, rowSeal, sql } = needs
  const now = yield* DateTime.nowAsDate
  const user: Person = { id: UserIdOut.make(yield* crypto.uuid), email: input.email, name: input.name }
  const teamId = TeamIdOut.make(yield* crypto.uuid)
  const { email, id, name } = user
  // The operator has the setup code.
  const account = { id, email, name, passwordHash: phc, vouchedBy: "operator", madeBy: null, now } as const
  yield* Effect.catchTag(ProvisionalAccounts.insert(needs, account), "AddressHeld", Effect.die)
  // The first team of an instance has the plan `team`.
  const team = { id: teamId, name: input.teamName, plan: "team", owner: id, now, by: null } as const
  yield* Effect.catchTag(insertTeam({ rowSeal, sql }, team), "FORBIDDEN", Effect.die)
  yield* Rows.run(sql`DELETE FROM setup_codes`)
  return { user, teamId }
})

const createOwner = Effect.fnUntraced(function* (needs: Needs, input: FirstOwner, code: Redacted.Redacted) {
  const { audit, fs, passwords, sql } = needs
  const phc = yield* passwords.hash(input.password, "password")
  const result = yield* Rows.transaction(sql, function* () {
    yield* Rows.run(sql`SELECT pg_advisory_xact_lock(${lock}::bigint)`)
    if (yield* isDone(needs)) return yield* new SetupAlreadyDone()
    if (!(yield* isValid(needs, code))) return yield* new CredentialInvalid()
    yield* Accounts.lockAddresses(needs, input.email)
    const { teamId, user } = yield* insertOwner(needs, input, phc)
    const session = yield* Accounts.openSession(needs, user.id, teamId)
    const actor = { userId: user.id, email: user.email }
    yield* audit.append(
      { actor, action: "setup.complete", outcome: "allowed", teamId },
      { actor, action: "session.create", outcome: "allowed", teamId }
    )
    const answer: SetupResult = {
      user,
      team: { id: teamId, name: input.teamName, role: "owner", plan: "team" }
    }
    return { ...answer, session }
  })
  yield* Effect.ignore(fs.remove(fileOf(needs)))
  return result
})

/** Works once: SETUP_ALREADY_DONE for any code afterwards, CREDENTIAL_INVALID for a wrong code before. */
const complete = Effect.fn("Setup.complete")(function* (needs: Needs, { setupCode, ...input }: SetupRequest) {
  if (yield* isDone(needs)) return yield* new SetupAlreadyDone()
  // Checked before the costly hash, and again under the lock. The setup deletes the codes: a person who comes second
  // gets SETUP_ALREADY_DONE.
  if (!(yield* isValid(needs, setupCode))) {
    return yield* (yield* isDone(needs)) ? new SetupAlreadyDone() : new CredentialInvalid()
  }
  return yield* createOwner(needs, input, setupCode)
})

export class Setup extends Effect.Service<Setup>()("credentials/Setup", {
  effect: Effect.map(services, (needs) => ({
    ...methods(needs, { complete }),
    prepare: prepare(needs),
    isDone: isDone(needs)
  }))
}) {}

/** First start: a code proves that whoever sets the instance up can read the server's data folder or its output (decisions 9). */
import * as FileSystem from "@effect/platform/FileSystem"
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { CredentialInvalid, SetupAlreadyDone } from "#schema/Errors.ts"
import type { Person } from "#schema/IdentityApi.ts"
import { TeamIdOut, UserIdOut } from "#schema/Ids.ts"
import type { Setup as SetupRequest, SetupResult } from "#schema/SessionApi.ts"
import { Audit } from "#src/access/Audit.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { issue } from "./Issue.ts"
import { Passwords } from "./Passwords.ts"
import { Sessions } from "./Sessions.ts"
import * as TokenText from "./TokenText.ts"

interface CodeRow {
  readonly lookupId: string
  readonly salt: Buffer
  readonly hash: Buffer
}

/** The row of `AMPOULE_SETUP_CODE`, which may be any text; generated codes have a look-up id of their own. */
const presetId = "preset"
/** Any fixed number: the lock's name among all users of the database. Setups and first starts wait for one another. */
const lock = 97_109_113
/** Starts whose code was not used yet (several processes, lost files): all of theirs work, up to this many. */
const keepCodes = 16

export class Setup extends Effect.Service<Setup>()("credentials/Setup", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const fs = yield* FileSystem.FileSystem
    const crypto = yield* Crypto
    const config = yield* AppConfig
    const passwords = yield* Passwords
    const sessions = yield* Sessions
    const audit = yield* Audit

    const file = `${config.dataDir}/setup-url`
    const urlOf = (code: Redacted.Redacted) =>
      Redacted.make(`${config.baseUrl}/setup?code=${encodeURIComponent(Redacted.value(code))}`)

    const isDone = Effect.map(sql`SELECT 1 FROM users LIMIT 1`, (rows) => rows.length > 0)

    const rowFor = (code: Redacted.Redacted) => {
      const token = TokenText.parse(Redacted.value(code))
      const [lookupId, secret] = token?.kind === "su" ? [token.id, token.secret] : [presetId, Redacted.value(code)]
      return Effect.map(
        sql<CodeRow>`SELECT lookup_id, salt, hash FROM setup_codes WHERE lookup_id = ${lookupId} AND used_at IS NULL`,
        (rows) => ({ row: rows.at(0), secret })
      )
    }
    const isValid = (code: Redacted.Redacted) =>
      Effect.map(rowFor(code), ({ row, secret }) => TokenText.verify(row, secret))

    const keep = (row: CodeRow) =>
      Effect.gen(function* () {
        const now = yield* DateTime.nowAsDate
        yield* sql`
          INSERT INTO setup_codes (lookup_id, salt, hash, created_at)
          VALUES (${row.lookupId}, ${row.salt}, ${row.hash}, ${now})
          ON CONFLICT (lookup_id) DO UPDATE SET salt = excluded.salt, hash = excluded.hash, created_at = excluded.created_at`
        yield* sql`
          DELETE FROM setup_codes WHERE lookup_id NOT IN (
            SELECT lookup_id FROM setup_codes ORDER BY created_at DESC, lookup_id LIMIT ${keepCodes})`
      })

    const preset = Effect.fnUntraced(function* (code: Redacted.Redacted) {
      const token = TokenText.parse(Redacted.value(code))
      const [lookupId, secret] = token?.kind === "su" ? [token.id, token.secret] : [presetId, Redacted.value(code)]
      const salt = yield* crypto.randomBytes(16)
      yield* keep({ lookupId, salt, hash: TokenText.hash(salt, secret) })
      return code
    })

    /** The code that an earlier start left in the file, while it still works. */
    const left = Effect.gen(function* () {
      const url = yield* Effect.option(fs.readFileString(file))
      const text = Option.flatMap(url, (line) => {
        const match = /[?&]code=([^&\s]+)/.exec(line)
        return match === null ? Option.none() : Option.some(Redacted.make(match[1]))
      })
      if (Option.isNone(text) || !(yield* isValid(text.value))) return Option.none<Redacted.Redacted>()
      return text
    })

    const generated = Effect.gen(function* () {
      const { proof, text } = yield* issue(crypto, "su")
      yield* keep(proof)
      return text
    })

    /** 0600 from its first byte on, and never half written. */
    const writeFile = Effect.fnUntraced(function* (url: Redacted.Redacted) {
      yield* fs.makeDirectory(config.dataDir, { recursive: true, mode: 0o700 })
      const unfinished = `${file}.${yield* crypto.uuid}`
      yield* fs.writeFileString(unfinished, `${Redacted.value(url)}\n`, { mode: 0o600, flag: "wx" })
      yield* fs.rename(unfinished, file)
    })

    /**
     * Call at every start. None: the instance is set up. Some: the address to print, which the file `setup-url` of the
     * data folder holds as well. A folder that cannot be written to leaves the printed address.
     */
    const prepare = Effect.gen(function* () {
      const code = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`SELECT pg_advisory_xact_lock(${lock}::bigint)`
          if (yield* isDone) return Option.none<Redacted.Redacted>()
          if (Option.isSome(config.setupCode)) return Option.some(yield* preset(config.setupCode.value))
          yield* sql`DELETE FROM setup_codes WHERE lookup_id = ${presetId}`
          const earlier = yield* left
          return Option.isSome(earlier) ? earlier : Option.some(yield* generated)
        })
      )
      if (Option.isNone(code)) {
        yield* Effect.ignore(fs.remove(file))
        return Option.none<Redacted.Redacted>()
      }
      const url = urlOf(code.value)
      yield* writeFile(url).pipe(
        Effect.catchAll(() => Effect.logWarning("The setup address could not be written to the data folder."))
      )
      return Option.some(url)
    }).pipe(Effect.orDie, Effect.withSpan("Setup.prepare"))

    type FirstOwner = Omit<SetupRequest, "setupCode">

    const createOwner = Effect.fnUntraced(function* (input: FirstOwner, code: Redacted.Redacted | null) {
      const phc = yield* passwords.hash(input.password, "password")
      const result = yield* sql
        .withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT pg_advisory_xact_lock(${lock}::bigint)`
            if (yield* isDone) return yield* new SetupAlreadyDone()
            if (code !== null && !(yield* isValid(code))) return yield* new CredentialInvalid()
            const now = yield* DateTime.nowAsDate
            const user: Person = { id: UserIdOut.make(yield* crypto.uuid), email: input.email, name: input.name }
            const teamId = TeamIdOut.make(yield* crypto.uuid)
            yield* sql`INSERT INTO users ${sql.insert({
              id: user.id,
              email: user.email,
              name: user.name,
              password_hash: phc,
              created_at: now,
              updated_at: now
            })}`
            // "The first team of an instance has plan `team`" (decisions 9).
            yield* sql`INSERT INTO teams ${sql.insert({
              id: teamId,
              name: input.teamName,
              plan: "team",
              created_at: now,
              updated_at: now
            })}`
            yield* sql`INSERT INTO memberships ${sql.insert({
              team_id: teamId,
              user_id: user.id,
              role: "owner",
              created_at: now,
              updated_at: now
            })}`
            yield* sql`DELETE FROM setup_codes`
            const session = yield* sessions.open(user.id, teamId)
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
        )
        .pipe(Effect.catchTag("SqlError", Effect.die))
      yield* Effect.ignore(fs.remove(file))
      return result
    })

    /** Once: SETUP_ALREADY_DONE whatever the code, then CREDENTIAL_INVALID for a wrong one. */
    const complete = Effect.fn("Setup.complete")(function* ({ setupCode, ...input }: SetupRequest) {
      if (yield* Effect.orDie(isDone)) return yield* new SetupAlreadyDone()
      // Checked before the costly hash, and again under the lock. The codes end with the setup: someone who came second
      // in between is told so.
      if (!(yield* Effect.orDie(isValid(setupCode)))) {
        return yield* (yield* Effect.orDie(isDone)) ? new SetupAlreadyDone() : new CredentialInvalid()
      }
      return yield* createOwner(input, setupCode)
    })

    /** Without a code, for whoever runs the command on the server itself. */
    const firstOwner = Effect.fn("Setup.firstOwner")((input: FirstOwner) =>
      createOwner(input, null).pipe(Effect.catchTag("CREDENTIAL_INVALID", Effect.die))
    )

    return { prepare, complete, firstOwner, isDone: Effect.orDie(isDone) } as const
  })
}) {}

/** `ampoule backup` and `ampoule restore`. They run where the server runs, with its settings. */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { randomBytes } from "node:crypto"
import * as Hpke from "#src/sealed/Hpke.ts"
import * as RecipientKey from "#src/sealed/RecipientKey.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note, out, progress, progressDone } from "#src/cli/terminal/Output.ts"
import { maintenancePrograms } from "./ServerSide.ts"

const recipientsOf = Effect.fnUntraced(function* (given: ReadonlyArray<string>, option: string) {
  return yield* Effect.forEach(given, (text) =>
    Effect.mapError(RecipientKey.parseRecipient(text), () =>
      usage(
        `--${option}: a text is no recipient, or mistyped.`,
        "`ampoule backup keygen FILE` makes an identity and prints its recipient: ampoule-recipient-…"
      )
    )
  )
})

const identityOf = Effect.fnUntraced(function* (file: string) {
  const text = yield* Ask.fileText(file)
  return yield* Effect.mapError(
    RecipientKey.parseIdentity(Redacted.make(text)),
    () => new CliFailure({ message: `${file} holds no identity, or a damaged one.` })
  )
})

const rows = (what: string, count: number) => progress(`${what}: ${count}`)

// --- backup ---

const keygen = Help.command(
  "keygen",
  {
    says: "Make an identity that opens backups, and print the recipient that they are sealed to.",
    examples: ["ampoule backup keygen backup-identity"]
  },
  { file: Shared.argument("FILE", "Where the identity goes; must not be there yet") },
  Effect.fnUntraced(function* ({ file }) {
    const fs = yield* FileSystem.FileSystem
    const seed = yield* Effect.sync(() => randomBytes(Hpke.keyLength))
    const pair = yield* Hpke.deriveKeyPair(Redacted.make<Uint8Array>(seed))
    seed.fill(0)
    const text = Redacted.value(RecipientKey.printIdentity(pair))
    yield* fs
      .writeFileString(file, text, { flag: "wx", mode: 0o600 })
      .pipe(Effect.mapError(() => new CliFailure({ message: `${file} is there already, or cannot be written.` })))
    yield* out(`${RecipientKey.printRecipient(pair.publicKey)}\n`)
    yield* note(`The identity is in ${file}: keep it away from the server, and keep a copy.`)
  })
)

const create = Help.command(
  "create",
  {
    says: "Write a backup: a consistent snapshot of everything but the root key, compressed and sealed.",
    more: [
      "Servers on Postgres go on meanwhile; with the embedded database the server is stopped first.",
      "The root key is not in the backup. --with-root-key writes it to a second file."
    ],
    examples: [
      "ampoule backup keygen backup-identity",
      "ampoule backup 2026-11-21.backup --recipient ampoule-recipient-…"
    ]
  },
  {
    recipient: Options.repeated(
      Shared.text("recipient", "key", "Who can open it: ampoule-recipient-…; may be repeated")
    ),
    withRootKey: Shared.flag("with-root-key", "Also write FILE.root-key: the root key, sealed by itself"),
    rootKeyRecipient: Options.repeated(
      Shared.text("root-key-recipient", "key", "Who can open that; else the recipients of the backup")
    ),
    json: Shared.json,
    file: Shared.argument("FILE", "Where the backup goes; must not be there yet")
  },
  Effect.fnUntraced(function* (options) {
    const { file } = options
    const recipients = yield* recipientsOf(options.recipient, "recipient")
    if (recipients.length === 0) {
      return yield* usage(
        "Who can open the backup? Say --recipient.",
        "`ampoule backup keygen FILE` makes an identity and prints its recipient."
      )
    }
    const own = yield* recipientsOf(options.rootKeyRecipient, "root-key-recipient")
    if (own.length > 0 && !options.withRootKey) return yield* usage("--root-key-recipient goes with --with-root-key.")
    const rootKey = options.withRootKey
      ? { file: `${file}.root-key`, recipients: own.length > 0 ? own : recipients }
      : null
    const programs = yield* maintenancePrograms
    const { bytes, ...made } = yield* programs
      .backup({ file, recipients, rootKey, progress: rows })
      .pipe(Effect.ensuring(progressDone))
    if (options.json) return yield* json({ file, bytes, ...made, rootKeyFile: rootKey?.file ?? null })
    yield* note(`${made.rows} rows of ${made.tables} tables, ${bytes} bytes, in ${file}`)
    yield* note(
      rootKey === null
        ? `The root key is not in it (${made.rootKeyIds.join(", ")}): without a copy of it the backup cannot be read.`
        : `The root key is in ${rootKey.file}, sealed by itself: keep it apart from the backup.`
    )
  })
)

const below = [create, keygen] as const
export const backup = Help.described(
  Command.make("backup").pipe(Command.withSubcommands(below)),
  { says: "Write a backup: `ampoule backup FILE` is `ampoule backup create FILE`." },
  below,
  true
)

// --- restore ---

export const restore = Help.command(
  "restore",
  {
    says: "Bring a backup back into an empty database: all of it or nothing.",
    more: [
      "Into the database of the settings, embedded or Postgres, wherever the backup came from. What is killed half-way leaves the database empty and can be run again."
    ],
    examples: [
      "ampoule restore 2026-11-21.backup --identity backup-identity",
      "AMPOULE_DATABASE_URL=postgres://… ampoule restore 2026-11-21.backup --identity backup-identity --root-key 2026-11-21.backup.root-key"
    ]
  },
  {
    identity: Shared.text("identity", "file", "Identity that opens the backup, as `ampoule backup keygen` wrote it"),
    rootKey: Options.optional(
      Shared.text("root-key", "file", "FILE.root-key of a backup made --with-root-key: put into the data folder")
    ),
    json: Shared.json,
    file: Args.text({ name: "FILE" })
  },
  Effect.fnUntraced(function* (options) {
    const identity = yield* identityOf(options.identity)
    const programs = yield* maintenancePrograms
    const restored = yield* programs
      .restore({
        file: options.file,
        identity: Redacted.value(identity),
        rootKeyFile: Option.getOrNull(options.rootKey),
        progress: rows
      })
      .pipe(Effect.ensuring(progressDone))
    if (options.json) yield* json(restored)
    else {
      yield* note(
        `${restored.rows} rows of ${restored.tables} tables, as of ${restored.createdAt}; compared, and equal.`
      )
      yield* note(`${restored.entries} entries of the audit trail are linked as they were.`)
      yield* restored.opened === null
        ? restored.rootKeyIds.length === 0
          ? note("Nothing in it is sealed with a root key yet.")
          : note(
              `Nothing in it can be read yet: that needs root key ${restored.rootKeyIds.join(", ")}, in the data folder or AMPOULE_ROOT_KEY.`
            )
        : note(
            `${restored.opened.dataKeys} data keys open, and a value of each that holds one (${restored.opened.values}).`
          )
      yield* note("Beside newer checkpoints of the trail, run `ampoule audit accept-restore` once.")
    }
    if (restored.problems.length > 0) {
      return yield* new CliFailure({
        message: `The database was restored, but does not verify. ${restored.problems.join(" ")}`
      })
    }
  })
)

/** `ampoule backup` and `ampoule restore`, on the server's machine and with its settings. */
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

const recipientsOf = Effect.fnUntraced(function* (texts: ReadonlyArray<string>, option: string) {
  return yield* Effect.forEach(texts, (text) =>
    Effect.mapError(RecipientKey.parseRecipient(text), () =>
      usage(
        `--${option}: not a recipient, or mistyped.`,
        "`ampoule backup keygen FILE` creates an identity and prints its recipient: ampoule-recipient-…"
      )
    )
  )
})

const identityOf = Effect.fnUntraced(function* (file: string) {
  const text = yield* Ask.fileText(file)
  return yield* Effect.mapError(
    RecipientKey.parseIdentity(Redacted.make(text)),
    () => new CliFailure({ message: `${file} does not hold an identity, or it is damaged.` })
  )
})

const rows = (what: string, count: number) => progress(`${what}: ${count}`)

// --- backup ---

const keygen = Help.command(
  "keygen",
  {
    says: "Create an identity that opens backups, and print its recipient, to which backups are sealed.",
    examples: ["ampoule backup keygen backup-identity"]
  },
  { file: Shared.argument("FILE", "New file for the identity") },
  Effect.fnUntraced(function* ({ file }) {
    const fs = yield* FileSystem.FileSystem
    const seed = yield* Effect.sync(() => randomBytes(Hpke.keyLength))
    const pair = yield* Hpke.deriveKeyPair(Redacted.make<Uint8Array>(seed))
    seed.fill(0)
    const text = Redacted.value(RecipientKey.printIdentity(pair))
    yield* fs
      .writeFileString(file, text, { flag: "wx", mode: 0o600 })
      .pipe(Effect.mapError(() => new CliFailure({ message: `${file} exists already, or cannot be written.` })))
    yield* out(`${RecipientKey.printRecipient(pair.publicKey)}\n`)
    yield* note(`The identity is in ${file}: keep it away from the server, and keep a copy.`)
  })
)

const create = Help.command(
  "create",
  {
    says: "Write a backup: a consistent snapshot of everything but the root key, compressed and sealed.",
    more: [
      "Servers on Postgres keep running. With the embedded database, stop the server first.",
      "The root key is not in the backup. --with-root-key writes it to a second file."
    ],
    examples: [
      "ampoule backup keygen backup-identity",
      "ampoule backup 2026-11-21.backup --recipient ampoule-recipient-…"
    ]
  },
  {
    recipient: Options.repeated(
      Shared.text("recipient", "key", "Recipient who can open the backup: ampoule-recipient-…; may be repeated")
    ),
    withRootKey: Shared.flag("with-root-key", "Also write FILE.root-key: the root key, sealed separately"),
    rootKeyRecipient: Options.repeated(
      Shared.text(
        "root-key-recipient",
        "key",
        "Recipient who can open the root key (default: the recipients of the backup)"
      )
    ),
    json: Shared.json,
    file: Shared.argument("FILE", "New file for the backup")
  },
  Effect.fnUntraced(function* (options) {
    const { file } = options
    const recipients = yield* recipientsOf(options.recipient, "recipient")
    if (recipients.length === 0) {
      return yield* usage(
        "Who can open the backup? Use --recipient.",
        "`ampoule backup keygen FILE` creates an identity and prints its recipient."
      )
    }
    const rootKeyRecipients = yield* recipientsOf(options.rootKeyRecipient, "root-key-recipient")
    if (rootKeyRecipients.length > 0 && !options.withRootKey)
      return yield* usage("--root-key-recipient needs --with-root-key.")
    const rootKey = options.withRootKey
      ? { file: `${file}.root-key`, recipients: rootKeyRecipients.length > 0 ? rootKeyRecipients : recipients }
      : null
    const programs = yield* maintenancePrograms
    const { bytes, ...summary } = yield* programs
      .backup({ file, recipients, rootKey, progress: rows })
      .pipe(Effect.ensuring(progressDone))
    if (options.json) return yield* json({ file, bytes, ...summary, rootKeyFile: rootKey?.file ?? null })
    yield* note(`${summary.rows} rows of ${summary.tables} tables, ${bytes} bytes, in ${file}`)
    yield* note(
      rootKey === null
        ? `The root key is not in it (${summary.rootKeyIds.join(", ")}): without a copy of it the backup cannot be read.`
        : `The root key is in ${rootKey.file}, sealed separately: keep it away from the backup.`
    )
  })
)

const commands = [create, keygen] as const
export const backup = Help.described(
  Command.make("backup").pipe(Command.withSubcommands(commands)),
  { says: "Write a backup: `ampoule backup FILE` is `ampoule backup create FILE`." },
  commands,
  true
)

// --- restore ---

export const restore = Help.command(
  "restore",
  {
    says: "Restore a backup into an empty database, completely or not at all.",
    more: [
      "The target is the database in the settings, embedded or Postgres, whatever the backup came from. An interrupted restore leaves the database empty; run it again.",
      "With --as-copy the database gets an id and service keys of its own, so that its rows are worth nothing in the original. Sessions, tokens, logins, agents, links and recovery codes end in it. It needs the root key."
    ],
    examples: [
      "ampoule restore 2026-11-21.backup --identity backup-identity",
      "AMPOULE_DATABASE_URL=postgres://… ampoule restore 2026-11-21.backup --identity backup-identity --root-key 2026-11-21.backup.root-key",
      "AMPOULE_DATA_DIR=staging ampoule restore 2026-11-21.backup --identity backup-identity --root-key 2026-11-21.backup.root-key --as-copy"
    ]
  },
  {
    identity: Shared.text("identity", "file", "Identity that opens the backup, as `ampoule backup keygen` wrote it"),
    rootKey: Options.optional(
      Shared.text("root-key", "file", "FILE.root-key of a backup made with --with-root-key; goes into the data folder")
    ),
    asCopy: Shared.flag("as-copy", "Make a second database beside the original, such as one for staging"),
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
        asCopy: options.asCopy,
        progress: rows
      })
      .pipe(Effect.ensuring(progressDone))
    if (options.json) yield* json(restored)
    else {
      yield* note(
        `${restored.rows} rows of ${restored.tables} tables, as of ${restored.createdAt}; compared and equal.`
      )
      yield* note(`${restored.entries} entries of the audit trail have the same links as before.`)
      yield* restored.opened === null
        ? restored.rootKeyIds.length === 0
          ? note("Nothing in it is sealed with a root key yet.")
          : note(
              `Nothing in it can be read yet: that needs root key ${restored.rootKeyIds.join(", ")}, in the data folder or AMPOULE_ROOT_KEY.`
            )
        : note(
            `${restored.opened.dataKeys} data keys can be opened, and one value of each (${restored.opened.values}).`
          )
      if (options.asCopy) {
        yield* note(
          "This database is a copy: rows that it writes are worth nothing in the original. Sessions, tokens, logins, agents, links and recovery codes of the original do not work here; people sign in with their passwords."
        )
      }
      yield* note("If newer checkpoints of the trail exist, run `ampoule audit accept-restore` once.")
    }
    if (restored.problems.length > 0) {
      return yield* new CliFailure({
        message: `The database was restored, but does not verify. ${restored.problems.join(" ")}`
      })
    }
  })
)

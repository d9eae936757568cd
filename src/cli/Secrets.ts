/** `ampoule secrets …`: one command per route, values only where they are asked for. */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { type SecretKey, SecretText } from "#schema/Values.ts"
import * as Ask from "./Ask.ts"
import { call, type Connection } from "./Client.ts"
import * as Credential from "./Credential.ts"
import { exportCommand, importCommand } from "./Files.ts"
import { CliFailure, usage } from "./Failure.ts"
import { readNamed } from "./Folders.ts"
import * as Help from "./Help.ts"
import * as Shared from "./Options.ts"
import { json, note, out, plain, stdinIsTerminal, table, value } from "./Output.ts"
import { findDeleted, findLive, idOf, listAll, noSuchKey, parseKey, type Place, within } from "./Reach.ts"
import { secrets as secretsClient } from "./Routes.ts"
import * as Target from "./Target.ts"

const options = { ...Shared.connection, ...Shared.target } as const

const keyArgument = Args.text({ name: "KEY" }).pipe(Args.withDescription("Key of the secret, like DATABASE_URL"))

// --- list, get ---

const list = Command.make("list", { ...options, json: Shared.json }, (options) =>
  within(options, ({ session, ...place }) =>
    Effect.gen(function* () {
      const items = yield* listAll(session, place)
      if (options.json) return yield* json(items)
      if (items.length === 0) return yield* note("No secrets.")
      yield* out(
        table(
          ["KEY", "KIND", "VERSION", "UPDATED", "BY"],
          items.map((item) => [
            item.key,
            item.references.length === 0 ? item.kind : `${item.kind} (${item.references.join(", ")})`,
            String(item.version),
            item.updatedAt,
            item.updatedBy.name ?? item.updatedBy.type
          ])
        )
      )
    })
  )
).pipe(
  Command.withDescription(
    Shared.describe("List keys and metadata; never a value.", {
      examples: ["ampoule secrets list --project shop --env development", "ampoule secrets list --json"]
    })
  )
)

const get = Command.make(
  "get",
  {
    ...options,
    json: Shared.json,
    source: Options.boolean("source").pipe(Options.withDescription("The text as written, references not expanded")),
    raw: Options.boolean("raw").pipe(
      Options.withDescription("On a terminal too, print control characters as they are")
    ),
    key: keyArgument
  },
  (options) =>
    within(options, ({ environment, projectId, session }) =>
      Effect.gen(function* () {
        const key = yield* parseKey(options.key)
        const client = yield* secretsClient(session)
        const secret = yield* call(
          session,
          client.readValue({
            urlParams: { projectId, environment, key, ...(options.source ? { representation: "source" as const } : {}) }
          })
        )
        if (options.json) return yield* json(secret)
        yield* value(secret.value, options)
      })
    )
).pipe(
  Command.withDescription(
    Shared.describe("Print one value; without a line end when standard output is not a terminal.", {
      more: [
        "Prefer `ampoule run`: a value that is printed is easily kept by a shell, a log or a clipboard.",
        "On a terminal, control characters are made visible. A file or a pipe gets the value as it is."
      ],
      examples: ["ampoule secrets get DATABASE_URL", 'psql "$(ampoule secrets get DATABASE_URL)"']
    })
  )
)

// --- set, unset ---

const decodeText = Schema.decodeUnknownOption(SecretText)
const checkedText = (text: string) =>
  Option.match(decodeText(text), {
    onNone: () => Effect.fail(usage("The value is too long: at most 65536 characters.")),
    onSome: Effect.succeed
  })

const readValue = Effect.fnUntraced(function* (key: string, file: Option.Option<string>, keepNewline: boolean) {
  if (Option.isSome(file)) {
    const bytes = yield* readNamed(file.value)
    return yield* Effect.flatMap(Ask.text(bytes, "The file"), checkedText)
  }
  if (stdinIsTerminal())
    return yield* Effect.flatMap(Ask.hidden(`Value of ${key} (not shown): `), (v) => checkedText(Redacted.value(v)))
  const piped = yield* Ask.standardInput
  return yield* checkedText(keepNewline ? piped : Ask.withoutFinalNewline(piped))
})

const kindOption = Options.choice("kind", ["literal", "template"]).pipe(
  Options.withDescription("literal: ${…} is text; template: ${KEY} is expanded; else decided by the text"),
  Options.optional
)
const expectedVersion = Options.integer("expected-version").pipe(
  Options.withDescription("Refuse unless the secret is at this version; 0 = it must not be there"),
  Options.optional
)

const set = Command.make(
  "set",
  {
    ...options,
    json: Shared.json,
    kind: kindOption,
    expectedVersion,
    file: Options.text("value-from-file").pipe(
      Options.withPseudoName("file"),
      Options.withDescription("Take the value from a file, exactly as it is"),
      Options.optional
    ),
    keepNewline: Options.boolean("keep-newline").pipe(
      Options.withDescription("Keep a line end at the end of standard input (else one is taken off)")
    ),
    key: keyArgument,
    // Named so that a value at this place gets a sentence of its own instead of being quoted as an unknown argument.
    more: Args.text({ name: Help.notAnArgument }).pipe(Args.repeated)
  },
  (options) =>
    Effect.gen(function* () {
      if (options.more.length > 0 || options.key.includes("=")) {
        return yield* usage(
          "The value is not taken from the command line: other users and the shell's history can see it there.",
          "Type it when asked, pipe it in, or say --value-from-file. A value given this way should be replaced."
        )
      }
      const key = yield* parseKey(options.key)
      const expected = Option.getOrUndefined(options.expectedVersion)
      if (expected !== undefined && (!Number.isSafeInteger(expected) || expected < 0)) {
        return yield* usage("--expected-version is a whole number from 0.")
      }
      const kind = Option.getOrUndefined(options.kind)
      yield* Target.target(options)
      // Before a person types something that then cannot be sent.
      if (Option.isNone(yield* Credential.choose(options))) return yield* Credential.noCredential
      const value = yield* readValue(key, options.file, options.keepNewline)
      const written = kind === "template" ? { kind, source: value } : { ...(kind === undefined ? {} : { kind }), value }

      yield* within(options, ({ environment, projectId, session }) =>
        Effect.gen(function* () {
          const client = yield* secretsClient(session)
          const place = { projectId, environment }
          if (kind === undefined && expected === undefined) {
            const { items } = yield* call(
              session,
              client.createBulk({ payload: { ...place, secrets: [{ key, value }] }, headers: {} })
            )
            const item = items[0]
            if (options.json) return yield* json(item ?? null)
            return yield* note(`${key}: ${plain(item?.outcome ?? "written")}, version ${item?.version ?? "unknown"}`)
          }
          const create = (expectedVersion: number | undefined) =>
            call(
              session,
              client.create({
                payload: { ...place, key, ...written, ...(expectedVersion === undefined ? {} : { expectedVersion }) },
                headers: {}
              })
            )
          const live = yield* Effect.option(findLive(session, place, key))
          // Without a live secret the version expected is that of a deleted one (decisions 4 "Version").
          if (Option.isNone(live) || expected === 0) {
            const created = yield* create(expected)
            if (options.json) return yield* json({ ...created, outcome: "created" })
            return yield* note(`${key}: created, version ${created.version}`)
          }
          const updated = yield* call(
            session,
            client.update({
              path: { secretId: yield* idOf(session, live.value.id) },
              payload: { ...written, ...(expected === undefined ? {} : { expectedVersion: expected }) }
            })
          )
          const outcome = updated.version === live.value.version ? "unchanged" : "updated"
          if (options.json) return yield* json({ ...updated, outcome })
          yield* note(`${key}: ${outcome}, version ${updated.version}`)
        })
      )
    })
).pipe(
  Command.withDescription(
    Shared.describe("Create or update one secret. The value is typed unseen, or comes from standard input or a file.", {
      more: ["One line end at the end of standard input is taken off; a file is taken as it is."],
      examples: [
        "ampoule secrets set DATABASE_PASSWORD",
        "openssl rand -base64 32 | ampoule secrets set SIGNING_KEY",
        "ampoule secrets set TLS_KEY --value-from-file key.pem",
        "echo 'postgres://app:${DATABASE_PASSWORD}@db/app' | ampoule secrets set DATABASE_URL"
      ]
    })
  )
)

const unset = Command.make(
  "unset",
  {
    ...options,
    json: Shared.json,
    disposition: Options.choice("disposition", ["flatten", "cascade"]).pipe(
      Options.withDescription("Secrets that refer to it: flatten keeps their text, cascade deletes them too"),
      Options.optional
    ),
    keys: Args.text({ name: "KEY" }).pipe(Args.withDescription("Keys to delete"), Args.atLeast(1))
  },
  (options) =>
    within(options, ({ session, ...place }) =>
      Effect.gen(function* () {
        const keys = yield* Effect.forEach([...new Set(options.keys)], (key) => parseKey(key))
        const client = yield* secretsClient(session)
        const live = yield* listAll(session, place)
        const found = yield* Effect.forEach(
          keys,
          Effect.fnUntraced(function* (key) {
            const item = live.find((candidate) => candidate.key === key)
            return item === undefined ? yield* noSuchKey(key) : yield* idOf(session, item.id)
          })
        )
        const disposition = Option.getOrUndefined(options.disposition)
        const [only] = found
        if (only !== undefined && found.length === 1) {
          const result = yield* call(
            session,
            client.remove({ path: { secretId: only }, urlParams: disposition === undefined ? {} : { disposition } })
          )
          if (options.json) return yield* json(result)
          yield* note(
            `${result.key}: deleted. \`ampoule secrets restore ${result.key}\` brings it back within 30 days.`
          )
          if (result.flattened.length > 0) yield* note(`flattened: ${result.flattened.map(plain).join(", ")}`)
          if (result.cascaded.length > 0) yield* note(`deleted too: ${result.cascaded.map(plain).join(", ")}`)
          return
        }
        if (disposition !== undefined) return yield* usage("--disposition goes with one key at a time.")
        if (found.length > 100) return yield* usage("At most 100 keys at a time.")
        const result = yield* call(session, client.deleteBulk({ payload: { ids: found, ...place }, headers: {} }))
        if (options.json) return yield* json(result)
        yield* note(`${result.deleted} deleted. \`ampoule secrets restore KEY\` brings each back within 30 days.`)
      })
    )
).pipe(
  Command.withDescription(
    Shared.describe("Delete secrets: several at once all or none.", {
      examples: ["ampoule secrets unset OLD_TOKEN", "ampoule secrets unset DB_PASSWORD --disposition flatten"]
    })
  )
)

// --- diff, history, rollback, deleted, restore ---

const diff = Command.make(
  "diff",
  {
    ...Shared.connection,
    project: Shared.project,
    json: Shared.json,
    exitCode: Options.boolean("exit-code").pipe(Options.withDescription("End with 1 when they differ")),
    source: Args.text({ name: "SOURCE" }).pipe(Args.withDescription("Environment to compare from")),
    target: Args.text({ name: "TARGET" }).pipe(Args.withDescription("Environment to compare to"))
  },
  (options) =>
    Effect.gen(function* () {
      const [sourceEnv, targetEnv] = [yield* Target.slug(options.source), yield* Target.slug(options.target)]
      const name = yield* Target.project(options.project)
      const session = yield* Credential.open(options)
      const client = yield* secretsClient(session)
      const result = yield* Target.withProject(session, name, (projectId) =>
        call(session, client.diff({ urlParams: { projectId, sourceEnv, targetEnv } }))
      )
      const count = result.added.length + result.removed.length + result.changed.length
      if (options.exitCode && count > 0) {
        yield* Effect.sync(() => {
          process.exitCode = 1
        })
      }
      if (options.json) return yield* json(result)
      if (count === 0) return yield* note(`${sourceEnv} and ${targetEnv} have the same keys and values.`)
      const lines = [
        ...result.added.map(({ key }) => ["+", key] as const),
        ...result.removed.map(({ key }) => ["-", key] as const),
        ...result.changed.map(({ key }) => ["~", key] as const)
      ].sort(([, a], [, b]) => (a < b ? -1 : 1))
      yield* out(lines.map(([mark, key]) => `${mark} ${plain(key)}\n`).join(""))
      yield* note(`+ only in ${targetEnv}   - only in ${sourceEnv}   ~ values differ`)
    })
).pipe(
  Command.withDescription(
    Shared.describe("Compare two environments by key; values are compared inside the server and never sent.", {
      examples: ["ampoule secrets diff development production", "ampoule secrets diff staging production --exit-code"]
    })
  )
)

/** A live secret, or else the last deleted one of that key. */
const anyId = Effect.fnUntraced(function* (session: Connection, place: Place, key: SecretKey) {
  const live = yield* listAll(session, place)
  const item = live.find((candidate) => candidate.key === key) ?? (yield* findDeleted(session, place, key))[0]
  if (item === undefined) return yield* noSuchKey(key)
  return yield* idOf(session, item.id)
})

const history = Command.make("history", { ...options, json: Shared.json, key: keyArgument }, (options) =>
  within(options, ({ session, ...place }) =>
    Effect.gen(function* () {
      const key = yield* parseKey(options.key)
      const client = yield* secretsClient(session)
      const secretId = yield* anyId(session, place, key)
      const { items } = yield* call(session, client.versions({ path: { secretId } }))
      if (options.json) return yield* json(items)
      yield* out(
        table(
          ["VERSION", "KIND", "CREATED", "BY"],
          items.map((item) => [
            `${item.version}${item.deleted ? " (deleted)" : ""}`,
            item.kind,
            item.createdAt,
            item.createdBy.name ?? item.createdBy.type
          ])
        )
      )
    })
  )
).pipe(
  Command.withDescription(
    Shared.describe("Show the versions of a secret, newest first, without values; also of a deleted one.", {
      examples: ["ampoule secrets history DATABASE_URL"]
    })
  )
)

const rollback = Command.make(
  "rollback",
  {
    ...options,
    json: Shared.json,
    expectedVersion,
    key: keyArgument,
    version: Args.integer({ name: "VERSION" }).pipe(Args.withDescription("Version whose text is written again"))
  },
  (options) =>
    within(options, ({ session, ...place }) =>
      Effect.gen(function* () {
        const key = yield* parseKey(options.key)
        const expected = Option.getOrUndefined(options.expectedVersion)
        if (options.version < 1) return yield* usage("Versions count from 1.")
        if (expected !== undefined && expected < 0) return yield* usage("--expected-version is a whole number from 0.")
        const client = yield* secretsClient(session)
        const live = yield* findLive(session, place, key)
        const secretId = yield* idOf(session, live.id)
        const payload = { version: options.version, ...(expected === undefined ? {} : { expectedVersion: expected }) }
        const result = yield* call(session, client.rollback({ path: { secretId }, payload }))
        if (options.json) return yield* json(result)
        yield* note(
          result.version === live.version
            ? `${key}: unchanged, version ${result.version} says the same already`
            : `${key}: version ${result.version} now says what version ${options.version} said`
        )
      })
    )
).pipe(
  Command.withDescription(
    Shared.describe("Write the text of an earlier version as a new version.", {
      examples: ["ampoule secrets rollback DATABASE_URL 3"]
    })
  )
)

const deleted = Command.make("deleted", { ...options, json: Shared.json }, (options) =>
  within(options, ({ session, ...place }) =>
    Effect.gen(function* () {
      const client = yield* secretsClient(session)
      const { items } = yield* call(session, client.listDeleted({ urlParams: place }))
      if (options.json) return yield* json(items)
      if (items.length === 0) return yield* note("No deleted secrets.")
      yield* out(
        table(
          ["KEY", "VERSION", "DELETED", "GONE FOR GOOD", "ID"],
          items.map((item) => [item.key, String(item.version), item.deletedAt, item.purgeAt, item.id])
        )
      )
    })
  )
).pipe(
  Command.withDescription(
    Shared.describe("List deleted secrets that can still be restored.", { examples: ["ampoule secrets deleted"] })
  )
)

const restore = Command.make(
  "restore",
  {
    ...options,
    json: Shared.json,
    id: Options.text("id").pipe(
      Options.withDescription("Which of several deleted secrets of this key; else the last deleted"),
      Options.optional
    ),
    key: keyArgument
  },
  (options) =>
    within(options, ({ session, ...place }) =>
      Effect.gen(function* () {
        const key = yield* parseKey(options.key)
        const client = yield* secretsClient(session)
        const candidates = yield* findDeleted(session, place, key)
        const wanted = candidates.find((item) => Option.isNone(options.id) || item.id === options.id.value)
        if (wanted === undefined) {
          return yield* new CliFailure({
            message: `There is no deleted secret ${key} to restore.`,
            hint: "`ampoule secrets deleted` lists those there are."
          })
        }
        const result = yield* call(session, client.restore({ path: { secretId: yield* idOf(session, wanted.id) } }))
        if (options.json) return yield* json(result)
        yield* note(`${key}: restored at version ${result.version}`)
      })
    )
).pipe(
  Command.withDescription(
    Shared.describe("Bring a deleted secret back.", { examples: ["ampoule secrets restore OLD_TOKEN"] })
  )
)

export const secrets = Command.make("secrets").pipe(
  Command.withDescription("Read and write the secrets of an environment."),
  Command.withSubcommands([
    list,
    get,
    set,
    unset,
    importCommand,
    exportCommand,
    diff,
    history,
    rollback,
    deleted,
    restore
  ])
)
export const secretsHelp = Help.group(
  secrets,
  Help.node(list),
  Help.node(get),
  Help.node(set),
  Help.node(unset),
  Help.node(importCommand),
  Help.node(exportCommand),
  Help.node(diff),
  Help.node(history),
  Help.node(rollback),
  Help.node(deleted),
  Help.node(restore)
)

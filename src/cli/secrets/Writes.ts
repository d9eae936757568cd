/** `ampoule secrets set` and `unset`. */
import * as Args from "@effect/cli/Args"
import type * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { type SecretKey, SecretText } from "#schema/Values.ts"
import type { Connection } from "#src/cli/connection/Client.ts"
import { orRemedy, usage } from "#src/cli/terminal/Failure.ts"
import { requireWritten } from "./Changes.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note, plain, stdinIsTerminal, warn } from "#src/cli/terminal/Output.ts"
import { noSuchKey, parseKey } from "#src/cli/terminal/Keys.ts"
import {
  at as within,
  findLive,
  keysOf,
  idOf,
  listAll,
  type Location,
  onEnvironment,
  open as openEnvironment,
  withKeyOfEntry
} from "#src/cli/connection/Reach.ts"
import { secrets as secretsClient } from "#src/cli/connection/Routes.ts"
import * as ValueInput from "#src/cli/values/Input.ts"
import * as WriteRisks from "#src/cli/values/WriteRisks.ts"

const decodeText = Schema.decodeUnknownOption(SecretText)
export const parseText = (key: string, text: string) =>
  Effect.mapError(decodeText(text), () => usage(`The value of ${key} is too long: at most 65536 characters.`))

interface SetRequest {
  readonly key: SecretKey
  readonly value: SecretText
  readonly kind: "literal" | "template" | undefined
  readonly expectedVersion: number | undefined
}

/** One request without `kind` and `expectedVersion`, whether or not the keys exist. */
export const upsert = Effect.fnUntraced(function* (
  session: Connection,
  location: Location,
  secrets: ReadonlyArray<Pick<SetRequest, "key" | "value">>
) {
  const client = yield* secretsClient(session)
  const payload = { ...location, secrets: secrets.map(({ key, value }) => ({ key, value })) }
  return (yield* withKeyOfEntry(secrets)(requireWritten(session, client.createBulk({ payload, headers: {} })))).items
})

export const createOrUpdate = Effect.fnUntraced(function* (
  session: Connection,
  location: Location,
  request: SetRequest
) {
  const { expectedVersion, key, kind, value } = request
  const client = yield* secretsClient(session)
  const text = kind === "template" ? { kind, source: value } : { ...(kind === undefined ? {} : { kind }), value }
  const body = { ...text, ...(expectedVersion === undefined ? {} : { expectedVersion }) }
  const live = yield* Effect.option(findLive(session, location, key))
  // Without a live secret, the expected version is that of a deleted one.
  if (Option.isNone(live) || expectedVersion === 0) {
    const created = yield* requireWritten(
      session,
      client.create({ payload: { ...location, key, ...body }, headers: {} })
    )
    return { ...created, outcome: "created" }
  }
  const path = { secretId: yield* idOf(session, live.value.id) }
  const updated = yield* requireWritten(session, client.update({ path, payload: body }))
  return { ...updated, outcome: updated.version === live.value.version ? "unchanged" : "updated" }
})

const setOptions = {
  ...Shared.inEnvironment,
  json: Shared.json,
  kind: Options.choice("kind", ["literal", "template"]).pipe(
    Options.withDescription("literal: ${KEY} is text; template: ${KEY} is expanded; default: detected from the text"),
    Options.optional
  ),
  expectedVersion: Shared.expectedVersion,
  valueFile: ValueInput.valueFile,
  keepNewline: Shared.flag("keep-newline", "Keep the line end at the end of standard input (default: one is removed)"),
  allowEmpty: ValueInput.allowEmpty,
  fromArgs: Shared.flag("from-args", "Take KEY=VALUE from the command line, where others can see it"),
  allow: Shared.allow,
  keys: Args.text({ name: "KEY" }).pipe(Args.withDescription("Keys, like DATABASE_URL"), Args.atLeast(1))
} as const

/** With one key; several are written without a kind. */
const asText = "Or take the text as it is: --kind literal."
const remediesOfSet = new Map([
  ["TEMPLATE_REFERENCE_MISSING", asText],
  ["TEMPLATE_INVALID", asText]
])

type SetOptions = Command.Command.ParseConfig<typeof setOptions>

interface KeyText {
  readonly key: SecretKey
  readonly text: string
}

const fromArguments = Effect.fnUntraced(function* (words: ReadonlyArray<string>) {
  const pairs = words.map((word) => [word.indexOf("="), word] as const)
  if (pairs.some(([at]) => at < 0)) return yield* usage("--from-args takes KEY=VALUE only.")
  yield* warn("the process list exposed these values, and the shell's history keeps them.")
  return yield* Effect.forEach(pairs, ([at, word]) =>
    Effect.map(parseKey(word.slice(0, at), true), (key): KeyText => ({ key, text: word.slice(at + 1) }))
  )
})

/** Prompts for each key in turn; a pipe or a file holds one value. */
const fromInput = Effect.fnUntraced(function* (keys: ReadonlyArray<SecretKey>, options: SetOptions) {
  if (keys.length > 1 && (Option.isSome(options.valueFile) || !stdinIsTerminal())) {
    return yield* usage(
      "Several keys need a terminal: a pipe or a file holds one value.",
      "Write KEY=value lines and pipe them to `ampoule secrets import - --yes`."
    )
  }
  return yield* Effect.forEach(keys, (key) =>
    Effect.map(ValueInput.read(key, options), (text): KeyText => ({ key, text }))
  )
})

export const lineOf = (key: string, result: { readonly outcome: string; readonly version: number } | null) =>
  `${key}: ${plain(result?.outcome ?? "written")}, version ${result?.version ?? "unknown"}`

export const set = Help.command(
  "set",
  {
    says: "Create or update secrets. Type the value without echo, or pass it by standard input or a file.",
    more: [
      "Several keys are prompted for one by one, and written together or not at all.",
      "One line end at the end of standard input is removed. A file is used unchanged.",
      "A key that is known to change which code runs (PATH, NODE_OPTIONS, MAKEFLAGS, ...) must be confirmed, or named by --allow. The list of such keys cannot be complete."
    ],
    examples: [
      "ampoule secrets set DATABASE_PASSWORD",
      "ampoule secrets set STRIPE_KEY STRIPE_WEBHOOK_SECRET",
      "openssl rand -base64 32 | ampoule secrets set SIGNING_KEY",
      "ampoule secrets set TLS_KEY --value-from-file key.pem",
      "echo 'postgres://app:${DATABASE_PASSWORD}@db/app' | ampoule secrets set DATABASE_URL",
      "ampoule secrets set LOG_LEVEL=debug --from-args"
    ]
  },
  setOptions,
  Effect.fnUntraced(function* (options) {
    if (!options.fromArgs) yield* ValueInput.refuseValues(options.keys)
    const keys = options.fromArgs ? [] : yield* Effect.forEach([...new Set(options.keys)], (key) => parseKey(key, true))
    const expectedVersion = yield* Shared.checkedVersion(options.expectedVersion)
    const kind = Option.getOrUndefined(options.kind)
    const isPlain = kind === undefined && expectedVersion === undefined
    if (!isPlain && options.keys.length > 1) {
      return yield* usage("--kind and --expected-version work with one key at a time.")
    }
    if (options.keys.length > 100) return yield* usage("At most 100 keys at a time.")
    // Found before the user types a value that could not be sent.
    const opened = yield* openEnvironment(options)
    const entries = options.fromArgs ? yield* fromArguments(options.keys) : yield* fromInput(keys, options)
    const secrets = yield* Effect.forEach(entries, ({ key, text }) =>
      Effect.map(parseText(key, text), (value) => ({ key, value }))
    )
    yield* WriteRisks.confirm(
      entries.map(({ key, text }) => ({ key, value: text })),
      options.allow
    )
    const results = yield* within(opened, ({ session, ...location }) =>
      isPlain
        ? upsert(session, location, secrets)
        : Effect.forEach(secrets, (one) => createOrUpdate(session, location, { ...one, kind, expectedVersion }))
    ).pipe(orRemedy(secrets.length === 1 ? remediesOfSet : new Map()))
    if (options.json) return yield* json(secrets.length === 1 ? (results[0] ?? null) : results)
    for (const { key } of secrets) yield* note(lineOf(key, results.find((one) => one.key === key) ?? null))
  })
)

export const unset = Help.command(
  "unset",
  {
    says: "Delete secrets; several are deleted together or not at all.",
    examples: ["ampoule secrets unset OLD_TOKEN", "ampoule secrets unset DB_PASSWORD --disposition flatten"]
  },
  {
    ...Shared.inEnvironment,
    json: Shared.json,
    disposition: Options.choice("disposition", ["flatten", "cascade"]).pipe(
      Options.withDescription("For secrets that refer to it: flatten keeps their text, cascade deletes them too"),
      Options.optional
    ),
    yes: Options.boolean("yes").pipe(
      Options.withAlias("y"),
      Options.withDescription("Accepted for scripts that always pass it; this command never asks")
    ),
    keys: Args.text({ name: "KEY" }).pipe(Args.withDescription("Keys to delete"), Args.atLeast(1))
  },
  onEnvironment(
    Effect.fnUntraced(function* ({ session, ...location }, options) {
      const keys = yield* Effect.forEach([...new Set(options.keys)], (key) => parseKey(key))
      const client = yield* secretsClient(session)
      const live = yield* listAll(session, location)
      const ids = yield* Effect.forEach(
        keys,
        Effect.fnUntraced(function* (key) {
          const item = live.find((candidate) => candidate.key === key)
          return item === undefined
            ? yield* noSuchKey(key, location.environment, keysOf(live))
            : yield* idOf(session, item.id)
        })
      )
      const disposition = Option.getOrUndefined(options.disposition)
      const [only] = ids
      if (only !== undefined && ids.length === 1) {
        const result = yield* requireWritten(
          session,
          client.remove({ path: { secretId: only }, urlParams: disposition === undefined ? {} : { disposition } })
        )
        if (options.json) return yield* json(result)
        yield* note(`${result.key}: deleted. \`ampoule secrets restore ${result.key}\` restores it within 30 days.`)
        if (result.flattened.length > 0) yield* note(`flattened: ${result.flattened.map(plain).join(", ")}`)
        if (result.cascaded.length > 0) yield* note(`deleted too: ${result.cascaded.map(plain).join(", ")}`)
        return
      }
      if (disposition !== undefined) return yield* usage("--disposition works with one key at a time.")
      if (ids.length > 100) return yield* usage("At most 100 keys at a time.")
      const result = yield* requireWritten(session, client.deleteBulk({ payload: { ids, ...location }, headers: {} }))
      if (options.json) return yield* json(result)
      yield* note(`${result.deleted} deleted. \`ampoule secrets restore KEY\` restores each within 30 days.`)
    })
  )
)

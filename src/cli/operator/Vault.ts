/** `ampoule vault`: the vault process, and the rotation of root keys and data keys. */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note, out, progress, progressDone, table, warn } from "#src/cli/terminal/Output.ts"
import { vaultPrograms } from "./ServerSide.ts"

const showProgress =
  (what: string) =>
  (done: number, total: number): Effect.Effect<void> =>
    progress(`${done} of ${total} ${what}`)

const withProgress = <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.ensuring(work, progressDone)

/** Fails when rows are unchanged, so that a script does not count the rotation as complete. */
const orRefused = (refused: ReadonlyArray<string>) =>
  refused.length === 0
    ? Effect.void
    : Effect.zipRight(
        Effect.forEach(refused.slice(0, 20), (name) => warn(`cannot be opened: ${name}`)),
        new CliFailure({ message: `${refused.length} could not be opened, and are unchanged.` })
      )

const status = Help.command(
  "status",
  {
    says: "Show the root keys that the vault holds, and how many rows each of them wraps.",
    examples: ["ampoule vault status", "ampoule vault status --json"]
  },
  { json: Shared.json },
  Effect.fnUntraced(function* (options) {
    const keys = yield* (yield* vaultPrograms).status
    if (options.json) return yield* json({ rootKeys: keys })
    yield* table(keys, [
      ["ROOT KEY", ({ id }) => id],
      ["USE", ({ current, held }) => (current ? "wraps" : held ? "unwraps" : "NOT HELD")],
      ["ROWS", ({ rows }) => String(rows)]
    ])
  })
)

const newKey = Help.command(
  "new-key",
  {
    says: "Put a new root key before the others in the key file: for a vault's host without the database.",
    more: ["A running vault picks it up without a restart. Copy the key file before you do anything else."],
    examples: ["AMPOULE_DATA_DIR=/var/lib/ampoule-vault ampoule vault new-key"]
  },
  {},
  Effect.fnUntraced(function* () {
    const id = yield* (yield* vaultPrograms).newKey
    yield* note(`New keys are now wrapped with ${id}. \`ampoule vault rotate\` wraps again what older keys wrapped.`)
  })
)

const rotate = Help.command(
  "rotate",
  {
    says: "Create a new root key and wrap all keys in the database with it, while servers run.",
    more: [
      "If it is interrupted, run it again to continue. Old root keys stay until you destroy them, because backups need them."
    ],
    examples: ["ampoule vault rotate", "AMPOULE_VAULT_URL=unix:///run/ampoule/vault.sock ampoule vault rotate"]
  },
  { json: Shared.json },
  Effect.fnUntraced(function* (options) {
    const programs = yield* vaultPrograms
    const rotated = yield* withProgress(programs.rotate(showProgress("keys wrapped again")))
    if (options.json) yield* json(rotated)
    else {
      yield* note(`${rotated.rewrapped} keys were wrapped again; ${rotated.rootKeyId} wraps everything.`)
      for (const id of rotated.older) {
        yield* note(`Once you no longer need older backups: \`ampoule vault destroy-key ${id}\`.`)
      }
    }
    yield* orRefused(rotated.refused)
  })
)

const rootKeyId = Args.text({ name: "root-key-id" }).pipe(Args.withDescription("rk_ and 8 hex digits"))

const checkId = (id: string) =>
  /^rk_[0-9a-f]{8}$/.test(id) ? Effect.void : usage("A root key id is rk_ and 8 hex digits.")

const releaseKey = Help.command(
  "release-key",
  {
    says: "Print a signed statement that no row needs an old root key, for a vault's host without the database.",
    more: ["Refused while any row names the key."],
    examples: ["ampoule vault release-key rk_5f0c2a9d > release"]
  },
  { id: rootKeyId },
  Effect.fnUntraced(function* ({ id }) {
    yield* checkId(id)
    yield* out(yield* (yield* vaultPrograms).releaseKey(id))
    yield* note(
      `Nothing in the database needs ${id}. On the vault's host, run destroy-key with --release within an hour.`
    )
  })
)

const destroyKey = Help.command(
  "destroy-key",
  {
    says: "Delete an old root key from the key file for good. Refused while any row names it.",
    more: [
      "Backups from before the rotation can then no longer be opened. If the vault's host cannot reach the database, first run `release-key` on a server."
    ],
    examples: ["ampoule vault destroy-key rk_5f0c2a9d", "ampoule vault destroy-key rk_5f0c2a9d --release release"]
  },
  {
    release: Options.optional(
      Shared.text("release", "file", "Output of `release-key` from a server's machine; - reads standard input")
    ),
    id: rootKeyId
  },
  Effect.fnUntraced(function* ({ id, release }) {
    yield* checkId(id)
    const statement = Option.isSome(release) ? Option.some(yield* Ask.input(release.value)) : Option.none<string>()
    yield* (yield* vaultPrograms).destroyKey(id, statement)
    yield* note(`${id} was deleted. Backups made under it can no longer be opened.`)
  })
)

const uuid = (name: string) => Options.optional(Shared.text(name, "uuid", `Only this ${name}`))

const isUuid = (text: string) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)

const rotateDataKeys = Help.command(
  "rotate-data-keys",
  {
    says: "Give environments new data keys and seal their values again, while servers run.",
    more: ["An old data key is removed ten minutes after its last value was sealed again."],
    examples: [
      "ampoule vault rotate-data-keys",
      "ampoule vault rotate-data-keys --environment 01980a5e-7c12-7000-8a1b-2c3d4e5f6071"
    ]
  },
  {
    environment: uuid("environment"),
    project: uuid("project"),
    before: Options.optional(Shared.text("before", "time", "Keep keys created after this time (default: now)")),
    json: Shared.json
  },
  Effect.fnUntraced(function* (options) {
    for (const id of [options.environment, options.project]) {
      if (Option.exists(id, (id) => !isUuid(id))) return yield* usage("--environment and --project take ids.")
    }
    const now = yield* Clock.currentTimeMillis
    const before = new Date(Option.match(options.before, { onNone: () => now, onSome: (text) => Date.parse(text) }))
    if (Number.isNaN(before.getTime())) return yield* usage("--before takes a time such as 2026-11-21T08:00:00Z.")
    const programs = yield* vaultPrograms
    const rotated = yield* withProgress(
      programs.rotateDataKeys({ ...options, before }, showProgress("environments sealed again"))
    ).pipe(Effect.onError(() => note(`To continue from here, run it again with --before ${before.toISOString()}`)))
    if (options.json) yield* json(rotated)
    else yield* note(`${rotated.values} values of ${rotated.environments} environments were sealed again.`)
    yield* orRefused(rotated.refused)
  })
)

const verifyLog = Help.command(
  "verify-log",
  {
    says: "Check that no entry of the vault's log was changed, removed or moved.",
    more: ["Entries removed from its end only show if you compare the hash with an earlier one."],
    examples: ["ampoule vault verify-log"]
  },
  { json: Shared.json },
  Effect.fnUntraced(function* (options) {
    const log = yield* (yield* vaultPrograms).verifyLog
    if (options.json) return yield* json(log)
    yield* note(`${log.entries} entries follow one another; the last hash is ${log.hash}.`)
  })
)

const commands = [status, rotate, newKey, releaseKey, destroyKey, rotateDataKeys, verifyLog] as const
export const vault = Help.described(
  Command.make("vault", {}, () => Effect.flatMap(vaultPrograms, (programs) => programs.serve)).pipe(
    Command.withSubcommands(commands)
  ),
  {
    says: "Run the vault: a process that holds the root keys for servers with AMPOULE_VAULT_URL.",
    more: ["It listens on AMPOULE_VAULT_URL, or on a socket in AMPOULE_DATA_DIR. It logs each key that it hands out."],
    examples: [
      "ampoule vault",
      "AMPOULE_VAULT_URL=unix:///run/ampoule/vault.sock AMPOULE_DATA_DIR=/var/lib/ampoule-vault ampoule vault"
    ]
  },
  commands
)

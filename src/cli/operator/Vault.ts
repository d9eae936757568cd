/** `ampoule vault`: the vault process, and rotation of what wraps and what seals. */
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

const shown =
  (what: string) =>
  (done: number, total: number): Effect.Effect<void> =>
    progress(`${done} of ${total} ${what}`)

const withProgress = <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.ensuring(work, progressDone)

/** What is unchanged must not count as done. */
const orRefused = (refused: ReadonlyArray<string>) =>
  refused.length === 0
    ? Effect.void
    : Effect.zipRight(
        Effect.forEach(refused.slice(0, 20), (name) => warn(`cannot be opened: ${name}`)),
        new CliFailure({ message: `${refused.length} could not be opened and are unchanged.` })
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
    more: ["The running vault takes it up by itself. Make a copy of the key file before anything else."],
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
    says: "Make a new root key and wrap every key in the database by it, while servers serve.",
    more: [
      "Cut off anywhere, it goes on when it is run again. Old root keys stay until they are destroyed: backups need them."
    ],
    examples: ["ampoule vault rotate", "AMPOULE_VAULT_URL=unix:///run/ampoule/vault.sock ampoule vault rotate"]
  },
  { json: Shared.json },
  Effect.fnUntraced(function* (options) {
    const programs = yield* vaultPrograms
    const rotated = yield* withProgress(programs.rotate(shown("keys wrapped again")))
    if (options.json) yield* json(rotated)
    else {
      yield* note(`${rotated.rewrapped} keys were wrapped again; ${rotated.rootKeyId} wraps everything.`)
      for (const id of rotated.older) {
        yield* note(`Once no backup of before is needed: \`ampoule vault destroy-key ${id}\`.`)
      }
    }
    yield* orRefused(rotated.refused)
  })
)

const rootKeyId = Args.text({ name: "root-key-id" }).pipe(Args.withDescription("rk_ and 8 hex digits"))

const checked = (id: string) =>
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
    yield* checked(id)
    yield* out(yield* (yield* vaultPrograms).releaseKey(id))
    yield* note(
      `Nothing in the database needs ${id}. Within an hour, where the vault runs: destroy-key with --release.`
    )
  })
)

const destroyKey = Help.command(
  "destroy-key",
  {
    says: "Take an old root key out of the key file for good. Refused while any row names it.",
    more: [
      "A backup that was made before the rotation cannot be opened any more. Where the vault's host does not reach the database, `release-key` looks there."
    ],
    examples: ["ampoule vault destroy-key rk_5f0c2a9d", "ampoule vault destroy-key rk_5f0c2a9d --release release"]
  },
  {
    release: Options.optional(
      Shared.text("release", "file", "What `release-key` printed where a server runs; - reads standard input")
    ),
    id: rootKeyId
  },
  Effect.fnUntraced(function* ({ id, release }) {
    yield* checked(id)
    const read = Option.isSome(release) ? Option.some(yield* Ask.input(release.value)) : Option.none<string>()
    yield* (yield* vaultPrograms).destroyKey(id, read)
    yield* note(`${id} is deleted. Backups made under it can no longer be opened.`)
  })
)

const uuid = (name: string) => Options.optional(Shared.text(name, "uuid", `Of this ${name} only`))

const isUuid = (text: string) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)

const rotateDataKeys = Help.command(
  "rotate-data-keys",
  {
    says: "Give environments new data keys and seal their values again, while servers serve.",
    more: ["Old data keys are removed ten minutes after the last value left them."],
    examples: [
      "ampoule vault rotate-data-keys",
      "ampoule vault rotate-data-keys --environment 01980a5e-7c12-7000-8a1b-2c3d4e5f6071"
    ]
  },
  {
    environment: uuid("environment"),
    project: uuid("project"),
    before: Options.optional(Shared.text("before", "time", "Keys made since then stay (default: now)")),
    json: Shared.json
  },
  Effect.fnUntraced(function* (options) {
    for (const id of [options.environment, options.project]) {
      if (Option.exists(id, (id) => !isUuid(id))) return yield* usage("Environments and projects are named by id.")
    }
    const now = yield* Clock.currentTimeMillis
    const before = new Date(Option.match(options.before, { onNone: () => now, onSome: (text) => Date.parse(text) }))
    if (Number.isNaN(before.getTime())) return yield* usage("--before takes a time such as 2026-11-21T08:00:00Z.")
    const programs = yield* vaultPrograms
    const rotated = yield* withProgress(
      programs.rotateDataKeys({ ...options, before }, shown("environments sealed again"))
    ).pipe(
      Effect.onError(() => note(`To go on where this stopped: run it again with --before ${before.toISOString()}`))
    )
    if (options.json) yield* json(rotated)
    else yield* note(`${rotated.values} values of ${rotated.environments} environments were sealed again.`)
    yield* orRefused(rotated.refused)
  })
)

const verifyLog = Help.command(
  "verify-log",
  {
    says: "Check that nothing was changed, dropped or moved in the vault's own log.",
    more: ["That its end was cut off shows only beside a hash that was noted down before."],
    examples: ["ampoule vault verify-log"]
  },
  { json: Shared.json },
  Effect.fnUntraced(function* (options) {
    const found = yield* (yield* vaultPrograms).verifyLog
    if (options.json) return yield* json(found)
    yield* note(`${found.entries} entries follow one another; the last hash is ${found.hash}.`)
  })
)

const below = [status, rotate, newKey, releaseKey, destroyKey, rotateDataKeys, verifyLog] as const
export const vault = Help.described(
  Command.make("vault", {}, () => Effect.flatMap(vaultPrograms, (programs) => programs.serve)).pipe(
    Command.withSubcommands(below)
  ),
  {
    says: "Run the vault: a process that alone holds the root keys, for servers with AMPOULE_VAULT_URL.",
    more: [
      "It listens on AMPOULE_VAULT_URL, else on a socket in AMPOULE_DATA_DIR, and keeps a log of every key that it hands out."
    ],
    examples: [
      "ampoule vault",
      "AMPOULE_VAULT_URL=unix:///run/ampoule/vault.sock AMPOULE_DATA_DIR=/var/lib/ampoule-vault ampoule vault"
    ]
  },
  below
)

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
import { json, note, out, plain, progress, progressDone, table, warn } from "#src/cli/terminal/Output.ts"
import { type ServiceKeyPlan, vaultPrograms } from "./ServerSide.ts"

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

const remainingText = (counts: ReadonlyArray<{ readonly label: string; readonly count: number }>): string =>
  counts.map(({ count, label }) => `${label} (${count})`).join(", ")

const status = Help.command(
  "status",
  {
    says: "Show the root keys that the vault holds, and the generations of the service keys.",
    more: [
      "ROWS counts what needs a key: the keys that a root key wraps, and the rows that a generation wrote, where a service key has several.",
      "--remaining also lists API tokens and command-line logins whose hash needs an older generation, the longest unused first."
    ],
    examples: ["ampoule vault status", "ampoule vault status --remaining", "ampoule vault status --json"]
  },
  {
    remaining: Shared.flag("remaining", "List tokens and logins that need an older generation"),
    json: Shared.json
  },
  Effect.fnUntraced(function* (options) {
    const programs = yield* vaultPrograms
    const keys = yield* programs.status
    const { counts, generations, listed } = yield* programs.serviceKeys
    if (options.json) {
      const remaining = options.remaining ? { remaining: { counts, listed } } : {}
      return yield* json({ rootKeys: keys, serviceKeys: generations, ...remaining })
    }
    yield* table(keys, [
      ["ROOT KEY", ({ id }) => id],
      ["USE", ({ current, held }) => (current ? "wraps" : held ? "unwraps" : "NOT HELD")],
      ["ROWS", ({ rows }) => String(rows)]
    ])
    if (generations.length > 0) {
      yield* out("\n")
      yield* table(generations, [
        ["SERVICE KEY", ({ name }) => name],
        ["GENERATION", ({ generation }) => String(generation)],
        ["USE", ({ use }) => use],
        ["ROWS", ({ rows }) => (rows === null ? "-" : String(rows))]
      ])
    }
    if (options.remaining && listed.length > 0) {
      yield* out("\n")
      yield* table(listed, [
        ["TYPE", ({ type }) => (type === "api_token" ? "API token" : "login")],
        ["ID", ({ id }) => id],
        ["NAME", ({ name }) => plain(name)],
        ["OF", ({ owner }) => plain(owner)],
        ["LAST USED", ({ lastUsedAt }) => lastUsedAt?.toISOString() ?? "never"]
      ])
    }
    if (counts.length > 0) yield* note(`These need an older generation of credential-pepper: ${remainingText(counts)}.`)
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

/** The sentences before a rotation of the service keys. */
const planText = (plan: ServiceKeyPlan): ReadonlyArray<string> => {
  const { action, agents, alone, counts, generation, rows } = plan
  if (action === "end")
    return [
      `This ends the credentials that need an older generation of the pepper: ${remainingText(counts)}.`,
      "Recovery codes stay. Codes that live for minutes end by themselves."
    ]
  return [
    action === "begin"
      ? `This creates generation ${generation} of the service keys.`
      : `This finishes the rotation to generation ${generation} of the service keys.`,
    ...(alone ? [] : ["Servers keep serving meanwhile. It takes at least two and a half minutes."]),
    `${rows} rows get a new MAC. Sessions, tokens, logins and passwords stay valid.`,
    ...(agents > 0
      ? [
          `${agents} connected agents end: an earlier release derived their refresh tokens from a key. They connect again.`
        ]
      : []),
    "Servers of an earlier release can no longer read the database: stop those first."
  ]
}

const rotateServiceKeys = Effect.fnUntraced(function* (options: {
  readonly json: boolean
  readonly revokeRemaining: boolean
  readonly yes: boolean
}) {
  const programs = yield* vaultPrograms
  const decide = (plan: ServiceKeyPlan) =>
    Effect.gen(function* () {
      for (const sentence of planText(plan)) yield* note(sentence)
      const question = plan.action === "end" ? "End these credentials?" : "Rotate the service keys?"
      return options.yes || (yield* Ask.confirm(question))
    })
  const result = yield* withProgress(programs.rotateServiceKeys(options, decide, showProgress("rows renewed")))
  if (Option.isNone(result)) return yield* note("Nothing was changed.")
  const { ended, generation, older, refused, remaining, removed, rows, unboundDataKeys, unfinished } = result.value
  if (options.json) yield* json(result.value)
  else {
    yield* note(
      options.revokeRemaining
        ? `${ended} credentials were ended.`
        : `${rows} rows were renewed; generation ${generation} writes everything.`
    )
    if (removed.length > 0) yield* note(`Removed: ${removed.map((one) => `${one.name} ${one.generation}`).join(", ")}.`)
    const waiting = older.filter(({ name }) => name !== "credential-pepper")
    if (waiting.length > 0) {
      const keys = waiting.map((one) => `${one.name} ${one.generation}`).join(", ")
      yield* note(`A server removes these when the last cookie or row under them has ended: ${keys}.`)
    }
    if (remaining.length > 0) {
      yield* note(
        `These need an older generation of the pepper until their next use or end: ${remainingText(remaining)}. \`ampoule vault status --remaining\` lists tokens and logins; \`ampoule vault rotate --service-keys --revoke-remaining\` ends what remains.`
      )
    }
    if (unboundDataKeys > 0) {
      yield* note(
        `${unboundDataKeys} data keys are of a release that did not bind them to this database. \`ampoule vault rotate-data-keys\` replaces them.`
      )
    }
    yield* note(
      "Backups still hold the older keys, wrapped. Run `ampoule vault rotate`, and `ampoule vault destroy-key` for the older root key when you no longer need those backups."
    )
  }
  yield* orRefused(refused)
  if (unfinished) {
    return yield* new CliFailure({
      message: "Some rows were in use all the time, and still need the older generation.",
      hint: "Run `ampoule vault rotate --service-keys` again for the rest."
    })
  }
})

const rotate = Help.command(
  "rotate",
  {
    says: "Create a new root key and wrap all keys in the database with it, while servers run.",
    more: [
      "If it is interrupted, run it again to continue. Old root keys stay until you destroy them, because backups need them.",
      "--service-keys creates new service keys instead: those of MACs, hashes of credentials, sealed passwords, cookies and ends of the trail. Use it when somebody may have read one of them. It says what it will do, and asks first.",
      "--revoke-remaining ends the credentials that nobody has used since the last rotation of the service keys."
    ],
    examples: [
      "ampoule vault rotate",
      "AMPOULE_VAULT_URL=unix:///run/ampoule/vault.sock ampoule vault rotate",
      "ampoule vault rotate --service-keys",
      "ampoule vault rotate --service-keys --revoke-remaining --yes"
    ]
  },
  {
    serviceKeys: Shared.flag("service-keys", "Create a new generation of the service keys, not a new root key"),
    revokeRemaining: Shared.flag("revoke-remaining", "With --service-keys: end credentials under an older generation"),
    yes: Shared.yes,
    json: Shared.json
  },
  Effect.fnUntraced(function* (options) {
    if (options.revokeRemaining && !options.serviceKeys) return yield* usage("--revoke-remaining needs --service-keys.")
    if (options.serviceKeys) return yield* rotateServiceKeys(options)
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

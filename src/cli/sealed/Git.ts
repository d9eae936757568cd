/** `ampoule seal merge`, `resolve` and `install`: sealed files in a git repository. */
import * as Args from "@effect/cli/Args"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { execFile } from "node:child_process"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import { cannotWrite, readIfThere, writeWhole } from "#src/cli/terminal/Folders.ts"
import * as Help from "#src/cli/help/Help.ts"
import { defaultFile } from "./Open.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { exitWith, note, plain } from "#src/cli/terminal/Output.ts"
import { parseKey } from "#src/cli/terminal/Keys.ts"
import * as SealedMerge from "./Merge.ts"

export const merge = Help.command(
  "merge",
  {
    says: "Git's merge driver for sealed files, set up by `ampoule seal install`. It merges key by key, without opening values.",
    more: ["The exit code is 1 when both sides changed the same key; `ampoule seal resolve` then takes one side."],
    examples: ["ampoule seal merge %O %A %B"]
  },
  {
    base: Shared.argument("BASE", "Common ancestor of both sides (%O)"),
    ours: Shared.argument("OURS", "Our version, overwritten with the result (%A)"),
    theirs: Shared.argument("THEIRS", "The other version (%B)")
  },
  Effect.fnUntraced(function* (options) {
    const [base, ours, theirs] = [
      yield* Ask.fileText(options.base),
      yield* Ask.fileText(options.ours),
      yield* Ask.fileText(options.theirs)
    ]
    const merged = SealedMerge.merge(base, ours, theirs)
    if (Either.isLeft(merged)) {
      return yield* new CliFailure({
        message: `The sealed file was not merged: ${merged.left}.`,
        hint: "Take one side (`git checkout --ours` or `--theirs`), and seal the changes of the other again."
      })
    }
    yield* writeWhole(options.ours, merged.right.text, "the sealed file", { keepMode: true })
    for (const key of merged.right.conflicts) {
      yield* note(`${key}: changed on both sides. \`ampoule seal resolve ${key} --ours\` (or --theirs) takes one.`)
    }
    if (merged.right.staleManifest) yield* note("Review the changes, then run `ampoule seal manifest`.")
    if (merged.right.conflicts.length > 0) yield* exitWith(1)
  })
)

export const resolve = Help.command(
  "resolve",
  {
    says: "Take one side of a key that both sides of a merge changed.",
    examples: ["ampoule seal resolve --theirs STRIPE_KEY", "ampoule seal resolve --ours STRIPE_KEY config/.env.sealed"]
  },
  {
    ours: Shared.flag("ours", "The value of the branch you merge into"),
    theirs: Shared.flag("theirs", "The value of the branch that you merge"),
    key: Shared.argument("KEY", "Name of the variable"),
    file: Args.text({ name: "FILE" }).pipe(
      Args.withDescription(`Sealed file (default: ${defaultFile})`),
      Args.withDefault(defaultFile)
    )
  },
  Effect.fnUntraced(function* (options) {
    if (options.ours === options.theirs) return yield* usage("Use --ours or --theirs.")
    const key = yield* parseKey(options.key)
    const text = yield* Ask.fileText(options.file)
    const resolved = SealedMerge.resolve(text, key, options.ours ? "ours" : "theirs")
    if (resolved === undefined) {
      return yield* new CliFailure({ message: `${plain(options.file)} has no conflict of ${key}.` })
    }
    yield* writeWhole(options.file, resolved, "the sealed file", { keepMode: true })
    yield* note(`${key}: ${options.ours ? "ours" : "theirs"}, in ${plain(options.file)}`)
  })
)

const git = (...args: ReadonlyArray<string>) =>
  Effect.async<string, CliFailure>((resume) => {
    execFile("git", [...args], { encoding: "utf8" }, (error, stdout) =>
      resume(
        error === null
          ? Effect.succeed(stdout.trim())
          : Effect.fail(new CliFailure({ message: `\`git ${args.join(" ")}\` failed. Is this a git repository?` }))
      )
    )
  })

const attribute = "*.env.sealed merge=ampoule"
const check = `git diff --cached --name-only --diff-filter=d -z -- '*.env.sealed' | xargs -0 -r ampoule seal check --offline`

/** Adds the hook, unless one exists: that one is the user's. */
const addHook = Effect.fnUntraced(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const hook = path.resolve(yield* git("rev-parse", "--git-path", "hooks/pre-commit"))
  const existing = yield* readIfThere(hook, "the pre-commit hook")
  if (Option.exists(existing, (bytes) => bytes.toString("utf8").includes("ampoule seal check"))) return
  if (Option.isSome(existing)) return yield* note(`A pre-commit hook exists already. Add this line to it:\n  ${check}`)
  yield* fs.makeDirectory(path.dirname(hook), { recursive: true }).pipe(
    Effect.zipRight(fs.writeFileString(hook, `#!/bin/sh\n${check}\n`, { mode: 0o755 })),
    Effect.mapError((error) => cannotWrite("the pre-commit hook", hook, error))
  )
  yield* note(`${hook}: checks sealed files before each commit`)
})

export const install = Help.command(
  "install",
  {
    says: "Set up this git repository for sealed files: merges key by key, and a check before each commit.",
    more: [
      "Writes .gitattributes, which you commit. The driver and the hook belong to this clone, so run it once in each clone."
    ],
    examples: ["ampoule seal install"]
  },
  {},
  Effect.fnUntraced(function* () {
    const path = yield* Path.Path
    const file = path.join(yield* git("rev-parse", "--show-toplevel"), ".gitattributes")
    const existing = yield* readIfThere(file, ".gitattributes")
    const text = Option.match(existing, { onNone: () => "", onSome: (bytes) => bytes.toString("utf8") })
    if (!text.split("\n").includes(attribute)) {
      const start = text === "" || text.endsWith("\n") ? text : `${text}\n`
      yield* writeWhole(file, `${start}${attribute}\n`, ".gitattributes", { mode: 0o644, keepMode: true })
      yield* note(`${file}: ${attribute}`)
    }
    yield* git("config", "merge.ampoule.name", "sealed files of Ampoule, key by key")
    yield* git("config", "merge.ampoule.driver", "ampoule seal merge %O %A %B")
    yield* addHook()
    yield* note("Installed.")
  })
)

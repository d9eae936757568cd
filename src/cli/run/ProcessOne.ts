/**
 * `ampoule run` as process 1 of a container. The kernel hands it each orphan of the container, and Node waits for its
 * own children alone. Such a process would collect zombies until the container has no free process id.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { warn } from "#src/cli/terminal/Output.ts"
import type { RunOptions } from "#src/cli/values/RunOptions.ts"
import * as Become from "./Become.ts"
import * as Descriptors from "./Descriptors.ts"

/** Options that need this process beside its child: restarts, masking, a mounted file, or a report. */
const parentOptions = ({ mount, plan, redact, watch }: RunOptions): ReadonlyArray<string> => [
  ...(watch ? ["--watch"] : []),
  ...(redact ? ["--redact"] : []),
  ...(Option.isSome(mount) ? ["--mount"] : []),
  ...(Option.isSome(plan) ? ["--plan"] : [])
]

const init = "Start the container with --init (Compose: `init: true`)"

/** Next step, where this process would stay the parent; undefined where it becomes the command. */
const remedy = (options: RunOptions, program: string): string | undefined => {
  const staying = parentOptions(options)
  if (staying.length > 0) return `${init}, or leave out ${staying.join(" and ")}.`
  switch (Become.obstacle(program)) {
    case "node":
      return `${init}, or use Node 22.15 or later, where \`ampoule run\` becomes the command.`
    case "env":
      return `${init}, or install /usr/bin/env, with which \`ampoule run\` becomes the command.`
    case "name":
      return `${init}, or give the command's path.`
    case undefined:
      // A descriptor that no variable names may have leaked. It is no reason to stop a container.
      return Descriptors.isSocketActivated()
        ? `${init}: only a parent can pass on the sockets of LISTEN_FDS.`
        : undefined
  }
}

/** Refuses before a value is read, because a read is in the audit trail. */
export const check = Effect.fnUntraced(function* (options: RunOptions, [program]: readonly [string, ...unknown[]]) {
  if (process.pid !== 1) return
  const hint = remedy(options, program)
  if (hint !== undefined) {
    const message = "`ampoule run` is process 1 here and cannot reap orphaned processes."
    return yield* new CliFailure({ message, hint })
  }
  const lost = Descriptors.inherited()
  if (lost.length > 0) yield* warn(`not passed on, because this is process 1: descriptor ${lost.join(", ")}.`)
})

/** True when this process stays beside its child. */
export const staysParent = (options: RunOptions): boolean =>
  parentOptions(options).length > 0 || (process.pid !== 1 && Descriptors.inherited().length > 0)

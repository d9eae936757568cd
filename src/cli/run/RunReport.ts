/** How a planned run went, told to the server for the agent that planned it. */
import * as Effect from "effect/Effect"
import { Buffer } from "node:buffer"
import type { Link } from "#src/cli/connection/Link.ts"
import { describe } from "#src/cli/terminal/Failure.ts"
import { warn } from "#src/cli/terminal/Output.ts"
import * as Target from "#src/cli/connection/Target.ts"

/** Bytes of output that are told, from its end. */
const tailBytes = 4_096

export interface Tail {
  readonly push: (bytes: Uint8Array) => void
  /** The end of what was pushed, from the first whole character on. */
  readonly text: () => string
}

export const makeTail = (): Tail => {
  let kept: Buffer = Buffer.alloc(0)
  return {
    push: (bytes) => {
      kept = Buffer.from(Buffer.concat([kept, bytes.subarray(-tailBytes)]).subarray(-tailBytes))
    },
    text: () => kept.toString().replace(/^\ufffd+/, "")
  }
}

interface Ended {
  readonly plan: string
  readonly exitCode: number
  readonly durationMillis: number
  /** Only of a run whose output is masked. */
  readonly tail: Tail | undefined
}

/** A report that fails changes nothing about the run, which is over. */
export const send = (session: Link, target: Target.Target, { durationMillis, exitCode, plan, tail }: Ended) =>
  Target.withProject(session, target.project, (projectId) =>
    session.ask({
      method: "POST",
      path: "/secrets/run-results",
      json: {
        projectId,
        environment: target.environment,
        plan,
        exitCode,
        durationMillis,
        ...(tail === undefined ? {} : { output: tail.text() })
      }
    })
  ).pipe(
    Effect.timeout("5 seconds"),
    Effect.catchAll((error) =>
      warn(
        `the end of the run was not told to the server: ${error._tag === "TimeoutException" ? "it did not answer." : describe(error).message}`
      )
    )
  )

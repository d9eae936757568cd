/** Report of a planned run, sent to the server for the agent that planned it. */
import * as Effect from "effect/Effect"
import { Buffer } from "node:buffer"
import type { Link } from "#src/cli/connection/Link.ts"
import { describe } from "#src/cli/terminal/Failure.ts"
import { warn } from "#src/cli/terminal/Output.ts"
import * as Target from "#src/cli/connection/Target.ts"

/** Bytes from the end of the output that the report includes. */
const tailBytes = 4_096

export interface Tail {
  readonly push: (bytes: Uint8Array) => void
  /** Last part of the output, from the first whole character on. */
  readonly text: () => string
}

export const makeTail = (): Tail => {
  let last: Buffer = Buffer.alloc(0)
  return {
    push: (bytes) => {
      last = Buffer.from(Buffer.concat([last, bytes.subarray(-tailBytes)]).subarray(-tailBytes))
    },
    text: () => last.toString().replace(/^\ufffd+/, "")
  }
}

interface EndedRun {
  readonly plan: string
  readonly exitCode: number
  readonly durationMillis: number
  /** Only for a run with masked output. */
  readonly tail: Tail | undefined
}

/** A failed report has no effect on the run, which has ended. */
export const send = (session: Link, target: Target.Target, { durationMillis, exitCode, plan, tail }: EndedRun) =>
  Target.withProject(session, target, (projectId) =>
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
        `the result of the run was not reported to the server: ${error._tag === "TimeoutException" ? "it did not answer." : describe(error).message}`
      )
    )
  )

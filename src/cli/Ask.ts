/** Questions to the person at the terminal, and text from standard input. Questions stand on standard error. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { CliFailure, usage } from "./Failure.ts"
import { decodeUtf8 } from "./Folders.ts"
import { stdinIsTerminal } from "./Output.ts"
import * as Signals from "./Signals.ts"

const readAll = Effect.async<Uint8Array, CliFailure>((resume) => {
  const chunks: Array<Uint8Array> = []
  process.stdin.on("data", (chunk: Uint8Array) => chunks.push(chunk))
  process.stdin.once("end", () => resume(Effect.succeed(Buffer.concat(chunks))))
  process.stdin.once("error", () => resume(Effect.fail(new CliFailure({ message: "Standard input cannot be read." }))))
})

export const text = (bytes: Uint8Array, what: string): Effect.Effect<string, CliFailure> =>
  Option.match(decodeUtf8(bytes), {
    onNone: () =>
      Effect.fail(
        new CliFailure({ message: `${what} is not UTF-8 text.`, hint: "Encode binary data, for instance as base64." })
      ),
    onSome: Effect.succeed
  })

/** What `-` becomes before the parser, which takes it for the beginning of an option. */
export const standardInputName = "<stdin>"

/** All of standard input, when it is not a terminal. */
export const standardInput: Effect.Effect<string, CliFailure> = Effect.flatMap(readAll, (bytes) =>
  text(bytes, "Standard input")
)

/** `echo` and here-documents end what they send with a line end that nobody means. */
export const withoutFinalNewline = (s: string): string => s.replace(/\r?\n$/, "")

/** One line, typed unseen. ^C ends the command; ^U starts again. */
export const hidden = (question: string): Effect.Effect<Redacted.Redacted, CliFailure> =>
  Effect.async<Redacted.Redacted, CliFailure>((resume) => {
    const { stdin } = process
    let typed: Array<string> = []
    const finish = (result: Effect.Effect<Redacted.Redacted, CliFailure>) => {
      stop()
      process.stderr.write("\n")
      resume(result)
    }
    const stop = () => {
      stdin.off("data", onData)
      stdin.setRawMode(false)
      stdin.pause()
    }
    const onData = (data: string | Uint8Array) => {
      for (const character of typeof data === "string" ? data : Buffer.from(data).toString("utf8")) {
        if (character === "\r" || character === "\n") return finish(Effect.succeed(Redacted.make(typed.join(""))))
        if (character === "\u0003") {
          stop()
          process.stderr.write("\n")
          return Signals.raise("SIGINT")
        }
        if (character === "\u0004") return finish(Effect.fail(new CliFailure({ message: "Nothing was entered." })))
        if (character === "\u007f" || character === "\b") typed.pop()
        else if (character === "\u0015") typed = []
        else if (character >= " ") typed.push(character)
      }
    }
    process.stderr.write(question)
    stdin.setEncoding("utf8")
    stdin.setRawMode(true)
    stdin.on("data", onData)
    stdin.resume()
    return Effect.sync(stop)
  })

/** A new password, twice from a person, once from a pipe. */
export const newPassword = Effect.gen(function* () {
  if (!stdinIsTerminal()) return Redacted.make(withoutFinalNewline(yield* standardInput))
  const first = yield* hidden("Password (at least 12 characters): ")
  const again = yield* hidden("Again: ")
  if (Redacted.value(first) !== Redacted.value(again)) {
    return yield* new CliFailure({ message: "The two are not the same." })
  }
  return first
})

/** Yes only when a person says so; without a terminal there is nobody to ask. */
export const confirm = Effect.fnUntraced(function* (question: string) {
  if (!stdinIsTerminal()) return yield* usage("This asks before it goes on, and there is no terminal.", "Say --yes.")
  const answer = yield* Effect.async<string>((resume) => {
    const { stdin } = process
    const onData = (data: string | Uint8Array) => {
      stdin.off("data", onData)
      stdin.pause()
      resume(Effect.succeed(String(data).trim().toLowerCase()))
    }
    process.stderr.write(`${question} [y/N] `)
    stdin.on("data", onData)
    stdin.resume()
    return Effect.sync(() => {
      stdin.off("data", onData)
      stdin.pause()
    })
  })
  return answer === "y" || answer === "yes"
})

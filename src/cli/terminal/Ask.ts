/** Questions to the user at the terminal, on standard error, and text from standard input. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { CliFailure, usage } from "./Failure.ts"
import { decodeUtf8, readNamed } from "./Folders.ts"
import { plain, stdinIsTerminal } from "./Output.ts"
import * as Signals from "./Signals.ts"

const readAll = Effect.async<Uint8Array, CliFailure>((resume) => {
  const chunks: Array<Uint8Array> = []
  process.stdin.on("data", (chunk: Uint8Array) => chunks.push(chunk))
  process.stdin.once("end", () => resume(Effect.succeed(Buffer.concat(chunks))))
  process.stdin.once("error", () => resume(Effect.fail(new CliFailure({ message: "Standard input cannot be read." }))))
})

const text = (bytes: Uint8Array, what: string): Effect.Effect<string, CliFailure> =>
  Effect.mapError(
    decodeUtf8(bytes),
    () => new CliFailure({ message: `${what} is not UTF-8 text.`, hint: "Encode binary data, for instance as base64." })
  )

/** Text of a file that the user named. `what`: a phrase for the file in errors, if not its name. */
export const fileText = (file: string, what = file) => Effect.flatMap(readNamed(file), (bytes) => text(bytes, what))

/** Replacement for `-`, which the parser would take for an option. */
export const standardInputName = "<stdin>"

/** All of standard input. */
export const standardInput: Effect.Effect<string, CliFailure> = Effect.flatMap(readAll, (bytes) =>
  text(bytes, "Standard input")
)

/** A byte order mark, as PowerShell and editors of Windows write it. */
const utf16Of = (bytes: Uint8Array): "utf-16le" | "utf-16be" | undefined =>
  bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : bytes[0] === 0xfe && bytes[1] === 0xff ? "utf-16be" : undefined

const decodeUtf16 = Option.liftThrowable((bytes: Uint8Array, encoding: string) =>
  new TextDecoder(encoding, { fatal: true }).decode(bytes)
)

/** Text of a file of entries: UTF-8, or UTF-16 with its mark. */
const entriesText = (bytes: Uint8Array, what: string): Effect.Effect<string, CliFailure> => {
  const encoding = utf16Of(bytes)
  if (encoding === undefined) return text(bytes, what)
  return Effect.mapError(
    decodeUtf16(bytes, encoding),
    () => new CliFailure({ message: `${what} has the mark of UTF-16 and is not UTF-16.`, hint: "Save it as UTF-8." })
  )
}

/** Text of a file of entries, or of standard input for `-`. */
export const input = (file: string) =>
  file === standardInputName
    ? Effect.flatMap(readAll, (bytes) => entriesText(bytes, "Standard input"))
    : Effect.flatMap(readNamed(file), (bytes) => entriesText(bytes, file))

/** Removes the final line end that `echo` and here-documents add. */
export const withoutFinalNewline = (s: string): string => s.replace(/\r?\n$/, "")

type KeyEvent = "line" | "interrupt" | "end" | undefined

/**
 * Builds a line that is typed without echo. It drops arrow keys and similar ones. A paste may have several lines:
 * otherwise only the first would count, and the rest would reach the shell and its history.
 */
export const typist = () => {
  let typed: Array<string> = []
  let escape = ""
  let isPasting = false
  const press = (key: string): KeyEvent => {
    if (escape === "\u001b" && key !== "[" && key !== "O") escape = ""
    if (escape !== "") {
      escape += key
      // ECMA-48: CSI, parameters, and a final byte from @ to ~; SS3 (ESC O) has one more character.
      const isComplete = escape.startsWith("\u001bO") ? escape.length === 3 : escape.length > 2 && /^[@-~]$/.test(key)
      if (!isComplete) return undefined
      if (escape === "\u001b[200~") isPasting = true
      if (escape === "\u001b[201~") isPasting = false
      escape = ""
      return undefined
    }
    if (key === "\u001b") escape = key
    else if (isPasting) typed.push(key)
    else if (key === "\r" || key === "\n") return "line"
    else if (key === "\u0003") return "interrupt"
    else if (key === "\u0004") return "end"
    else if (key === "\u007f" || key === "\b") typed.pop()
    else if (key === "\u0015") typed = []
    else if (key >= " ") typed.push(key)
    return undefined
  }
  return { press, text: () => withoutFinalNewline(typed.join("").replaceAll(/\r\n?/g, "\n")) }
}

/** Bracketed paste: the terminal marks the start and the end of pasted text. */
const pasteMarks = (state: "on" | "off") =>
  process.env["TERM"] === "dumb" ? "" : state === "on" ? "\u001b[?2004h" : "\u001b[?2004l"

/** Reads one value without echo, typed or pasted. ^C ends the command; ^U starts again. */
export const hidden = (question: string): Effect.Effect<Redacted.Redacted, CliFailure> =>
  Effect.async<Redacted.Redacted, CliFailure>((resume) => {
    const { stdin } = process
    const { press, text } = typist()
    const finish = (result: Effect.Effect<Redacted.Redacted, CliFailure>) => {
      stop()
      resume(result)
    }
    const stop = () => {
      stdin.off("data", onData)
      stdin.off("end", onEnd)
      stdin.setRawMode(false)
      stdin.pause()
      process.stderr.write(`${pasteMarks("off")}\n`)
    }
    const onEnd = () => finish(Effect.fail(new CliFailure({ message: "No value was entered." })))
    const onData = (data: string | Uint8Array) => {
      for (const key of typeof data === "string" ? data : Buffer.from(data).toString("utf8")) {
        switch (press(key)) {
          case "line":
            return finish(Effect.succeed(Redacted.make(text())))
          case "end":
            return onEnd()
          case "interrupt":
            stop()
            return Signals.raise("SIGINT")
        }
      }
    }
    // Raw mode comes before the question. A quick answer would otherwise be shown, and a ^D would end the line.
    stdin.setRawMode(true)
    stdin.setEncoding("utf8")
    process.stderr.write(`${pasteMarks("on")}${question}`)
    stdin.on("data", onData)
    stdin.once("end", onEnd)
    stdin.resume()
    return Effect.sync(stop)
  })

/** New password: entered twice at a terminal, once from a pipe. */
export const newPassword = Effect.gen(function* () {
  if (!stdinIsTerminal()) return Redacted.make(withoutFinalNewline(yield* standardInput))
  const first = yield* hidden("Password (at least 12 characters): ")
  const again = yield* hidden("Again: ")
  if (Redacted.value(first) !== Redacted.value(again)) {
    return yield* new CliFailure({ message: "The two passwords differ." })
  }
  return first
})

/** The user's answer without surrounding blanks; empty after ^D or when the terminal is gone. */
export const line = (question: string): Effect.Effect<string> =>
  Effect.async<string>((resume) => {
    const { stdin } = process
    const stop = () => {
      stdin.off("data", onData)
      stdin.off("end", onEnd)
      stdin.pause()
    }
    const onData = (data: string | Uint8Array) => {
      stop()
      resume(Effect.succeed(String(data).trim()))
    }
    const onEnd = () => {
      stop()
      process.stderr.write("\n")
      resume(Effect.succeed(""))
    }
    process.stderr.write(question)
    stdin.on("data", onData)
    stdin.once("end", onEnd)
    stdin.resume()
    return Effect.sync(onEnd)
  })

/** True only for yes. An error without a terminal. */
export const confirm = Effect.fnUntraced(function* (question: string) {
  if (!stdinIsTerminal())
    return yield* usage("This command needs a confirmation, but there is no terminal.", "Confirm with --yes.")
  const answer = (yield* line(`${question} [y/N] `)).toLowerCase()
  return answer === "y" || answer === "yes"
})

/** One of several, by number or text. Repeats the question after a wrong answer; an empty one ends the command. */
export const oneOf = Effect.fnUntraced(function* (what: string, choices: readonly [string, ...ReadonlyArray<string>]) {
  if (choices.length === 1) return choices[0]
  const menu = choices.map((choice, i) => `  ${i + 1}  ${plain(choice)}\n`).join("")
  for (;;) {
    const answer = yield* line(`${menu}${what} (1-${choices.length}): `)
    if (answer === "") return yield* new CliFailure({ message: "Nothing was chosen." })
    const match = choices.find((choice, i) => choice === answer || String(i + 1) === answer)
    if (match !== undefined) return match
  }
})

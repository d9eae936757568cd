/** Opening pages in the user's browser, if there is one. */
import * as Effect from "effect/Effect"
import { execFile } from "node:child_process"
import { compose } from "./ChildEnvironment.ts"
import { variable } from "./Environment.ts"
import { CliFailure } from "./Failure.ts"
import { note, out, stderrIsTerminal } from "./Output.ts"
import * as MacOs from "./MacOs.ts"
import * as Windows from "./Windows.ts"

/** Web pages only: for another scheme, the system could start any program (docs/security.md, "Lessons from others"). */
export const webPage = (text: string): URL | undefined => {
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url?.protocol === "https:" || url?.protocol === "http:" ? url : undefined
}

/** False over SSH and without a screen. The browser would open on another screen, or in this terminal. */
export const hasScreen = (): boolean => {
  if (variable("SSH_CONNECTION") !== undefined || variable("SSH_TTY") !== undefined) return false
  if (process.platform !== "linux") return true
  return variable("DISPLAY") !== undefined || variable("WAYLAND_DISPLAY") !== undefined
}

const opener = (): readonly [program: string, ...before: Array<string>] => {
  switch (process.platform) {
    case "darwin":
      return MacOs.opener()
    case "win32":
      return Windows.opener()
    default:
      return ["xdg-open"]
  }
}

/** True when a program was started; never through a shell. Its later failures are not reported. */
export const open = (page: URL): Effect.Effect<boolean> =>
  Effect.async<boolean>((resume) => {
    const [program, ...before] = opener()
    const env = compose({ inherited: process.env, values: {}, keepsExisting: () => false, passCredentials: false })
    const child = execFile(program, [...before, page.href], { env: { ...env } }, () => {})
    child.once("spawn", () => {
      child.unref()
      resume(Effect.succeed(true))
    })
    child.once("error", () => resume(Effect.succeed(false)))
  })

/** Prints the address of a page, and opens it when the machine has a screen. */
export const offer = Effect.fnUntraced(function* (address: string, options: { readonly noBrowser: boolean }) {
  const page = webPage(address)
  if (page === undefined) return yield* new CliFailure({ message: "The server's address is not a web page." })
  yield* out(`${page.href}\n`)
  if (!options.noBrowser && hasScreen() && stderrIsTerminal() && (yield* open(page))) {
    yield* note("(The page was opened in your browser.)")
  }
})

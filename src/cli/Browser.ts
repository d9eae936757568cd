/** Opening a page for the person, where there is one to open it for. */
import * as Effect from "effect/Effect"
import { execFile } from "node:child_process"
import { compose } from "./ChildEnvironment.ts"
import { variable } from "./Environment.ts"

/**
 * Only web pages: any other scheme could be a program that the system starts for it (docs/security.md, "Lessons from
 * others").
 */
export const webPage = (text: string): URL | undefined => {
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url?.protocol === "https:" || url?.protocol === "http:" ? url : undefined
}

/** False over SSH and where no screen is: a browser would open where nobody sits, or in this terminal. */
export const hasScreen = (): boolean => {
  if (variable("SSH_CONNECTION") !== undefined || variable("SSH_TTY") !== undefined) return false
  if (process.platform !== "linux") return true
  return variable("DISPLAY") !== undefined || variable("WAYLAND_DISPLAY") !== undefined
}

const opener = (): readonly [program: string, ...before: Array<string>] => {
  switch (process.platform) {
    case "darwin":
      return ["/usr/bin/open"]
    case "win32":
      return [`${process.env["SystemRoot"] ?? "C:\\Windows"}\\System32\\rundll32.exe`, "url.dll,FileProtocolHandler"]
    default:
      return ["xdg-open"]
  }
}

/** Whether something was started; never through a shell. What becomes of it is for the person to see. */
export const open = (page: URL): Effect.Effect<boolean> =>
  Effect.async<boolean>((resume) => {
    const [program, ...before] = opener()
    const env = compose({ inherited: process.env, values: {}, keepExisting: false, passCredentials: false })
    const child = execFile(program, [...before, page.href], { env: { ...env } }, () => {})
    child.once("spawn", () => {
      child.unref()
      resume(Effect.succeed(true))
    })
    child.once("error", () => resume(Effect.succeed(false)))
  })

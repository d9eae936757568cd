/** mise for its recipe: the binary of its npm package by its digest, once, as `deploy/executable.mjs` gets Node. */
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Programs from "#test/support/Programs.ts"

const name = "@jdxcode/mise-linux-x64"
const version = "2026.9.15"
const integrity = "sha512-ButPFGyztN0Rk/HOHvHuf+W80CkvQRAjbDWHvhGJc3PnL3e2KhCYZIOyjx8wPkhr9VJa/7sJZXpxtt5JLjsfaQ=="

const isLinux = process.platform === "linux" && process.arch === "x64"
/** Elsewhere it has to be installed. */
export const missing = !isLinux && Programs.missing("mise")

/** The folder with the program; undefined: it is in the PATH. */
export const folder = (): string | undefined => {
  if (!isLinux) return undefined
  const kept = path.resolve("node_modules/.cache/ampoule", `mise-${version}`)
  if (!fs.existsSync(kept)) {
    fs.mkdirSync(path.dirname(kept), { recursive: true })
    // Under another name until it is whole: two runs may want it at once.
    const unfinished = fs.mkdtempSync(`${kept}.`)
    const pack = ["pack", "--silent", `${name}@${version}`]
    const file = path.join(unfinished, execFileSync("npm", pack, { cwd: unfinished, encoding: "utf8" }).trim())
    const digest = `sha512-${createHash("sha512").update(fs.readFileSync(file)).digest("base64")}`
    if (digest !== integrity) throw new Error(`${name}@${version} is not what it was: ${digest}`)
    execFileSync("tar", ["-xzf", file, "-C", unfinished, "package/bin/mise"])
    fs.rmSync(file)
    try {
      fs.renameSync(unfinished, kept)
    } catch {
      fs.rmSync(unfinished, { recursive: true })
    }
  }
  return path.join(kept, "package/bin")
}

/** Real shells read a file: those that this machine has. */
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { existsSync } from "node:fs"

/** `script` reads `$FILE`, and the environment that it leaves is printed by a program that it starts. */
interface Shell {
  readonly name: string
  readonly arguments: (script: string) => ReadonlyArray<string>
}
const plainly = (name: string): Shell => ({ name, arguments: (script) => ["-c", script] })

const shells: ReadonlyArray<Shell> = [
  plainly("sh"),
  plainly("bash"),
  plainly("dash"),
  { name: "zsh", arguments: (script) => ["-f", "-c", script] },
  { name: "zsh-rc-quotes", arguments: (script) => ["-f", "-o", "rcquotes", "-c", script] },
  plainly("ksh"),
  { name: "fish", arguments: (script) => ["--no-config", "-c", script] }
]

const programOf = (name: string) => (name === "zsh-rc-quotes" ? "zsh" : name)

/** The shells of this machine; `sh` is always one. */
export const installedShells = shells.filter(({ name }) =>
  (process.env["PATH"] ?? "").split(delimiter).some((folder) => existsSync(join(folder, programOf(name))))
)

const printer = `${JSON.stringify(process.execPath)} -e 'process.stdout.write(JSON.stringify(process.env))'`

/** The environment of a program that the shell starts after `script`. */
export const environmentAfter = (shell: Shell, file: string, script: string): Record<string, string> => {
  const folder = mkdtempSync(join(tmpdir(), "ampoule-shells-"))
  const path = join(folder, "file")
  writeFileSync(path, file)
  const ended = spawnSync(programOf(shell.name), [...shell.arguments(`${script}\n${printer}`)], {
    env: { FILE: path, HOME: folder, PATH: process.env["PATH"] },
    encoding: "utf8",
    maxBuffer: 1 << 28
  })
  rmSync(folder, { recursive: true })
  if (ended.status !== 0 || ended.stderr !== "") {
    throw new Error(`${shell.name}: ${ended.status} ${ended.signal} ${ended.stderr.slice(0, 500)}`)
  }
  return JSON.parse(ended.stdout) as Record<string, string>
}

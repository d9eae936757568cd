import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** The values of these names in a real /bin/sh that ran `script`, with `$FILE` a file of this text. */
export const sourced = (file: string, script: string, names: ReadonlyArray<string>): ReadonlyArray<string> => {
  const folder = mkdtempSync(join(tmpdir(), "ampoule-formats-"))
  const path = join(folder, "file")
  writeFileSync(path, file)
  const quoted = names.map((name) => `"$${name}"`).join(" ")
  const shell = spawnSync("/bin/sh", ["-c", `${script}\nprintf '%s\\0' ${quoted}`], {
    env: { FILE: path },
    encoding: "utf8",
    maxBuffer: 1 << 26
  })
  rmSync(folder, { recursive: true })
  if (shell.status !== 0 || shell.stderr !== "") throw new Error(`sh: ${shell.status} ${shell.signal} ${shell.stderr}`)
  return shell.stdout.split("\0").slice(0, -1)
}

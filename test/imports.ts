/** Imports of files, read from their import lines. */
import * as fs from "node:fs"
import * as path from "node:path"

export const filesBelow = (folder: string): ReadonlyArray<string> =>
  fs.readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const name = path.posix.join(folder, entry.name)
    if (entry.isDirectory()) return filesBelow(name)
    return /(?<!\.d)\.m?tsx?$/.test(name) ? [name] : []
  })

export interface Module {
  readonly file: string
  readonly text: string
  /** Files of ours that it imports, from the root. */
  readonly ours: ReadonlyArray<string>
  readonly packages: ReadonlyArray<string>
}

const importLine =
  /(?:^|\n)\s*(?:import|export)\s(?:[^"'\n;]|\n(?!\s*(?:import|export)\s))*?from\s+"([^"]+)"|import\("([^"]+)"\)|(?:^|\n)import\s+"([^"]+)"/g

export const read = (file: string): Module => {
  const text = fs.readFileSync(file, "utf8")
  const specifiers = [...text.matchAll(importLine)].map((match) => match[1] ?? match[2] ?? match[3])
  return {
    file,
    text,
    ours: specifiers.flatMap((specifier) =>
      specifier.startsWith("#")
        ? [specifier.slice(1)]
        : specifier.startsWith(".")
          ? [path.posix.join(path.posix.dirname(file), specifier)]
          : []
    ),
    packages: specifiers.filter((specifier) => !/^[#.]/.test(specifier))
  }
}

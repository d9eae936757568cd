/** Texts that the build writes beside the programs. An executable has them inside (`deploy/executables.mjs`). */
import { join } from "node:path"
import { fs } from "#src/cli/terminal/BuiltIn.ts"

const beside = (name: string): string => fs().readFileSync(join(import.meta.dirname, name), "utf8")

/** Pages of all commands, as JSON. */
export const manual = (): string => beside("manual.json")

/** @throws where the build has no list of licences */
export const licences = (): string => beside("licences.txt")

/** Pages of all commands, as JSON, in the file that the build writes beside the programs. */
import { join } from "node:path"
import { fs } from "#src/cli/terminal/BuiltIn.ts"

/** An executable has this text inside (`deploy/executables.mjs`). */
export const manualText = (): string => fs().readFileSync(join(import.meta.dirname, "manual.json"), "utf8")

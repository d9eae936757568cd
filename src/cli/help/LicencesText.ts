/** Licences of the program and of the packages in it, in the file that `deploy/licences.mjs` writes beside it. */
import { join } from "node:path"
import { fs } from "#src/cli/terminal/BuiltIn.ts"

/**
 * An executable has this text inside (`deploy/executables.mjs`).
 * @throws where the build has no list of licences
 */
export const licencesText = (): string => fs().readFileSync(join(import.meta.dirname, "licences.txt"), "utf8")

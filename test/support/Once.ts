/** Slow, unchanging fixtures: built once for all files and processes of a run of the tests. */
import * as fs from "node:fs"
import * as path from "node:path"
import { setTimeout } from "node:timers/promises"
import { inject } from "vitest"

/** The folder that `make` fills; the first comer fills it, the others wait. */
export const once = async (name: string, make: (folder: string) => Promise<void>): Promise<string> => {
  const folder = path.join(inject("runFolder"), name)
  const failure = `${folder}.failed`
  try {
    fs.mkdirSync(`${folder}.claimed`)
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error
    while (!fs.existsSync(folder)) {
      if (fs.existsSync(failure)) throw new Error(fs.readFileSync(failure, "utf8"), { cause: error })
      await setTimeout(50)
    }
    return folder
  }
  const unfinished = `${folder}.unfinished`
  try {
    fs.mkdirSync(unfinished)
    await make(unfinished)
    fs.renameSync(unfinished, folder)
    return folder
  } catch (error) {
    fs.writeFileSync(failure, String(error))
    throw error
  }
}

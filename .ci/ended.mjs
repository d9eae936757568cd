// A reporter of vitest's: appends to the file `AMPOULE_CI_ENDED` which files a run has, and of each that ended its path and
// how many of its tests passed and failed. The JSON report is written at a run's end, which a run whose process dies lacks.
import * as fs from "node:fs"
import * as path from "node:path"

const file = process.env.AMPOULE_CI_ENDED
const say = (line) => fs.appendFileSync(file, `${JSON.stringify(line)}\n`)
const relative = (module) => path.relative(process.cwd(), module)

export default class Ended {
  onTestRunStart(specifications) {
    say({ has: specifications.map(({ moduleId }) => relative(moduleId)) })
  }

  onTestModuleEnd(module) {
    const count = (wanted) => [...module.children.allTests()].filter((test) => test.result().state === wanted).length
    // A file that cannot be loaded has no test, and one whose preparation failed none that failed.
    const failed = module.ok() ? 0 : Math.max(1, count("failed"))
    say({ ended: relative(module.moduleId), passed: count("passed"), failed })
  }
}

// @ts-check
/** Steps of a rehearsal: each is counted, and a failed one does not end the run. */

const say = (/** @type {string} */ text) => process.stdout.write(`${text}\n`)

export class Steps {
  /** @type {Array<{ step: string, passed: boolean, seconds: number, why?: string, note?: unknown }>} */
  results = []

  /**
   * The step's result; undefined after a failure, so that a step that needs it fails too.
   * @template A @param {string} name @param {() => A | Promise<A>} work
   * @returns {Promise<A | undefined>}
   */
  async step(name, work) {
    const began = Date.now()
    const seconds = () => Math.round((Date.now() - began) / 1000)
    try {
      const value = await work()
      this.results.push({ step: name, passed: true, seconds: seconds() })
      say(`passed  ${name}`)
      return value
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      this.results.push({ step: name, passed: false, seconds: seconds(), why: why.slice(0, 2000) })
      say(`FAILED  ${name}\n${why}`)
      return undefined
    }
  }

  /** A value of an earlier step. @template A @param {A | undefined} value @param {string} step @returns {A} */
  static of(value, step) {
    if (value === undefined) throw new Error(`not tried: "${step}" failed`)
    return value
  }

  counts() {
    const passed = this.results.filter((one) => one.passed).length
    return { passed, failed: this.results.length - passed }
  }
}

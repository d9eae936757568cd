/** Problems of a trail. All are counted, and the first ones are listed. */

export interface Problem {
  /** Empty if the problem concerns no stream. */
  readonly stream: string
  readonly seq: number | null
  readonly what: string
}

/** Most problems in a report. */
const maxListed = 100

export class Problems {
  readonly #listed: Array<Problem> = []
  #count = 0

  get listed(): ReadonlyArray<Problem> {
    return this.#listed
  }
  get count(): number {
    return this.#count
  }

  add(problem: Problem): void {
    this.#count++
    if (this.#listed.length < maxListed) this.#listed.push(problem)
  }

  /** Adds a problem that concerns no entry. */
  say(what: string): void {
    this.add({ stream: "", seq: null, what })
  }

  /** Adds another report's problems, with its count. */
  addReport(report: { readonly problems: ReadonlyArray<Problem>; readonly problemCount: number }): void {
    for (const problem of report.problems) this.add(problem)
    this.#count += report.problemCount - report.problems.length
  }
}

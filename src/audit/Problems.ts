/** What is wrong with a trail. Bounded: all problems are counted, the first ones are listed. */

export interface Problem {
  /** Empty when no stream is concerned. */
  readonly stream: string
  readonly seq: number | null
  readonly what: string
}

/** Problems that a report lists. */
export const listedAtMost = 100

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
    if (this.#listed.length < listedAtMost) this.#listed.push(problem)
  }

  /** About no entry of a stream. */
  say(what: string): void {
    this.add({ stream: "", seq: null, what })
  }

  /** Those of another report, counted as it counted them. */
  addReport(report: { readonly problems: ReadonlyArray<Problem>; readonly problemCount: number }): void {
    for (const problem of report.problems) this.add(problem)
    this.#count += report.problemCount - report.problems.length
  }
}

/** What the readers of file formats use of `effect/Data`, without the rest of it. */
export const TaggedError = (tag: string) =>
  class {
    readonly _tag = tag
    constructor(members: object) {
      Object.assign(this, members)
    }
  }

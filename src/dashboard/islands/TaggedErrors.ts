/** The part of `effect/Data` that the readers of file formats use, without the rest of the module. */
export const TaggedError = (tag: string) =>
  class {
    readonly _tag = tag
    constructor(members: object) {
      Object.assign(this, members)
    }
  }

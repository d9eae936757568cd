/**
 * Decodes small JSON of a known shape without the schema library, whose loading costs more CPU than Node's own start.
 * `run` and `secrets get` decode little. Unnamed members are dropped. Pure.
 *
 * It exists beside `Schema` for start-up alone. `test/cli/Shape.test.ts` runs both decoders over random bodies of each
 * route whose answer a shape reads; a shape of a file of ours is that file's one decoder.
 */
import * as Option from "effect/Option"

/** None when the input has another shape. */
export type Shape<A> = (input: unknown) => Option.Option<A>
export type Of<S> = S extends Shape<infer A> ? A : never

export const string: Shape<string> = (input) => (typeof input === "string" ? Option.some(input) : Option.none())
export const number: Shape<number> = (input) => (typeof input === "number" ? Option.some(input) : Option.none())
export const boolean: Shape<boolean> = (input) => (typeof input === "boolean" ? Option.some(input) : Option.none())
export const unknown: Shape<unknown> = Option.some

export const oneOf =
  <const Word extends string>(...words: ReadonlyArray<Word>): Shape<Word> =>
  (input) =>
    Option.fromNullable(words.find((word) => word === input))

export const nullable =
  <A>(shape: Shape<A>): Shape<A | null> =>
  (input) =>
    input === null ? Option.some(null) : shape(input)

export const optional =
  <A>(shape: Shape<A>): Shape<A | undefined> =>
  (input) =>
    input === undefined ? Option.some(undefined) : shape(input)

export const array =
  <A>(shape: Shape<A>): Shape<ReadonlyArray<A>> =>
  (input) =>
    Array.isArray(input) ? Option.all(input.map(shape)) : Option.none()

const isObject = (input: unknown): input is object =>
  typeof input === "object" && input !== null && !Array.isArray(input)

export const record =
  <A>(shape: Shape<A>): Shape<Readonly<Record<string, A>>> =>
  (input) => {
    if (!isObject(input)) return Option.none()
    const members = Object.entries(input).map(([name, member]) =>
      Option.map(shape(member), (read) => [name, read] as const)
    )
    return Option.map(Option.all(members), (read) => Object.fromEntries(read))
  }

type Members = Readonly<Record<string, Shape<unknown>>>

export const struct =
  <const S extends Members>(members: S): Shape<{ readonly [Name in keyof S]: Of<S[Name]> }> =>
  (input) => {
    if (!isObject(input)) return Option.none()
    const decoded = Object.entries(members).map(([name, shape]) =>
      Option.map(shape(Object.hasOwn(input, name) ? Reflect.get(input, name) : undefined), (member) => [name, member])
    )
    // Each member went through the shape of its name, but the compiler does not follow that through entries.
    return Option.map(Option.all(decoded), (found) => Object.fromEntries(found) as { [Name in keyof S]: Of<S[Name]> })
  }

/** Decodes a text. */
export const json =
  <A>(shape: Shape<A>) =>
  (text: string): Option.Option<A> => {
    try {
      return shape(JSON.parse(text))
    } catch {
      return Option.none()
    }
  }

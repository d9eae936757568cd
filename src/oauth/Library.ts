/* eslint-disable no-console -- printing is what is held back here */
/**
 * The library, loaded when the authorization server is built and not before: the command line never pays for it. It
 * prints what it thinks of Node versions and of features; that is decided and said in our documents.
 */
import * as Effect from "effect/Effect"

const isItsNotice = (text: unknown): boolean =>
  typeof text === "string" && /oidc-provider (?:NOTICE|WARNING):/.test(text)

/** Runs `work` with the library's own notices left out; everything else that is printed meanwhile is printed. */
export const quietly = async <A>(work: () => A | Promise<A>): Promise<A> => {
  const { info, warn } = console
  const without =
    (print: typeof console.info): typeof console.info =>
    (...words) => {
      if (!isItsNotice(words[0])) print.apply(console, words)
    }
  console.info = without(info)
  console.warn = without(warn)
  try {
    return await work()
  } finally {
    console.info = info
    console.warn = warn
  }
}

export const load = Effect.promise(() => quietly(() => import("oidc-provider")))
export type Library = Effect.Effect.Success<typeof load>

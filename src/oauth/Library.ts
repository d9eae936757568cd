/* eslint-disable no-console -- filters what the library prints */
/**
 * `oidc-provider`, loaded when the authorization server is built, so that the command line never pays for it. Its
 * notices about Node versions and features are suppressed: our documents cover them.
 */
import * as Effect from "effect/Effect"

const isLibraryNotice = (text: unknown): boolean =>
  typeof text === "string" && /oidc-provider (?:NOTICE|WARNING):/.test(text)

/** Runs `work` without the library's notices; all other output is printed. */
export const quietly = async <A>(work: () => A | Promise<A>): Promise<A> => {
  const { info, warn } = console
  const withoutNotices =
    (print: typeof console.info): typeof console.info =>
    (...args) => {
      if (!isLibraryNotice(args[0])) print.apply(console, args)
    }
  console.info = withoutNotices(info)
  console.warn = withoutNotices(warn)
  try {
    return await work()
  } finally {
    console.info = info
    console.warn = warn
  }
}

export const load = Effect.promise(() => quietly(() => import("oidc-provider")))
export type Library = Effect.Effect.Success<typeof load>

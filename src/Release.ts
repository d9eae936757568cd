/**
 * Release of the program, and the commit that it was built from. The contract has its own version (`schema/Api.ts`).
 * Alone in its file: `--version` loads nothing else. `test/release/version.test.ts` holds it equal to package.json.
 */
export const version = "1.1.0"

/** Replaced by the build (`src/bundle.mjs`); not declared where the sources run as they are. */
declare const builtFromCommit: string | undefined

/** Twelve digits, with `-dirty` behind them where files had changed since. Undefined: built outside a repository. */
export const commit: string | undefined = typeof builtFromCommit === "string" ? builtFromCommit : undefined

/** `1.1.0 (0123456789ab)`, or the version alone. */
export const named = (version: string, commit: string | undefined): string =>
  commit === undefined ? version : `${version} (${commit})`

export const release = named(version, commit)

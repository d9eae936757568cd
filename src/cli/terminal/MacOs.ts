/**
 * Differences on macOS, written from documentation and not tested (docs/command-line/start.md, "Untested platforms"). The
 * project is tested on Linux.
 */

/** Opens a page in the user's browser: open(1). */
export const opener = (): readonly [program: string, ...before: Array<string>] => ["/usr/bin/open"]

/** ARG_MAX of all arguments and variables together (sysctl kern.argmax); a single variable has no separate limit. */
export const argumentBytes = 1024 * 1024

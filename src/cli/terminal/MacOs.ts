/**
 * What is different on macOS. Written against documented behaviour and untried (docs/command-line.md, "What is
 * untried"): this project is tested on Linux.
 */

/** What opens a page in the browser of the user: open(1). */
export const opener = (): readonly [program: string, ...before: Array<string>] => ["/usr/bin/open"]

/** ARG_MAX of all arguments and variables together (sysctl kern.argmax); one variable has no limit of its own. */
export const argumentBytes = 1024 * 1024

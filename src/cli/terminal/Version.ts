/**
 * Release of the command line; `test/cli` compares it with package.json. In a file of its own, because `--version`
 * loads nothing else.
 */
export const version = "1.0.0"

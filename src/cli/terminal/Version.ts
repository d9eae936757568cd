/**
 * Release of the command line; `test/cli` holds it equal to package.json. Alone in its file: `--version` loads nothing
 * else.
 */
export const version = "1.0.0"

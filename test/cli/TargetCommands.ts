/** Every command that takes `--project` or `--env`, with words that run it, or the reason why it has no target. */

interface TargetedCommand {
  /** Of the catalogue. */
  readonly path: string
  /** Words that reach a request about the target. */
  readonly words: ReadonlyArray<string>
  readonly needs: "project" | "environment" | "no question"
}

const on =
  (needs: TargetedCommand["needs"]) =>
  (path: string, ...more: ReadonlyArray<string>): TargetedCommand => ({
    path,
    words: [...path.split(" "), ...more],
    needs
  })
const inEnvironment = on("environment")
const inProject = on("project")
const unsent = on("no question")

export const targetedCommands: ReadonlyArray<TargetedCommand> = [
  inEnvironment("run", "--", "true"),
  inEnvironment("secrets list"),
  inEnvironment("secrets get", "A"),
  inEnvironment("secrets set", "A"),
  unsent("secrets edit", "A"),
  inEnvironment("secrets copy", "A", "--as", "B"),
  inEnvironment("secrets unset", "A"),
  inEnvironment("secrets rename", "A", "B"),
  inEnvironment("secrets note", "A"),
  inEnvironment("secrets notes"),
  inEnvironment("secrets import", "plain.env", "--yes"),
  inEnvironment("secrets export"),
  inProject("secrets diff", "development", "production"),
  inEnvironment("secrets history", "A"),
  inEnvironment("secrets rollback", "A", "1"),
  inEnvironment("secrets deleted"),
  inEnvironment("secrets restore", "A"),
  inEnvironment("secrets restore-at", "--at", "1h"),
  inEnvironment("inject", "template"),
  inEnvironment("open", "--json"),
  inEnvironment("graph"),
  inEnvironment("seal file", "plain.env"),
  inEnvironment("seal set", "A"),
  inEnvironment("seal export"),
  inEnvironment("access list"),
  inEnvironment("access request", "--for", "2h", "--why", "x"),
  inEnvironment("exposed", "A"),
  inProject("activity"),
  inProject("use", "production"),
  inProject("projects environments"),
  inProject("environments list"),
  unsent("environments create", "qa"),
  inProject("environments update", "production", "--name", "x"),
  inProject("environments delete", "production", "--yes")
]

export const untargeted: ReadonlyMap<string, string> = new Map([
  ["init", "asks for what the options and variables leave open: test/cli/management.test.ts"],
  ["seal manifest", "takes the environment of the file's header, like the commands below: test/cli/seal.test.ts"],
  ["unseal", "the file's header; options and variables must not contradict it"],
  ["reseal", "the file's header; options and variables must not contradict it"],
  ["projects create", "--environment names environments of the new project"],
  ["tokens create", "--project and --environment narrow the new token"],
  ["setup", "--project names a new project"],
  ["vault rotate-data-keys", "--project and --environment are ids in a plan of the vault, which knows no slug"]
])

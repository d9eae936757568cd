/** The variables that the command line reads (decisions 1). An empty one counts as not set. */
export const variable = (name: string): string | undefined => {
  const value = process.env[name]
  return value === undefined || value === "" ? undefined : value
}

/** In the order in which they count; each also as NAME_FILE. */
export const tokenVariables = ["AMPOULE_API_TOKEN", "AMPOULE_TOKEN"] as const

/** What a child process is not told: credentials of this service, whichever program they are for. */
export const credentialVariables: ReadonlyArray<string> = [
  ...tokenVariables,
  "AMPOULE_ROOT_KEY",
  "AMPOULE_SETUP_CODE"
].flatMap((name) => [name, `${name}_FILE`])

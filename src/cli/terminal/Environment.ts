/** The variables that the command line reads (docs/contract/names.md). An empty one counts as not set. */
export const variable = (name: string): string | undefined => {
  const value = process.env[name]
  return value === undefined || value === "" ? undefined : value
}

/** In the order in which they count; each also as NAME_FILE. */
export const tokenVariables = ["AMPOULE_API_TOKEN", "AMPOULE_TOKEN"] as const

/**
 * Settings of the server and of the vault that are secret. `layers/Config.ts` takes the names of its secret settings
 * from here.
 */
export const secretSettings = [
  "AMPOULE_DATABASE_URL",
  "AMPOULE_REDIS_URL",
  "AMPOULE_VAULT_URL",
  "AMPOULE_ROOT_KEY",
  "AMPOULE_SETUP_CODE",
  "AMPOULE_SIGN_IN_ISSUERS",
  "AMPOULE_VAULT_TOKEN",
  "AMPOULE_SMTP_URL",
  "AMPOULE_TRANSIT_TOKEN",
  "OTEL_EXPORTER_OTLP_HEADERS"
] as const
export type SecretSetting = (typeof secretSettings)[number]

/** AMPOULE_PROXY may hold a password; the file of AMPOULE_VAULT_KEY_FILE is a private key. */
const otherCredentials = ["AMPOULE_PROXY", "AMPOULE_VAULT_KEY"]

const credentialVariables: ReadonlySet<string> = new Set(
  [...tokenVariables, ...secretSettings, ...otherCredentials].flatMap((name) => [name, `${name}_FILE`])
)

/** What a child process does not inherit: credentials of this service. Windows does not tell upper from lower case. */
export const isCredentialVariable = (name: string): boolean => credentialVariables.has(name.toUpperCase())

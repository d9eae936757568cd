/** Variables of the command line (docs/contract/names.md). An empty one counts as unset. */
export const variable = (name: string): string | undefined => {
  const value = process.env[name]
  return value === undefined || value === "" ? undefined : value
}

/** In order of precedence; each also as NAME_FILE. */
export const tokenVariables = ["AMPOULE_API_TOKEN", "AMPOULE_TOKEN"] as const

/** In a child of `run`: the credentials that it did not pass on, so that a nested command says why it has none. */
export const withheldVariable = "AMPOULE_WITHHELD"

/** Secret settings of the server and the vault. `layers/Config.ts` takes their names from here. */
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

/** AMPOULE_PROXY may contain a password; the file of AMPOULE_VAULT_KEY_FILE is a private key. */
const otherCredentials = ["AMPOULE_PROXY", "AMPOULE_VAULT_KEY"]

const credentialVariables: ReadonlySet<string> = new Set(
  [...tokenVariables, ...secretSettings, ...otherCredentials].flatMap((name) => [name, `${name}_FILE`])
)

/** Credentials of this service, which a child process does not inherit. Windows ignores the case of names. */
export const isCredentialVariable = (name: string): boolean => credentialVariables.has(name.toUpperCase())

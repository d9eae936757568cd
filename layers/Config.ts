/**
 * All settings of the server, each once: name, default, meaning and parser. No other code reads the server's
 * environment.
 */
import * as Effect from "effect/Effect"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { isIP } from "node:net"
import { join } from "node:path"
import {
  addressBlocks,
  hostName,
  hostNames,
  integer,
  oneOf,
  onOff,
  optional,
  protectedOrigin,
  readAll,
  refuse,
  secret,
  url,
  withDefault
} from "#layers/Setting.ts"
import { InstallationIssuers } from "#schema/SignInApi.ts"
import * as PostgresUrl from "#layers/PostgresUrl.ts"
import * as VaultAddress from "#layers/VaultAddress.ts"
import * as VaultConfig from "#layers/VaultConfig.ts"
import type { SealRows, Settings, StartRefused, TeamCreation } from "#src/AppConfig.ts"
import { keysIn } from "#src/machines/ReportKeyDocument.ts"
import { isLoopbackHost } from "#src/net/Loopback.ts"

const decodeIssuers = Schema.decodeOption(InstallationIssuers)

const settings = {
  host: withDefault({
    name: "AMPOULE_HOST",
    default: "127.0.0.1",
    description: "Address to listen on.",
    ...hostName
  }),
  port: withDefault({
    name: "AMPOULE_PORT",
    default: "4400",
    description: "Port to listen on.",
    ...integer(1, 65_535)
  }),
  baseUrl: optional({
    name: "AMPOULE_BASE_URL",
    default: "http://<host>:<port>",
    description:
      "Public address of the service; plain http only for a loopback address. It must be set when AMPOULE_HOST is not a loopback address.",
    ...protectedOrigin
  }),
  dataDir: withDefault({
    name: "AMPOULE_DATA_DIR",
    default: "./.ampoule",
    description:
      "Folder of the embedded database, the generated root key and the setup link. The server makes it private to its user.",
    format: "a folder",
    parse: (value) => (value.includes("\0") ? Option.none() : Option.some(value))
  }),
  databaseUrl: secret({
    name: "AMPOULE_DATABASE_URL",
    description:
      "Postgres to use, `postgres://user:password@host:port/database`; on another machine with `?sslmode=verify-full`. Several hosts, separated by commas, are tried until one accepts writes. Without it the embedded database is used.",
    ...PostgresUrl.setting
  }),
  databasePoolSize: withDefault({
    name: "AMPOULE_DATABASE_POOL_SIZE",
    default: "10",
    description: "Connections to Postgres, per process.",
    ...integer(1, 500)
  }),
  unsafeDatabase: withDefault({
    name: "AMPOULE_UNSAFE_DATABASE",
    default: "refuse",
    description: "`allow` uses a Postgres that runs without fsync, full_page_writes or synchronous_commit.",
    ...oneOf({ refuse: false, allow: true })
  }),
  redisUrl: secret({
    name: "AMPOULE_REDIS_URL",
    description:
      "Redis for rate limits that several processes share; `rediss://` on another machine. Without it each process counts separately.",
    ...url("redis:", "rediss:")
  }),
  plaintextHosts: withDefault({
    name: "AMPOULE_PLAINTEXT_HOSTS",
    default: "",
    description:
      "Hosts of Postgres, Redis and the mail server, separated by commas, that may be used without verified TLS because the network is private.",
    ...hostNames
  }),
  vaultUrl: secret({
    name: "AMPOULE_VAULT_URL",
    description:
      "Vault process that holds the root key, `unix:///path` or `tls://host:port`. Without it the server holds the root key.",
    format: "unix:///path/of/the/socket or tls://host:port",
    parse: (value) => Option.as(VaultAddress.parse(value), value)
  }),
  workers: withDefault({
    name: "AMPOULE_WORKERS",
    default: "1",
    description: "Number of server processes. More than one needs Postgres.",
    ...integer(1, 256)
  }),
  rootKey: secret({
    name: "AMPOULE_ROOT_KEY",
    description:
      "Root key of the local vault, 32 bytes in hex or base64. Without it a generated file in the data folder is used.",
    format: "a key",
    parse: Option.some
  }),
  valueCipher: withDefault({
    name: "AMPOULE_VALUE_CIPHER",
    default: "xchacha20-poly1305",
    description:
      "Cipher of new values: `xchacha20-poly1305` or `aes-256-gcm`. Values of both can be read. Rotating the data keys encrypts all values with this one.",
    ...oneOf({ "xchacha20-poly1305": "xchacha20-poly1305", "aes-256-gcm": "aes-256-gcm" } as const)
  }),
  setupCode: secret({
    name: "AMPOULE_SETUP_CODE",
    description:
      "Setup code for the first owner, at least 12 characters. Without it the first start generates and prints one.",
    format: "at least 12 characters (once the server is set up, remove it)",
    parse: Option.liftPredicate((value) => value.length >= 12)
  }),
  trustedProxies: withDefault({
    name: "AMPOULE_TRUSTED_PROXIES",
    default: "",
    description: "Addresses or blocks (`10.0.0.0/8`), separated by commas, whose `X-Forwarded-For` is trusted.",
    ...addressBlocks
  }),
  rateLimits: withDefault({
    name: "AMPOULE_RATE_LIMITS",
    default: "on",
    description: "`off` disables the rate limits; for benchmarks only.",
    ...onOff
  }),
  mcpReveal: withDefault({
    name: "AMPOULE_MCP_REVEAL",
    default: "on",
    description: "`off` removes the MCP tools that return values in plain text.",
    ...onOff
  }),
  teamCreation: withDefault({
    name: "AMPOULE_TEAM_CREATION",
    default: "owners",
    description:
      "Who may create teams: `everyone` who is signed in, only `owners` of a team, or only `operators` with `ampoule admin create-team`. The creator of a team may invite any address.",
    ...oneOf<TeamCreation>({ everyone: "everyone", owners: "owners", operators: "operators" })
  }),
  signInIssuers: secret({
    name: "AMPOULE_SIGN_IN_ISSUERS",
    description:
      "Issuers of OpenID Connect that sign people in, as a JSON list of `{key, name, issuer, clientId, clientSecret?, scopes?, factors?, trustsEmail?}` (`docs/sign-in.md`).",
    format: "a JSON list of issuers, each with key, name, issuer and clientId",
    parse: (value) => Option.as(decodeIssuers(value), value)
  }),
  sealRows: optional({
    name: "AMPOULE_SEAL_ROWS",
    default: "never",
    description:
      "How the server treats rows written before MACs existed. `never`: it does not start. `later`: it accepts them, for running beside servers of that release. `once`: it adds the MACs; for one start after the upgrade. If the embedded database and its root key are in one folder, the first start adds them without this setting.",
    ...oneOf<SealRows>({ never: "never", later: "later", once: "once" })
  }),
  auditCheckpoints: optional({
    name: "AMPOULE_AUDIT_CHECKPOINTS",
    default: "<data folder>/audit-checkpoints",
    description:
      "File for signed checkpoints of the audit trail, preferably on another machine's disk. `stdout` writes them to the log. `off` disables them.",
    format: "a file",
    parse: (value) => (value.includes("\0") ? Option.none() : Option.some(value))
  }),
  leakReportKeys: optional({
    name: "AMPOULE_LEAK_REPORT_KEYS",
    default: "",
    description:
      'Keys of scanners that may report leaked credentials: an https address, for GitHub `https://api.github.com/meta/public_keys/secret_scanning`, or the document itself, `{"public_keys":[{"key_identifier":…,"key":…}]}`. Without it no reports are taken.',
    format: "an https:// address (http:// only for loopback addresses) or a document with P-256 keys",
    parse: (value) => {
      if (Option.isSome(keysIn(value))) return Option.some(value)
      const isAddress =
        URL.canParse(value) &&
        (value.startsWith("https://") || (value.startsWith("http://") && isLoopbackHost(new URL(value).hostname)))
      return isAddress ? Option.some(value) : Option.none()
    }
  }),
  logLevel: withDefault({
    name: "AMPOULE_LOG_LEVEL",
    default: "info",
    description: "Lowest logged level: `debug`, `info`, `warning`, `error` or `none`.",
    ...oneOf({
      debug: LogLevel.Debug,
      info: LogLevel.Info,
      warning: LogLevel.Warning,
      error: LogLevel.Error,
      none: LogLevel.None
    })
  }),
  logFormat: withDefault({
    name: "AMPOULE_LOG_FORMAT",
    default: "logfmt",
    description: "Format of the log on standard output: `logfmt`, `json` or `pretty`.",
    ...oneOf({ logfmt: "logfmt", json: "json", pretty: "pretty" } as const)
  }),
  metricsPort: optional({
    name: "AMPOULE_METRICS_PORT",
    default: "",
    description: "Separate port for `/metrics` (Prometheus), without authentication. Without it metrics are off.",
    ...integer(1, 65_535)
  }),
  metricsHost: withDefault({
    name: "AMPOULE_METRICS_HOST",
    default: "127.0.0.1",
    description: "Address of the metrics port.",
    ...hostName
  }),
  otlpEndpoint: optional({
    name: "OTEL_EXPORTER_OTLP_ENDPOINT",
    default: "",
    description: "OTLP/HTTP collector for traces and metrics, `http://host:4318`. Without it nothing is sent.",
    ...url("http:", "https:")
  }),
  otlpHeaders: secret({
    name: "OTEL_EXPORTER_OTLP_HEADERS",
    description: "Headers for the collector, `name=value,name=value`, values percent-encoded.",
    format: "a list of name=value, separated by commas",
    parse: (value) =>
      value.split(",").every((pair) => /^\s*[0-9A-Za-z-]+=[\x21-\x7e]+\s*$/.test(pair))
        ? Option.some(value)
        : Option.none()
  }),
  smtpUrl: secret({
    name: "AMPOULE_SMTP_URL",
    description:
      "Mail server for account notices and confirmations of addresses, `smtp://user:password@host:587` (with STARTTLS) or `smtps://`. Without it the dashboard and webhooks notify people.",
    ...url("smtp:", "smtps:")
  }),
  mailFrom: optional({
    name: "AMPOULE_MAIL_FROM",
    default: "",
    description: "Sender address of e-mails. It must be set when AMPOULE_SMTP_URL is.",
    format: "an e-mail address",
    parse: (value) => (/^[^\s<>@",;]+@[^\s<>@",;]+$/.test(value) ? Option.some(value) : Option.none())
  }),
  serviceName: withDefault({
    name: "OTEL_SERVICE_NAME",
    default: "ampoule",
    description: "Name of this service in traces and metrics.",
    format: "a name of letters, digits, dots, dashes and underscores",
    parse: (value) => (/^[\w.-]{1,100}$/.test(value) ? Option.some(value) : Option.none())
  })
}

/** One row per setting, for the table of settings and `--help`. */
export const table: ReadonlyArray<{
  readonly name: string
  readonly default: string
  readonly description: string
  /** True when `NAME_FILE` is accepted too. */
  readonly secret: boolean
}> = [...Object.values(settings), ...Object.values(VaultConfig.settings)].map(
  ({ default: fallback, description, name, secret }) => ({ name, default: fallback, description, secret })
)

/** Variables of Ampoule that belong to the command line, the client library and the tests. */
const otherVariables = [
  "AMPOULE_URL",
  "AMPOULE_API_TOKEN",
  "AMPOULE_API_TOKEN_FILE",
  "AMPOULE_TOKEN",
  "AMPOULE_TOKEN_FILE",
  "AMPOULE_CONFIG_DIR",
  "AMPOULE_PROXY"
]

/** Variables with our prefix that no code reads: a typing error would otherwise start the wrong thing silently. */
export const unknownVariables = (names: ReadonlyArray<string>): ReadonlyArray<string> => {
  const knownNames = new Set([
    ...otherVariables,
    ...table.flatMap(({ name, secret }) => (secret ? [name, `${name}_FILE`] : [name]))
  ])
  return names.filter(
    (name) => name.startsWith("AMPOULE_") && !name.startsWith("AMPOULE_TEST_") && !knownNames.has(name)
  )
}

/** Default for programs that do not serve, which need an address only for links. */
const defaultBaseUrl = (host: string, port: number): string => {
  const name = isLoopbackHost(host) ? host : "127.0.0.1"
  return new URL(`http://${isIP(name) === 6 ? `[${name}]` : name}:${port}`).origin
}

const read = Effect.gen(function* () {
  const values = yield* readAll(settings)
  // The choice of the vault reads these again; checking here refuses a wrong value before anything starts.
  const { provider } = yield* VaultConfig.load
  if (values.workers > 1 && Option.isNone(values.databaseUrl)) {
    return yield* refuse(
      "AMPOULE_WORKERS above 1 needs AMPOULE_DATABASE_URL: the embedded database serves one process."
    )
  }
  if (Option.isSome(values.smtpUrl) && Option.isNone(values.mailFrom)) {
    return yield* refuse("AMPOULE_SMTP_URL needs AMPOULE_MAIL_FROM, the sender address of e-mails.")
  }
  // Write access to such a database includes the key of the MACs.
  const inOneFolder =
    provider === "file" &&
    [values.databaseUrl, values.vaultUrl, values.rootKey].every((setting) => Option.isNone(setting))
  return { ...values, sealRows: Option.getOrElse(values.sealRows, (): SealRows => (inOneFolder ? "once" : "never")) }
})

const withDefaults = ({ auditCheckpoints, baseUrl, ...values }: Effect.Effect.Success<typeof read>): Settings => ({
  ...values,
  baseUrl: Option.getOrElse(baseUrl, () => defaultBaseUrl(values.host, values.port)),
  auditCheckpoints: Option.filter(
    Option.some(Option.getOrElse(auditCheckpoints, () => join(values.dataDir, "audit-checkpoints"))),
    (file) => file !== "off"
  )
})

/** Settings of the vault process and the maintenance commands. */
export const load: Effect.Effect<Settings, StartRefused> = Effect.map(read, withDefaults)

/** Settings of a server. It needs its public address as soon as other machines can reach it. */
export const server: Effect.Effect<Settings, StartRefused> = Effect.flatMap(read, (values) =>
  Option.isNone(values.baseUrl) && !isLoopbackHost(values.host)
    ? refuse(
        "AMPOULE_BASE_URL must be set, because other machines can reach AMPOULE_HOST. Set it to the https:// address that people and programs use, or set AMPOULE_HOST to 127.0.0.1."
      )
    : Effect.succeed(withDefaults(values))
)

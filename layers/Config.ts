/**
 * Every setting of the server, once: name, default, what it means, how it is read (decisions 1). Nothing else reads the
 * environment of the server. No message repeats a value.
 */
import * as Arr from "effect/Array"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { readFileSync } from "node:fs"
import { isIP } from "node:net"
import { isAbsolute } from "node:path"
import { join } from "node:path"
import * as VaultAddress from "#layers/VaultAddress.ts"
import type { Settings } from "#src/AppConfig.ts"
import { AppConfig, StartRefused } from "#src/AppConfig.ts"
import { isLoopbackHost } from "#src/net/Loopback.ts"
import type { SecretSetting } from "#src/cli/Environment.ts"

interface Setting<A> {
  readonly name: string
  /** As the tables of the README and `--help` show it. */
  readonly default: string
  readonly description: string
  /** Also read from the file that `NAME_FILE` names. */
  readonly secret: boolean
  readonly read: Effect.Effect<A, StartRefused>
}

const refuse = (message: string) => new StartRefused({ message })

/** A value of blanks counts as absent: compose files pass empty variables. */
const text = (name: string): Effect.Effect<Option.Option<string>, StartRefused> =>
  Config.option(Config.string(name)).pipe(
    Effect.map(Option.filter((value) => value.trim() !== "")),
    Effect.mapError(() => refuse(`${name} cannot be read.`))
  )

const fileText = (name: string) =>
  Effect.flatMap(text(`${name}_FILE`), (path) =>
    Effect.transposeOption(
      Option.map(path, (path) =>
        Effect.try({
          try: () => readFileSync(path, "utf8").replace(/\r?\n$/, ""),
          catch: () => refuse(`The file that ${name}_FILE names cannot be read.`)
        }).pipe(
          Effect.filterOrFail(
            (value) => value.trim() !== "",
            () => refuse(`The file that ${name}_FILE names is empty.`)
          )
        )
      )
    )
  )

interface Shape<A> {
  readonly name: string
  readonly default: string
  readonly description: string
  /** Ends the sentence "NAME must be …". */
  readonly format: string
  readonly parse: (value: string) => Option.Option<A>
}

const parsed = <A>(shape: Shape<A>, value: string): Effect.Effect<A, StartRefused> =>
  Effect.mapError(shape.parse(value), () => refuse(`${shape.name} must be ${shape.format}.`))

const optional = <A>(shape: Shape<A>): Setting<Option.Option<A>> => ({
  ...shape,
  secret: false,
  read: Effect.flatMap(text(shape.name), (found) =>
    Effect.transposeOption(Option.map(found, (value) => parsed(shape, value.trim())))
  )
})

/** With a default that `parse` takes. */
const plain = <A>(shape: Shape<A>): Setting<A> => ({
  ...shape,
  secret: false,
  read: Effect.flatMap(text(shape.name), (found) => parsed(shape, Option.getOrElse(found, () => shape.default).trim()))
})

/** The command line keeps these from child processes (`src/cli/Environment.ts`). */
const secret = (
  shape: Omit<Shape<string>, "default"> & { readonly name: SecretSetting }
): Setting<Option.Option<Redacted.Redacted>> => ({
  ...shape,
  default: "",
  secret: true,
  read: Effect.all([text(shape.name), fileText(shape.name)]).pipe(
    Effect.flatMap(([direct, file]) => {
      if (Option.isSome(direct) && Option.isSome(file)) {
        return refuse(`${shape.name} and ${shape.name}_FILE are both set. Keep one of them.`)
      }
      return Effect.transposeOption(
        Option.map(
          Option.orElse(direct, () => file),
          (value) => Effect.map(parsed({ ...shape, default: "" }, value), (value) => Redacted.make(value))
        )
      )
    })
  )
})

const integer = (from: number, to: number) => ({
  format: `a whole number from ${from} to ${to}`,
  parse: (value: string) =>
    /^[0-9]{1,9}$/.test(value) && Number(value) >= from && Number(value) <= to
      ? Option.some(Number(value))
      : Option.none()
})

const oneOf = <A>(choices: Record<string, A>) => ({
  format: `one of ${Object.keys(choices).join(", ")}`,
  parse: (value: string) => (Object.hasOwn(choices, value) ? Option.fromNullable(choices[value]) : Option.none())
})

const url = (...protocols: ReadonlyArray<string>) => ({
  format: `an address that starts with ${protocols.map((protocol) => `${protocol}//`).join(" or ")}`,
  parse: (value: string) =>
    URL.canParse(value) && protocols.includes(new URL(value).protocol) ? Option.some(value) : Option.none()
})

const parseBaseUrl = (value: string): Option.Option<string> => {
  if (!URL.canParse(value)) return Option.none()
  const { hash, hostname, href, origin, password, pathname, protocol, search, username } = new URL(value)
  const bare =
    [hash, password, search, username].every((part) => part === "") && pathname === "/" && !/[?#]$/.test(href)
  if (!bare) return Option.none()
  return protocol === "https:" || (protocol === "http:" && isLoopbackHost(hostname))
    ? Option.some(origin)
    : Option.none()
}

const isAddressBlock = (value: string) => {
  const [address = "", bits, ...rest] = value.split("/")
  const version = isIP(address)
  if (version === 0 || rest.length > 0) return false
  return bits === undefined || (/^[0-9]{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128))
}

const onOff = oneOf({ on: true, off: false })
const hostName = {
  format: "a host name or an IP address",
  parse: (value: string) => (/^[0-9A-Za-z.:_-]+$/.test(value) ? Option.some(value) : Option.none())
}

const settings = {
  host: plain({
    name: "AMPOULE_HOST",
    default: "127.0.0.1",
    description: "Address to listen on.",
    ...hostName
  }),
  port: plain({
    name: "AMPOULE_PORT",
    default: "4400",
    description: "Port to listen on.",
    ...integer(1, 65_535)
  }),
  baseUrl: optional({
    name: "AMPOULE_BASE_URL",
    default: "http://<host>:<port>",
    description: "Public address of the service. Plain http only for a loopback address.",
    format: "an https:// address without a path (http:// only for localhost and loopback addresses)",
    parse: parseBaseUrl
  }),
  dataDir: plain({
    name: "AMPOULE_DATA_DIR",
    default: "./.ampoule",
    description:
      "Folder of the embedded database, the generated root key and the setup link. Private to the server's user.",
    format: "a folder",
    parse: (value) => (value.includes("\0") ? Option.none() : Option.some(value))
  }),
  databaseUrl: secret({
    name: "AMPOULE_DATABASE_URL",
    description: "Postgres to use, `postgres://user:password@host:port/database`. None: the embedded database.",
    ...url("postgres:", "postgresql:")
  }),
  databasePoolSize: plain({
    name: "AMPOULE_DATABASE_POOL_SIZE",
    default: "10",
    description: "Connections to Postgres, per process.",
    ...integer(1, 500)
  }),
  unsafeDatabase: plain({
    name: "AMPOULE_UNSAFE_DATABASE",
    default: "refuse",
    description: "`allow` serves from a Postgres that runs without fsync, full_page_writes or synchronous_commit.",
    ...oneOf({ refuse: false, allow: true })
  }),
  redisUrl: secret({
    name: "AMPOULE_REDIS_URL",
    description: "Redis for rate limits that several processes share. None: limits per process.",
    ...url("redis:", "rediss:")
  }),
  vaultUrl: secret({
    name: "AMPOULE_VAULT_URL",
    description:
      "Vault process that holds the root key, `unix:///path` or `tls://host:port`. None: the server holds it itself.",
    format: "unix:///path/of/the/socket or tls://host:port",
    parse: (value) => Option.as(VaultAddress.parse(value), value)
  }),
  workers: plain({
    name: "AMPOULE_WORKERS",
    default: "1",
    description: "Number of processes that serve. More than one needs Postgres.",
    ...integer(1, 256)
  }),
  rootKey: secret({
    name: "AMPOULE_ROOT_KEY",
    description: "Root key of the local vault, 32 bytes in hex or base64. None: a generated file in the data folder.",
    format: "a key",
    parse: Option.some
  }),
  valueCipher: plain({
    name: "AMPOULE_VALUE_CIPHER",
    default: "xchacha20-poly1305",
    description:
      "Cipher of new values: `xchacha20-poly1305` or `aes-256-gcm`. Values of either open; data-key rotation seals all anew.",
    ...oneOf({ "xchacha20-poly1305": "xchacha20-poly1305", "aes-256-gcm": "aes-256-gcm" } as const)
  }),
  setupCode: secret({
    name: "AMPOULE_SETUP_CODE",
    description: "Code that the first owner needs for the setup. None: a generated one, printed at the first start.",
    format: "a setup code",
    parse: Option.some
  }),
  trustedProxies: plain({
    name: "AMPOULE_TRUSTED_PROXIES",
    default: "",
    description: "Addresses or blocks (`10.0.0.0/8`), separated by commas, whose `X-Forwarded-For` counts.",
    format: "a list of IP addresses or blocks, separated by commas",
    parse: (value) => {
      const blocks = value.split(",").map((block) => block.trim())
      if (value === "") return Option.some(Arr.empty<string>())
      return blocks.every(isAddressBlock) ? Option.some(blocks) : Option.none()
    }
  }),
  rateLimits: plain({
    name: "AMPOULE_RATE_LIMITS",
    default: "on",
    description: "`off` switches the rate limits off: for benchmarks.",
    ...onOff
  }),
  mcpReveal: plain({
    name: "AMPOULE_MCP_REVEAL",
    default: "on",
    description: "`off` removes the MCP tools that hand out plaintext.",
    ...onOff
  }),
  auditCheckpoints: optional({
    name: "AMPOULE_AUDIT_CHECKPOINTS",
    default: "<data folder>/audit-checkpoints",
    description:
      "File that gets signed checkpoints of the audit trail, best on another machine's disk. `off`: none are kept.",
    format: "a file",
    parse: (value) => (value.includes("\0") ? Option.none() : Option.some(value))
  }),
  logLevel: plain({
    name: "AMPOULE_LOG_LEVEL",
    default: "info",
    description: "Least level that is logged: `debug`, `info`, `warning`, `error` or `none`.",
    ...oneOf({
      debug: LogLevel.Debug,
      info: LogLevel.Info,
      warning: LogLevel.Warning,
      error: LogLevel.Error,
      none: LogLevel.None
    })
  }),
  logFormat: plain({
    name: "AMPOULE_LOG_FORMAT",
    default: "logfmt",
    description: "Form of the log on standard output: `logfmt`, `json` or `pretty`.",
    ...oneOf({ logfmt: "logfmt", json: "json", pretty: "pretty" } as const)
  }),
  metricsPort: optional({
    name: "AMPOULE_METRICS_PORT",
    default: "",
    description: "Port that serves `/metrics` for Prometheus, of its own and without a credential. None: no metrics.",
    ...integer(1, 65_535)
  }),
  metricsHost: plain({
    name: "AMPOULE_METRICS_HOST",
    default: "127.0.0.1",
    description: "Address of that port.",
    ...hostName
  }),
  otlpEndpoint: optional({
    name: "OTEL_EXPORTER_OTLP_ENDPOINT",
    default: "",
    description: "OTLP/HTTP collector that gets traces and metrics, `http://host:4318`. None: neither.",
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
  serviceName: plain({
    name: "OTEL_SERVICE_NAME",
    default: "ampoule",
    description: "Name of this service in traces and metrics.",
    format: "a name of letters, digits, dots, dashes and underscores",
    parse: (value) => (/^[\w.-]{1,100}$/.test(value) ? Option.some(value) : Option.none())
  })
}

const file = (name: string, description: string) =>
  optional({ name, default: "", description, format: "an absolute path", parse: Option.liftPredicate(isAbsolute) })

/** What belongs to the vault alone, whether it is a process or part of the server. */
const vaultSettings = {
  token: secret({
    name: "AMPOULE_VAULT_TOKEN",
    description:
      "Token of the calls to the vault process, the same at both ends; needed for tls://. None: the vault draws one at each start and writes it beside its socket.",
    format: "at least 32 characters without white space",
    parse: (value) => (/^[\x21-\x7e]{32,512}$/.test(value) ? Option.some(value) : Option.none())
  }),
  ca: file("AMPOULE_VAULT_CA_FILE", "Authority that signed the certificate of the other end (PEM); for tls://."),
  cert: file("AMPOULE_VAULT_CERT_FILE", "Certificate of this end (PEM); for tls://."),
  key: file("AMPOULE_VAULT_KEY_FILE", "Key of that certificate (PEM); for tls://."),
  unwrapsPerSecond: plain({
    name: "AMPOULE_VAULT_UNWRAPS_PER_SECOND",
    default: "200",
    description: "Keys that the vault process hands out per second; five seconds' worth may go at once.",
    // Five seconds' worth have to hold the largest batch of the protocol.
    ...integer(100, 1_000_000)
  }),
  provider: plain({
    name: "AMPOULE_KEY_PROVIDER",
    default: "file",
    description:
      "What guards new root keys at rest: `file` (its permissions), `aws-kms` or `transit` (HashiCorp Vault, OpenBao).",
    ...oneOf({ file: "file", "aws-kms": "aws-kms", transit: "transit" } as const)
  }),
  kmsKeyId: optional({
    name: "AMPOULE_KMS_KEY_ID",
    default: "",
    description:
      "Id, alias or ARN of the AWS KMS key; for aws-kms. Region, credentials and endpoint come from the variables of the AWS SDK.",
    format: "a key id, an alias or an ARN",
    parse: (value) => (/^[\x21-\x7e]{1,2048}$/.test(value) ? Option.some(value) : Option.none())
  }),
  transitUrl: optional({
    name: "AMPOULE_TRANSIT_URL",
    default: "",
    description: "Address of HashiCorp Vault or OpenBao, https:// (http:// only for loopback addresses); for transit.",
    format: "an https:// address without a path (http:// only for localhost and loopback addresses)",
    parse: parseBaseUrl
  }),
  transitToken: secret({
    name: "AMPOULE_TRANSIT_TOKEN",
    description: "Token that may encrypt and decrypt with the transit key.",
    format: "a token",
    parse: (value) => (/^[\x21-\x7e]{1,4096}$/.test(value) ? Option.some(value) : Option.none())
  }),
  transitKey: plain({
    name: "AMPOULE_TRANSIT_KEY",
    default: "transit/ampoule",
    description: "Mount and name of the transit key, `mount/name`.",
    format: "mount/name",
    parse: (value) => (/^[\w-]+(\/[\w-]+)+$/.test(value) ? Option.some(value) : Option.none())
  })
}

/** The vault's part of the settings. */
export interface VaultSettings {
  readonly token: Option.Option<Redacted.Redacted>
  readonly ca: Option.Option<string>
  readonly cert: Option.Option<string>
  readonly key: Option.Option<string>
  readonly unwrapsPerSecond: number
  readonly provider: "file" | "aws-kms" | "transit"
  readonly kmsKeyId: Option.Option<string>
  readonly transitUrl: Option.Option<string>
  readonly transitToken: Option.Option<Redacted.Redacted>
  /** `mount/name`. */
  readonly transitKey: string
}

export const vault: Effect.Effect<VaultSettings, StartRefused> = Effect.suspend(() =>
  Effect.all({
    token: vaultSettings.token.read,
    ca: vaultSettings.ca.read,
    cert: vaultSettings.cert.read,
    key: vaultSettings.key.read,
    unwrapsPerSecond: vaultSettings.unwrapsPerSecond.read,
    provider: vaultSettings.provider.read,
    kmsKeyId: vaultSettings.kmsKeyId.read,
    transitUrl: vaultSettings.transitUrl.read,
    transitToken: vaultSettings.transitToken.read,
    transitKey: vaultSettings.transitKey.read
  })
)

/** One row per setting, for the README's table and `--help`. */
export const table: ReadonlyArray<{
  readonly name: string
  readonly default: string
  readonly description: string
  /** Can also be given as `NAME_FILE`. */
  readonly secret: boolean
}> = [...Object.values(settings), ...Object.values(vaultSettings)].map(
  ({ default: fallback, description, name, secret }) => ({
    name,
    default: fallback,
    description,
    secret
  })
)

/** Our variables that belong to the command line, the client library and the tests. */
const elsewhere = ["AMPOULE_URL", "AMPOULE_API_TOKEN", "AMPOULE_TOKEN", "AMPOULE_CONFIG_DIR"]

/** Variables of ours that nobody reads: a typing error would else start the wrong thing silently. */
export const unknownVariables = (names: ReadonlyArray<string>): ReadonlyArray<string> => {
  const known = new Set([
    ...elsewhere,
    ...table.flatMap(({ name, secret }) => (secret ? [name, `${name}_FILE`] : [name]))
  ])
  return names.filter((name) => name.startsWith("AMPOULE_") && !name.startsWith("AMPOULE_TEST_") && !known.has(name))
}

const defaultBaseUrl = (host: string, port: number): Option.Option<string> => {
  const everywhere = host === "0.0.0.0" || host === "::"
  const name = everywhere ? "127.0.0.1" : isIP(host) === 6 ? `[${host}]` : host
  return parseBaseUrl(`http://${name}:${port}`)
}

export const load: Effect.Effect<Settings, StartRefused> = Effect.gen(function* () {
  const read = yield* Effect.all({
    host: settings.host.read,
    port: settings.port.read,
    baseUrl: settings.baseUrl.read,
    dataDir: settings.dataDir.read,
    databaseUrl: settings.databaseUrl.read,
    databasePoolSize: settings.databasePoolSize.read,
    unsafeDatabase: settings.unsafeDatabase.read,
    redisUrl: settings.redisUrl.read,
    vaultUrl: settings.vaultUrl.read,
    workers: settings.workers.read,
    rootKey: settings.rootKey.read,
    valueCipher: settings.valueCipher.read,
    setupCode: settings.setupCode.read,
    trustedProxies: settings.trustedProxies.read,
    rateLimits: settings.rateLimits.read,
    mcpReveal: settings.mcpReveal.read,
    auditCheckpoints: settings.auditCheckpoints.read,
    logLevel: settings.logLevel.read,
    logFormat: settings.logFormat.read,
    metricsPort: settings.metricsPort.read,
    metricsHost: settings.metricsHost.read,
    otlpEndpoint: settings.otlpEndpoint.read,
    otlpHeaders: settings.otlpHeaders.read,
    serviceName: settings.serviceName.read
  })
  // Read again by what chooses the vault; a wrong one is told before anything starts.
  yield* vault
  if (read.workers > 1 && Option.isNone(read.databaseUrl)) {
    return yield* refuse(
      "AMPOULE_WORKERS above 1 needs AMPOULE_DATABASE_URL: the embedded database serves one process."
    )
  }
  const baseUrl = Option.orElse(read.baseUrl, () => defaultBaseUrl(read.host, read.port))
  if (Option.isNone(baseUrl)) {
    return yield* refuse(
      "AMPOULE_BASE_URL must be set: AMPOULE_HOST is not a loopback address, so the public address has to be an https:// one."
    )
  }
  const auditCheckpoints = Option.filter(
    Option.some(Option.getOrElse(read.auditCheckpoints, () => join(read.dataDir, "audit-checkpoints"))),
    (file) => file !== "off"
  )
  return { ...read, baseUrl: baseUrl.value, auditCheckpoints }
})

/** From the environment; a name that nobody reads is pointed out. */
export const layer: Layer.Layer<AppConfig, StartRefused> = Layer.effect(
  AppConfig,
  Effect.tap(load, () => {
    const unknown = unknownVariables(Object.keys(process.env))
    return unknown.length === 0
      ? Effect.void
      : Effect.logWarning(`Nobody reads ${unknown.join(", ")}: check the spelling of the name`)
  })
)

import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as LogLevel from "effect/LogLevel"
import type * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"

/**
 * The service cannot start with these settings. `message` is one plain sentence for the operator. It names the setting
 * or the folder and the remedy, and never repeats a value.
 */
export class StartRefused extends Data.TaggedError("StartRefused")<{ readonly message: string }> {}

/**
 * Every setting of the server (docs/contract/names.md), decoded. `layers/Config.ts` reads them from the environment.
 */
export interface Settings {
  readonly host: string
  readonly port: number
  /** Public address without a trailing slash; `http:` only for loopback (docs/contract/credentials.md). */
  readonly baseUrl: string
  /** Folder of the embedded database, unresolved. */
  readonly dataDir: string
  /** Address of Postgres. None: the embedded database in `dataDir`. */
  readonly databaseUrl: Option.Option<Redacted.Redacted>
  /** Connections to Postgres, per process. */
  readonly databasePoolSize: number
  /** Whether to accept a Postgres that may lose acknowledged writes in a power failure. */
  readonly unsafeDatabase: boolean
  readonly redisUrl: Option.Option<Redacted.Redacted>
  /** Hosts of Postgres and Redis that may be used without verified TLS. */
  readonly plaintextHosts: ReadonlyArray<string>
  readonly vaultUrl: Option.Option<Redacted.Redacted>
  readonly workers: number
  readonly rootKey: Option.Option<Redacted.Redacted>
  /** Cipher of new values. Values of both ciphers can be read. */
  readonly valueCipher: "xchacha20-poly1305" | "aes-256-gcm"
  readonly setupCode: Option.Option<Redacted.Redacted>
  /** Addresses or CIDR blocks of proxies whose `X-Forwarded-For` counts (docs/contract/rate-limits.md). */
  readonly trustedProxies: ReadonlyArray<string>
  readonly rateLimits: boolean
  readonly mcpReveal: boolean
  /** People who may create teams: everyone signed in, owners of a team, or only operators. */
  readonly teamCreation: TeamCreation
  /** Issuers of OpenID Connect for sign-in, as JSON (schema/SignInApi.ts). */
  readonly signInIssuers: Option.Option<Redacted.Redacted>
  /** Treatment of rows written before MACs existed (`src/rows/OldRows.ts`). */
  readonly sealRows: SealRows
  /** File of signed audit checkpoints. None: disabled. */
  readonly auditCheckpoints: Option.Option<string>
  /** Public keys for reports of leaked credentials, or their address (`src/machines/ReportKeys.ts`). None: no reports. */
  readonly leakReportKeys: Option.Option<string>
  readonly logLevel: LogLevel.LogLevel
  readonly logFormat: "json" | "pretty" | "logfmt"
  readonly metricsHost: string
  /** Port of `/metrics`. None: metrics are off. */
  readonly metricsPort: Option.Option<number>
  /** Base address of an OTLP collector. None: no spans and no export. */
  readonly otlpEndpoint: Option.Option<string>
  /** `name=value,…`, values percent-encoded. */
  readonly otlpHeaders: Option.Option<Redacted.Redacted>
  readonly serviceName: string
  /** Mail server. None: no e-mail. */
  readonly smtpUrl: Option.Option<Redacted.Redacted>
  /** Sender of e-mails. */
  readonly mailFrom: Option.Option<string>
}

export type TeamCreation = "everyone" | "owners" | "operators"
/** `later`: servers of a release without MACs still run. */
export type SealRows = "never" | "once" | "later"

export class AppConfig extends Context.Tag("AppConfig")<AppConfig, Settings>() {}

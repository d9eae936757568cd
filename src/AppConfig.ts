import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as LogLevel from "effect/LogLevel"
import type * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"

/**
 * The service cannot start as it is set up. `message` is one plain sentence for the operator: it names the setting
 * or the folder and what to do, and never repeats a value.
 */
export class StartRefused extends Data.TaggedError("StartRefused")<{ readonly message: string }> {}

/**
 * Every setting of the server (docs/contract/names.md), decoded. Provided from the environment by `layers/Config.ts`.
 */
export interface Settings {
  readonly host: string
  readonly port: number
  /** Public address without a trailing slash; `http:` only for loopback (docs/contract/credentials.md). */
  readonly baseUrl: string
  /** Folder of the embedded default, as given. */
  readonly dataDir: string
  /** Postgres. None: the embedded database in `dataDir`. */
  readonly databaseUrl: Option.Option<Redacted.Redacted>
  /** Connections to Postgres, per process. */
  readonly databasePoolSize: number
  /** Serve on a Postgres that may lose acknowledged writes in a power failure. */
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
  /** Addresses or CIDR blocks whose `X-Forwarded-For` counts (docs/contract/rate-limits.md). */
  readonly trustedProxies: ReadonlyArray<string>
  readonly rateLimits: boolean
  readonly mcpReveal: boolean
  /** People who may create teams: everyone signed in, owners of a team, or only operators. */
  readonly teamCreation: TeamCreation
  /** Issuers of OpenID Connect that sign people in, as JSON (schema/SignInApi.ts). */
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
  /** Base address of an OTLP collector. None: no spans, nothing exported. */
  readonly otlpEndpoint: Option.Option<string>
  /** `name=value,…`, values percent-encoded. */
  readonly otlpHeaders: Option.Option<Redacted.Redacted>
  readonly serviceName: string
  /** Mail server. None: no e-mail. */
  readonly smtpUrl: Option.Option<Redacted.Redacted>
  /** Whom e-mails come from. */
  readonly mailFrom: Option.Option<string>
}

export type TeamCreation = "everyone" | "owners" | "operators"
/** `later`: servers of the release before still run, which know no MAC. */
export type SealRows = "never" | "once" | "later"

export class AppConfig extends Context.Tag("AppConfig")<AppConfig, Settings>() {}

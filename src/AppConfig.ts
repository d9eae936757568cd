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
  /** Hosts of Postgres and Redis that may be reached without verified TLS. */
  readonly plaintextHosts: ReadonlyArray<string>
  readonly vaultUrl: Option.Option<Redacted.Redacted>
  readonly workers: number
  readonly rootKey: Option.Option<Redacted.Redacted>
  /** What new values are sealed with; whatever a value was sealed with opens. */
  readonly valueCipher: "xchacha20-poly1305" | "aes-256-gcm"
  readonly setupCode: Option.Option<Redacted.Redacted>
  /** Addresses or CIDR blocks whose `X-Forwarded-For` counts (docs/contract/rate-limits.md). */
  readonly trustedProxies: ReadonlyArray<string>
  readonly rateLimits: boolean
  readonly mcpReveal: boolean
  /** Who may create teams: everybody who is signed in, or the owners of a team. */
  readonly teamCreation: TeamCreation
  /** Issuers of OpenID Connect that sign people in, as JSON (schema/SignInApi.ts). */
  readonly signInIssuers: Option.Option<Redacted.Redacted>
  /** What a start does with rows of a release that knew no MAC (`src/rows/OldRows.ts`). */
  readonly sealRows: SealRows
  /** File of signed audit checkpoints. None: none are kept. */
  readonly auditCheckpoints: Option.Option<string>
  /** Keys of those who report leaked credentials, or their address (`src/machines/ReportKeys.ts`). None: no reports. */
  readonly leakReportKeys: Option.Option<string>
  readonly logLevel: LogLevel.LogLevel
  readonly logFormat: "json" | "pretty" | "logfmt"
  readonly metricsHost: string
  /** Where `/metrics` is served. None: nowhere. */
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

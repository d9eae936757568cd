/** The device authorization and its neighbours on a migrated test database. */
import * as Layer from "effect/Layer"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as EventBusMemory from "#layers/EventBusMemory.ts"
import * as RateLimitMemory from "#layers/RateLimitMemory.ts"
import * as VaultLocal from "#layers/VaultLocal.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import { CliGrants } from "#src/credentials/CliGrants.ts"
import { DeviceGrants } from "#src/credentials/DeviceGrants.ts"
import { LastUse } from "#src/credentials/LastUse.ts"
import { Revocation } from "#src/credentials/Revocation.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import * as TestDatabase from "./TestDatabase.ts"

const config = Layer.succeed(AppConfig, {
  host: "127.0.0.1",
  port: 4400,
  baseUrl: "http://127.0.0.1:4400",
  dataDir: ".ampoule",
  databaseUrl: Option.none(),
  databasePoolSize: 10,
  unsafeDatabase: false,
  redisUrl: Option.none(),
  plaintextHosts: [],
  vaultUrl: Option.none(),
  workers: 1,
  rootKey: Option.none(),
  valueCipher: "xchacha20-poly1305",
  setupCode: Option.none(),
  trustedProxies: [],
  rateLimits: true,
  mcpReveal: true,
  teamCreation: "everyone",
  signInIssuers: Option.none(),
  sealRows: "never",
  auditCheckpoints: Option.none(),
  leakReportKeys: Option.none(),
  logLevel: LogLevel.None,
  logFormat: "json",
  metricsHost: "127.0.0.1",
  metricsPort: Option.none(),
  otlpEndpoint: Option.none(),
  otlpHeaders: Option.none(),
  serviceName: "ampoule",
  smtpUrl: Option.none(),
  mailFrom: Option.none()
})

const process = DeviceGrants.Default.pipe(
  Layer.provideMerge(
    Layer.mergeAll(CliGrants.Default, RateLimiter.Default, Access.Default, Authenticate.Default, Revocation.Default)
  ),
  Layer.provideMerge(
    Layer.mergeAll(Audit.Default, RowSeal.Default, LastUse.Default, RateLimitMemory.layer, EventBusMemory.layer, config)
  )
)

export const deviceLayer = process.pipe(
  Layer.provideMerge(Layer.provideMerge(ServiceKeys.Default, VaultLocal.layerMemory)),
  Layer.provideMerge(Layer.mergeAll(Crypto.Default, TestDatabase.layer))
)

/** Another process of the same service: same database, its own everything else; no notification reaches it. */
export const otherProcess = Layer.build(process)

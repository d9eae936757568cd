/**
 * Vault of the settings: the process in AMPOULE_VAULT_URL, else one in the server, with the guard of its root keys at
 * rest.
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { type Settings, StartRefused } from "#src/AppConfig.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import type { Vault } from "#src/crypto/Vault.ts"
import type { VaultKeyWrong } from "#src/vault/KeyFile.ts"
import { KeyProvider } from "#src/vault/KeyProvider.ts"
import { type Certificates, parse, VaultAddress } from "./VaultAddress.ts"
import * as VaultConfig from "./VaultConfig.ts"
import type { VaultSettings } from "./VaultConfig.ts"
import * as VaultLocal from "./VaultLocal.ts"

const missing = (what: string, provider: string) =>
  new StartRefused({ message: `${what} must be set for AMPOULE_KEY_PROVIDER=${provider}.` })

const orMissing = <A>(option: Option.Option<A>, what: string, provider: string) =>
  Effect.mapError(option, () => missing(what, provider))

/** The clients of key services are loaded only if they are used. */
export const provider = (settings: VaultSettings) =>
  Layer.unwrapEffect(
    Effect.gen(function* () {
      switch (settings.provider) {
        case "file":
          return Layer.succeed(KeyProvider, null)
        case "aws-kms": {
          const keyId = yield* orMissing(settings.kmsKeyId, "AMPOULE_KMS_KEY_ID", "aws-kms")
          const loaded = yield* Effect.promise(() => import("./VaultKms.ts"))
          return loaded.layer({ keyId })
        }
        case "transit": {
          const url = yield* orMissing(settings.transitUrl, "AMPOULE_TRANSIT_URL", "transit")
          const token = yield* orMissing(settings.transitToken, "AMPOULE_TRANSIT_TOKEN", "transit")
          const loaded = yield* Effect.promise(() => import("./VaultTransit.ts"))
          return loaded.layer({ url, token, key: settings.transitKey })
        }
      }
    })
  )

/** All three files or none; `tls://` needs them. */
export const certificatesOf = (
  address: VaultAddress,
  { ca, cert, key }: VaultSettings
): Effect.Effect<{ readonly certificates?: Certificates }, StartRefused> =>
  address._tag === "Unix"
    ? Effect.succeed({})
    : Effect.mapBoth(Option.all({ ca, cert, key }), {
        onFailure: () =>
          new StartRefused({
            message:
              "A vault on tls:// needs AMPOULE_VAULT_CA_FILE, AMPOULE_VAULT_CERT_FILE and AMPOULE_VAULT_KEY_FILE at both ends."
          }),
        onSuccess: (certificates) => ({ certificates })
      })

export const addressOf = (url: Redacted.Redacted): Effect.Effect<VaultAddress, StartRefused> =>
  Effect.mapError(
    parse(Redacted.value(url)),
    () => new StartRefused({ message: "AMPOULE_VAULT_URL must be unix:///path/of/the/socket or tls://host:port." })
  )

export const needsToken = (address: VaultAddress, { token }: VaultSettings) =>
  VaultAddress.$is("Tls")(address) && Option.isNone(token)
    ? new StartRefused({ message: "A vault on tls:// needs AMPOULE_VAULT_TOKEN at both ends." })
    : Effect.void

export const layer = (
  settings: Settings
): Effect.Effect<
  Layer.Layer<Vault, StartRefused | VaultKeyWrong | SqlError, SqlClient.SqlClient | FileSystem.FileSystem | Crypto>,
  StartRefused
> =>
  Effect.gen(function* () {
    const vaultSettings = yield* VaultConfig.load
    if (Option.isNone(settings.vaultUrl)) return Layer.provide(VaultLocal.layer(settings), provider(vaultSettings))
    const address = yield* addressOf(settings.vaultUrl.value)
    yield* needsToken(address, vaultSettings)
    const certificates = yield* certificatesOf(address, vaultSettings)
    // Loaded only if a vault process is used.
    const remote = yield* Effect.promise(() => import("./VaultRemote.ts"))
    return remote.layer({ address, token: vaultSettings.token, ...certificates })
  })

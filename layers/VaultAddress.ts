/** Address of a vault process, and authentication of both ends. */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { readFileSync } from "node:fs"
import { StartRefused } from "#src/AppConfig.ts"

/** `unix:///run/ampoule/vault.sock` or `tls://vault.internal:4410`. */
export type VaultAddress = Data.TaggedEnum<{
  Unix: { readonly path: string }
  Tls: { readonly host: string; readonly port: number }
}>
export const VaultAddress = Data.taggedEnum<VaultAddress>()

export const parse = (text: string): Option.Option<VaultAddress> => {
  const socket = /^unix:\/\/(\/[^\0]+)$/.exec(text)
  if (socket !== null) return Option.some(VaultAddress.Unix({ path: socket[1] }))
  const host = /^tls:\/\/(\[[0-9a-fA-F:.]+\]|[^/:@?#\s]+):([0-9]{1,5})\/?$/.exec(text)
  const port = Number(host?.[2])
  return host === null || port < 1 || port > 65_535
    ? Option.none()
    : Option.some(VaultAddress.Tls({ host: host[1].replace(/^\[|\]$/g, ""), port }))
}

export const print = VaultAddress.$match({
  Unix: ({ path }) => `unix://${path}`,
  Tls: ({ host, port }) => `tls://${host.includes(":") ? `[${host}]` : host}:${port}`
})

/**
 * Token file beside the socket, for users who can reach the socket. A vault without a configured token draws one at
 * each start.
 */
export const tokenFileOf = (path: string): string => `${path}.token`

/** PEM files. Each end presents its certificate, and accepts the other's if the authority signed it. */
export interface Certificates {
  readonly ca: string
  readonly cert: string
  readonly key: string
}

/** Read for each connection, so that a renewed certificate is used. */
export const readCertificates = ({ ca, cert, key }: Certificates) =>
  Effect.try({
    try: () => ({
      ca: readFileSync(ca),
      cert: readFileSync(cert),
      key: readFileSync(key),
      minVersion: "TLSv1.3" as const
    }),
    catch: () =>
      new StartRefused({
        message: "The file in AMPOULE_VAULT_CA_FILE, AMPOULE_VAULT_CERT_FILE or AMPOULE_VAULT_KEY_FILE cannot be read."
      })
  })

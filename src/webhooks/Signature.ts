/**
 * The header `Ampoule-Signature: t=<unix seconds>,v1=<hex>[,v1=<hex>]`: HMAC-SHA256 of `<t>.<body>`, keyed with the
 * UTF-8 text of the secret. Two signatures: of the new secret and of the old one, for a day after a rotation.
 */
import { createHmac } from "node:crypto"
import * as Redacted from "effect/Redacted"

export const sign = (secrets: ReadonlyArray<Redacted.Redacted<Uint8Array>>, seconds: number, body: string): string =>
  [
    `t=${seconds}`,
    ...secrets.map(
      (secret) => `v1=${createHmac("sha256", Redacted.value(secret)).update(`${seconds}.${body}`).digest("hex")}`
    )
  ].join(",")

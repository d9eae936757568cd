/** Settings of the vault, as a process of its own or inside the server. */
import type * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { isAbsolute } from "node:path"
import { integer, oneOf, optional, protectedOrigin, readAll, secret, withDefault } from "#layers/Setting.ts"

const file = (name: string, description: string) =>
  optional({ name, default: "", description, format: "an absolute path", parse: Option.liftPredicate(isAbsolute) })

const matches = (pattern: RegExp) => Option.liftPredicate((value: string) => pattern.test(value))

export const settings = {
  token: secret({
    name: "AMPOULE_VAULT_TOKEN",
    description:
      "Token for calls to the vault process, the same at both ends; needed for tls://. Without it the vault generates one at each start and writes it beside its socket.",
    format: "at least 32 characters without white space",
    parse: matches(/^[\x21-\x7e]{32,512}$/)
  }),
  ca: file("AMPOULE_VAULT_CA_FILE", "Authority that signed the certificate of the other end (PEM); for tls://."),
  cert: file("AMPOULE_VAULT_CERT_FILE", "Certificate of this end (PEM); for tls://."),
  key: file("AMPOULE_VAULT_KEY_FILE", "Key of that certificate (PEM); for tls://."),
  unwrapsPerSecond: withDefault({
    name: "AMPOULE_VAULT_UNWRAPS_PER_SECOND",
    default: "200",
    description: "Keys that the vault process unwraps per second; a burst may take five seconds' worth at once.",
    // Five seconds' worth must cover the largest batch of the protocol.
    ...integer(100, 1_000_000)
  }),
  provider: withDefault({
    name: "AMPOULE_KEY_PROVIDER",
    default: "file",
    description:
      "Protection of new root keys at rest: `file` (its permissions), `aws-kms` or `transit` (HashiCorp Vault, OpenBao).",
    ...oneOf({ file: "file", "aws-kms": "aws-kms", transit: "transit" } as const)
  }),
  kmsKeyId: optional({
    name: "AMPOULE_KMS_KEY_ID",
    default: "",
    description:
      "Id, alias or ARN of the AWS KMS key; for aws-kms. Region, credentials and endpoint come from the variables of the AWS SDK.",
    format: "a key id, an alias or an ARN",
    parse: matches(/^[\x21-\x7e]{1,2048}$/)
  }),
  transitUrl: optional({
    name: "AMPOULE_TRANSIT_URL",
    default: "",
    description: "Address of HashiCorp Vault or OpenBao, https:// (http:// only for loopback addresses); for transit.",
    ...protectedOrigin
  }),
  transitToken: secret({
    name: "AMPOULE_TRANSIT_TOKEN",
    description: "Token that may encrypt and decrypt with the transit key.",
    format: "a token",
    parse: matches(/^[\x21-\x7e]{1,4096}$/)
  }),
  transitKey: withDefault({
    name: "AMPOULE_TRANSIT_KEY",
    default: "transit/ampoule",
    description: "Mount and name of the transit key, `mount/name`.",
    format: "mount/name",
    parse: matches(/^[\w-]+(\/[\w-]+)+$/)
  })
}

export const load = readAll(settings)

export type VaultSettings = Effect.Effect.Success<typeof load>

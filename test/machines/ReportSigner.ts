/** A scanner that signs reports of leaked credentials, as GitHub's partner program does. */
import { createHash, generateKeyPairSync, sign } from "node:crypto"

export const make = (curve: "prime256v1" | "secp384r1" = "prime256v1") => {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: curve })
  const pem = publicKey.export({ type: "spki", format: "pem" }).toString()
  const identifier = createHash("sha256").update(pem).digest("hex")
  return {
    identifier,
    entry: { key_identifier: identifier, key: pem, is_current: true },
    headers: (body: string) => ({
      "content-type": "application/json",
      "github-public-key-identifier": identifier,
      "github-public-key-signature": sign("sha256", Buffer.from(body), privateKey).toString("base64")
    })
  }
}
export type Signer = ReturnType<typeof make>

export const documentOf = (...signers: ReadonlyArray<Signer>): string =>
  JSON.stringify({ public_keys: signers.map(({ entry }) => entry) })

/**
 * Certificates for tests: an authority, and what it signed, as files. Ed25519; DER written by hand (RFC 5280, RFC
 * 8410).
 */
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"

const der = (tag: number, ...parts: ReadonlyArray<Uint8Array>): Buffer => {
  const body = Buffer.concat(parts)
  const length =
    body.length < 128
      ? Buffer.of(body.length)
      : body.length < 256
        ? Buffer.of(0x81, body.length)
        : Buffer.of(0x82, body.length >> 8, body.length & 0xff)
  return Buffer.concat([Buffer.of(tag), length, body])
}
const sequence = (...parts: ReadonlyArray<Uint8Array>) => der(0x30, ...parts)
const oid = (hex: string) => der(0x06, Buffer.from(hex, "hex"))
const ed25519 = sequence(oid("2b6570"))
const nameOf = (name: string) => sequence(der(0x31, sequence(oid("550403"), der(0x0c, Buffer.from(name)))))
const time = (text: string) => der(0x17, Buffer.from(text))
const extension = (id: string, critical: boolean, value: Buffer) =>
  sequence(oid(id), ...(critical ? [der(0x01, Buffer.of(0xff))] : []), der(0x04, value))

const pem = (label: string, bytes: Buffer) =>
  `-----BEGIN ${label}-----\n${bytes.toString("base64").replace(/(.{64})/g, "$1\n")}\n-----END ${label}-----\n`

interface Party {
  readonly name: string
  readonly key: KeyObject
}

/** Subject alternative names, with their tags. */
const loopback = [der(0x82, Buffer.from("localhost")), der(0x87, Buffer.of(127, 0, 0, 1))]

const certificate = (
  subject: Party & { readonly publicKey: KeyObject },
  issuer: Party,
  names: ReadonlyArray<Buffer> | "authority"
) => {
  const serial = randomBytes(8)
  serial[0] &= 0x7f
  serial[0] |= 0x01
  const extensions =
    names === "authority"
      ? [extension("551d13", true, sequence(der(0x01, Buffer.of(0xff))))]
      : names.map(() => extension("551d11", false, sequence(...names))).slice(0, 1)
  const body = sequence(
    der(0xa0, der(0x02, Buffer.of(2))),
    der(0x02, serial),
    ed25519,
    nameOf(issuer.name),
    sequence(time("200101000000Z"), time("491231235959Z")),
    nameOf(subject.name),
    subject.publicKey.export({ format: "der", type: "spki" }),
    ...(extensions.length === 0 ? [] : [der(0xa3, sequence(...extensions))])
  )
  const signature = der(0x03, Buffer.of(0), sign(null, body, issuer.key))
  return pem("CERTIFICATE", sequence(body, ed25519, signature))
}

export interface Issued {
  readonly ca: string
  readonly cert: string
  readonly key: string
}

/** An authority in `folder`, and how it issues: paths of PEM files. */
export const authority = (folder: string) => {
  const pair = generateKeyPairSync("ed25519")
  const issuer = { name: `authority ${randomBytes(4).toString("hex")}`, key: pair.privateKey }
  const ca = path.join(folder, `${issuer.name.replace(" ", "-")}.pem`)
  fs.writeFileSync(ca, certificate({ ...issuer, publicKey: pair.publicKey }, issuer, "authority"))
  return (name: string, names: ReadonlyArray<Buffer> = loopback): Issued => {
    const own = generateKeyPairSync("ed25519")
    const [cert, key] = [path.join(folder, `${name}.pem`), path.join(folder, `${name}.key`)]
    fs.writeFileSync(cert, certificate({ name, key: own.privateKey, publicKey: own.publicKey }, issuer, names))
    fs.writeFileSync(key, own.privateKey.export({ format: "pem", type: "pkcs8" }), { mode: 0o600 })
    return { ca, cert, key }
  }
}

/** A device that keeps passkeys, made of Node's crypto: what it signs can be bent in every way that an attacker could. */
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto"

const sha256 = (data: Uint8Array | string) => createHash("sha256").update(data).digest()
const base64url = (data: Uint8Array) => Buffer.from(data).toString("base64url")

// As much of CBOR (RFC 8949) as an attestation needs.
const head = (major: number, n: number): Buffer =>
  n < 24
    ? Buffer.from([(major << 5) | n])
    : n < 256
      ? Buffer.from([(major << 5) | 24, n])
      : Buffer.from([(major << 5) | 25, n >> 8, n & 255])
const whole = (n: number) => (n >= 0 ? head(0, n) : head(1, -1 - n))
const bytes = (data: Uint8Array) => Buffer.concat([head(2, data.length), data])
const text = (data: string) => Buffer.concat([head(3, data.length), Buffer.from(data)])
const map = (...pairs: ReadonlyArray<readonly [Uint8Array, Uint8Array]>) =>
  Buffer.concat([head(5, pairs.length), ...pairs.flat()])

export interface Passkey {
  readonly id: string
  readonly privateKey: KeyObject
  readonly publicKey: Uint8Array
  readonly userHandle: string
  counter: number
}

/** Flags of an honest browser about the page, and of an honest device about the person. */
export interface Ceremony {
  readonly origin: string
  readonly rpId: string
  readonly isUserVerified?: boolean
  readonly isUserPresent?: boolean
  readonly type?: string
  /** The page that asks is inside another origin's page. */
  readonly crossOrigin?: boolean
}

const flagsOf = ({ isUserPresent = true, isUserVerified = true }: Ceremony, more = 0) =>
  (isUserPresent ? 1 : 0) | (isUserVerified ? 4 : 0) | more
const counterOf = (n: number) => {
  const counter = Buffer.alloc(4)
  counter.writeUInt32BE(n)
  return counter
}
const clientData = (type: string, challenge: string, { crossOrigin = false, origin }: Ceremony) =>
  Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin }))

/** A new passkey for the person whom the options name, and what the browser sends of it. */
export const create = (
  options: { readonly challenge: string; readonly user: { readonly id: string } },
  ceremony: Ceremony
) => {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" })
  const { x = "", y = "" } = publicKey.export({ format: "jwk" })
  const cose = map(
    [whole(1), whole(2)],
    [whole(3), whole(-7)],
    [whole(-1), whole(1)],
    [whole(-2), bytes(Buffer.from(x, "base64url"))],
    [whole(-3), bytes(Buffer.from(y, "base64url"))]
  )
  const id = randomBytes(32)
  const authData = Buffer.concat([
    sha256(ceremony.rpId),
    Buffer.from([flagsOf(ceremony, 0x40)]),
    counterOf(0),
    Buffer.alloc(16),
    Buffer.from([0, id.length]),
    id,
    cose
  ])
  const attestation = map([text("fmt"), text("none")], [text("attStmt"), map()], [text("authData"), bytes(authData)])
  const passkey: Passkey = {
    id: base64url(id),
    privateKey,
    publicKey: cose,
    userHandle: options.user.id,
    counter: 0
  }
  return {
    passkey,
    answer: JSON.stringify({
      id: passkey.id,
      response: {
        clientDataJSON: base64url(clientData(ceremony.type ?? "webauthn.create", options.challenge, ceremony)),
        attestationObject: base64url(attestation),
        transports: ["internal"]
      }
    })
  }
}

/** Message of the browser for a passkey that signs the challenge. */
export const get = (passkey: Passkey, options: { readonly challenge: string }, ceremony: Ceremony): string => {
  const authData = Buffer.concat([sha256(ceremony.rpId), Buffer.from([flagsOf(ceremony)]), counterOf(passkey.counter)])
  const client = clientData(ceremony.type ?? "webauthn.get", options.challenge, ceremony)
  return JSON.stringify({
    id: passkey.id,
    response: {
      clientDataJSON: base64url(client),
      authenticatorData: base64url(authData),
      signature: base64url(sign("sha256", Buffer.concat([authData, sha256(client)]), passkey.privateKey)),
      userHandle: passkey.userHandle
    }
  })
}

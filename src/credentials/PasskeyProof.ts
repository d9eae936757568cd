/**
 * WebAuthn ceremonies, by `@simplewebauthn/server`: options for a browser, and checks of its response. The library
 * loads with the first ceremony, since most starts of the program need none. Every ceremony requires user verification
 * (the device's PIN or a finger): a passkey alone is two factors.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as net from "node:net"

/**
 * The relying party of this server. Null where browsers allow no passkey: an address that is a number has no RP id
 * (WebAuthn 5.1.3).
 */
export interface RelyingParty {
  readonly id: string
  readonly name: string
  readonly origin: string
}
export const relyingParty = (baseUrl: string): RelyingParty | null => {
  const { hostname, origin } = new URL(baseUrl)
  const isNumber = net.isIP(hostname.replace(/^\[|\]$/g, "")) !== 0
  return isNumber ? null : { id: hostname, name: `Ampoule ${hostname}`, origin }
}

/** Time for a ceremony, in milliseconds. */
export const ceremonyMillis = 300_000

const library = Effect.promise(() => import("@simplewebauthn/server"))

/** Longest base64url text of a credential's id: 1023 bytes (WebAuthn 4, "Credential ID"). */
const CredentialId = Schema.String.pipe(Schema.pattern(/^[\w-]{1,1364}$/))
const Part = Schema.String.pipe(Schema.pattern(/^[\w-]{0,12000}$/))
const NullableText = Schema.optional(Schema.NullOr(Part))

/** The members of `PublicKeyCredential.toJSON` that matter here; others are ignored. */
export const Assertion = Schema.Struct({
  id: CredentialId,
  response: Schema.Struct({
    clientDataJSON: Part,
    authenticatorData: Part,
    signature: Part,
    userHandle: NullableText
  })
})
export type Assertion = typeof Assertion.Type
export const Attestation = Schema.Struct({
  id: CredentialId,
  response: Schema.Struct({
    clientDataJSON: Part,
    attestationObject: Part,
    transports: Schema.optional(
      Schema.Array(Schema.String.pipe(Schema.pattern(/^[a-z-]{1,20}$/))).pipe(Schema.maxItems(8))
    )
  })
})
export type Attestation = typeof Attestation.Type

/** A page inside another origin's page gets no answer: `crossOrigin` (WebAuthn 5.8.1). */
const ClientData = Schema.parseJson(
  Schema.Struct({
    challenge: Schema.String.pipe(Schema.pattern(/^[\w-]{43}$/)),
    crossOrigin: Schema.optional(Schema.Literal(false)),
    topOrigin: Schema.optional(Schema.Undefined)
  })
)

/** The challenge that a response names, for its look-up only: the library compares it once more. */
export const challengeOf = ({ response }: Assertion | Attestation) =>
  Schema.decodeUnknownOption(ClientData)(Buffer.from(response.clientDataJSON, "base64url").toString("utf8"))

/** User handle for authenticators: the bytes of the person's id, which reveal nothing else. */
const handleOf = (userId: string) => Uint8Array.from(Buffer.from(userId.replaceAll("-", ""), "hex"))

interface CredentialRef {
  readonly credentialId: string
  readonly transports: ReadonlyArray<string>
}
const descriptorOf = ({ credentialId, transports }: CredentialRef) => ({
  id: credentialId,
  transports: [...transports]
})

export const attestationOptions = (
  rp: RelyingParty,
  user: { readonly id: string; readonly email: string; readonly name: string },
  challenge: string,
  passkeys: ReadonlyArray<CredentialRef>
) =>
  Effect.flatMap(library, ({ generateRegistrationOptions }) =>
    Effect.promise(() =>
      generateRegistrationOptions({
        rpID: rp.id,
        rpName: rp.name,
        userID: handleOf(user.id),
        userName: user.email,
        userDisplayName: user.name,
        challenge: Buffer.from(challenge, "base64url"),
        timeout: ceremonyMillis,
        attestationType: "none",
        excludeCredentials: passkeys.map(descriptorOf),
        authenticatorSelection: { residentKey: "required", userVerification: "required" }
      })
    )
  )

/** `passkeys`: the accepted ones; empty lets the person choose any. */
export const assertionOptions = (rp: RelyingParty, challenge: string, passkeys: ReadonlyArray<CredentialRef>) =>
  Effect.flatMap(library, ({ generateAuthenticationOptions }) =>
    Effect.promise(() =>
      generateAuthenticationOptions({
        rpID: rp.id,
        challenge: Buffer.from(challenge, "base64url"),
        timeout: ceremonyMillis,
        userVerification: "required",
        allowCredentials: passkeys.map(descriptorOf)
      })
    )
  )

export interface NewPasskey {
  readonly credentialId: string
  readonly publicKey: Uint8Array
  readonly counter: number
  readonly transports: ReadonlyArray<string>
  readonly synced: boolean
}

/** Undefined when the library refuses or cannot read the response. */
const orNone = <A>(work: () => Promise<A | undefined>) => Effect.promise(() => work().catch(() => undefined))

/** Undefined: another challenge, origin, RP id or type, no user verification, or not readable. */
export const verifyAttestation = (rp: RelyingParty, challenge: string, { id, response }: Attestation) =>
  Effect.flatMap(library, ({ verifyRegistrationResponse }) =>
    orNone(async (): Promise<NewPasskey | undefined> => {
      const { registrationInfo, verified } = await verifyRegistrationResponse({
        response: {
          id,
          rawId: id,
          type: "public-key",
          clientExtensionResults: {},
          response: { clientDataJSON: response.clientDataJSON, attestationObject: response.attestationObject }
        },
        expectedChallenge: challenge,
        expectedOrigin: rp.origin,
        expectedRPID: rp.id,
        requireUserVerification: true
      })
      if (!verified) return undefined
      const { credential, credentialBackedUp } = registrationInfo
      // The signed part names the credential; the unsigned id must equal it.
      if (credential.id !== id) return undefined
      return {
        credentialId: credential.id,
        publicKey: credential.publicKey,
        counter: credential.counter,
        transports: response.transports ?? [],
        synced: credentialBackedUp
      }
    })
  )

interface StoredPasskey {
  readonly credentialId: string
  readonly publicKey: Uint8Array
  readonly userId: string
}

/**
 * The authenticator's new counter, which the caller compares. Undefined: not a response of this passkey to this
 * challenge, at this origin, with user verification, for this person.
 */
export const verifyAssertion = (
  rp: RelyingParty,
  challenge: string,
  passkey: StoredPasskey,
  { id, response }: Assertion
) =>
  Effect.flatMap(library, ({ verifyAuthenticationResponse }) =>
    orNone(async (): Promise<{ readonly counter: number } | undefined> => {
      const { userHandle } = response
      const own = Buffer.from(handleOf(passkey.userId)).toString("base64url")
      if (id !== passkey.credentialId || (userHandle !== undefined && userHandle !== null && userHandle !== own)) {
        return undefined
      }
      const { authenticationInfo, verified } = await verifyAuthenticationResponse({
        response: {
          id,
          rawId: id,
          type: "public-key",
          clientExtensionResults: {},
          response: {
            clientDataJSON: response.clientDataJSON,
            authenticatorData: response.authenticatorData,
            signature: response.signature
          }
        },
        expectedChallenge: challenge,
        expectedOrigin: rp.origin,
        expectedRPID: rp.id,
        requireUserVerification: true,
        credential: { id: passkey.credentialId, publicKey: Uint8Array.from(passkey.publicKey), counter: 0 }
      })
      return verified && authenticationInfo.userVerified ? { counter: authenticationInfo.newCounter } : undefined
    })
  )

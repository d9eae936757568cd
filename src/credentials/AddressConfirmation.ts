/**
 * The account's own mailbox as a witness of its address (docs/sign-in.md, "Provisional accounts"). A link by e-mail works
 * in a session of the account alone: the mailbox's owner must not vouch for an account that a stranger made.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { CurrentCaller } from "#schema/Caller.ts"
import { CredentialInvalid, DependencyUnavailable, Forbidden, NameTaken } from "#schema/Errors.ts"
import { UserIdOut } from "#schema/Ids.ts"
import { addressOf } from "#schema/Values.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Crypto, sha256 } from "#src/crypto/Crypto.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import * as ServiceBox from "#src/crypto/ServiceBox.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { days } from "#src/Days.ts"
import { dieWhenVaultIsDown } from "#src/database/Dependency.ts"
import * as Rows from "#src/database/Rows.ts"
import { confirmationPolicy, mailboxPolicy, RateLimiter } from "#src/limits/RateLimiter.ts"
import { methods } from "#src/Methods.ts"
import { Mail, type Message } from "#src/outbound/Mail.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as Accounts from "./Accounts.ts"
import { accountOf } from "./FactorChanges.ts"
import * as ProvisionalAccounts from "./ProvisionalAccounts.ts"

const services = Effect.all({
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  keys: ServiceKeys,
  limiter: RateLimiter,
  audit: Audit,
  rowSeal: RowSeal,
  mail: Mail,
  baseUrl: Effect.map(AppConfig, (config) => config.baseUrl)
})
type Needs = Effect.Effect.Success<typeof services>

const linkLife = days(1)

/** Milliseconds since 1970. */
const Confirmation = Schema.parseJson(
  Schema.Struct({ userId: UserIdOut, address: Schema.String, endsAt: Schema.Number })
)
const decode = Schema.decodeUnknownOption(Confirmation)
const encode = Schema.encodeSync(Confirmation)
const place: ServiceBox.Place = { purpose: "address confirmation", ids: [] }
const keyOf = ({ keys }: Needs) => Effect.orDie(dieWhenVaultIsDown(keys.ring("sign-in-flows")))

/** The caller's address and its witness, and whether this server can send a link. */
const state = Effect.fn("AddressConfirmation.state")(function* (needs: Needs) {
  const { user } = yield* CurrentCaller
  const account = user === null ? undefined : yield* Accounts.find(needs, user.id)
  if (account === undefined) return yield* new Forbidden()
  const { email, vouchedBy } = account
  return { address: addressOf(email), vouchedBy, sendsMail: Option.isSome(needs.mail) }
})

const messageOf = (address: string, url: string): Message => ({
  to: address,
  subject: "Confirm your e-mail address for Ampoule",
  text: [
    "A person who is signed in to an Ampoule account asked to confirm this e-mail address.",
    "",
    "If it was you, open this link in the browser where you are signed in. It works for a day:",
    url,
    "",
    "If it was somebody else, do nothing. Do not sign in to an account that you did not make, and do not pass the link on.",
    ""
  ].join("\n")
})

/** DEPENDENCY_UNAVAILABLE when the mail server does not take the message. */
const send = Effect.fn("AddressConfirmation.send")(function* (needs: Needs) {
  const { baseUrl, crypto, limiter } = needs
  const { email, id: userId } = yield* accountOf(needs, yield* CurrentCaller)
  const mail = Option.getOrUndefined(needs.mail)
  if (mail === undefined) {
    return yield* new Forbidden({ message: "This server sends no e-mail. Ask its operator to confirm your address." })
  }
  yield* limiter.take(`confirmation:${userId}`, confirmationPolicy)
  const address = addressOf(email)
  // Up to five hundred accounts have one mailbox.
  yield* limiter.take(`confirmation:email:${sha256(address).toString("base64url")}`, mailboxPolicy)
  const endsAt = (yield* Clock.currentTimeMillis) + linkLife
  const salt = yield* crypto.randomBytes(Envelope.saltLength)
  const box = ServiceBox.seal(yield* keyOf(needs), place, Buffer.from(encode({ userId, address, endsAt })), salt)
  const url = `${baseUrl}/app/account/address/confirm?code=${box.toString("base64url")}`
  yield* Effect.catchTag(
    mail(messageOf(address, url)),
    "MailRefused",
    () => new DependencyUnavailable({ message: "The mail server did not take the message. Try again later." })
  )
})

const invalid = () =>
  new CredentialInvalid({
    message: "This link is not for the account that you are signed in to, or it is older than a day. Send a new one."
  })

/**
 * `code`: of the link; good for nothing without the session. CREDENTIAL_INVALID for a link of another account, of another address, or older than a
 * day.
 */
const confirm = Effect.fn("AddressConfirmation.confirm")(function* (needs: Needs, code: string) {
  const caller = yield* CurrentCaller
  const { email, id } = yield* accountOf(needs, caller)
  const box = ServiceBox.open(yield* keyOf(needs), place, Buffer.from(code, "base64url"))
  const link = Either.isRight(box) ? Option.getOrUndefined(decode(box.right.toString())) : undefined
  const address = addressOf(email)
  const isOwn = link?.userId === id && link.address === address
  if (!isOwn || link.endsAt <= (yield* Clock.currentTimeMillis)) return yield* invalid()
  const work = Rows.transaction(needs.sql, function* () {
    return yield* ProvisionalAccounts.vouch(needs, { id, address }, "mailbox", caller)
  })
  const account = yield* Effect.catchTag(
    work,
    "AddressHeld",
    () => new NameTaken({ message: "Another account has this address. Ask the operator of the server." })
  )
  return account === undefined ? yield* invalid() : account
})

export class AddressConfirmation extends Effect.Service<AddressConfirmation>()("credentials/AddressConfirmation", {
  effect: Effect.map(services, (needs) => methods(needs, { state, send, confirm }))
}) {}

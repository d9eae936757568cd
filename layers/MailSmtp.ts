/** E-mail over SMTP with `nodemailer`, loaded for the first message. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { AppConfig } from "#src/AppConfig.ts"
import { isLoopbackHost } from "#src/net/Loopback.ts"
import { Mail, MailRefused } from "#src/outbound/Mail.ts"

const library = Effect.promise(() => import("nodemailer"))
/** Milliseconds. */
const smtpTimeout = 20_000

const isLasting = (error: unknown): boolean =>
  typeof error === "object" &&
  error !== null &&
  "responseCode" in error &&
  typeof error.responseCode === "number" &&
  error.responseCode >= 500

export const layer = Layer.effect(
  Mail,
  Effect.gen(function* () {
    const { mailFrom, plaintextHosts, smtpUrl } = yield* AppConfig
    if (Option.isNone(smtpUrl) || Option.isNone(mailFrom)) return Option.none()
    const url = new URL(Redacted.value(smtpUrl.value))
    const secure = url.protocol === "smtps:"
    const { hostname } = url
    const transport = yield* Effect.cached(
      Effect.map(library, ({ createTransport }) =>
        createTransport({
          host: hostname.replace(/^\[|\]$/g, ""),
          port: url.port === "" ? (secure ? 465 : 587) : Number(url.port),
          secure,
          // STARTTLS with a valid certificate, except to this machine and to hosts that the operator named.
          requireTLS: !secure && !isLoopbackHost(hostname) && !plaintextHosts.includes(hostname),
          ignoreTLS: !secure && (isLoopbackHost(hostname) || plaintextHosts.includes(hostname)),
          ...(url.username === ""
            ? {}
            : { auth: { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) } }),
          connectionTimeout: smtpTimeout,
          greetingTimeout: smtpTimeout,
          socketTimeout: smtpTimeout,
          disableFileAccess: true,
          disableUrlAccess: true
        })
      )
    )
    return Option.some((message) =>
      Effect.flatMap(transport, (mail) =>
        Effect.tryPromise({
          try: () => mail.sendMail({ from: mailFrom.value, ...message }),
          catch: (error) => new MailRefused({ lasting: isLasting(error) })
        })
      )
    )
  })
)

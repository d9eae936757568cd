/** Passkeys in a browser without scripts, at a server with a host name. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Authenticator from "./Authenticator.ts"
import { parsed } from "./Json.ts"
import * as SignIn from "./SignIn.ts"

export const origin = "http://localhost"
const here: Authenticator.Ceremony = { origin, rpId: "localhost" }

const Options = Schema.Struct({
  challenge: Schema.String,
  user: Schema.optional(Schema.Struct({ id: Schema.String })),
  allowCredentials: Schema.optional(Schema.Array(Schema.Struct({ id: Schema.String })))
})

const begin = <const Path extends string>(path: Path, jar: SignIn.Jar) =>
  Effect.gen(function* () {
    const answer = yield* SignIn.submit(`${path}/begin`, jar, {}, { accept: "application/json" })
    assert.strictEqual(answer.status, 200, answer.text)
    return { options: parsed(Options)(answer.text), jar: SignIn.kept(answer, jar) }
  })

export const add = (jar: SignIn.Jar, name: string) =>
  Effect.gen(function* () {
    const begun = yield* begin("/app/account/second-factor/passkeys", jar)
    const user = begun.options.user ?? { id: "" }
    const { answer: sent, passkey } = Authenticator.create({ challenge: begun.options.challenge, user }, here)
    const answer = yield* SignIn.submit("/app/account/second-factor/passkeys", begun.jar, { passkey: sent, name })
    assert.oneOf(answer.status, [200, 303], answer.text)
    return { passkey, jar: SignIn.kept(answer, begun.jar) }
  })

/** Answers the challenge of the sign-in page, or of another page that asks for a passkey. */
export const prove = (
  passkey: Authenticator.Passkey,
  jar: SignIn.Jar = new Map(),
  path: `/${string}` = "/app/sign-in/passkey"
) =>
  Effect.gen(function* () {
    const begun = yield* begin(path, jar)
    passkey.counter++
    const sent = Authenticator.get(passkey, begun.options, here)
    const answer = yield* SignIn.submit(path, begun.jar, { passkey: sent, next: "" })
    return { answer, jar: SignIn.kept(answer, begun.jar) }
  })

/** People who sign in with a second factor, as a browser without scripts does it. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { Passwords } from "#src/credentials/Passwords.ts"
import * as Totp from "#src/credentials/Totp.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { freshAddress } from "./FreshAddress.ts"
import * as TestApp from "./TestApp.ts"
import * as World from "./World.ts"

export const password = "vial of thirty drops"

/** Cookies that a browser holds, by name. */
export type Jar = ReadonlyMap<string, string>
export const kept = (answer: TestApp.Answer, before: Jar = new Map()): Jar => {
  const jar = new Map(before)
  for (const line of answer.headers.getSetCookie()) {
    const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? []
    if (value === "") jar.delete(name)
    else jar.set(name, value)
  }
  return jar
}

const headersOf = (jar: Jar, more: Record<string, string> = {}) => ({
  "x-forwarded-for": freshAddress(),
  ...(jar.size === 0 ? {} : { cookie: [...jar].map(([name, value]) => `${name}=${value}`).join("; ") }),
  ...more
})

export const see = <const Path extends string>(path: Path, jar: Jar) => TestApp.get(path, { headers: headersOf(jar) })

/** Each from an address of its own, unless the headers say. */
export const submit = <const Path extends string>(
  path: Path,
  jar: Jar,
  fields: Readonly<Record<string, string>> = {},
  headers: Record<string, string> = {}
) =>
  TestApp.post(path, {
    headers: headersOf(jar, { "content-type": "application/x-www-form-urlencoded", ...headers }),
    body: new URLSearchParams(fields).toString()
  })

const base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
const bytesOf = (text: string): Uint8Array => {
  const bits = [...text.replace(/\s/g, "")].map((char) => base32.indexOf(char).toString(2).padStart(5, "0")).join("")
  return Uint8Array.from(bits.match(/.{8}/g) ?? [], (byte) => Number.parseInt(byte, 2))
}

/** The phone: the code of now, or of so many steps from now. */
export const codeOf = (secret: string, steps = 0) =>
  Effect.map(Clock.currentTimeMillis, (now) => Totp.codeAt(bytesOf(secret), Totp.stepAt(now) + steps))

/** A person with a password, and the browser in which they are signed in. */
export const signedIn = Effect.gen(function* () {
  const passwords = yield* Passwords
  const person = yield* World.person({ passwordHash: yield* passwords.hash(Redacted.make(password), "password") })
  const team = yield* World.team({ owner: person })
  return { person, team, jar: kept(yield* submit("/app/sign-in", new Map(), { email: person.email, password })) }
})

const app = "/app/account/second-factor/app"

/** Sets up an authenticator app in this browser. Answers what the phone knows, and the codes that were shown. */
export const enrol = (jar: Jar) =>
  Effect.gen(function* () {
    yield* submit(app, jar)
    const secret = /id="once"[^>]*value="([^"]+)"/.exec((yield* see(app, jar)).text)?.[1] ?? ""
    const answer = yield* submit(`${app}/confirm`, jar, { code: yield* codeOf(secret) })
    const codes = answer.text.match(/\b(?:[a-z0-9]{5}-){3}[a-z0-9]{5}\b/g) ?? []
    return { secret, codes: [...new Set(codes)], jar: kept(answer, jar), answer }
  })

/** With the password, then the code. */
export const signInWith = (email: string, code: string, jar: Jar = new Map(), next = "") =>
  Effect.gen(function* () {
    const begun = kept(yield* submit("/app/sign-in", jar, { email, password, next }), jar)
    const answer = yield* submit("/app/sign-in/code", begun, { code, next })
    return { begun, answer, jar: kept(answer, begun) }
  })

/** Passkeys, apps and codes of the person count as older than a day. */
export const agedFactors = (person: Pick<World.Person, "id">) =>
  Effect.gen(function* () {
    const rowSeal = yield* RowSeal
    const sql = yield* SqlClient.SqlClient
    const where = sql`user_id = ${person.id}`
    const old = () => ({ youngUntil: null })
    yield* rowSeal.update("passkeys", where, old)
    yield* rowSeal.update("totp_factors", where, old)
    yield* rowSeal.update("recovery_codes", where, old)
  })

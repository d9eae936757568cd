/** A server with two issuers of its installation, and browsers that sign in by them. */
import { assert } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { randomUUID } from "node:crypto"
import * as SignIn from "#test/support/SignIn.ts"
import * as TestApp from "#test/support/TestApp.ts"
import type * as World from "#test/support/World.ts"
import * as FakeIssuer from "./FakeIssuer.ts"

export class Corp extends Context.Tag("test/Corp")<Corp, FakeIssuer.FakeIssuer>() {}
export class Other extends Context.Tag("test/Other")<Other, FakeIssuer.FakeIssuer>() {}

const setting = (key: string, { clientId, clientSecret, url }: FakeIssuer.FakeIssuer, more: object = {}) => ({
  key,
  name: `The ${key}`,
  issuer: url,
  clientId,
  clientSecret,
  scopes: "openid email profile groups",
  ...more
})

const issuers = Layer.merge(Layer.scoped(Corp, FakeIssuer.make()), Layer.scoped(Other, FakeIssuer.make()))
const config = Layer.unwrapEffect(
  Effect.zipWith(Corp, Other, (corp, other) =>
    TestApp.config({
      signInIssuers: Option.some(
        Redacted.make(JSON.stringify([setting("corp", corp, { factors: ["mfa"] }), setting("other", other)]))
      )
    })
  )
)

export const layer = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, config)),
  Layer.provideMerge(issuers)
)

/** A person of an issuer whose address it vouches for, in these groups. */
export const personOf = (groups: ReadonlyArray<string> = [], more: object = {}): FakeIssuer.Person => {
  const sub = randomUUID()
  return { sub, email: `${sub}@example.com`, email_verified: true, name: "Grace", groups, ...more }
}

/** The button: where the browser is sent, and what it keeps. */
export const begin = (key: string, jar: SignIn.Jar = new Map(), next = "", at = `/app/sign-in/with/${key}`) =>
  Effect.gen(function* () {
    const answer = yield* SignIn.submit(at, jar, { next })
    const url = /^0;url=(.*)$/.exec(answer.headers.get("refresh") ?? "")?.[1]
    return { answer, url: url === undefined ? undefined : new URL(url), jar: SignIn.kept(answer, jar) }
  })

/** The path of our own that the issuer sends the browser back to. */
export const answered = (issuer: FakeIssuer.FakeIssuer, url: URL | undefined): string => {
  const back = new URL(issuer.answerTo(url?.searchParams ?? new URLSearchParams()))
  return back.pathname + back.search
}

/** The whole way, in one browser. */
export const signIn = (
  issuer: FakeIssuer.FakeIssuer,
  key: string,
  jar: SignIn.Jar = new Map(),
  next = "",
  at?: string
) =>
  Effect.gen(function* () {
    const begun = yield* begin(key, jar, next, at)
    const answer = yield* SignIn.see(answered(issuer, begun.url), begun.jar)
    return { begun, answer, jar: SignIn.kept(answer, begun.jar) }
  })

export const sessionOf = (jar: SignIn.Jar): string => jar.get("ampoule_session") ?? ""
export const meOf = (jar: SignIn.Jar) => TestApp.get("/me", { session: sessionOf(jar) })
export const isIn = (jar: SignIn.Jar) => Effect.map(meOf(jar), ({ status }) => status === 200)

/** A rule of the team, by its owner. */
export const rule = (
  team: World.Team,
  session: string | Redacted.Redacted,
  [issuer, value, role]: readonly [issuer: string, value: string, role: string]
) => TestApp.post(`/teams/${team.id}/sign-in/rules`, { session, json: { issuer, claim: "groups", value, role } })

/** An issuer of the team's own, added by its owner. */
export const ownIssuer = (team: World.Team, session: string) =>
  Effect.gen(function* () {
    const issuer = yield* FakeIssuer.make()
    const { json, status, text } = yield* TestApp.post(`/teams/${team.id}/sign-in/issuers`, {
      session,
      json: { name: "Own", issuer: issuer.url, clientId: issuer.clientId, clientSecret: issuer.clientSecret }
    })
    assert.strictEqual(status, 201, text)
    assert.notInclude(text, issuer.clientSecret)
    return { issuer, key: json.key, at: `/teams/${team.id}/sign-in/issuers/${json.key}` }
  })

/** Set-up, sign-in and sign-out, an invitation, a new password: pages and forms. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { ChangePassword, ResetPassword, Setup as SetupRequest, SignIn } from "#schema/SessionApi.ts"
import { AcceptInvitation } from "#schema/TeamsApi.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import { Setup } from "#src/credentials/Setup.ts"
import * as SessionCookie from "#src/http/SessionCookie.ts"
import { AccountPage, InvitePage, ResetPage, SetupPage, SignInPage } from "./AuthViews.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import { query } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import { action, anyone, button, page, person, plain, screen, show, to, within } from "./Routes.ts"
import type { Visitor } from "./Visit.ts"
import * as UseCases from "./UseCases.ts"

const cookie = Effect.zipWith(AppConfig, Authenticate, SessionCookie.make)

/** A form for a visitor without a session changes who the browser is: no other site may send it. */
const sameSite = within(anyone, () =>
  Effect.as(
    Effect.flatMap(cookie, ({ refuseCrossSite }) => refuseCrossSite),
    {}
  )
)

const isSetUp = Effect.flatMap(Setup, (setup) => setup.isDone)
const codeOf = Effect.map(query, (query) => query.text("code"))

interface AtVisitor {
  readonly who: Visitor
}

/** A new session counts from the next request: the answer that sets the cookie leads on to a page. */
const continueAt = (next: string) => Html.seeOther(Paths.isOwnPage(next) ? next : Paths.home)

const root = anyone(() => Effect.map(isSetUp, (done) => Html.seeOther(done ? Paths.home : "/setup")))

// --- setting up ---

const setupForm = screen(
  ({ who }: AtVisitor) => Effect.map(codeOf, (code) => ({ who, code })),
  ({ code, ...shown }) => (
    <SetupPage
      {...shown}
      code={shown.problem?._tag === "CREDENTIAL_INVALID" ? "" : (shown.form.filled("setupCode") ?? code)}
    />
  )
)
const setupPage = anyone((at) =>
  Effect.if(isSetUp, {
    onTrue: () => Effect.succeed(Html.seeOther(Paths.home)),
    onFalse: () => show(setupForm)(at)
  })
)
const completeSetup = action(sameSite, {
  decode: (form) =>
    Form.decode(SetupRequest)({
      setupCode: form.text("setupCode"),
      email: form.text("email"),
      name: form.text("name"),
      teamName: form.text("teamName"),
      password: form.text("password")
    }),
  run: (input) =>
    Effect.gen(function* () {
      const { session } = yield* UseCases.setup.complete(input)
      yield* (yield* cookie).set(session)
    }),
  done: () => Html.seeOther(Paths.start),
  again: setupForm
})

// --- signing in and out ---

const signInForm = screen(
  ({ who }: AtVisitor) => Effect.map(query, (query) => ({ who, next: query.text("next") })),
  ({ next: inQuery, ...shown }) => {
    const next = shown.form.filled("next") ?? inQuery
    return <SignInPage {...shown} next={Paths.isOwnPage(next) ? next : ""} />
  }
)
const signInPage = anyone((at) =>
  Effect.gen(function* () {
    if (!(yield* isSetUp)) return Html.seeOther("/setup")
    const next = (yield* query).text("next")
    if ((yield* (yield* cookie).signedIn) !== null && !next.startsWith("/invite")) return continueAt(next)
    return yield* show(signInForm)(at)
  })
)
const signIn = action(sameSite, {
  decode: (form) =>
    Effect.map(Form.decode(SignIn)({ email: form.text("email"), password: form.text("password") }), (input) => ({
      input,
      next: form.text("next")
    })),
  run: ({ input }) =>
    Effect.gen(function* () {
      const { presented, set } = yield* cookie
      yield* set((yield* UseCases.sessions.signIn(input, yield* presented)).session)
    }),
  done: (_, __, { next }) => continueAt(next),
  again: signInForm
})
const signOut = button(person, {
  run: ({ visit }) =>
    Effect.gen(function* () {
      yield* UseCases.sessions.end(visit.caller)
      yield* (yield* cookie).clear
    }),
  done: () => to(Paths.signIn, "signed-out")
})

// --- an invitation ---

const inviteForm = (code: string) =>
  screen(
    ({ who }: AtVisitor) =>
      Effect.gen(function* () {
        const invitation = yield* UseCases.invitations.preview(Redacted.make(code))
        const signedIn = yield* (yield* cookie).signedIn
        return { who, code, invitation, signedInAs: signedIn?.user?.email ?? null }
      }),
    InvitePage
  )
const invitePage = anyone((at) => Effect.flatMap(codeOf, (code) => show(inviteForm(code))(at)))
const acceptInvitation = action(sameSite, {
  decode: (form) =>
    Effect.gen(function* () {
      const code = form.text("code")
      const signedIn = yield* (yield* cookie).signedIn
      const account = { name: form.text("name"), password: form.text("password") }
      const input = yield* Form.decode(AcceptInvitation)({ code, ...(signedIn === null ? account : {}) })
      return { input, signedIn }
    }),
  run: ({ input, signedIn }) =>
    Effect.gen(function* () {
      const { session } = yield* UseCases.invitations.accept(input, signedIn)
      if (Option.isSome(session)) yield* (yield* cookie).set(session.value)
    }),
  done: () => to(Paths.home, "joined"),
  again: (at, attempt) => inviteForm(attempt.form.text("code"))(at, attempt)
})

// --- a new password ---

const resetForm = screen(
  ({ who }: AtVisitor) => Effect.map(codeOf, (code) => ({ who, code })),
  ({ code, ...shown }) => <ResetPage {...shown} code={shown.form.filled("code") ?? code} />
)
const reset = action(sameSite, {
  decode: (form) => Form.decode(ResetPassword)({ code: form.text("code"), newPassword: form.text("newPassword") }),
  run: (input) => UseCases.sessions.resetPassword(input),
  done: () => to(Paths.signIn, "password-set"),
  again: resetForm
})

const account = plain(AccountPage)
const changePassword = action(person, {
  decode: (form) =>
    Form.decode(ChangePassword)({
      currentPassword: form.text("currentPassword"),
      newPassword: form.text("newPassword")
    }),
  run: (input, { visit }) =>
    Effect.gen(function* () {
      const session = yield* UseCases.sessions.changePassword(visit.caller, input)
      yield* (yield* cookie).set(session)
    }),
  done: () => to(Paths.account, "password-changed"),
  again: account
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/", root),
  HttpRouter.get("/setup", setupPage),
  HttpRouter.post("/app/setup", completeSetup),
  HttpRouter.get(Paths.signIn, signInPage),
  HttpRouter.post(Paths.signIn, signIn),
  HttpRouter.post(Paths.signOut, signOut),
  HttpRouter.get("/invite", invitePage),
  HttpRouter.post("/app/invite", acceptInvitation),
  HttpRouter.get("/reset", page(anyone, resetForm)),
  HttpRouter.post("/app/reset", reset),
  HttpRouter.get(Paths.account, page(person, account)),
  HttpRouter.post(Paths.account, changePassword)
)

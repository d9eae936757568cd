/** Pages and forms of the setup, sign-in, sign-out, invitations and new passwords. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { ResetPassword, Setup as SetupRequest, SignIn } from "#schema/SessionApi.ts"
import { AcceptInvitation } from "#schema/TeamsApi.ts"
import { addressOf } from "#schema/Values.ts"
import { Setup } from "#src/credentials/Setup.ts"
import { WayOutFacts } from "#src/dashboard/frame/WayOutFacts.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { cookie, sameSite } from "#src/dashboard/frame/Cookies.ts"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { Card } from "#src/dashboard/frame/Layout.tsx"
import { query } from "#src/dashboard/frame/Pages.ts"
import { General, NewPassword } from "./PasswordFields.tsx"
import { offeredIssuers } from "./IssuerButtons.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { action, anyone, type Attempt, button, page, person, screen, show, to } from "#src/dashboard/frame/Routes.ts"
import { SignInPage } from "./SignInView.tsx"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import type { Visitor } from "#src/dashboard/frame/Visit.ts"

interface CardProps extends Attempt {
  readonly visitor: Visitor
}

/** `code` comes from the link. After a refused code, the form has a field for another one. */
const SetupPage = ({ code, form, problem, visitor }: CardProps & { readonly code: string }) => (
  <Card
    visitor={visitor}
    title="Set up this server"
    lead="You create the first account and the first team, and become the owner of that team."
  >
    <form method="post" action="/app/setup">
      <General problem={problem} fields={["name", "email", "password", "teamName"]} />
      {code === "" ? (
        <Ui.TextField
          name="setupCode"
          label="Setup code"
          mono
          focus
          hint="The server printed it when it started. It is also in the file setup-url in the data folder."
          problem={problem}
        />
      ) : (
        <input type="hidden" name="setupCode" value={code} />
      )}
      <Ui.TextField
        name="name"
        label="Your name"
        autocomplete="name"
        value={form.text("name")}
        focus={code !== ""}
        problem={problem}
      />
      <Ui.TextField
        name="email"
        label="E-mail address"
        type="email"
        autocomplete="username"
        value={form.text("email")}
        problem={problem}
      />
      <NewPassword name="password" problem={problem} />
      <Ui.TextField
        name="teamName"
        label="Name of your team"
        autocomplete="organization"
        value={form.text("teamName")}
        hint="Projects, tokens and members belong to a team. You can rename it later."
        problem={problem}
      />
      <Ui.Submit>Set up</Ui.Submit>
    </form>
  </Card>
)

interface Invitation {
  readonly email: string
  readonly role: string
  readonly teamName: string
}

const SignInToJoin = ({ code }: { readonly code: string }) => (
  <Ui.LinkButton href={`${Paths.signIn}?next=${encodeURIComponent(`/invite?code=${code}`)}`}>Sign in</Ui.LinkButton>
)

const NewAccountFields = ({ form, problem }: Attempt) => (
  <>
    <p>If this address has an account here, sign in with it. If not, create one:</p>
    <Ui.TextField name="name" label="Your name" autocomplete="name" value={form.text("name")} focus problem={problem} />
    <NewPassword name="password" problem={problem} />
  </>
)

const InvitePage = ({
  code,
  form,
  invitation,
  problem,
  signedInAs,
  visitor
}: CardProps & {
  readonly code: string
  readonly invitation: Invitation
  readonly signedInAs: string | null
}) => (
  <Card
    visitor={visitor}
    title={`Join ${invitation.teamName}`}
    lead={
      <>
        You are invited as <strong>{invitation.role}</strong>, with the address <strong>{invitation.email}</strong>.
      </>
    }
  >
    {signedInAs !== null && addressOf(signedInAs) !== invitation.email ? (
      <>
        <p>
          You are signed in as {signedInAs}, but the invitation is for another address. Sign in with that address, or
          sign out and open the link again.
        </p>
        <form method="post" action={Paths.signOut}>
          <div class="buttons">
            <SignInToJoin code={code} />
            <button class="button button-plain">Sign out</button>
          </div>
        </form>
      </>
    ) : (
      <form method="post" action="/app/invite">
        <General problem={problem} fields={["name", "password"]} />
        <input type="hidden" name="code" value={code} />
        {signedInAs === null ? <NewAccountFields form={form} problem={problem} /> : null}
        <div class="buttons">
          <button class="button button-primary">
            {signedInAs === null ? "Create the account and join" : "Join the team"}
          </button>
          {signedInAs === null ? <SignInToJoin code={code} /> : null}
        </div>
      </form>
    )}
  </Card>
)

const ResetPage = ({ code, problem, visitor }: CardProps & { readonly code: string }) => (
  <Card
    visitor={visitor}
    title="Set a new password"
    lead="Then sign in with it. The page after that lists what is out of use, and you confirm or remove each."
  >
    <form method="post" action="/app/reset">
      <General problem={problem} fields={["newPassword"]} />
      <input type="hidden" name="code" value={code} />
      <NewPassword name="newPassword" focus problem={problem} />
      <WayOutFacts of="reset_link" />
      <Ui.Submit>Set the password</Ui.Submit>
    </form>
  </Card>
)

const isSetUp = Effect.flatMap(Setup, (setup) => setup.isDone)
const codeOf = Effect.map(query, (query) => query.text("code"))

interface AtVisitor {
  readonly visitor: Visitor
}

/** Redirects after the cookie is set, because a new session counts from the next request. */
export const continueAt = (next: string) => Html.seeOther(Paths.isOwnPage(next) ? next : Paths.home)

const root = anyone(() => Effect.map(isSetUp, (hasOwner) => Html.seeOther(hasOwner ? Paths.home : "/setup")))

// --- setting up ---

const setupForm = screen(
  ({ visitor }: AtVisitor) => Effect.map(codeOf, (code) => ({ visitor, code })),
  ({ code, ...props }) => (
    <SetupPage
      {...props}
      code={props.problem?._tag === "CREDENTIAL_INVALID" ? "" : (props.form.filled("setupCode") ?? code)}
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

export const signInForm = screen(
  ({ visitor }: AtVisitor) =>
    Effect.gen(function* () {
      const parameters = yield* query
      const takesPasskeys = yield* UseCases.passkeys.isAvailable()
      return {
        visitor,
        next: parameters.text("next"),
        takesPasskeys,
        ...(yield* offeredIssuers(parameters.text("team")))
      }
    }),
  ({ next: inQuery, ...props }) => {
    const next = props.form.filled("next") ?? inQuery
    return <SignInPage {...props} next={Paths.isOwnPage(next) ? next : ""} />
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
      const { presented, set, setStep } = yield* cookie
      const attempt = yield* UseCases.sessions.begin(input, yield* presented)
      yield* "step" in attempt ? setStep(attempt.step) : set(attempt.session)
      return "step" in attempt ? (attempt.recovery ? Paths.signInRecovery : Paths.signInCode) : null
    }),
  done: (step, _, { next }) =>
    step === null ? continueAt(next) : Html.seeOther(Paths.withQuery(step, next === "" ? {} : { next })),
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
    ({ visitor }: AtVisitor) =>
      Effect.gen(function* () {
        const invitation = yield* UseCases.invitations.preview(Redacted.make(code))
        const signedIn = yield* (yield* cookie).signedIn
        return { visitor, code, invitation, signedInAs: signedIn?.user?.email ?? null }
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
  ({ visitor }: AtVisitor) => Effect.map(codeOf, (code) => ({ visitor, code })),
  ({ code, ...props }) => <ResetPage {...props} code={props.form.filled("code") ?? code} />
)
const reset = action(sameSite, {
  decode: (form) => Form.decode(ResetPassword)({ code: form.text("code"), newPassword: form.text("newPassword") }),
  run: (input) => UseCases.sessions.resetPassword(input),
  done: () => to(Paths.signIn, "password-set"),
  again: resetForm
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
  HttpRouter.post("/app/reset", reset)
)

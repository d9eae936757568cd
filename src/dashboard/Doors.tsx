/** Ways in and out: the setup link, signing in, an invitation, a new password, signing out. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { AnyApiError } from "#schema/ApiError.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import { ChangePassword, ResetPassword, Setup as SetupRequest, SignIn } from "#schema/SessionApi.ts"
import { AcceptInvitation } from "#schema/TeamsApi.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import { Sessions } from "#src/credentials/Sessions.ts"
import { Setup } from "#src/credentials/Setup.ts"
import * as SessionCookie from "#src/http/SessionCookie.ts"
import { Invitations } from "#src/projects/Invitations.ts"
import { ProblemNote, TextField } from "./Components.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import { Card, Layout } from "./Layout.tsx"
import { withNotice } from "./Notices.ts"
import { attempt, type Pages, query, shown } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import type { Visit, Visitor } from "./Visit.ts"

interface Shown {
  readonly who: Visitor
  readonly problem?: AnyApiError | undefined
}

const passwordHint = "At least 12 characters. A sentence that only you would write is good."
const again = "Passwords are never sent back to a page. Please enter it again."
const passwordHintAfter = (problem: AnyApiError | undefined) =>
  problem === undefined ? passwordHint : `${passwordHint} ${again}`

/** Problems that no field shows. */
const General = ({
  fields,
  problem
}: {
  readonly problem: AnyApiError | undefined
  readonly fields: ReadonlyArray<string>
}) => (problem?.field !== undefined && fields.includes(problem.field) ? null : <ProblemNote problem={problem} />)

const SetupPage = ({
  code,
  email = "",
  name = "",
  problem,
  teamName = "",
  who
}: Shown & { readonly code: string; readonly email?: string; readonly name?: string; readonly teamName?: string }) => (
  <Card
    who={who}
    title="Set this server up"
    lead="You become the first owner: of the server’s first team, and of whatever you put into it."
  >
    <form method="post" action="/app/setup">
      <General problem={problem} fields={["name", "email", "password", "teamName"]} />
      {code === "" ? (
        <TextField
          name="setupCode"
          label="Setup code"
          mono
          focus
          hint="The server printed it at its start, and keeps it in the file setup-url of its data folder."
          problem={problem}
        />
      ) : (
        <input type="hidden" name="setupCode" value={code} />
      )}
      <TextField name="name" label="Your name" autocomplete="name" value={name} focus={code !== ""} problem={problem} />
      <TextField
        name="email"
        label="E-mail address"
        type="email"
        autocomplete="username"
        value={email}
        problem={problem}
      />
      <TextField
        name="password"
        label="Password"
        type="password"
        autocomplete="new-password"
        hint={passwordHintAfter(problem)}
        problem={problem}
      />
      <TextField
        name="teamName"
        label="Name of your team"
        autocomplete="organization"
        value={teamName}
        hint="Projects, tokens and members belong to a team. You can rename it later."
        problem={problem}
      />
      <div class="buttons">
        <button class="button button-primary">Set up</button>
      </div>
    </form>
  </Card>
)

const SignInPage = ({
  email = "",
  next = "",
  problem,
  who
}: Shown & { readonly email?: string; readonly next?: string }) => (
  <Card
    who={who}
    title="Sign in"
    lead={next.startsWith("/device") ? "Then you can decide about the login of your command line." : undefined}
  >
    <form method="post" action={Paths.signIn}>
      <ProblemNote problem={problem} />
      <input type="hidden" name="next" value={next} />
      <TextField
        name="email"
        label="E-mail address"
        type="email"
        autocomplete="username"
        value={email}
        focus={email === ""}
      />
      <TextField
        name="password"
        label="Password"
        type="password"
        autocomplete="current-password"
        focus={email !== ""}
      />
      <div class="buttons">
        <button class="button button-primary">Sign in</button>
      </div>
    </form>
    <p class="card-foot">Password forgotten? An owner or admin of your team can make you a link that sets a new one.</p>
  </Card>
)

interface Invitation {
  readonly email: string
  readonly role: string
  readonly teamName: string
}

const SignInToJoin = ({ code }: { readonly code: string }) => (
  <a class="button button-plain" href={`${Paths.signIn}?next=${encodeURIComponent(`/invite?code=${code}`)}`}>
    Sign in
  </a>
)

const InvitePage = ({
  code,
  invitation,
  name = "",
  problem,
  signedInAs,
  who
}: Shown & {
  readonly code: string
  readonly invitation: Invitation
  readonly signedInAs: string | null
  readonly name?: string
}) => (
  <Card
    who={who}
    title={`Join ${invitation.teamName}`}
    lead={
      <>
        You are invited as <strong>{invitation.role}</strong>, with the address <strong>{invitation.email}</strong>.
      </>
    }
  >
    {signedInAs !== null && signedInAs !== invitation.email ? (
      <>
        <p>
          You are signed in as {signedInAs}, and the invitation is for another address. Sign in with that address, or
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
        {signedInAs === null ? (
          <>
            <p>If this address has an account here, sign in with it. If not, create one:</p>
            <TextField name="name" label="Your name" autocomplete="name" value={name} focus problem={problem} />
            <TextField
              name="password"
              label="Password"
              type="password"
              autocomplete="new-password"
              hint={passwordHintAfter(problem)}
              problem={problem}
            />
          </>
        ) : null}
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

const ResetPage = ({ code, problem, who }: Shown & { readonly code: string }) => (
  <Card
    who={who}
    title="Set a new password"
    lead="This ends your sessions, CLI logins and connected agents, and revokes the API tokens that you created."
  >
    <form method="post" action="/app/reset">
      <General problem={problem} fields={["newPassword"]} />
      <input type="hidden" name="code" value={code} />
      <TextField
        name="newPassword"
        label="New password"
        type="password"
        autocomplete="new-password"
        focus
        hint={passwordHintAfter(problem)}
        problem={problem}
      />
      <div class="buttons">
        <button class="button button-primary">Set the password</button>
      </div>
    </form>
  </Card>
)

const AccountPage = ({ problem, visit }: { readonly visit: Visit; readonly problem?: AnyApiError | undefined }) => (
  <Layout visit={visit} section="account" title="Password" lead={`You are ${visit.user.name}, ${visit.user.email}.`}>
    <form method="post" action={Paths.account} class="panel narrow">
      <General problem={problem} fields={["currentPassword", "newPassword"]} />
      {/* Password managers need the name that goes with the password. */}
      <input hidden type="email" name="email" value={visit.user.email} autocomplete="username" readonly />
      <TextField
        name="currentPassword"
        label="Current password"
        type="password"
        autocomplete="current-password"
        problem={problem}
      />
      <TextField
        name="newPassword"
        label="New password"
        type="password"
        autocomplete="new-password"
        hint={passwordHintAfter(problem)}
        problem={problem}
      />
      <p class="hint">
        This ends your other sessions, CLI logins and connected agents, and revokes the API tokens that you created.
      </p>
      <div class="buttons">
        <button class="button button-primary">Change the password</button>
      </div>
    </form>
  </Layout>
)

/** A new session counts from the next request: the answer that sets the cookie leads on to a page. */
const into = (next: string) => Html.seeOther(Paths.isOwnPage(next) ? next : Paths.home)

export const routes = (pages: Pages["Type"]) =>
  Effect.gen(function* () {
    const sessions = yield* Sessions
    const setup = yield* Setup
    const invitations = yield* Invitations
    const cookie = SessionCookie.make(yield* AppConfig, yield* Authenticate)

    const root = pages.open(() => Effect.map(setup.isDone, (done) => Html.seeOther(done ? Paths.home : "/setup")))

    const setupPage = pages.open((who) =>
      Effect.gen(function* () {
        if (yield* setup.isDone) return Html.seeOther(Paths.home)
        return Html.page(<SetupPage who={who} code={(yield* query).text("code")} />)
      })
    )
    const completeSetup = pages.open((who) =>
      Effect.gen(function* () {
        yield* cookie.refuseCrossSite
        const form = yield* Form.read
        const [code, email, name, teamName] = ["setupCode", "email", "name", "teamName"].map((field) =>
          form.text(field)
        )
        const done = yield* attempt(
          Form.decode(SetupRequest)({ setupCode: code, email, name, teamName, password: form.text("password") }).pipe(
            Effect.flatMap(setup.complete)
          )
        )
        if (Either.isLeft(done)) {
          const shownCode = done.left._tag === "CREDENTIAL_INVALID" ? "" : code
          return shown(
            <SetupPage who={who} code={shownCode} email={email} name={name} teamName={teamName} problem={done.left} />,
            done.left
          )
        }
        yield* cookie.set(done.right.session)
        return Html.seeOther(Paths.start)
      })
    )

    const signInPage = pages.open((who) =>
      Effect.gen(function* () {
        if (!(yield* setup.isDone)) return Html.seeOther("/setup")
        const next = (yield* query).text("next")
        if ((yield* cookie.signedIn) !== null && !next.startsWith("/invite")) return into(next)
        return Html.page(<SignInPage who={who} next={Paths.isOwnPage(next) ? next : ""} />)
      })
    )
    const signIn = pages.open((who) =>
      Effect.gen(function* () {
        yield* cookie.refuseCrossSite
        const form = yield* Form.read
        const email = form.text("email")
        const next = form.text("next")
        const opened = yield* attempt(
          Effect.flatMap(Form.decode(SignIn)({ email, password: form.text("password") }), (input) =>
            Effect.flatMap(cookie.presented, (before) => sessions.signIn(input, before))
          )
        )
        if (Either.isLeft(opened)) {
          return shown(
            <SignInPage who={who} email={email} next={Paths.isOwnPage(next) ? next : ""} problem={opened.left} />,
            opened.left
          )
        }
        yield* cookie.set(opened.right.session)
        return into(next)
      })
    )
    const signOut = pages.person(() =>
      Effect.gen(function* () {
        yield* sessions.end(yield* CurrentCaller)
        yield* cookie.clear
        return Html.seeOther(withNotice(Paths.signIn, "signed-out"))
      })
    )

    const invitePage = pages.open((who) =>
      Effect.gen(function* () {
        const code = (yield* query).text("code")
        const invitation = yield* invitations.preview(Redacted.make(code))
        const signedIn = yield* cookie.signedIn
        return Html.page(
          <InvitePage who={who} code={code} invitation={invitation} signedInAs={signedIn?.user?.email ?? null} />
        )
      })
    )
    const acceptInvitation = pages.open((who) =>
      Effect.gen(function* () {
        yield* cookie.refuseCrossSite
        const form = yield* Form.read
        const code = form.text("code")
        const invitation = yield* invitations.preview(Redacted.make(code))
        const signedIn = yield* cookie.signedIn
        const name = form.text("name")
        const joined = yield* attempt(
          Form.decode(AcceptInvitation)(
            signedIn === null ? { code, name, password: form.text("password") } : { code }
          ).pipe(Effect.flatMap((input) => invitations.accept(input, signedIn)))
        )
        if (Either.isLeft(joined)) {
          return shown(
            <InvitePage
              who={who}
              code={code}
              invitation={invitation}
              signedInAs={signedIn?.user?.email ?? null}
              name={name}
              problem={joined.left}
            />,
            joined.left
          )
        }
        if (Option.isSome(joined.right.session)) yield* cookie.set(joined.right.session.value)
        return Html.seeOther(withNotice(Paths.home, "joined"))
      })
    )

    const resetPage = pages.open((who) =>
      Effect.map(query, (asked) => Html.page(<ResetPage who={who} code={asked.text("code")} />))
    )
    const reset = pages.open((who) =>
      Effect.gen(function* () {
        yield* cookie.refuseCrossSite
        const form = yield* Form.read
        const code = form.text("code")
        const changed = yield* attempt(
          Effect.flatMap(
            Form.decode(ResetPassword)({ code, newPassword: form.text("newPassword") }),
            sessions.resetPassword
          )
        )
        return Either.isLeft(changed)
          ? shown(<ResetPage who={who} code={code} problem={changed.left} />, changed.left)
          : Html.seeOther(withNotice(Paths.signIn, "password-set"))
      })
    )

    const accountPage = pages.person((visit) => Effect.succeed(Html.page(<AccountPage visit={visit} />)))
    const changePassword = pages.person((visit) =>
      Effect.gen(function* () {
        const form = yield* Form.read
        const changed = yield* attempt(
          Form.decode(ChangePassword)({
            currentPassword: form.text("currentPassword"),
            newPassword: form.text("newPassword")
          }).pipe(Effect.flatMap((input) => sessions.changePassword(visit.caller, input)))
        )
        if (Either.isLeft(changed)) return shown(<AccountPage visit={visit} problem={changed.left} />, changed.left)
        yield* cookie.set(changed.right)
        return Html.seeOther(withNotice(Paths.account, "password-changed"))
      })
    )

    return HttpRouter.empty.pipe(
      HttpRouter.get("/", root),
      HttpRouter.get("/setup", setupPage),
      HttpRouter.post("/app/setup", completeSetup),
      HttpRouter.get(Paths.signIn, signInPage),
      HttpRouter.post(Paths.signIn, signIn),
      HttpRouter.post(Paths.signOut, signOut),
      HttpRouter.get("/invite", invitePage),
      HttpRouter.post("/app/invite", acceptInvitation),
      HttpRouter.get("/reset", resetPage),
      HttpRouter.post("/app/reset", reset),
      HttpRouter.get(Paths.account, accountPage),
      HttpRouter.post(Paths.account, changePassword)
    )
  })

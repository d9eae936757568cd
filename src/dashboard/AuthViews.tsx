/** Pages that open or change a session: set-up, sign-in, an invitation, a new password. */
import type { AnyApiError } from "#schema/ApiError.ts"
import { LinkButton, ProblemNote, Submit, TextField } from "./Components.tsx"
import { Card, Layout } from "./Layout.tsx"
import * as Paths from "./Paths.ts"
import type { Attempt } from "./Routes.ts"
import type { Visit, Visitor } from "./Visit.ts"

interface Shown extends Attempt {
  readonly who: Visitor
}

const passwordHint = "At least 12 characters. A sentence that only you would write works well."
const enterAgain = "The server does not send passwords back to the page. Please enter it again."
const passwordHintAfter = (problem: AnyApiError | undefined) =>
  problem === undefined ? passwordHint : `${passwordHint} ${enterAgain}`

/** Problems that no field shows. */
const General = ({
  fields,
  problem
}: {
  readonly problem: AnyApiError | undefined
  readonly fields: ReadonlyArray<string>
}) => (problem?.field !== undefined && fields.includes(problem.field) ? null : <ProblemNote problem={problem} />)

/** `code`: from the link; after a refused code, the form has a field for another one. */
export const SetupPage = ({ code, form, problem, who }: Shown & { readonly code: string }) => (
  <Card
    who={who}
    title="Set up this server"
    lead="You create the first account and the first team, and become the owner of that team."
  >
    <form method="post" action="/app/setup">
      <General problem={problem} fields={["name", "email", "password", "teamName"]} />
      {code === "" ? (
        <TextField
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
      <TextField
        name="name"
        label="Your name"
        autocomplete="name"
        value={form.text("name")}
        focus={code !== ""}
        problem={problem}
      />
      <TextField
        name="email"
        label="E-mail address"
        type="email"
        autocomplete="username"
        value={form.text("email")}
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
        value={form.text("teamName")}
        hint="Projects, tokens and members belong to a team. You can rename it later."
        problem={problem}
      />
      <Submit>Set up</Submit>
    </form>
  </Card>
)

/** `next`: the page to continue with, or nothing. */
export const SignInPage = ({ form, next, problem, who }: Shown & { readonly next: string }) => (
  <Card
    who={who}
    title="Sign in"
    lead={next.startsWith("/device") ? "After that, you can approve the login of your command line." : undefined}
  >
    <form method="post" action={Paths.signIn}>
      <ProblemNote problem={problem} />
      <input type="hidden" name="next" value={next} />
      <TextField
        name="email"
        label="E-mail address"
        type="email"
        autocomplete="username"
        value={form.text("email")}
        focus={form.text("email") === ""}
      />
      <TextField
        name="password"
        label="Password"
        type="password"
        autocomplete="current-password"
        focus={form.text("email") !== ""}
      />
      <Submit>Sign in</Submit>
    </form>
    <p class="card-foot">Forgot your password? Ask an owner or admin of your team for a link to set a new one.</p>
  </Card>
)

interface Invitation {
  readonly email: string
  readonly role: string
  readonly teamName: string
}

const SignInToJoin = ({ code }: { readonly code: string }) => (
  <LinkButton href={`${Paths.signIn}?next=${encodeURIComponent(`/invite?code=${code}`)}`}>Sign in</LinkButton>
)

const NewAccountFields = ({ form, problem }: Attempt) => (
  <>
    <p>If this address has an account here, sign in with it. If not, create one:</p>
    <TextField name="name" label="Your name" autocomplete="name" value={form.text("name")} focus problem={problem} />
    <TextField
      name="password"
      label="Password"
      type="password"
      autocomplete="new-password"
      hint={passwordHintAfter(problem)}
      problem={problem}
    />
  </>
)

export const InvitePage = ({
  code,
  form,
  invitation,
  problem,
  signedInAs,
  who
}: Shown & {
  readonly code: string
  readonly invitation: Invitation
  readonly signedInAs: string | null
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

export const ResetPage = ({ code, problem, who }: Shown & { readonly code: string }) => (
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
      <Submit>Set the password</Submit>
    </form>
  </Card>
)

export const AccountPage = ({ problem, visit }: Attempt & { readonly visit: Visit }) => (
  <Layout
    visit={visit}
    section="account"
    title="Password"
    lead={`You are signed in as ${visit.user.name}, ${visit.user.email}.`}
  >
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
      <Submit>Change the password</Submit>
    </form>
  </Layout>
)

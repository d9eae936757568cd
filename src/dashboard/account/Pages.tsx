/** A person's own name, e-mail address and password. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import { ChangeEmail, ChangeMe, ChangePassword } from "#schema/SessionApi.ts"
import { addressOf } from "#schema/Values.ts"
import { Beside } from "#src/dashboard/frame/Beside.tsx"
import { WayOutFacts } from "#src/dashboard/frame/WayOutFacts.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { cookie } from "#src/dashboard/frame/Cookies.ts"
import * as Form from "#src/dashboard/frame/Form.ts"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import { AddressPanel } from "./AddressPages.tsx"
import { General, NewPassword } from "./PasswordFields.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { action, type AtPerson, type Attempt, page, person, screen, to } from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import type { Visit } from "#src/dashboard/frame/Visit.ts"

const NameForm = ({ form, problem, visit }: Partial<Attempt> & { readonly visit: Visit }) => (
  <form method="post" action={Paths.accountName} class="panel">
    <h2>Name</h2>
    <General problem={problem} fields={["name"]} />
    <Ui.TextField
      name="name"
      label="Your name"
      autocomplete="name"
      value={form?.text("name") ?? visit.user.name}
      problem={problem}
    />
    <Ui.Submit>Save the name</Ui.Submit>
  </form>
)

const EmailForm = ({ form, problem, visit }: Partial<Attempt> & { readonly visit: Visit }) => (
  <form method="post" action={Paths.accountEmail} class="panel">
    <h2>E-mail address</h2>
    <General problem={problem} fields={["email", "currentPassword"]} />
    <Ui.TextField
      name="email"
      label="Your e-mail address"
      type="email"
      autocomplete="email"
      value={form?.text("email") ?? addressOf(visit.user.email)}
      problem={problem}
    />
    <Ui.TextField
      id="email-password"
      name="currentPassword"
      label="Current password"
      type="password"
      autocomplete="current-password"
      problem={problem}
    />
    <p class="hint">This ends your other sessions. Your current address gets a notice.</p>
    <Ui.Submit>Change the address</Ui.Submit>
  </form>
)

const PasswordForm = ({ problem, visit }: Partial<Attempt> & { readonly visit: Visit }) => (
  <form method="post" action={Paths.account} class="panel">
    <h2>Password</h2>
    <General problem={problem} fields={["currentPassword", "newPassword"]} />
    {/* Password managers need the name that goes with the password. */}
    <input hidden type="email" name="email" value={addressOf(visit.user.email)} autocomplete="username" readonly />
    <Ui.TextField
      name="currentPassword"
      label="Current password"
      type="password"
      autocomplete="current-password"
      problem={problem}
    />
    <NewPassword name="newPassword" problem={problem} />
    <p class="hint">
      You stay signed in here. The next page lists what is kept, so that you can remove what is not yours.
    </p>
    <WayOutFacts of="password_change" />
    <Ui.Submit>Change the password</Ui.Submit>
  </form>
)

const address =
  "You sign in with it, and your teams identify you by it. Each of them sees the change in its audit trail. If you sign in at an issuer and have no password, only the operator of the server can change it."

/** Name of the sent form, which is a field that only it has. */
const sentForm = (form: Form.Form) => (["name", "email", "newPassword"] as const).find((field) => form.has(field))

const AccountPage = ({
  address: state,
  form,
  problem,
  visit
}: Attempt & AtPerson & { readonly address: Parameters<typeof AddressPanel>[0] }) => {
  const formName = sentForm(form)
  return (
    <Layout
      visit={visit}
      section="account"
      title="Name, address and password"
      lead={`You are signed in as ${visit.user.name}, ${visit.user.email}.`}
    >
      <Beside
        words={[
          ["Your name", "Members of your teams see it next to your address."],
          ["Your e-mail address", address],
          [
            "More than a password",
            <>
              <a href={Paths.factors}>Passkeys and codes</a> make your sign-in safer.{" "}
              <a href={Paths.sessions}>Where you are signed in</a> lists your browsers.
            </>
          ]
        ]}
      >
        <NameForm visit={visit} {...(formName === "name" ? { form, problem } : {})} />
        <AddressPanel {...state} />
        <EmailForm visit={visit} {...(formName === "email" ? { form, problem } : {})} />
        <PasswordForm visit={visit} {...(formName === "newPassword" ? { problem } : {})} />
      </Beside>
    </Layout>
  )
}

const account = screen(
  ({ visit }: AtPerson) => Effect.map(UseCases.addressConfirmation.state(), (address) => ({ visit, address })),
  AccountPage
)
const changeName = action(person, {
  decode: (form) => Form.decode(ChangeMe)({ name: form.text("name") }),
  run: (input) => UseCases.profile.change(input),
  done: () => to(Paths.account, "name-changed"),
  again: account
})
const changeEmail = action(person, {
  decode: (form) =>
    Form.decode(ChangeEmail)({ email: form.text("email"), currentPassword: form.text("currentPassword") }),
  run: (input) =>
    Effect.gen(function* () {
      const { presented, set } = yield* cookie
      yield* set((yield* UseCases.emailAddress.change(input, yield* presented)).session)
    }),
  done: () => to(Paths.account, "email-changed"),
  again: account
})
const changePassword = action(person, {
  decode: (form) =>
    Form.decode(ChangePassword)({
      currentPassword: form.text("currentPassword"),
      newPassword: form.text("newPassword")
    }),
  run: (input, { visit }) =>
    Effect.gen(function* () {
      const { session } = yield* UseCases.sessions.changePassword(visit.caller, input)
      yield* (yield* cookie).set(session)
    }),
  // The page lists the remaining ways in, for the person to keep or to remove.
  done: () => to(Paths.waysIn, "password-changed"),
  again: account
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get(Paths.account, page(person, account)),
  HttpRouter.post(Paths.account, changePassword),
  HttpRouter.post(Paths.accountName, changeName),
  HttpRouter.post(Paths.accountEmail, changeEmail)
)

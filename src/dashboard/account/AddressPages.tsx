/** The witness of a person's e-mail address, and its confirmation by a link. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import { query } from "#src/dashboard/frame/Pages.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { action, type Attempt, type AtPerson, page, person, screen, to } from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import { General } from "./PasswordFields.tsx"

type State = Effect.Effect.Success<ReturnType<typeof UseCases.addressConfirmation.state>>

const witnesses = {
  issuer: "An issuer of this server vouches for it.",
  mailbox: "You confirmed it from its mailbox.",
  operator: "The operator of this server vouches for it."
} as const

const meaning = ({ vouchedBy }: State) =>
  vouchedBy === null
    ? "The account is older than this check, so the address counts as confirmed."
    : "No witness vouches for it yet. Until then another person can get an account with the same address, and yours is then shown with the name of the team that made it."

const Unconfirmed = (state: State) => (
  <>
    <p>{meaning(state)}</p>
    {state.sendsMail ? (
      <form method="post" action={Paths.addressLink}>
        <p class="hint">The link is good for a day, in a browser that is signed in to this account.</p>
        <Ui.Submit>Send a confirmation link</Ui.Submit>
      </form>
    ) : (
      <p>This server sends no e-mail. Its operator can confirm your address.</p>
    )}
  </>
)

/** Part of the account page: the address and its witness. */
export const AddressPanel = (state: State) => (
  <section class="panel">
    <h2>Confirmation of your address</h2>
    <p>
      <strong>{state.address}</strong>
    </p>
    {state.vouchedBy === null || state.vouchedBy === "none" ? (
      <Unconfirmed {...state} />
    ) : (
      <p>{witnesses[state.vouchedBy]}</p>
    )}
  </section>
)

const ConfirmPage = ({
  address,
  code,
  form,
  problem,
  visit
}: Attempt & AtPerson & State & { readonly code: string }) => (
  <Layout visit={visit} section="account" title="Confirm your e-mail address">
    <form method="post" action={Paths.addressConfirm} class="panel">
      <General problem={problem} fields={[]} />
      <p>
        You are signed in as {visit.user.name}. Confirm that <strong>{address}</strong> is your address, and that you
        made this account.
      </p>
      <input type="hidden" name="code" value={form.filled("code") ?? code} />
      <Ui.Submit>Confirm the address</Ui.Submit>
    </form>
  </Layout>
)

const confirmForm = screen(
  ({ visit }: AtPerson) =>
    Effect.gen(function* () {
      return { visit, ...(yield* UseCases.addressConfirmation.state()), code: (yield* query).text("code") }
    }),
  ConfirmPage
)
const confirm = action(person, {
  decode: (form) => Effect.succeed(form.text("code")),
  run: (code) => UseCases.addressConfirmation.confirm(code),
  done: () => to(Paths.account, "address-confirmed"),
  again: confirmForm
})
const sendLink = action(person, {
  decode: () => Effect.void,
  run: () => UseCases.addressConfirmation.send(),
  done: () => to(Paths.account, "confirmation-sent")
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.post(Paths.addressLink, sendLink),
  HttpRouter.get(Paths.addressConfirm, page(person, confirmForm)),
  HttpRouter.post(Paths.addressConfirm, confirm)
)

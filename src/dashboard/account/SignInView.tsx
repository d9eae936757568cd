/** The sign-in page: a password, a passkey, a button per issuer. */
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { IssuerButtons, type OfferedIssuer } from "./IssuerButtons.tsx"
import { Card } from "#src/dashboard/frame/Layout.tsx"
import { PasskeyForm } from "./PasskeyViews.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import type { Attempt } from "#src/dashboard/frame/Routes.ts"
import type { Visitor } from "#src/dashboard/frame/Visit.ts"

/** `next` is the page to continue with, or empty. */
export const SignInPage = ({
  alone,
  form,
  issuers,
  next,
  problem,
  takesPasskeys,
  visitor
}: Attempt & {
  readonly visitor: Visitor
  readonly next: string
  readonly takesPasskeys: boolean
  readonly issuers: ReadonlyArray<OfferedIssuer>
  /** True if the team of this page accepts only these issuers. */
  readonly alone: boolean
}) => (
  <Card
    visitor={visitor}
    title="Sign in"
    lead={next.startsWith("/device") ? "After that, you can approve the login of your command line." : undefined}
  >
    {alone ? (
      <div class="issuers-first">
        <IssuerButtons issuers={issuers} next={next} primary />
        <p class="hint">
          This team accepts only {issuers.length === 0 ? "an issuer that is disabled now" : "these sign-ins"}. A
          password or a passkey opens your account, where you can link one of them, but not the team. If you are one of
          the team's emergency accounts, sign in with your password here.
        </p>
      </div>
    ) : null}
    <form method="post" action={Paths.signIn}>
      <Ui.ProblemNote problem={problem} />
      <input type="hidden" name="next" value={next} />
      <Ui.TextField
        name="email"
        label="E-mail address"
        type="email"
        autocomplete="username webauthn"
        value={form.text("email")}
        focus={form.text("email") === ""}
      />
      <Ui.TextField
        name="password"
        label="Password"
        type="password"
        autocomplete="current-password"
        focus={form.text("email") !== ""}
      />
      <Ui.Submit>Sign in</Ui.Submit>
    </form>
    {takesPasskeys ? (
      <PasskeyForm
        action={Paths.signInPasskey}
        begin={`${Paths.signInPasskey}/begin`}
        label="Sign in with a passkey"
        next={next}
        offered
      />
    ) : null}
    {alone ? null : <IssuerButtons issuers={issuers} next={next} />}
    <p class="card-foot">Forgot your password? Ask an owner or admin of your team for a link to set a new one.</p>
  </Card>
)

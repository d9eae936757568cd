/** Views of the pages about a second factor. */
import type { AnyApiError } from "#schema/ApiError.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as Carried from "#src/dashboard/frame/Carried.ts"
import * as CopyText from "#src/dashboard/frame/CopyText.tsx"
import { IssuerButtons, type OfferedIssuer } from "./IssuerButtons.tsx"
import { Card, Layout } from "#src/dashboard/frame/Layout.tsx"
import * as PasskeyViews from "./PasskeyViews.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { QrCode } from "./QrCode.tsx"
import type { Attempt } from "#src/dashboard/frame/Routes.ts"
import type { Visit, Visitor } from "#src/dashboard/frame/Visit.ts"

const CodeField = ({ hint, problem }: { readonly problem: AnyApiError | undefined; readonly hint: string }) => (
  <Ui.TextField
    name="code"
    label="Code"
    autocomplete="one-time-code"
    mono
    focus
    hint={hint}
    problem={problem?.field === undefined ? undefined : problem}
  />
)

const codeHint = "Six digits from your authenticator app, or one of your recovery codes."

/** The step between the password and the session. */
export const SecondStepPage = ({
  hasPasskey,
  next,
  problem,
  visitor
}: Attempt & { readonly visitor: Visitor; readonly next: string; readonly hasPasskey: boolean }) => (
  <Card
    visitor={visitor}
    title="Enter your code"
    lead="Your password is correct. This account also needs a second factor."
  >
    {hasPasskey ? (
      <PasskeyViews.PasskeyForm
        action={`${Paths.signInCode}/passkey`}
        begin={`${Paths.signInCode}/passkey/begin`}
        label="Use a passkey"
        next={next}
        primary
      />
    ) : null}
    <form method="post" action={Paths.signInCode}>
      <Ui.ProblemNote problem={problem?.field === "code" ? undefined : problem} />
      <input type="hidden" name="next" value={next} />
      <CodeField hint={codeHint} problem={problem} />
      <Ui.Submit cancel={Paths.signIn}>Sign in</Ui.Submit>
    </form>
    <p class="card-foot">
      Lost your phone and your recovery codes? The operator of this server can remove your second factor.
    </p>
  </Card>
)

const CarriedField = ({ carried }: { readonly carried: string }) =>
  carried === "" ? null : <input type="hidden" name={Carried.field} value={carried} />

/** After the confirmation: sends the form that waited. A script presses the button. */
export const ContinuePage = ({
  carried: { fields, to },
  visit
}: {
  readonly visit: Visit
  readonly carried: Carried.Carried
}) => (
  <Card visitor={visit} title="Confirmed" lead="Your entries go on to where you sent them.">
    <form method="post" action={to} data-continue>
      {fields.map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
      <Ui.Submit>Continue</Ui.Submit>
    </form>
  </Card>
)

/** Confirmation before an action for which a session alone does not suffice. */
export const ConfirmPage = ({
  asksPassword,
  carried,
  hasPasskey,
  isOn,
  issuers,
  next,
  problem,
  visit
}: Attempt & {
  readonly visit: Visit
  readonly isOn: boolean
  /** All factors are younger than a day: the password or an issuer is the proof. */
  readonly asksPassword: boolean
  readonly hasPasskey: boolean
  readonly next: string
  /** Text of the form that waits, or empty (`Carried.ts`). */
  readonly carried: string
  readonly issuers: ReadonlyArray<OfferedIssuer>
}) => (
  <Card
    visitor={visit}
    title="Confirm that it is you"
    lead={
      asksPassword
        ? "What you want to do asks for your password again: your passkeys and codes are younger than a day."
        : isOn
          ? "This action needs your second factor again, because the last time was a while ago."
          : "This action needs your password again, because you signed in a while ago."
    }
  >
    {hasPasskey ? (
      <PasskeyViews.PasskeyForm
        action={`${Paths.confirm}/passkey`}
        begin={`${Paths.confirm}/passkey/begin`}
        label="Use a passkey"
        next={next}
        primary
      >
        <CarriedField carried={carried} />
      </PasskeyViews.PasskeyForm>
    ) : null}
    <form method="post" action={Paths.confirm}>
      <CarriedField carried={carried} />
      <Ui.ProblemNote problem={problem?.field === "code" || problem?.field === "password" ? undefined : problem} />
      <input type="hidden" name="next" value={next} />
      {isOn && !asksPassword ? (
        <CodeField hint={codeHint} problem={problem} />
      ) : (
        <>
          <input hidden type="email" name="email" value={visit.user.email} autocomplete="username" readonly />
          <Ui.TextField
            name="password"
            label="Password"
            type="password"
            autocomplete="current-password"
            focus
            problem={problem}
          />
        </>
      )}
      <Ui.Submit cancel={next}>Confirm</Ui.Submit>
    </form>
    <IssuerButtons issuers={issuers} next={next} at={Paths.confirmWith} verb="Confirm with" />
  </Card>
)

interface Status {
  readonly isOn: boolean
  readonly app: {
    readonly id: string
    readonly createdAt: Date
    readonly lastUsedAt: Date | null
    readonly isYoung: boolean
  } | null
  readonly codesLeft: number
}

const NoApp = ({ isOn }: { readonly isOn: boolean }) => (
  <>
    <p class="hint">
      An authenticator app on your phone shows a new code every 30 seconds.{" "}
      {isOn ? "Use it where your passkey is not at hand." : "The sign-in asks for it after the password."}
    </p>
    <Ui.Act action={Paths.factorApp}>Set up an authenticator app</Ui.Act>
  </>
)

const App = ({ app, now }: { readonly app: NonNullable<Status["app"]>; readonly now: number }) => (
  <ul class="cards">
    <li class="project">
      <dl class="facts facts-small">
        <Ui.Fact name="Since" is={<Ui.Ago at={app.createdAt.toISOString()} now={now} />} />
        <Ui.Fact
          name="Last use"
          is={app.lastUsedAt === null ? "never" : <Ui.Ago at={app.lastUsedAt.toISOString()} now={now} />}
        />
      </dl>
      {app.isYoung ? <PasskeyViews.Young action={`${Paths.factorApp}/${app.id}/confirm`} /> : null}
      <div class="buttons">
        <Ui.Act action={Paths.factorApp} kind="quiet">
          Replace
        </Ui.Act>
        <Ui.Confirm
          action={`${Paths.factorApp}/remove`}
          label="Remove"
          of="the authenticator app"
          verb="Remove the app"
        >
          <p>Your other sessions end. Without another factor, your password alone will sign you in.</p>
        </Ui.Confirm>
      </div>
    </li>
  </ul>
)

const RecoveryCodes = ({ left }: { readonly left: number }) => (
  <section class="section" aria-labelledby="recovery-codes">
    <h2 id="recovery-codes">Recovery codes {left < 4 ? <Ui.Badge tone="amber">{`${left} left`}</Ui.Badge> : null}</h2>
    <p class="hint">{`${left} of 10 are unused. Each signs you in once, after your password, if you have no other factor at hand.`}</p>
    <Ui.Confirm action={Paths.recoveryCodes} label="Make new ones" verb="Make ten new codes" tone="plain">
      <p>Your current codes stop working.</p>
    </Ui.Confirm>
  </section>
)

const leadOf = ({ app, isOn }: Status, passkeys: number) =>
  !isOn
    ? "You have no second factor: your password alone signs you in."
    : passkeys === 0
      ? "You sign in with your password and a code."
      : app === null
        ? "A passkey signs you in. Your password alone does not."
        : "A passkey signs you in, or your password with a code."

export const FactorsPage = ({
  isAvailable,
  passkeys,
  problem,
  status,
  visit
}: Attempt & {
  readonly visit: Visit
  readonly status: Status
  readonly passkeys: ReadonlyArray<PasskeyViews.Passkey>
  readonly isAvailable: boolean
}) => (
  <Layout visit={visit} section="factors" title="Passkeys and codes" lead={leadOf(status, passkeys.length)}>
    {visit.caller.withheld.length === 0 ? null : (
      <Ui.Callout
        tone="warning"
        title={`${visit.caller.withheld.map(({ name }) => name).join(", ")} requires a second factor`}
      >
        <p>Add one to continue. Until then you cannot open this team.</p>
      </Ui.Callout>
    )}
    <Ui.ProblemNote problem={problem} />
    <PasskeyViews.Passkeys isAvailable={isAvailable} passkeys={passkeys} now={visit.now} />
    <section class="section" aria-labelledby="app">
      <h2 id="app">Authenticator app</h2>
      {status.app === null ? <NoApp isOn={status.isOn} /> : <App app={status.app} now={visit.now} />}
    </section>
    {status.isOn ? <RecoveryCodes left={status.codesLeft} /> : null}
  </Layout>
)

/** Shows the new secret until its person has entered a code from it. */
export const NewAppPage = ({
  problem,
  text,
  uri,
  visit
}: Attempt & { readonly visit: Visit; readonly text: string; readonly uri: string }) => (
  <Layout
    visit={visit}
    section="factors"
    title="Set up an authenticator app"
    crumbs={[{ href: Paths.factors, label: "Passkeys and codes" }]}
  >
    <form method="post" action={`${Paths.factorApp}/confirm`} class="panel narrow stack">
      <Ui.ProblemNote problem={problem?.field === "code" ? undefined : problem} />
      <p>Scan this with the app:</p>
      <QrCode text={uri} label="The secret for your authenticator app, as a picture to scan" />
      <CopyText.Once label="Or type this into the app" text={text.match(/.{1,4}/g)?.join(" ") ?? text} />
      <CodeField hint="The six digits that the app shows now." problem={problem} />
      <p class="hint">Your other sessions end. CLI logins and connected agents keep working.</p>
      <Ui.Submit cancel={Paths.factors}>Turn it on</Ui.Submit>
    </form>
  </Layout>
)

export const RecoveryCodesPage = ({
  codes,
  visit
}: {
  readonly visit: Visit
  readonly codes: ReadonlyArray<string>
}) => (
  <Layout
    visit={visit}
    section="factors"
    title="Your recovery codes"
    lead="They are shown only once. Each signs you in once, after your password."
    crumbs={[{ href: Paths.factors, label: "Passkeys and codes" }]}
  >
    <div class="narrow stack">
      <CopyText.Command block>{codes.join("\n")}</CopyText.Command>
      <p>Print them, or keep them in a password manager, away from your phone and your computer.</p>
      <p>
        <Ui.LinkButton href={Paths.factors}>I have saved them</Ui.LinkButton>
      </p>
    </div>
  </Layout>
)

/** Views of the page about a team's sign-in. */
import type { AuditEntry } from "#schema/Audit.ts"
import type { SignInIssuer, TeamSignIn } from "#schema/SignInApi.ts"
import type { Member } from "#schema/TeamsApi.ts"
import { Beside } from "#src/dashboard/frame/Beside.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as CopyText from "#src/dashboard/frame/CopyText.tsx"
import { SettingsFrame } from "#src/dashboard/frame/Layout.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import type { Attempt, TeamVisit } from "#src/dashboard/frame/Routes.ts"

type SignInProps = Attempt & {
  readonly visit: TeamVisit
  readonly signIn: TeamSignIn
  /** Active owners. */
  readonly owners: ReadonlyArray<Member>
  /** Entries of owners who signed in with a password despite the issuers, newest first. */
  readonly alarms: ReadonlyArray<AuditEntry>
  /** Name of the refused form. */
  readonly editing: "issuer" | "rule" | "only" | undefined
}

const Alarms = ({ alarms, visit }: Pick<SignInProps, "alarms" | "visit">) =>
  alarms.length === 0 ? null : (
    <Ui.Callout tone="warning" title="An owner signed in with a password">
      <ul>
        {alarms.map(({ actor, at, ip }) => (
          <li>
            {actor.name}, <Ui.Ago at={at} now={visit.now} />
            {ip === null ? null : ` from ${ip}`}
          </li>
        ))}
      </ul>
      <p>This team accepts only its issuers. If you do not know why this happened, end that person's access.</p>
    </Ui.Callout>
  )

const IssuerCard = ({ of, visit }: { readonly visit: TeamVisit; readonly of: SignInIssuer }) => {
  const at = `${Paths.teamSignIn(visit.team.id)}/issuers/${of.key}`
  return (
    <li class="project">
      <div>
        <h3>{of.name}</h3>
        <span class="badges">
          {of.ofInstallation ? <Ui.Badge>of this server</Ui.Badge> : null}
          {of.enabled ? null : <Ui.Badge tone="danger">disabled</Ui.Badge>}
        </span>
      </div>
      <dl class="facts facts-small">
        <Ui.Fact name="Issuer" is={of.issuer} />
        <Ui.Fact name="Client id" is={of.clientId} />
        <Ui.Fact name="Redirect address" is={<code>{of.redirectUri}</code>} />
        <Ui.Fact name="Logout address" is={<code>{of.logoutUri}</code>} />
        <Ui.Fact
          name="Second factor"
          is={of.factors.length === 0 ? "not accepted from the issuer" : `accepted with ${of.factors.join(" or ")}`}
        />
      </dl>
      {of.ofInstallation ? null : (
        <div class="buttons">
          <Ui.Act action={at} fields={{ enabled: String(!of.enabled) }} kind="quiet">
            {of.enabled ? "Disable" : "Enable"}
          </Ui.Act>
          <Ui.Confirm action={`${at}/delete`} label="Remove" of={of.name} verb="Remove the issuer" quiet>
            <p>This also removes its rules, and signs out the people whom it signed in. Members stay members.</p>
          </Ui.Confirm>
        </div>
      )}
    </li>
  )
}

const NewIssuer = ({ editing, form, problem, visit }: SignInProps) => {
  const ownProblem = editing === "issuer" ? problem : undefined
  return (
    <div class="panel">
      <details class="disclosure" open={ownProblem !== undefined}>
        <summary>Add an issuer of this team</summary>
        <form method="post" action={`${Paths.teamSignIn(visit.team.id)}/issuers`}>
          {ownProblem?.field === undefined ? <Ui.ProblemNote problem={ownProblem} /> : null}
          <Ui.TextField
            name="name"
            label="Name"
            value={form.text("name")}
            hint="Shown on its button."
            problem={ownProblem}
          />
          <Ui.TextField
            name="issuer"
            label="Issuer URL"
            value={form.text("issuer")}
            hint="Exactly as in its discovery document, for example https://login.example.com"
            problem={ownProblem}
          />
          <Ui.TextField name="clientId" label="Client id" value={form.text("clientId")} problem={ownProblem} />
          <Ui.TextField
            name="clientSecret"
            label="Client secret"
            type="password"
            optional
            hint="Stored sealed, and never shown again."
            problem={ownProblem}
          />
          <Ui.TextField
            name="scopes"
            label="Scopes"
            optional
            value={form.filled("scopes") ?? "openid email profile"}
            hint="Many issuers send groups only if you add the scope groups."
            problem={ownProblem}
          />
          <Ui.TextField
            name="factors"
            label="Accepted second-factor claims (amr, acr)"
            optional
            value={form.text("factors")}
            hint="Leave empty to require the second factor of the account here."
            problem={ownProblem}
          />
          <Ui.Submit>Add the issuer</Ui.Submit>
        </form>
      </details>
    </div>
  )
}

const Issuers = (props: SignInProps) => {
  const { signIn, visit } = props
  const own = signIn.issuers.filter(({ ofInstallation }) => !ofInstallation)
  return (
    <section class="section stack">
      <h2>Issuers</h2>
      <p class="hint">The buttons of this team's issuers are at this address:</p>
      <CopyText.Command>{`${visit.ui.baseUrl}${Paths.signIn}?team=${visit.team.id}`}</CopyText.Command>
      {signIn.issuers.length === 0 ? null : (
        <ul class="stack">
          {signIn.issuers.map((of) => (
            <IssuerCard of={of} visit={visit} />
          ))}
        </ul>
      )}
      {own.length >= 20 ? null : <NewIssuer {...props} />}
    </section>
  )
}

const Rules = ({ editing, form, problem, signIn, visit }: SignInProps) => {
  const ownProblem = editing === "rule" ? problem : undefined
  const at = `${Paths.teamSignIn(visit.team.id)}/rules`
  const names = new Map(signIn.issuers.map(({ key, name }) => [key, name]))
  return (
    <section class="section stack">
      <h2>Who joins</h2>
      {signIn.rules.length === 0 ? null : (
        <Ui.Table label="Join rules" head={["Issuer", "Claim", "Value", "Role", ""]}>
          {signIn.rules.map(({ claim, id, issuer, role, value }) => (
            <tr>
              <td data-label="Issuer">{names.get(issuer) ?? issuer}</td>
              <td data-label="Claim">
                <code>{claim}</code>
              </td>
              <td data-label="Value">
                <code>{value}</code>
              </td>
              <td data-label="Role">{role}</td>
              <td>
                <Ui.Act action={`${at}/${id}/delete`} kind="quiet">
                  Remove
                </Ui.Act>
              </td>
            </tr>
          ))}
        </Ui.Table>
      )}
      {signIn.issuers.length === 0 ? null : (
        <form method="post" action={at} class="panel">
          {ownProblem?.field === undefined ? <Ui.ProblemNote problem={ownProblem} /> : null}
          <Ui.Select
            name="issuer"
            id="rule-issuer"
            label="Issuer"
            value={form.text("issuer")}
            choices={signIn.issuers.map(({ key, name }) => ({ value: key, label: name }))}
            problem={ownProblem}
          />
          <Ui.TextField
            name="claim"
            label="Claim"
            value={form.filled("claim") ?? "groups"}
            hint="A claim about the person, for example groups, roles or hd."
            problem={ownProblem}
          />
          <Ui.TextField
            name="value"
            label="Value"
            value={form.text("value")}
            hint="Exactly the value of the claim, or one item of its list."
            problem={ownProblem}
          />
          <Ui.Select
            name="role"
            label="Role"
            value={form.filled("role") ?? "member"}
            choices={["viewer", "member", "admin"].map((role) => ({ value: role, label: role }))}
            problem={ownProblem}
          />
          <Ui.Submit>Add the rule</Ui.Submit>
        </form>
      )}
    </section>
  )
}

const Only = ({ editing, owners, problem, signIn, visit }: SignInProps) => {
  const ownProblem = editing === "only" ? problem : undefined
  const enabled = signIn.issuers.filter((one) => one.enabled)
  const emergencyOwners = new Set<string>(signIn.breakGlass.map(({ userId }) => userId))
  return enabled.length === 0 ? null : (
    <section class="section stack">
      <h2>Passwords</h2>
      <form method="post" action={`${Paths.teamSignIn(visit.team.id)}/only`} class="panel">
        <Ui.ProblemNote problem={ownProblem} />
        <fieldset>
          <legend>Accept only sign-ins with these issuers</legend>
          {enabled.map(({ key, name }) => (
            <Ui.CheckBox name="only" value={key} checked={signIn.only?.includes(key) ?? false}>
              {name}
            </Ui.CheckBox>
          ))}
          <p class="hint">
            If you choose none, the team accepts passwords too. If you choose one, earlier CLI logins and agents lose
            access to the team.
          </p>
        </fieldset>
        <fieldset>
          <legend>Owners who can still sign in with a password</legend>
          {owners.map(({ email, userId }) => (
            <Ui.CheckBox name="breakGlass" value={userId} checked={emergencyOwners.has(userId)}>
              {email}
            </Ui.CheckBox>
          ))}
          <p class="hint">
            For emergencies, if the issuer is unavailable. Each use raises an alarm here, in the audit trail and by
            webhook.
          </p>
        </fieldset>
        <Ui.Submit>Save</Ui.Submit>
      </form>
    </section>
  )
}

const words = [
  ["Issuers", "An issuer identifies people. The issuers of this team sign people in only for this team."],
  [
    "Who joins",
    "Rules apply at each sign-in. People who no longer match a rule are removed from the team. A rule never makes someone an owner, and invited people keep their role."
  ],
  ["Passwords", "Until you choose an issuer, people can also sign in with a password."]
] as const

export const TeamSignInPage = (props: SignInProps) => (
  <SettingsFrame visit={props.visit} view="signIn" title="Sign-in">
    {props.editing === undefined ? <Ui.ProblemNote problem={props.problem} /> : null}
    <Alarms {...props} />
    <Beside words={words}>
      <Issuers {...props} />
      <Rules {...props} />
      <Only {...props} />
    </Beside>
  </SettingsFrame>
)

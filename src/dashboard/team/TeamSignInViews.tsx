/** What the page about a team's sign-in looks like. */
import type { AuditEntry } from "#schema/Audit.ts"
import type { SignInIssuer, TeamSignIn } from "#schema/SignInApi.ts"
import type { Member } from "#schema/TeamsApi.ts"
import { Beside } from "#src/dashboard/frame/Beside.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as CopyText from "#src/dashboard/frame/CopyText.tsx"
import { SettingsFrame } from "#src/dashboard/frame/Layout.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import type { Attempt, TeamVisit } from "#src/dashboard/frame/Routes.ts"

type Shown = Attempt & {
  readonly visit: TeamVisit
  readonly signIn: TeamSignIn
  /** Active ones. */
  readonly owners: ReadonlyArray<Member>
  /** Entries of owners whom a password let in past the issuers, newest first. */
  readonly alarms: ReadonlyArray<AuditEntry>
  /** Which form was refused. */
  readonly editing: "issuer" | "rule" | "only" | undefined
}

const Alarms = ({ alarms, visit }: Pick<Shown, "alarms" | "visit">) =>
  alarms.length === 0 ? null : (
    <Ui.Callout tone="warning" title="A password let an owner in">
      <ul>
        {alarms.map(({ actor, at, ip }) => (
          <li>
            {actor.name}, <Ui.Ago at={at} now={visit.now} />
            {ip === null ? null : ` from ${ip}`}
          </li>
        ))}
      </ul>
      <p>This team takes its issuers alone. If you do not know why it happened, end that person's access.</p>
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
          is={of.factors.length === 0 ? "the issuer's word is not taken" : `when it says ${of.factors.join(" or ")}`}
        />
      </dl>
      {of.ofInstallation ? null : (
        <div class="buttons">
          <Ui.Act action={at} fields={{ enabled: String(!of.enabled) }} kind="quiet">
            {of.enabled ? "Disable" : "Enable"}
          </Ui.Act>
          <Ui.Confirm action={`${at}/delete`} label="Remove" of={of.name} verb="Remove the issuer" quiet>
            <p>Its rules go with it, and whom it signed in is signed out. Members stay members.</p>
          </Ui.Confirm>
        </div>
      )}
    </li>
  )
}

const NewIssuer = ({ editing, form, problem, visit }: Shown) => {
  const refused = editing === "issuer" ? problem : undefined
  return (
    <div class="panel">
      <details class="disclosure" open={refused !== undefined}>
        <summary>Add an issuer of this team</summary>
        <form method="post" action={`${Paths.teamSignIn(visit.team.id)}/issuers`}>
          {refused?.field === undefined ? <Ui.ProblemNote problem={refused} /> : null}
          <Ui.TextField name="name" label="Name" value={form.text("name")} hint="On its button." problem={refused} />
          <Ui.TextField
            name="issuer"
            label="Address of the issuer"
            value={form.text("issuer")}
            hint="As it calls itself, to the letter: https://login.example.com"
            problem={refused}
          />
          <Ui.TextField name="clientId" label="Client id" value={form.text("clientId")} problem={refused} />
          <Ui.TextField
            name="clientSecret"
            label="Client secret"
            type="password"
            optional
            hint="Kept sealed, and never shown again."
            problem={refused}
          />
          <Ui.TextField
            name="scopes"
            label="Scopes"
            optional
            value={form.filled("scopes") ?? "openid email profile"}
            hint="Many issuers send groups only when asked for groups."
            problem={refused}
          />
          <Ui.TextField
            name="factors"
            label="Values of amr or acr that count as a second factor"
            optional
            value={form.text("factors")}
            hint="Empty: people show the second factor of their account here."
            problem={refused}
          />
          <Ui.Submit>Add the issuer</Ui.Submit>
        </form>
      </details>
    </div>
  )
}

const Issuers = (shown: Shown) => {
  const { signIn, visit } = shown
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
      {own.length >= 20 ? null : <NewIssuer {...shown} />}
    </section>
  )
}

const Rules = ({ editing, form, problem, signIn, visit }: Shown) => {
  const refused = editing === "rule" ? problem : undefined
  const at = `${Paths.teamSignIn(visit.team.id)}/rules`
  const names = new Map(signIn.issuers.map(({ key, name }) => [key, name]))
  return (
    <section class="section stack">
      <h2>Who joins</h2>
      {signIn.rules.length === 0 ? null : (
        <Ui.Table label="Rules of who joins" head={["Issuer", "Claim", "Value", "Role", ""]}>
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
          {refused?.field === undefined ? <Ui.ProblemNote problem={refused} /> : null}
          <Ui.Select
            name="issuer"
            id="rule-issuer"
            label="Issuer"
            value={form.text("issuer")}
            choices={signIn.issuers.map(({ key, name }) => ({ value: key, label: name }))}
            problem={refused}
          />
          <Ui.TextField
            name="claim"
            label="Claim"
            value={form.filled("claim") ?? "groups"}
            hint="groups, roles, hd: a claim that says who somebody is."
            problem={refused}
          />
          <Ui.TextField
            name="value"
            label="Value"
            value={form.text("value")}
            hint="To the letter: the claim itself, or one of its list."
            problem={refused}
          />
          <Ui.Select
            name="role"
            label="Role"
            value={form.filled("role") ?? "member"}
            choices={["viewer", "member", "admin"].map((role) => ({ value: role, label: role }))}
            problem={refused}
          />
          <Ui.Submit>Add the rule</Ui.Submit>
        </form>
      )}
    </section>
  )
}

const Only = ({ editing, owners, problem, signIn, visit }: Shown) => {
  const refused = editing === "only" ? problem : undefined
  const enabled = signIn.issuers.filter((one) => one.enabled)
  const kept = new Set<string>(signIn.breakGlass.map(({ userId }) => userId))
  return enabled.length === 0 ? null : (
    <section class="section stack">
      <h2>Passwords</h2>
      <form method="post" action={`${Paths.teamSignIn(visit.team.id)}/only`} class="panel">
        <Ui.ProblemNote problem={refused} />
        <fieldset>
          <legend>Only these issuers let people into this team</legend>
          {enabled.map(({ key, name }) => (
            <Ui.CheckBox name="only" value={key} checked={signIn.only?.includes(key) ?? false}>
              {name}
            </Ui.CheckBox>
          ))}
          <p class="hint">
            With none of them chosen, a password does too. CLI logins and agents that were approved before lose the
            team.
          </p>
        </fieldset>
        <fieldset>
          <legend>Owners whom a password lets in all the same</legend>
          {owners.map(({ email, userId }) => (
            <Ui.CheckBox name="breakGlass" value={userId} checked={kept.has(userId)}>
              {email}
            </Ui.CheckBox>
          ))}
          <p class="hint">
            For the day when the issuer is gone. Each use raises an alarm: here, in the audit trail, by webhook.
          </p>
        </fieldset>
        <Ui.Submit>Save</Ui.Submit>
      </form>
    </section>
  )
}

const words = [
  ["Issuers", "An issuer says who somebody is. Those of this team let people into this team alone."],
  [
    "Who joins",
    "Rules count at each sign-in. Who is in no group of a rule any more leaves the team. Nobody becomes an owner by a rule, and who was invited keeps the role."
  ],
  ["Passwords", "While no issuer is chosen, a password lets people in too."]
] as const

export const TeamSignInPage = (shown: Shown) => (
  <SettingsFrame visit={shown.visit} view="signIn" title="Sign-in">
    {shown.editing === undefined ? <Ui.ProblemNote problem={shown.problem} /> : null}
    <Alarms {...shown} />
    <Beside words={words}>
      <Issuers {...shown} />
      <Rules {...shown} />
      <Only {...shown} />
    </Beside>
  </SettingsFrame>
)

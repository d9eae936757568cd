/** Views of passkeys. Only scripts can use passkeys, so these forms stay hidden without one. */
import type { ComponentChildren } from "preact"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"

/**
 * A form that a script fills in: it requests a challenge from `begin`, lets the browser answer it, and sends the answer
 * to `action`. With `offered`, the browser also proposes passkeys in the page's e-mail field.
 */
export const PasskeyForm = ({
  action,
  begin,
  children,
  label,
  makes = false,
  next,
  offered = false,
  primary = false
}: {
  readonly action: string
  readonly begin: string
  readonly label: string
  readonly next?: string
  readonly makes?: boolean
  readonly offered?: boolean
  readonly primary?: boolean
  readonly children?: ComponentChildren
}) => (
  <form
    method="post"
    action={action}
    class={makes ? "panel narrow stack" : "passkey"}
    data-passkey={makes ? "create" : "get"}
    data-begin={begin}
    data-offered={offered ? "" : undefined}
    hidden
  >
    {next === undefined ? null : <input type="hidden" name="next" value={next} />}
    <input type="hidden" name="passkey" value="" />
    {children}
    <p class="error" role="alert" data-passkey-problem hidden />
    <div class="buttons">
      <button class={`button button-${primary || makes ? "primary" : "plain"}`}>{label}</button>
    </div>
  </form>
)

export interface Passkey {
  readonly id: string
  readonly name: string
  readonly synced: boolean
  readonly createdAt: Date
  readonly lastUsedAt: Date | null
  /** Added less than a day ago, and not confirmed by an older authenticator. */
  readonly isYoung: boolean
}

/** For a passkey or an app that is younger than a day. */
export const Young = ({ action }: { readonly action: string }) => (
  <>
    <Ui.Badge tone="amber">new</Ui.Badge>
    <p class="hint">
      Until it is a day old, it does not count where the dashboard asks for a second proof, unless an older one confirms
      it.
    </p>
    <Ui.Act action={action} kind="quiet">
      Confirm with an older one
    </Ui.Act>
  </>
)

const One = ({ now, passkey }: { readonly passkey: Passkey; readonly now: number }) => {
  const here = `${Paths.passkeys}/${passkey.id}`
  return (
    <li class="project">
      <div>
        <h3>
          <bdi>{passkey.name}</bdi>
        </h3>
        {passkey.synced ? <Ui.Badge>on several devices</Ui.Badge> : null}
        {passkey.isYoung ? <Young action={`${here}/confirm`} /> : null}
      </div>
      <dl class="facts facts-small">
        <Ui.Fact name="Since" is={<Ui.Ago at={passkey.createdAt.toISOString()} now={now} />} />
        <Ui.Fact
          name="Last use"
          is={passkey.lastUsedAt === null ? "never" : <Ui.Ago at={passkey.lastUsedAt.toISOString()} now={now} />}
        />
      </dl>
      <div class="buttons">
        <details class="confirm">
          <summary class="button button-quiet">
            Rename<span class="hidden"> {passkey.name}</span>
          </summary>
          <form method="post" action={here} class="stack panel">
            <Ui.TextField id={`name-${passkey.id}`} name="name" label="Name" value={passkey.name} />
            <Ui.Submit>Save</Ui.Submit>
          </form>
        </details>
        <Ui.Confirm action={`${here}/remove`} label="Remove" of={passkey.name} verb="Remove the passkey">
          <p>It can no longer sign you in, and your other sessions end. Delete it on your device, too.</p>
        </Ui.Confirm>
      </div>
    </li>
  )
}

/** Name of a new passkey, unless its person enters another one. */
const suggestedName = "My device"

export const Passkeys = ({
  isAvailable,
  now,
  passkeys
}: {
  readonly isAvailable: boolean
  readonly passkeys: ReadonlyArray<Passkey>
  readonly now: number
}) => (
  <section class="section" aria-labelledby="passkeys">
    <h2 id="passkeys">Passkeys</h2>
    <p class="hint">
      A passkey signs you in with your fingerprint, your face or the PIN of your device, without the password. It works
      only at the address of this server, so other sites cannot steal it.
    </p>
    {passkeys.length === 0 ? null : (
      <ul class="cards">
        {passkeys.map((passkey) => (
          <One passkey={passkey} now={now} />
        ))}
      </ul>
    )}
    {isAvailable ? (
      <>
        <PasskeyForm action={Paths.passkeys} begin={`${Paths.passkeys}/begin`} label="Add a passkey" makes>
          <Ui.TextField
            name="name"
            label="Name"
            value={suggestedName}
            hint="To tell your passkeys apart: the device, or the password manager that keeps it."
          />
          <p class="hint">Your other sessions end. CLI logins and connected agents keep working.</p>
        </PasskeyForm>
        <noscript>
          <p>Passkeys need JavaScript.</p>
        </noscript>
      </>
    ) : (
      <p>Passkeys need a server with a host name. This server's address is a number.</p>
    )}
  </section>
)

/** Proposed once, on a page without other notices. */
export const Proposal = () => (
  <Ui.Callout title="Sign in without a password?">
    <p>
      Add a passkey in a moment. Then your fingerprint, your face or the PIN of your device signs you in, and a stolen
      password is no longer enough.
    </p>
    <div class="buttons">
      <Ui.LinkButton href={Paths.factors}>Add a passkey</Ui.LinkButton>
      <Ui.Act action={`${Paths.passkeys}/decline`} kind="quiet">
        Not now
      </Ui.Act>
    </div>
  </Ui.Callout>
)

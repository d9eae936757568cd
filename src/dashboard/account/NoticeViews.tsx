/** Notices to a person about their own sign-in, until they dismiss them. */
import type { Notice } from "#src/credentials/AccountNotices.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { browserOf } from "./SessionPages.tsx"

const words = ({ about, ip, kind, userAgent }: Notice): string => {
  const from = `${browserOf(userAgent)}${ip === null ? "" : `, ${ip}`}`
  switch (kind) {
    case "new_device":
      return `New sign-in: ${from}.`
    case "password_reset":
      return `Your password was set with a reset link: ${from}.`
    case "sign_in_linked":
      return `This sign-in opens your account from now on: ${about}. It was linked from ${from}.`
    case "email_changed":
      return `Your e-mail address was changed: ${from}. Before, it was ${about}.`
    case "factor_removed":
      return `Removed from your account: ${about}.`
  }
}

export const AccountNotices = ({ notices, now }: { readonly notices: ReadonlyArray<Notice>; readonly now: number }) =>
  notices.length === 0 ? null : (
    <Ui.Callout tone="warning" title="About your account">
      <ul>
        {notices.map((notice) => (
          <li>
            {words(notice)} <Ui.Ago at={notice.createdAt.toISOString()} now={now} />
          </li>
        ))}
      </ul>
      <p>If it was not you, change your password and check where you are signed in.</p>
      <div class="buttons">
        <Ui.LinkButton href={Paths.sessions}>Where you are signed in</Ui.LinkButton>
        <Ui.Act action={`${Paths.sessions}/seen`} kind="quiet">
          It was me
        </Ui.Act>
      </div>
    </Ui.Callout>
  )

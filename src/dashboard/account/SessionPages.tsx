/** A person's sessions, and how to end them. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { uuidPattern } from "#schema/Ids.ts"
import type { MySession } from "#schema/MySessionsApi.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as Html from "#src/dashboard/frame/Html.ts"
import { Layout, OwnAccessTabs } from "#src/dashboard/frame/Layout.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { type AtPerson, button, page, person, screen, to, withIds } from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import type { Visit } from "#src/dashboard/frame/Visit.ts"

const browsers: ReadonlyArray<readonly [RegExp, string]> = [
  [/\bEdg\//, "Edge"],
  [/\bFirefox\//, "Firefox"],
  [/\bChrom(?:e|ium)\//, "Chrome"],
  [/\bSafari\//, "Safari"]
]
const systems: ReadonlyArray<readonly [RegExp, string]> = [
  [/\b(?:iPhone|iPad)\b/, "iOS"],
  [/\bAndroid\b/, "Android"],
  [/\bWindows\b/, "Windows"],
  [/\bMac OS X\b/, "macOS"],
  [/\bLinux\b/, "Linux"]
]
const firstMatch = (from: typeof browsers, text: string) => from.find(([pattern]) => pattern.test(text))?.[1]

/** Browser and system by the user agent, an unverified claim. */
export const browserOf = (userAgent: string | null): string => {
  const browser = firstMatch(browsers, userAgent ?? "")
  const system = firstMatch(systems, userAgent ?? "")
  if (browser === undefined) return "Unknown browser"
  return system === undefined ? browser : `${browser} on ${system}`
}

const Session = ({ of, visit }: { readonly visit: Visit; readonly of: MySession }) => (
  <li class="project">
    <div>
      <h2>{of.manages ? `A command line that manages ${of.manages.name}` : browserOf(of.lastUsedUserAgent)}</h2>
      <span class="badges">{of.current ? <Ui.Badge tone="accent">this browser</Ui.Badge> : null}</span>
    </div>
    <dl class="facts facts-small">
      <Ui.Fact name="Address" is={of.lastUsedIp ?? "unknown"} />
      <Ui.Fact name="Since">
        <Ui.Ago at={of.createdAt} now={visit.now} />, ends <Ui.Until at={of.expiresAt} now={visit.now} />
      </Ui.Fact>
      <Ui.Fact name="Last use" is={<Ui.Ago at={of.lastUsedAt} now={visit.now} />} />
    </dl>
    {of.current ? null : (
      <Ui.Act action={`${Paths.sessions}/${of.id}/end`} kind="quiet">
        {of.manages ? "End it" : "Sign out there"}
      </Ui.Act>
    )}
  </li>
)

const SessionsPage = ({ items, visit }: { readonly visit: Visit; readonly items: ReadonlyArray<MySession> }) => (
  <Layout
    visit={visit}
    section="sessions"
    title="Where you are signed in"
    tabs={<OwnAccessTabs current="sessions" />}
    lead="Browsers, and command lines that manage a team for a few minutes."
    actions={
      items.length > 1 ? (
        <Ui.Confirm
          action={`${Paths.sessions}/end-others`}
          label="Sign out everywhere else"
          verb="Sign out everywhere else"
          tone="plain"
        >
          <p>
            You stay signed in here. CLI logins and agents keep working. Command lines that manage a team must sign in
            again.
          </p>
        </Ui.Confirm>
      ) : undefined
    }
  >
    <ul class="cards">
      {items.map((of) => (
        <Session of={of} visit={visit} />
      ))}
    </ul>
    <p class="hint">
      Is one of them not yours? Sign it out, then <a href={Paths.account}>change your password</a>. That also ends CLI
      logins and agents, and revokes the API tokens that you created.
    </p>
  </Layout>
)

const SessionId = Schema.String.pipe(Schema.filter((text) => uuidPattern.test(text)))

const list = screen(
  ({ visit }: AtPerson) => Effect.map(UseCases.ownSessions.list(), (items) => ({ items, visit })),
  SessionsPage
)
const end = button(withIds(person, Schema.Struct({ sessionId: SessionId })), {
  run: ({ sessionId }) => UseCases.ownSessions.end(sessionId),
  done: () => to(Paths.sessions, "session-ended")
})
const endOthers = button(person, {
  run: () => UseCases.ownSessions.endOthers(),
  done: () => to(Paths.sessions, "sessions-ended")
})
const dismissNotices = button(person, {
  run: ({ visit }) => UseCases.accountNotices.dismiss(visit.caller),
  done: () => Html.seeOther(Paths.home)
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get(Paths.sessions, page(person, list)),
  HttpRouter.post(`${Paths.sessions}/end-others`, endOthers),
  HttpRouter.post(`${Paths.sessions}/seen`, dismissNotices),
  HttpRouter.post("/app/account/sessions/:sessionId/end", end)
)

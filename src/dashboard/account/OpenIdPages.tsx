/** Sign-in with an issuer, linking one to an account, and the list of linked sign-ins. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type AnyApiError, isApiError } from "#schema/ApiError.ts"
import { uuidPattern } from "#schema/Ids.ts"
import { IssuerKey, type MySignIn } from "#schema/SignInApi.ts"
import type { ClosedTeam } from "#src/openid/ClosedTeams.ts"
import { ClosedTeams } from "./ClosedTeamViews.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { cookie, sameSite } from "#src/dashboard/frame/Cookies.ts"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { IssuerButtons, type OfferedIssuer } from "./IssuerButtons.tsx"
import { Card, Layout } from "#src/dashboard/frame/Layout.tsx"
import { pageWith } from "#src/dashboard/frame/Pages.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import {
  action,
  anyone,
  type AtPerson,
  button,
  page,
  person,
  screen,
  to,
  withIds
} from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import type { Visit, Visitor } from "#src/dashboard/frame/Visit.ts"

const AtIssuer = Schema.Struct({ issuer: IssuerKey })
const ownPage = (next: string) => (Paths.isOwnPage(next) ? next : Paths.home)

/**
 * A page that refreshes to the issuer. A redirect would fail: browsers limit a form to the origins in its page's
 * policy, and an issuer may redirect to origins that we cannot know.
 */
const goOn = (visitor: Visitor, url: string) =>
  HttpServerResponse.setHeader(
    Html.page(
      <Card visitor={visitor} title="One moment" lead="Your browser continues to the issuer that signs you in.">
        <p>
          <a class="button button-primary" href={url}>
            Continue
          </a>
        </p>
      </Card>
    ),
    "refresh",
    `0;url=${url}`
  )

const begin = (input: Parameters<typeof UseCases.signIn.begin>[0], visitor: Visitor) =>
  Effect.gen(function* () {
    const { flow, url } = yield* UseCases.signIn.begin({ ...input, next: ownPage(input.next) })
    yield* (yield* cookie).setFlow(flow)
    return goOn(visitor, url)
  })
const nextOf = (form: Form.Form) => Effect.succeed({ next: form.text("next") })

const signIn = action(withIds(sameSite, AtIssuer), {
  decode: nextOf,
  run: ({ next }, { issuer, visitor }) => begin({ issuer, next, caller: null, link: false }, visitor),
  done: (response) => response
})
/** Confirms the person of the session at their issuer. */
const confirm = action(withIds(person, AtIssuer), {
  decode: nextOf,
  run: ({ next }, { issuer, visit }) => begin({ issuer, next, caller: visit.caller, link: false }, visit),
  done: (response) => response
})
const link = button(withIds(person, AtIssuer), {
  run: ({ issuer, visit }) => begin({ issuer, next: Paths.signIns, caller: visit.caller, link: true }, visit),
  done: (response) => response
})

const queryOf = (url: string) => (url.includes("?") ? url.slice(url.indexOf("?")) : "")

const Refused = ({ problem, visitor }: { readonly visitor: Visitor; readonly problem: AnyApiError }) => (
  <Card visitor={visitor} title="You are not signed in">
    {/* The explanation for a wrong password does not apply here. */}
    {problem._tag === "SIGN_IN_FAILED" ? (
      <Ui.Callout tone="danger" role="alert">
        {problem.message}
      </Ui.Callout>
    ) : (
      <Ui.ProblemNote problem={problem} />
    )}
    <p>
      <Ui.LinkButton href={Paths.signIn} primary>
        Back to the sign-in
      </Ui.LinkButton>
    </p>
  </Card>
)

/** The issuer's callback. A cookie of this browser links it to the flow that began here. */
const callback = withIds(
  anyone,
  AtIssuer
)(({ issuer, visitor }) =>
  Effect.gen(function* () {
    const { url } = yield* HttpServerRequest.HttpServerRequest
    const { clearFlow, flowText, presented, set, setStep, signedIn } = yield* cookie
    const flow = yield* flowText
    yield* clearFlow
    const { entered, next } = yield* UseCases.signIn.complete({
      issuer,
      query: queryOf(url),
      flow,
      cookies: yield* presented,
      caller: yield* signedIn
    })
    if (entered === null) return to(Paths.signIns, "sign-in-linked")
    if ("step" in entered) {
      yield* setStep(entered.step)
      return Html.seeOther(Paths.withQuery(Paths.signInCode, next === "" ? {} : { next: ownPage(next) }))
    }
    yield* set(entered.session)
    return Html.seeOther(ownPage(next))
  }).pipe(
    Effect.catchIf(isApiError, (problem) =>
      problem._tag === "STEP_UP_REQUIRED"
        ? Effect.fail(problem)
        : Effect.succeed(pageWith(<Refused visitor={visitor} problem={problem} />, problem))
    )
  )
)

/** A call of the issuer, not of a browser (OpenID Connect Back-Channel Logout 1.0, 2.8). */
const logout = withIds(
  anyone,
  AtIssuer
)(({ issuer }) =>
  Effect.gen(function* () {
    const form = yield* Form.read
    yield* UseCases.signIn.logout(issuer, form.text("logout_token"))
    return HttpServerResponse.empty({ status: 200, headers: { "cache-control": "no-store" } })
  }).pipe(
    Effect.catchTag("SignInRefused", () =>
      Effect.succeed(
        HttpServerResponse.unsafeJson(
          { error: "invalid_request" },
          { status: 400, headers: { "cache-control": "no-store" } }
        )
      )
    )
  )
)

// --- linked sign-ins ---

const Linked = ({ of, visit }: { readonly visit: Visit; readonly of: MySignIn }) => (
  <li class="project">
    <div>
      <h2>{of.name}</h2>
      <span class="hint">{of.issuer}</span>
    </div>
    <dl class="facts facts-small">
      <Ui.Fact name="Known there as" is={of.subject} />
      <Ui.Fact name="Linked" is={<Ui.Ago at={of.createdAt} now={visit.now} />} />
      <Ui.Fact name="Last use" is={of.lastUsedAt === null ? "never" : <Ui.Ago at={of.lastUsedAt} now={visit.now} />} />
    </dl>
    <Ui.Act action={`${Paths.signIns}/${of.id}/remove`} kind="quiet">
      Remove
    </Ui.Act>
  </li>
)

const SignInsPage = ({
  closed,
  issuers,
  items,
  visit
}: {
  readonly visit: Visit
  readonly items: ReadonlyArray<MySignIn>
  readonly issuers: ReadonlyArray<OfferedIssuer>
  readonly closed: ReadonlyArray<ClosedTeam>
}) => (
  <Layout
    visit={visit}
    section="signIns"
    title="Linked sign-ins"
    lead="Each of these sign-ins opens this account. A matching e-mail address alone never does."
  >
    <ClosedTeams teams={closed} visit={visit} />
    {items.length === 0 ? (
      <Ui.Empty title="Nothing is linked">
        <p>
          {issuers.length === 0
            ? "This server has no issuer for sign-ins. Its operator, or an owner of your team, can add one."
            : "Link a sign-in to use it instead of your password."}
        </p>
      </Ui.Empty>
    ) : (
      <ul class="cards">
        {items.map((of) => (
          <Linked of={of} visit={visit} />
        ))}
      </ul>
    )}
    <IssuerButtons issuers={issuers} next="" at={Paths.linkWith} verb="Link" />
  </Layout>
)

const list = screen(
  ({ visit }: AtPerson) =>
    Effect.gen(function* () {
      const items = yield* UseCases.identities.list()
      const closed = yield* UseCases.closedTeams.list()
      const { issuers } = yield* UseCases.signInIssuers.listForPage(visit.team?.id ?? null)
      return { visit, items, closed, issuers }
    }),
  SignInsPage
)
const SignInId = Schema.Struct({ signInId: Schema.String.pipe(Schema.filter((text) => uuidPattern.test(text))) })
const remove = button(withIds(person, SignInId), {
  run: ({ signInId }) => UseCases.identities.remove(signInId),
  done: () => to(Paths.signIns, "sign-in-removed"),
  again: list
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.post("/app/sign-in/with/:issuer", signIn),
  HttpRouter.get("/app/sign-in/with/:issuer/callback", callback),
  HttpRouter.post("/app/sign-in/with/:issuer/logout", logout),
  HttpRouter.post("/app/confirm/with/:issuer", confirm),
  HttpRouter.get(Paths.signIns, page(person, list)),
  HttpRouter.post("/app/account/sign-ins/with/:issuer", link),
  HttpRouter.post("/app/account/sign-ins/:signInId/remove", remove)
)

/**
 * The consent page for a client that wants to act for a person over MCP, and the list of connections. A GET never
 * approves.
 */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { isApiError } from "#schema/ApiError.ts"
import { ValidationFailed } from "#schema/Errors.ts"
import { EnvironmentId, ProjectId, TeamId, uuidPattern } from "#schema/Ids.ts"
import { Scope } from "#schema/Scopes.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import * as SessionCookie from "#src/http/authentication/SessionCookie.ts"
import type { OAuthGrant } from "#src/oauth/OAuthGrants.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { type AtConsent, ConsentPage, plaintext } from "./ConsentView.tsx"
import * as CopyText from "#src/dashboard/frame/CopyText.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { Layout, OwnAccessTabs } from "#src/dashboard/frame/Layout.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { maxOffered, reachOf, type Restrictable } from "#src/dashboard/frame/ReachFields.tsx"
import {
  action,
  type AtPerson,
  button,
  type Guard,
  page,
  person,
  screen,
  to,
  withIds,
  within
} from "#src/dashboard/frame/Routes.ts"
import type { Visit } from "#src/dashboard/frame/Visit.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

const Uid = Schema.String.pipe(Schema.pattern(/^[\w-]{20,64}$/))
const OAuthGrantId = Schema.String.pipe(Schema.filter((s) => uuidPattern.test(s)))
const ConsentForm = Schema.Struct({
  scopes: Schema.Array(Scope),
  teamIds: Schema.Array(TeamId),
  projectIds: Schema.NullOr(Schema.Array(ProjectId)),
  environmentIds: Schema.NullOr(Schema.Array(EnvironmentId)),
  another: Schema.Boolean
})

const listOf = (names: ReadonlyArray<string>, none: string) => (names.length === 0 ? none : names.join(", "))

const Connection = ({ grant, visit }: { readonly grant: OAuthGrant; readonly visit: Visit }) => (
  <li class="project">
    <div>
      <h2>{grant.clientName}</h2>
      <span class="badges">
        {grant.projects === null && grant.environments === null ? null : <Ui.Badge tone="accent">restricted</Ui.Badge>}
        {grant.scopes.includes(plaintext) ? <Ui.Badge tone="amber">values can reach the model</Ui.Badge> : null}
      </span>
    </div>
    <dl class="facts facts-small">
      <Ui.Fact name="Returns to" is={<code>{grant.redirectHost}</code>} />
      <Ui.Fact name="Since">
        <Ui.Ago at={grant.createdAt.toISOString()} now={visit.now} />, expires{" "}
        <Ui.Until at={grant.expiresAt.toISOString()} now={visit.now} />
      </Ui.Fact>
      <Ui.Fact
        name="Last use"
        is={grant.lastUsedAt === null ? "never" : <Ui.Ago at={grant.lastUsedAt.toISOString()} now={visit.now} />}
      />
      <Ui.Fact name="Teams">
        {listOf(
          grant.teams.map(({ name }) => name),
          "none, because your membership changed"
        )}
      </Ui.Fact>
      {grant.projects === null ? null : <Ui.Fact name="Projects" is={listOf(grant.projects, "none")} />}
      {grant.environments === null ? null : <Ui.Fact name="Environments" is={listOf(grant.environments, "none")} />}
      <Ui.Fact name="May" is={<Ui.Keys of={grant.scopes} />} />
    </dl>
    <Ui.Confirm action={`${Paths.connections}/${grant.id}/revoke`} label="Revoke" verb="Revoke this connection">
      <p>It stops working with its next request. To connect again, the program must ask you again.</p>
    </Ui.Confirm>
  </li>
)

const ConnectionsPage = ({ items, visit }: { readonly visit: Visit; readonly items: ReadonlyArray<OAuthGrant> }) => (
  <Layout
    visit={visit}
    section="connections"
    title="Connected agents"
    tabs={<OwnAccessTabs current="connections" />}
    lead="Programs that work with your secrets over MCP. A revoked connection stops working with its next request."
  >
    {items.length === 0 ? (
      <Ui.Empty title="No connections">
        <p>Give an agent this address. A page like this one then asks you what it may do:</p>
        <div class="narrow center">
          <CopyText.Command>{`claude mcp add --transport http ampoule ${visit.ui.baseUrl}/mcp`}</CopyText.Command>
        </div>
      </Ui.Empty>
    ) : (
      <ul class="cards">
        {items.map((grant) => (
          <Connection grant={grant} visit={visit} />
        ))}
      </ul>
    )}
  </Layout>
)

const cookies = Effect.map(HttpServerRequest.HttpServerRequest, ({ headers }) => headers["cookie"])

const request = withIds(person, Schema.Struct({ uid: Uid }))

const sessionCookie = Effect.zipWith(AppConfig, Authenticate, SessionCookie.make)
/** Cookies that identify the interaction and the browser. */
const browser = Effect.gen(function* () {
  const { device } = yield* (yield* sessionCookie).presented
  return { cookies: yield* cookies, device }
})

const pendingConsent = within(request, ({ uid }) => Effect.flatMap(browser, (from) => UseCases.consent.show(uid, from)))
/** Allows the client's origin in the page's policy, because the form's response redirects to the client. */
const consent: Guard<AtConsent> = (handler) =>
  pendingConsent((at) => Effect.map(handler(at), (response) => Html.withFormActions(response, [at.redirectOrigin])))

const ask = screen(
  (at: AtConsent) =>
    Effect.gen(function* () {
      const projects = yield* UseCases.projects.list()
      const environments = yield* UseCases.environments.byProject("all")
      const restrictable: Restrictable = { projects: projects.slice(0, maxOffered), environments }
      return { ...at, restrictable }
    }),
  ConsentPage
)

/** Errors about the choice, which the person can fix in the form. */
const choiceErrors: ReadonlyMap<string, string> = new Map([
  ["TEAM_NOT_FOUND", "A team that you chose no longer exists"],
  ["PROJECT_NOT_FOUND", "A project that you chose does not exist in these teams"],
  ["ENVIRONMENT_NOT_FOUND", "An environment that you chose does not exist in these teams"],
  ["FORBIDDEN", "Your role in these teams does not allow what you chose"]
])
const asChoice = (error: unknown) => {
  const message = isApiError(error) ? choiceErrors.get(error._tag) : undefined
  return message === undefined ? error : new ValidationFailed({ message })
}

const approve = action(consent, {
  decode: (form) =>
    Effect.gen(function* () {
      for (const [name, message] of [
        ["scopes", "Choose at least one scope."],
        ["teamIds", "Choose at least one team."]
      ] as const) {
        if (!form.has(name)) return yield* new ValidationFailed({ message })
      }
      const { environmentIds = null, projectIds = null } = yield* reachOf(form)
      return yield* Form.decode(ConsentForm)({
        scopes: form.all("scopes"),
        teamIds: form.all("teamIds"),
        projectIds,
        environmentIds,
        another: form.has("another")
      })
    }),
  run: (decision, { uid }) =>
    Effect.flatMap(browser, (from) => UseCases.consent.approve(uid, from, decision)).pipe(Effect.mapError(asChoice)),
  done: (next) => Html.seeOther(next),
  again: ask
})

const deny = button(request, {
  run: ({ uid }) => Effect.flatMap(cookies, (cookie) => UseCases.consent.deny(uid, cookie)),
  done: (next) => Html.seeOther(next)
})

const list = screen(
  ({ visit }: AtPerson) => Effect.map(UseCases.oauthGrants.list(), (items) => ({ items, visit })),
  ConnectionsPage
)

const revoke = button(withIds(person, Schema.Struct({ grantId: OAuthGrantId })), {
  run: ({ grantId }) => UseCases.oauthGrants.revoke(grantId),
  done: () => to(Paths.connections, "connection-revoked")
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/connect/:uid", page(consent, ask)),
  HttpRouter.post("/app/connect/:uid/approve", approve),
  HttpRouter.post("/app/connect/:uid/deny", deny),
  HttpRouter.get(Paths.connections, page(person, list)),
  HttpRouter.post("/app/connections/:grantId/revoke", revoke)
)

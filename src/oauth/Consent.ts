/** Authorizations that wait for the person's consent. */
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import type { IncomingMessage, ServerResponse } from "node:http"
import type { InteractionResults } from "oidc-provider"
import { CurrentCaller, type Restrictions } from "#schema/Caller.ts"
import { GrantNotFound } from "#schema/Errors.ts"
import type { TeamId } from "#schema/Ids.ts"
import { allScopes, type Scope } from "#schema/Scopes.ts"
import { Audit } from "#src/trail/Audit.ts"
import { methods } from "#src/Methods.ts"
import * as Clients from "./Clients.ts"
import * as Dispatch from "./Dispatch.ts"
import { isReplaced, OAuthGrants } from "./OAuthGrants.ts"
import { AuthorizationServer } from "./Provider.ts"

/** A client's request that waits for a decision. */
export interface ConsentRequest {
  readonly uid: string
  readonly clientId: string
  readonly clientName: string
  readonly redirectHost: string
  /** The redirect leads to the person's own machine: to the client, or to a program that claims to be it. */
  readonly onThisMachine: boolean
  /** Address of the client's metadata document; null for a registered client. */
  readonly documentedAt: string | null
  readonly scopes: ReadonlyArray<Scope>
}

interface ConsentDecision extends Restrictions {
  readonly scopes: ReadonlyArray<Scope>
  readonly teamIds: ReadonlyArray<TeamId>
  readonly another: boolean
}

/** Cookies of the browser: those of the library's interaction, and the device cookie. */
interface BrowserCookies {
  readonly cookies: string | undefined
  readonly device: Redacted.Redacted | null
}

const uidPattern = /^[\w-]{20,64}$/

/** Whether the cookie belongs to the interaction; the library receives no others. */
export const isInteractionCookie = (name: string): boolean => /^ampoule_oauth(?:_resume)?(?:\.sig)?$/.test(name)

const services = Effect.all({ server: AuthorizationServer, grants: OAuthGrants, audit: Audit })
type Needs = Effect.Effect.Success<typeof services>

/** A request for the library: the page's address, with the cookies of the interaction only. */
const libraryPair = (
  issuer: string,
  uid: string,
  cookies: string | undefined
): { readonly request: IncomingMessage; readonly response: ServerResponse } => {
  const request = Dispatch.requestOf(issuer, {
    method: "GET",
    url: `/app/connect/${uid}`,
    headers: { cookie: Dispatch.cookieHeader(cookies, isInteractionCookie) }
  })
  return { request, response: Dispatch.responseTo(request).response }
}

/** The waiting request that this browser began; GRANT_NOT_FOUND for any other. */
const details = Effect.fnUntraced(function* ({ server }: Needs, uid: string, cookies: string | undefined) {
  if (!uidPattern.test(uid)) return yield* new GrantNotFound()
  const { provider } = yield* server.instance
  const pair = libraryPair(server.issuer, uid, cookies)
  const interaction = yield* Effect.tryPromise(() => provider.interactionDetails(pair.request, pair.response)).pipe(
    Effect.mapError(() => new GrantNotFound())
  )
  const { client_id: clientId, redirect_uri: redirectUri, scope } = interaction.params
  if (interaction.uid !== uid || typeof clientId !== "string" || typeof redirectUri !== "string") {
    return yield* new GrantNotFound()
  }
  const clientRecord = yield* Effect.tryPromise(() => provider.Client.find(clientId)).pipe(
    Effect.mapError(() => new GrantNotFound())
  )
  if (clientRecord === undefined) return yield* new GrantNotFound()
  const requested = typeof scope === "string" ? scope.split(" ") : []
  const client: ConsentRequest = {
    uid,
    clientId,
    clientName: clientRecord.clientName ?? "Unnamed client",
    redirectHost: Clients.hostOf(redirectUri),
    onThisMachine: Clients.isLoopback(redirectUri),
    documentedAt: Clients.isDocumented(clientId) ? clientId : null,
    scopes: allScopes.filter((one) => requested.includes(one))
  }
  /** Stores the decision; returns the next address for the browser. */
  const decide = (result: InteractionResults) =>
    Effect.promise(() =>
      provider.interactionResult(pair.request, pair.response, result, { mergeWithLastSubmission: false })
    )
  return { client, redirectUri, decide }
})

const show = Effect.fn("Consent.show")(function* (needs: Needs, uid: string, browser: BrowserCookies) {
  const { client, redirectUri } = yield* details(needs, uid, browser.cookies)
  const at = { clientId: client.clientId, deviceId: yield* needs.grants.deviceOf(browser.device) }
  const clientGrants = (yield* needs.grants.list()).filter(({ clientId }) => clientId === client.clientId)
  const earlier = clientGrants.find((one) => isReplaced(at, one))
  const elsewhere = clientGrants.filter((one) => !isReplaced(at, one)).length
  return { client, earlier, elsewhere, redirectOrigin: new URL(redirectUri).origin }
})

/** Returns the next address for the browser. */
const approve = Effect.fn("Consent.approve")(function* (
  needs: Needs,
  uid: string,
  browser: BrowserCookies,
  decision: ConsentDecision
) {
  const { client, decide } = yield* details(needs, uid, browser.cookies)
  const { grantId, userId } = yield* needs.grants.give({
    clientId: client.clientId,
    clientName: client.clientName,
    redirectHost: client.redirectHost,
    requestedScopes: client.scopes,
    deviceId: yield* needs.grants.deviceOf(browser.device),
    ...decision
  })
  return yield* decide({ login: { accountId: userId, remember: false }, consent: { grantId } })
})

/** Returns the next address for the browser. */
const deny = Effect.fn("Consent.deny")(function* (needs: Needs, uid: string, cookies: string | undefined) {
  const { client, decide } = yield* details(needs, uid, cookies)
  yield* needs.audit.record({
    actor: yield* CurrentCaller,
    action: "oauth.deny",
    outcome: "allowed",
    teamId: null,
    target: { type: "oauth_client", id: client.clientId, name: client.clientName }
  })
  return yield* decide({ error: "access_denied", error_description: "The person refused" })
})

export class Consent extends Effect.Service<Consent>()("oauth/Consent", {
  effect: Effect.map(services, (needs) => methods(needs, { show, approve, deny }))
}) {}

/** One authorization between the client's request and the person's decision. */
import * as Effect from "effect/Effect"
import type { IncomingMessage, ServerResponse } from "node:http"
import type { Caller } from "#schema/Caller.ts"
import { GrantNotFound } from "#schema/Errors.ts"
import type { ProjectId, TeamId } from "#schema/Ids.ts"
import { allScopes, type Scope } from "#schema/Scopes.ts"
import { Audit } from "#src/access/Audit.ts"
import * as Dispatch from "./Dispatch.ts"
import { OAuthGrants } from "./OAuthGrants.ts"
import { AuthorizationServer } from "./Provider.ts"
import * as Redirects from "./Redirects.ts"

export interface Asking {
  readonly uid: string
  readonly clientId: string
  readonly clientName: string
  readonly redirectHost: string
  /** The client runs on the person's own machine, or something there that says it is this client. */
  readonly onThisMachine: boolean
  /** The client is known by a document at this address; else it named itself. */
  readonly documentedAt: string | null
  readonly scopes: ReadonlyArray<Scope>
}

export interface Decision {
  readonly scopes: ReadonlyArray<Scope>
  readonly teamIds: ReadonlyArray<TeamId>
  readonly projectIds: ReadonlyArray<ProjectId> | null
}

const uidPattern = /^[\w-]{20,64}$/

/** Cookies of the interaction, and nothing else that the browser holds. */
export const isInteractionCookie = (name: string): boolean => /^ampoule_oauth(?:_resume)?(?:\.sig)?$/.test(name)

export class Consent extends Effect.Service<Consent>()("oauth/Consent", {
  effect: Effect.gen(function* () {
    const server = yield* AuthorizationServer
    const grants = yield* OAuthGrants
    const audit = yield* Audit

    const pair = (
      uid: string,
      cookies: string | undefined
    ): { readonly request: IncomingMessage; readonly response: ServerResponse } => {
      const request = Dispatch.requestOf(server.issuer, {
        method: "GET",
        url: `/app/connect/${uid}`,
        headers: { cookie: Dispatch.cookieHeader(cookies, isInteractionCookie) }
      })
      return { request, response: Dispatch.responseTo(request).response }
    }

    /** The request that this browser began and that waits for a decision; anything else is not there. */
    const details = Effect.fnUntraced(function* (uid: string, cookies: string | undefined) {
      if (!uidPattern.test(uid)) return yield* new GrantNotFound()
      const { provider } = yield* server.instance
      const { request, response } = pair(uid, cookies)
      const found = yield* Effect.option(Effect.tryPromise(() => provider.interactionDetails(request, response)))
      if (found._tag === "None" || found.value.uid !== uid) return yield* new GrantNotFound()
      const { params } = found.value
      const { client_id: clientId, redirect_uri: redirectUri, scope } = params
      if (typeof clientId !== "string" || typeof redirectUri !== "string") return yield* new GrantNotFound()
      const client = yield* Effect.option(Effect.tryPromise(() => provider.Client.find(clientId)))
      if (client._tag === "None" || client.value === undefined) return yield* new GrantNotFound()
      const asked = typeof scope === "string" ? scope.split(" ") : []
      const asking: Asking = {
        uid,
        clientId,
        clientName: client.value.clientName ?? "Unnamed client",
        redirectHost: Redirects.hostOf(redirectUri),
        onThisMachine: Redirects.isLoopback(redirectUri),
        documentedAt: clientId.startsWith("https://") ? clientId : null,
        scopes: allScopes.filter((one) => asked.includes(one))
      }
      return { asking, redirectUri, provider, request, response }
    })

    const show = Effect.fn("Consent.show")(function* (uid: string, cookies: string | undefined) {
      const { asking, redirectUri } = yield* details(uid, cookies)
      return { asking, redirectOrigin: new URL(redirectUri).origin }
    })

    /** Where the browser goes next. */
    const approve = Effect.fn("Consent.approve")(function* (
      caller: Caller,
      uid: string,
      cookies: string | undefined,
      decision: Decision
    ) {
      const { asking, provider, request, response } = yield* details(uid, cookies)
      const grantId = yield* grants.give(caller, {
        clientId: asking.clientId,
        clientName: asking.clientName,
        redirectHost: asking.redirectHost,
        asked: asking.scopes,
        ...decision
      })
      const result = {
        login: { accountId: caller.user?.id ?? "", remember: false },
        consent: { grantId }
      }
      return yield* Effect.promise(() =>
        provider.interactionResult(request, response, result, { mergeWithLastSubmission: false })
      )
    })

    const deny = Effect.fn("Consent.deny")(function* (caller: Caller, uid: string, cookies: string | undefined) {
      const { asking, provider, request, response } = yield* details(uid, cookies)
      yield* audit.record({
        actor: caller,
        action: "oauth.deny",
        outcome: "allowed",
        teamId: null,
        target: { type: "oauth_client", id: asking.clientId, name: asking.clientName }
      })
      const result = { error: "access_denied", error_description: "The person refused" }
      return yield* Effect.promise(() =>
        provider.interactionResult(request, response, result, { mergeWithLastSubmission: false })
      )
    })

    return { show, approve, deny } as const
  })
}) {}

/** The actor of an entry. */
import type { Caller } from "#schema/Caller.ts"

/** A caller, a person who is signing in, a machine by its new token, or the service itself. */
export type Actor =
  | Caller
  | { readonly userId: string; readonly email: string }
  | { readonly tokenId: string; readonly name: string }
  | "system"

export const actorOf = (actor: Actor) => {
  if (actor === "system") return { id: "system", name: "system", type: "system" }
  if ("tokenId" in actor) return { id: actor.tokenId, name: actor.name, type: "api_token" }
  if ("userId" in actor) return { id: actor.userId, name: actor.email, type: "user" }
  switch (actor.kind) {
    case "api_token":
      return { id: actor.credentialId, name: actor.name ?? "", type: "api_token" }
    case "cli_grant":
      return { id: actor.credentialId, name: actor.user?.email ?? "", type: "cli_grant" }
    case "oauth_token":
      return { id: actor.credentialId, name: actor.name ?? "", type: "oauth_client" }
    default:
      return { id: actor.user?.id ?? "", name: actor.user?.email ?? "", type: "user" }
  }
}

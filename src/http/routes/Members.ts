import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { ServerApi } from "#schema/ServerApi.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import { Invitations } from "#src/projects/Invitations.ts"
import { Members } from "#src/projects/Members.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"
import * as SessionCookie from "#src/http/authentication/SessionCookie.ts"
import { acceptWaiting } from "./SecondPerson.ts"

export const layer = Endpoints.group(ServerApi, "members", (handlers) =>
  Effect.gen(function* () {
    const members = yield* Members
    const invitations = yield* Invitations
    const cookie = SessionCookie.make(yield* AppConfig, yield* Authenticate)

    return handlers
      .handle("list", ({ path }) => Effect.map(members.list(path.teamId), (items) => ({ items })))
      .handle("invite", ({ path, payload }) => acceptWaiting(invitations.invite(path.teamId, payload)))
      .handle("acceptInvitation", ({ payload }) =>
        Effect.gen(function* () {
          yield* cookie.refuseCrossSite
          const { session, teams, user } = yield* invitations.accept(payload, yield* cookie.signedIn)
          if (Option.isSome(session)) yield* cookie.set(session.value)
          return { user, teams }
        })
      )
      .handle("update", ({ path, payload }) => acceptWaiting(members.update(path.teamId, path.userId, payload)))
      .handle("remove", ({ path }) =>
        Effect.map(members.remove(path.teamId, path.userId), (waysIn) => ({ deleted: true, waysIn }))
      )
      .handle("passwordReset", ({ path }) =>
        acceptWaiting(
          Effect.map(members.passwordResetLink(path.teamId, path.userId), (link) => ({
            resetUrl: Redacted.value(link)
          }))
        )
      )
  })
)

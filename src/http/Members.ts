import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { ServerApi } from "#schema/Api.ts"
import { Access } from "#src/access/Access.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import { Invitations } from "#src/projects/Invitations.ts"
import { Members } from "#src/projects/Members.ts"
import * as SessionCookie from "./SessionCookie.ts"

export const layer = HttpApiBuilder.group(ServerApi, "members", (handlers) =>
  Effect.gen(function* () {
    const access = yield* Access
    const members = yield* Members
    const invitations = yield* Invitations
    const cookie = SessionCookie.make(yield* AppConfig, yield* Authenticate)

    return handlers
      .handle("list", ({ path }) =>
        Effect.gen(function* () {
          const permit = yield* access.team("members:read", path.teamId, { audit: "member.list" })
          return { items: yield* members.list(permit) }
        })
      )
      .handle("invite", ({ path, payload }) =>
        Effect.gen(function* () {
          const permit = yield* access.team("members:manage", path.teamId, { audit: "member.invite" })
          return yield* invitations.invite(permit, payload)
        })
      )
      .handle("acceptInvitation", ({ payload }) =>
        Effect.gen(function* () {
          yield* cookie.refuseCrossSite
          const { session, teams, user } = yield* invitations.accept(payload, yield* cookie.signedIn)
          if (Option.isSome(session)) yield* cookie.set(session.value)
          return { user, teams }
        })
      )
      .handle("update", ({ path, payload }) =>
        Effect.gen(function* () {
          const permit = yield* access.team("members:manage", path.teamId, { audit: "member.update" })
          return yield* members.update(permit, path.userId, payload)
        })
      )
      .handle("remove", ({ path }) =>
        Effect.gen(function* () {
          const permit = yield* access.team("members:manage", path.teamId, { audit: "member.remove" })
          yield* members.remove(permit, path.userId)
          return { deleted: true }
        })
      )
      .handle("passwordReset", ({ path }) =>
        Effect.gen(function* () {
          const permit = yield* access.team("members:manage", path.teamId, { audit: "password.reset_link" })
          return { resetUrl: Redacted.value(yield* members.passwordResetLink(permit, path.userId)) }
        })
      )
  })
)

/** Sessions of a person, listed and ended with any credential of theirs. */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { PersonCredential } from "./Authentication.ts"
import { ManagedTeam } from "./DeviceApi.ts"
import * as Errors from "./Errors.ts"
import { uuidPattern } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { optional } from "./Strict.ts"
import { Timestamp } from "./Values.ts"
import { answers, DeletedAck, Uuid } from "./Wire.ts"

export const MySession = Schema.Struct({
  id: Uuid,
  /** For a request with a session: true for this session. */
  current: Schema.Boolean,
  createdAt: Timestamp,
  expiresAt: Timestamp,
  lastUsedAt: Timestamp,
  lastUsedIp: Schema.NullOr(Schema.String),
  lastUsedUserAgent: Schema.NullOr(Schema.String),
  /** Optional, because older servers do not send it; this one always does. */
  manages: optional(Schema.NullOr(ManagedTeam))
}).annotations({ identifier: "MySession" })
export type MySession = typeof MySession.Type
const MySessionList = Schema.Struct({ items: Schema.Array(MySession) }).annotations({ identifier: "MySessionList" })

/** Id of the record, never the credential. */
const SessionId = Schema.String.pipe(Schema.filter((text) => uuidPattern.test(text) || "must be a UUID")).annotations({
  jsonSchema: { type: "string", format: "uuid" }
})

export class MySessionsApi extends HttpApiGroup.make("mySessions")
  .add(
    HttpApiEndpoint.get("list", "/me/sessions")
      .addSuccess(answers(200, MySessionList))
      .addError(Errors.ScopeMissing)
      .middleware(PersonCredential)
      .annotateContext(
        operation({
          scope: "identity:read",
          summary: "List own sessions",
          description:
            "Browsers in which the person is signed in, and command lines that manage a team now. Last used first.",
          response: {
            items: [
              {
                id: "01980a5d-44aa-7f00-b1c2-3d4e5f607182",
                current: true,
                createdAt: "2026-11-21T08:00:00.000Z",
                expiresAt: "2026-11-28T08:00:00.000Z",
                lastUsedAt: "2026-11-21T09:30:00.000Z",
                lastUsedIp: "192.0.2.1",
                lastUsedUserAgent: "Mozilla/5.0",
                manages: null
              }
            ]
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.del("end", "/me/sessions/:sessionId")
      .setPath(Schema.Struct({ sessionId: SessionId }))
      .addSuccess(answers(200, DeletedAck))
      .addError(Schema.Union(Errors.GrantNotFound, Errors.ScopeMissing))
      .middleware(PersonCredential)
      .annotateContext(
        operation({
          scope: "identity:read",
          summary: "End an own session",
          description: "Takes effect with the next request.",
          response: { deleted: true }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Own sessions." })) {}

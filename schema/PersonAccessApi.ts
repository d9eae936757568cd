/** All access of one person in a team, and how to end it (docs/contract/access.md). */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { AccessGrant } from "./AccessApi.ts"
import { ManagingCredential, SessionCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { EnvironmentIdOut, ProjectIdOut, TeamId, UserId, uuidPattern } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { BadBody, MayNotManageTeam } from "./RouteErrors.ts"
import { optional, strict } from "./Strict.ts"
import { Member } from "./TeamsApi.ts"
import { Timestamp } from "./Values.ts"
import { EndedWays } from "./WaysIn.ts"
import { answers, DeletedAck, GrantLevelOut, Integer, openEnum, Slug } from "./Wire.ts"

const ReachedEnvironment = Schema.Struct({
  projectId: ProjectIdOut,
  project: Schema.String,
  environmentId: EnvironmentIdOut,
  environment: Slug,
  level: GrantLevelOut,
  by: openEnum("role", "grant"),
  until: Schema.NullOr(Timestamp).annotations({ description: "Null: it does not expire." }),
  lastReadAt: Schema.NullOr(Timestamp).annotations({
    description: "Last read of a value there by the person, from the trail."
  })
}).annotations({ identifier: "ReachedEnvironment" })
export type ReachedEnvironment = typeof ReachedEnvironment.Type

const HeldCredential = Schema.Struct({
  type: openEnum("session", "cli_grant", "oauth_grant", "api_token", "machine_rule"),
  id: Schema.String,
  name: Schema.String.annotations({ description: "Empty where it has none." }),
  expiresAt: Schema.NullOr(Timestamp),
  lastUsedAt: Schema.NullOr(Timestamp)
}).annotations({
  identifier: "HeldCredential",
  description: "A credential of the person, or one that the person created."
})
export type HeldCredential = typeof HeldCredential.Type

const MemberAuthenticator = Schema.Struct({
  type: openEnum("passkey", "app", "identity"),
  id: Schema.String,
  name: Schema.String.annotations({ description: "For an identity: its issuer." }),
  address: Schema.NullOr(Schema.String).annotations({
    description: "For an identity: the address that the issuer stated last, verified or not."
  }),
  addedAt: Timestamp,
  lastUsedAt: Schema.NullOr(Timestamp),
  opensTeam: Schema.Boolean.annotations({ description: "False: a sign-in with it does not reach this team." }),
  waitsForOwner: Schema.Boolean.annotations({ description: "True until an owner of this team confirms it." })
}).annotations({
  identifier: "MemberAuthenticator",
  description: "A passkey, an authenticator app or a linked identity of the person, with the day it was added."
})
export type MemberAuthenticator = typeof MemberAuthenticator.Type

export const PersonAccess = Schema.Struct({
  member: Member,
  environments: Schema.Array(ReachedEnvironment).annotations({
    description: "Highest level in each environment that the person reaches, at most 1,000; empty when deactivated."
  }),
  grants: Schema.Array(AccessGrant),
  credentials: Schema.Array(HeldCredential),
  authenticators: Schema.Array(MemberAuthenticator).annotations({ description: "Newest first." }),
  endsSessions: Schema.Boolean.annotations({
    description: "True when ending all access also signs the person out, because the caller manages all of their teams."
  })
}).annotations({ identifier: "PersonAccess" })
export type PersonAccess = typeof PersonAccess.Type

export const EndAccess = strict(Schema.Struct({ deactivate: optional(Schema.Boolean) })).annotations({
  identifier: "EndAccess",
  description: "deactivate: also deactivates the membership, until someone activates it again. false by default."
})
export type EndAccess = typeof EndAccess.Type

export const EndedAccess = Schema.Struct({
  grants: Integer,
  tokens: Integer,
  rules: Integer,
  logins: Integer,
  agents: Integer,
  signedOut: Schema.Boolean,
  waysIn: EndedWays,
  active: Schema.Boolean
}).annotations({ identifier: "EndedAccess", description: "Numbers of ended items of each kind." })
export type EndedAccess = typeof EndedAccess.Type

/** Id of the record, never the credential. */
const CredentialId = Schema.String.pipe(
  Schema.filter((text) => uuidPattern.test(text) || "must be a UUID")
).annotations({
  jsonSchema: { type: "string", format: "uuid" }
})
const MemberPath = Schema.Struct({ teamId: TeamId, userId: UserId })
const place = {
  projectId: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e",
  project: "Shop",
  environmentId: "01980a5e-7c12-7000-8a1b-2c3d4e5f6071",
  environment: "production"
}

const ConfirmedAck = Schema.Struct({ confirmed: Schema.Boolean }).annotations({ identifier: "ConfirmedAck" })

/** For managers of members: lists and ends the access of each. */
export class PersonAccessApi extends HttpApiGroup.make("personAccess")
  .add(
    HttpApiEndpoint.get("show", "/teams/:teamId/members/:userId/access")
      .setPath(MemberPath)
      .addSuccess(answers(200, PersonAccess))
      .addError(Schema.Union(MayNotManageTeam, Errors.MemberNotFound))
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          summary: "Show all access of a person",
          description: "Environments with level and kind of access, grants, and all valid credentials.",
          response: {
            member: {
              userId: "01980a5d-11aa-7f00-b1c2-3d4e5f607182",
              email: "grace@example.com",
              name: "Grace",
              role: "member",
              active: true
            },
            environments: [
              { ...place, level: "values", by: "role", until: null, lastReadAt: "2026-11-21T08:00:00.000Z" }
            ],
            grants: [],
            credentials: [
              {
                type: "cli_grant",
                id: "01980a60-4b5c-7d6e-9f70-8192a3b4c5d6",
                name: "grace-laptop",
                expiresAt: "2027-05-20T08:00:00.000Z",
                lastUsedAt: "2026-11-21T08:00:00.000Z"
              }
            ],
            authenticators: [
              {
                type: "passkey",
                id: "01980a61-0a1b-7c2d-8e3f-405162738495",
                name: "Grace's phone",
                address: null,
                addedAt: "2026-11-20T08:00:00.000Z",
                lastUsedAt: null,
                opensTeam: true,
                waitsForOwner: false
              }
            ],
            endsSessions: true
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("end", "/teams/:teamId/members/:userId/end-access")
      .setPath(MemberPath)
      .setPayload(EndAccess)
      .addSuccess(answers(200, EndedAccess))
      .addError(Schema.Union(MayNotManageTeam, Errors.MemberNotFound, BadBody))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "End all access of a person",
          description:
            "Grants, pending requests, API tokens and trust rules that the person created, CLI logins, connected agents and links, in one transaction. Sessions too, if the caller manages all teams of the person.",
          request: { deactivate: true },
          response: {
            grants: 1,
            tokens: 2,
            rules: 0,
            logins: 1,
            agents: 1,
            signedOut: true,
            waysIn: [{ way: "sessions", ending: "ended", count: 2 }],
            active: false
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.del("endOne", "/teams/:teamId/members/:userId/credentials/:credentialId")
      .setPath(Schema.Struct({ ...MemberPath.fields, credentialId: CredentialId }))
      .addSuccess(answers(200, DeletedAck))
      .addError(Schema.Union(MayNotManageTeam, Errors.MemberNotFound, Errors.GrantNotFound))
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          summary: "End one credential of a person",
          description:
            "A session, CLI login, connected agent, API token or trust rule that `access` lists. Takes effect with the next request. A login or an agent loses this team. A session ends only if the caller manages all teams of the person.",
          response: { deleted: true }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("confirm", "/teams/:teamId/members/:userId/authenticators/:authenticatorId/confirm")
      .setPath(Schema.Struct({ ...MemberPath.fields, authenticatorId: CredentialId }))
      .addSuccess(answers(200, ConfirmedAck))
      .addError(Errors.TeamNotFound)
      .addError(Errors.MemberNotFound)
      .addError(Errors.GrantNotFound)
      .addError(Errors.Forbidden)
      .addError(Errors.StepUpRequired)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Confirm an authenticator of a person",
          description:
            "For owners. A passkey, an app or an identity that waits for an owner opens this team again, from the person's next sign-in.",
          response: { confirmed: true }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "All access of one person in a team." })) {}

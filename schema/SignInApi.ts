/** Sign-in with OpenID Connect: issuers of a team, rules for joining it, and linked identities (docs/sign-in.md). */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { SessionCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { TeamId, UserId, UserIdOut, uuidPattern } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { BadBody, MayNotManageTeam } from "./RouteErrors.ts"
import { atLeastOne, optional, strict } from "./Strict.ts"
import { boundedList, CredentialText, Name, Timestamp } from "./Values.ts"
import { answers, DeletedAck, openEnum, RoleOut, Uuid } from "./Wire.ts"

/** Printable ASCII: text that is compared byte by byte must not contain look-alikes. */
const ascii = (max: number, description: string) =>
  Schema.String.pipe(
    Schema.filter((s) => (s.length <= max && /^[\x21-\x7e]+$/.test(s)) || `must be 1 to ${max} ASCII characters`)
  ).annotations({ jsonSchema: { type: "string", minLength: 1, maxLength: max, pattern: "^[!-~]+$" }, description })

const IssuerUrl = ascii(500, "Exact address of the issuer; the rest is found through OpenID discovery.")
const ClientId = ascii(255, "Id of this server at the issuer.")
const FactorValue = ascii(100, "A value of amr, or of acr, that counts as a second factor.")
const Factors = boundedList(FactorValue, 0, 20).annotations({
  description:
    "Values of amr or acr that count as a second factor. Default: none, so sign-ins at the issuer do not count as a second factor."
})
const scopesPattern = /^openid( [\x21\x23-\x5b\x5d-\x7e]+){0,20}$/
const Scopes = Schema.String.pipe(
  Schema.filter(
    (s) => (s.length <= 300 && scopesPattern.test(s)) || "must be openid and other scopes, one space between"
  )
).annotations({
  jsonSchema: { type: "string", maxLength: 300, pattern: "^openid( [!#-\\[\\]-~]+){0,20}$" },
  description: "Requested scopes; default: openid email profile."
})

/** Key of an installation's issuer. Issuers of a team have an id. */
const installationKey = /^[a-z][a-z0-9-]{0,39}$/
export const IssuerKey = Schema.String.pipe(
  Schema.filter((s) => installationKey.test(s) || uuidPattern.test(s) || "must be the key of an issuer")
).annotations({
  jsonSchema: { type: "string", pattern: "^[0-9a-z][0-9a-z-]{0,39}$" },
  description: "Key of an issuer."
})

/** Setting `AMPOULE_SIGN_IN_ISSUERS`. */
export const InstallationIssuers = Schema.parseJson(
  Schema.Array(
    strict(
      Schema.Struct({
        key: Schema.String.pipe(Schema.filter((s) => installationKey.test(s))),
        name: Name,
        issuer: IssuerUrl,
        clientId: ClientId,
        clientSecret: optional(Schema.NonEmptyString),
        scopes: optional(Scopes),
        factors: optional(Factors),
        trustsEmail: optional(Schema.Boolean)
      })
    )
  ).pipe(Schema.filter((all) => all.length <= 100 && new Set(all.map(({ key }) => key)).size === all.length))
)

export const CreateIssuer = strict(
  Schema.Struct({
    name: Name,
    issuer: IssuerUrl,
    clientId: ClientId,
    clientSecret: optional(CredentialText.annotations({ description: "Stored sealed, and never returned." })),
    scopes: optional(Scopes),
    factors: optional(Factors)
  })
).annotations({ identifier: "CreateIssuer" })
export type CreateIssuer = typeof CreateIssuer.Type

export const UpdateIssuer = strict(
  atLeastOne(
    Schema.Struct({
      name: optional(Name),
      clientSecret: optional(CredentialText),
      factors: optional(Factors),
      enabled: optional(Schema.Boolean)
    }),
    "name",
    "clientSecret",
    "factors",
    "enabled"
  )
).annotations({ identifier: "UpdateIssuer" })
export type UpdateIssuer = typeof UpdateIssuer.Type

const Url = Schema.String.annotations({ jsonSchema: { type: "string", format: "uri" } })

export const SignInIssuer = Schema.Struct({
  key: Schema.String,
  /** True for an issuer of the installation, which only the operator can change. */
  ofInstallation: Schema.Boolean,
  name: Schema.String,
  issuer: Schema.String,
  clientId: Schema.String,
  scopes: Schema.String,
  factors: Schema.Array(Schema.String),
  enabled: Schema.Boolean,
  redirectUri: Url,
  logoutUri: Url
}).annotations({ identifier: "SignInIssuer", description: "Never with its client secret." })
export type SignInIssuer = typeof SignInIssuer.Type

/** Claims about time, audience or method, which do not identify a person. */
const reservedClaims: ReadonlySet<string> = new Set([
  "iss",
  "aud",
  "azp",
  "exp",
  "nbf",
  "iat",
  "jti",
  "nonce",
  "acr",
  "amr",
  "auth_time",
  "at_hash",
  "c_hash",
  "sid",
  "email_verified"
])
const claimPattern = /^[A-Za-z][A-Za-z0-9_.:/-]{0,99}$/
const ClaimName = Schema.String.pipe(
  Schema.filter(
    (s) =>
      (claimPattern.test(s) && !reservedClaims.has(s)) || "must be a claim that says who somebody is, such as groups"
  )
).annotations({ jsonSchema: { type: "string", pattern: claimPattern.source, not: { enum: [...reservedClaims] } } })
const ClaimValue = Schema.String.pipe(
  Schema.filter(
    (s) => (s.isWellFormed() && /^[^\p{Cc}]{1,255}$/u.test(s)) || "must be 1 to 255 characters, to the letter"
  )
).annotations({ jsonSchema: { type: "string", minLength: 1, maxLength: 255 } })

const RuledRole = Schema.Literal("admin", "member", "viewer").annotations({
  message: () => "must be admin, member or viewer: an owner is made by an owner",
  identifier: "RuledRole"
})
export const CreateSignInRule = strict(
  Schema.Struct({ issuer: IssuerKey, claim: ClaimName, value: ClaimValue, role: RuledRole })
).annotations({
  identifier: "CreateSignInRule",
  description: "A person whose claim has this exact value, alone or in a list, receives the role at the next sign-in."
})
export type CreateSignInRule = typeof CreateSignInRule.Type

export const SignInRule = Schema.Struct({
  id: Uuid,
  issuer: Schema.String,
  claim: Schema.String,
  value: Schema.String,
  role: openEnum("admin", "member", "viewer"),
  createdAt: Timestamp
}).annotations({ identifier: "SignInRule" })
export type SignInRule = typeof SignInRule.Type

export const RequireSignIn = strict(
  Schema.Struct({
    only: Schema.NullOr(boundedList(IssuerKey, 1, 20)).annotations({
      description: "The only issuers that the team accepts; null: passwords are accepted too."
    }),
    breakGlass: boundedList(UserId, 0, 20).annotations({
      description:
        "Break-glass owners, who can still use a password; each use raises an alarm. At least one, unless only is null."
    })
  })
).annotations({ identifier: "RequireSignIn" })
export type RequireSignIn = typeof RequireSignIn.Type

const BreakGlassOwner = Schema.Struct({ userId: UserIdOut, email: Schema.String, role: RoleOut }).annotations({
  identifier: "BreakGlassOwner",
  description: "Break-glass owner, with the present role."
})

export const TeamSignIn = Schema.Struct({
  issuers: Schema.Array(SignInIssuer),
  rules: Schema.Array(SignInRule),
  only: Schema.NullOr(Schema.Array(Schema.String)),
  breakGlass: Schema.Array(BreakGlassOwner)
}).annotations({ identifier: "TeamSignIn" })
export type TeamSignIn = typeof TeamSignIn.Type

export const MySignIn = Schema.Struct({
  id: Uuid,
  name: Schema.String,
  issuer: Schema.String,
  subject: Schema.String,
  createdAt: Timestamp,
  lastUsedAt: Schema.NullOr(Timestamp)
}).annotations({ identifier: "MySignIn", description: "An identity at an issuer that signs the person in." })
export type MySignIn = typeof MySignIn.Type
const MySignInList = Schema.Struct({ items: Schema.Array(MySignIn) }).annotations({ identifier: "MySignInList" })

const uuidOf = (description: string) =>
  Schema.String.pipe(Schema.filter((text) => uuidPattern.test(text) || "must be a UUID")).annotations({
    jsonSchema: { type: "string", format: "uuid" },
    description
  })
const TeamPath = Schema.Struct({ teamId: TeamId })
const IssuerPath = Schema.Struct({ teamId: TeamId, issuerId: uuidOf("Id of a team's issuer.") })
const RulePath = Schema.Struct({ teamId: TeamId, ruleId: uuidOf("Id of a join rule.") })

const issuerExample = {
  key: "01980a71-2c3d-7e4f-8a5b-6c7d8e9f0a1b",
  ofInstallation: false,
  name: "Acme",
  issuer: "https://login.acme.example",
  clientId: "ampoule",
  scopes: "openid email profile groups",
  factors: ["mfa"],
  enabled: true,
  redirectUri: "https://ampoule.example.com/app/sign-in/with/01980a71-2c3d-7e4f-8a5b-6c7d8e9f0a1b/callback",
  logoutUri: "https://ampoule.example.com/app/sign-in/with/01980a71-2c3d-7e4f-8a5b-6c7d8e9f0a1b/logout"
}
const ruleExample = {
  id: "01980a72-3d4e-7f50-9b6c-7d8e9f0a1b2c",
  issuer: issuerExample.key,
  claim: "groups",
  value: "platform",
  role: "member",
  createdAt: "2026-11-23T08:00:00.000Z"
}
const settingsExample = {
  issuers: [issuerExample],
  rules: [ruleExample],
  only: [issuerExample.key],
  breakGlass: [{ userId: "01980a5d-11aa-7f00-b1c2-3d4e5f607182", email: "ada@example.com", role: "owner" }]
}

/** Sign-in to a team, for its owners in a session. */
export class TeamSignInApi extends HttpApiGroup.make("teamSignIn")
  .add(
    HttpApiEndpoint.get("get", "/teams/:teamId/sign-in")
      .setPath(TeamPath)
      .addSuccess(answers(200, TeamSignIn))
      .addError(MayNotManageTeam)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Show the sign-in rules of a team",
          description: "Issuers of the team and of the installation, join rules, and whether passwords are accepted.",
          response: settingsExample
        })
      )
  )
  .add(
    HttpApiEndpoint.post("createIssuer", "/teams/:teamId/sign-in/issuers")
      .setPath(TeamPath)
      .setPayload(CreateIssuer)
      .addSuccess(answers(201, SignInIssuer))
      .addError(Schema.Union(MayNotManageTeam, Errors.PlanLimitReached, BadBody))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Add a sign-in issuer",
          description:
            "OpenID Connect, only for this team. The server first fetches its metadata (400 VALIDATION_FAILED on `issuer`).",
          request: {
            name: "Acme",
            issuer: "https://login.acme.example",
            clientId: "ampoule",
            clientSecret: "<CLIENT_SECRET>",
            scopes: "openid email profile groups",
            factors: ["mfa"]
          },
          response: issuerExample
        })
      )
  )
  .add(
    HttpApiEndpoint.patch("updateIssuer", "/teams/:teamId/sign-in/issuers/:issuerId")
      .setPath(IssuerPath)
      .setPayload(UpdateIssuer)
      .addSuccess(answers(200, SignInIssuer))
      .addError(Schema.Union(MayNotManageTeam, Errors.GrantNotFound, BadBody))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Change a sign-in issuer",
          description: "Disabling it stops sign-ins and ends the sessions that it opened.",
          request: { enabled: false },
          response: { ...issuerExample, enabled: false }
        })
      )
  )
  .add(
    HttpApiEndpoint.del("deleteIssuer", "/teams/:teamId/sign-in/issuers/:issuerId")
      .setPath(IssuerPath)
      .addSuccess(answers(200, DeletedAck))
      .addError(Schema.Union(MayNotManageTeam, Errors.GrantNotFound))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Remove a sign-in issuer",
          description: "Removes its rules, identities and sessions too. Members stay members.",
          response: { deleted: true }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("createRule", "/teams/:teamId/sign-in/rules")
      .setPath(TeamPath)
      .setPayload(CreateSignInRule)
      .addSuccess(answers(201, SignInRule))
      .addError(Schema.Union(MayNotManageTeam, Errors.PlanLimitReached, BadBody))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Add a join rule",
          description:
            "Evaluated at each sign-in by the issuer. A person who no longer matches any rule leaves the team.",
          request: { issuer: issuerExample.key, claim: "groups", value: "platform", role: "member" },
          response: ruleExample
        })
      )
  )
  .add(
    HttpApiEndpoint.del("deleteRule", "/teams/:teamId/sign-in/rules/:ruleId")
      .setPath(RulePath)
      .addSuccess(answers(200, DeletedAck))
      .addError(Schema.Union(MayNotManageTeam, Errors.GrantNotFound))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Remove a join rule",
          description: "A person who matches no other rule leaves the team at the next sign-in.",
          response: { deleted: true }
        })
      )
  )
  .add(
    HttpApiEndpoint.patch("require", "/teams/:teamId/sign-in")
      .setPath(TeamPath)
      .setPayload(RequireSignIn)
      .addSuccess(answers(200, TeamSignIn))
      .addError(Schema.Union(MayNotManageTeam, BadBody))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Require issuers",
          description:
            "The team stops accepting passwords, except from break-glass owners. Only an owner who signed in with one of these issuers may require them.",
          request: { only: [issuerExample.key], breakGlass: ["01980a5d-11aa-7f00-b1c2-3d4e5f607182"] },
          response: settingsExample
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Sign-in rules of a team." })) {}

export class MySignInsApi extends HttpApiGroup.make("mySignIns")
  .add(
    HttpApiEndpoint.get("list", "/me/sign-ins")
      .addSuccess(answers(200, MySignInList))
      .addError(Errors.Forbidden)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "List linked sign-ins",
          description: "Identities at issuers that sign the person in. Linking happens in the dashboard.",
          response: {
            items: [
              {
                id: "01980a73-4e5f-7061-ac7d-8e9f0a1b2c3d",
                name: "Acme",
                issuer: "https://login.acme.example",
                subject: "248289761001",
                createdAt: "2026-11-23T08:00:00.000Z",
                lastUsedAt: null
              }
            ]
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.del("remove", "/me/sign-ins/:signInId")
      .setPath(Schema.Struct({ signInId: uuidOf("Id of a linked sign-in.") }))
      .addSuccess(answers(200, DeletedAck))
      .addError(Schema.Union(Errors.GrantNotFound, Errors.Forbidden))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Remove a linked sign-in",
          description: "Ends the sessions that it opened. The last one of an account without a password stays.",
          response: { deleted: true }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Linked sign-ins." })) {}

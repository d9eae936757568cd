/**
 * Incidents: values that a person or credential received, listed, revoked and replaced (docs/contract/incidents.md).
 */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { PersonCredential, SessionCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { IncidentId, IncidentIdOut, ProjectIdOut, SecretId, SecretIdOut, TeamId, TeamIdOut, UserId } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { BadBody, BreaksTheEnvironment, MayNotManageTeam, MayNotReadTeam, MayNotWrite } from "./RouteErrors.ts"
import { hasOneOf, optional, strict } from "./Strict.ts"
import { Instant, integer, isPlainName, plainNamePattern, Timestamp } from "./Values.ts"
import { currentWays } from "./ExposureWays.ts"
import { answers, Integer, Key, openEnum, Slug, Uuid } from "./Wire.ts"

const plainTextOf = (description: string) =>
  Schema.String.pipe(
    Schema.filter((s) => (s.length > 0 && s.length <= 400 && isPlainName(s)) || "must be 1 to 400 plain characters")
  ).annotations({
    jsonSchema: { type: "string", minLength: 1, maxLength: 400, pattern: plainNamePattern },
    description
  })

const subjectFields = {
  person: optional(plainTextOf("Member of the team, by e-mail or id.")),
  token: optional(plainTextOf("API token or CI rule, by id or name.")),
  grant: optional(plainTextOf("CLI login or connected agent, by id.")),
  since: optional(Instant)
}
const exactlyOne = (subject: { readonly person?: string; readonly token?: string; readonly grant?: string }) => {
  const count = [subject.person, subject.token, subject.grant].filter((one) => one !== undefined).length
  return count === 1 ? undefined : { path: ["person"], message: "must be given, or one of token and grant" }
}
/** OpenAPI cannot express the rule for these three in a query. */
export const IncidentQuery = strict(Schema.Struct(subjectFields).pipe(Schema.filter(exactlyOne, { jsonSchema: {} })))
export type IncidentQuery = typeof IncidentQuery.Type

export const OpenIncident = strict(
  Schema.Struct({ ...subjectFields, deactivate: optional(Schema.Boolean) }).pipe(
    Schema.filter(exactlyOne, { jsonSchema: { allOf: [hasOneOf(["person", "token", "grant"])] } })
  )
).annotations({
  identifier: "OpenIncident",
  description: "Exactly one of person, token and grant. deactivate: for a person, also deactivates the membership."
})
export type OpenIncident = typeof OpenIncident.Type

const IncidentSubject = Schema.Struct({
  type: openEnum("person", "token", "grant"),
  id: Schema.String,
  name: Schema.String
}).annotations({ identifier: "IncidentSubject" })

const IncidentActor = Schema.Struct({ type: Schema.String, id: Schema.String, name: Schema.String }).annotations({
  identifier: "IncidentActor"
})

const ReplacedValue = Schema.Struct({
  version: Schema.NullOr(Integer).annotations({ description: "Null: the secret was deleted." }),
  at: Timestamp,
  by: IncidentActor,
  entry: Uuid.annotations({ description: "Entry of the audit trail." })
}).annotations({ identifier: "ReplacedValue" })

const ExposedValue = Schema.Struct({
  secretId: SecretIdOut,
  projectId: ProjectIdOut,
  project: Schema.String,
  environment: Slug,
  protected: Schema.Boolean,
  key: Key.annotations({ description: "Key at the time of the listing." }),
  renamedTo: Schema.NullOr(Key).annotations({ description: "Present key. Null: unchanged." }),
  version: Integer,
  uses: Schema.Array(Key).annotations({ description: "Keys that it is composed of; it changes with them." }),
  count: Integer,
  firstAt: Timestamp,
  lastAt: Timestamp,
  certain: Schema.Boolean.annotations({
    description: "false: the trail does not record the version, or whether the subject typed this text."
  }),
  ways: optional(
    Schema.Array(openEnum(...currentWays)).annotations({
      description: "Ways by which the subject holds it; wrote: typed it. Empty: the list is of an earlier release."
    })
  ),
  replaced: Schema.NullOr(ReplacedValue),
  out: Schema.Boolean.annotations({ description: "True while the value is the one that was handed out." })
}).annotations({ identifier: "ExposedValue" })
export type ExposedValue = typeof ExposedValue.Type

const KeptValues = Schema.Struct({ project: Schema.String, environment: Slug, keys: Schema.Array(Key) }).annotations({
  identifier: "KeptValues",
  description: "Current values that were not handed out."
})

const listFields = {
  teamId: TeamIdOut,
  subject: IncidentSubject,
  since: Schema.NullOr(Timestamp),
  upTo: Timestamp.annotations({ description: "Later reads may be missing; they are counted within seconds." }),
  exposed: Schema.Array(ExposedValue).annotations({
    description: "Current values that were handed out: protected ones first, then by number of reads."
  }),
  kept: Schema.Array(KeptValues),
  keptCount: Integer
}

export const IncidentReport = Schema.Struct(listFields).annotations({
  identifier: "IncidentReport",
  description: "Current secrets whose values were handed out, and those whose were not. Never a value."
})
export type IncidentReport = typeof IncidentReport.Type

export const Incident = Schema.Struct({
  id: IncidentIdOut,
  ...listFields,
  openedAt: Timestamp,
  openedBy: IncidentActor
}).annotations({ identifier: "Incident" })
export type Incident = typeof Incident.Type

export const IncidentRef = Schema.Struct({
  id: IncidentIdOut,
  subject: IncidentSubject,
  openedAt: Timestamp,
  exposed: Integer,
  out: Integer.annotations({ description: "Number of values that are still the ones handed out." })
}).annotations({ identifier: "IncidentRef" })
export type IncidentRef = typeof IncidentRef.Type

const IncidentList = Schema.Struct({ items: Schema.Array(IncidentRef) }).annotations({ identifier: "IncidentList" })

const IncidentNote = Schema.Struct({
  note: Schema.String.annotations({ description: "Signed; `ampoule audit verify --incident` checks it offline." })
}).annotations({ identifier: "IncidentNote" })

export const ReplaceExposed = strict(
  Schema.Struct({ secretId: SecretId, length: optional(integer(16, 128, "Characters; 32 by default.")) })
).annotations({ identifier: "ReplaceExposed", description: "A random value, made on the server and never shown." })
export type ReplaceExposed = typeof ReplaceExposed.Type

export const AskForExposed = strict(Schema.Struct({ secretId: SecretId, userId: UserId })).annotations({
  identifier: "AskForExposed"
})
export type AskForExposed = typeof AskForExposed.Type

const AskedFor = Schema.Struct({
  url: Schema.String.annotations({ jsonSchema: { type: "string", format: "uri" } }),
  expiresAt: Timestamp
}).annotations({ identifier: "AskedFor", description: "Page for that person only, signed in; it works once." })

const TeamPath = Schema.Struct({ teamId: TeamId })
const IncidentPath = Schema.Struct({ teamId: TeamId, incidentId: IncidentId })
const id = "01980a70-1b2c-7d3e-8f40-5162738495a6"
const subject = { type: "person", id: "01980a5d-11aa-7f00-b1c2-3d4e5f607182", name: "bob@example.com" }
const exposed = {
  secretId: "01980a5f-2b3c-7d4e-8f50-617283940516",
  projectId: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e",
  project: "Shop",
  environment: "production",
  protected: true,
  key: "DB_PASSWORD",
  renamedTo: null,
  version: 7,
  uses: [],
  count: 42,
  firstAt: "2026-11-01T08:00:00.000Z",
  lastAt: "2026-11-21T08:00:00.000Z",
  certain: true,
  ways: ["inject", "wrote"],
  replaced: null,
  out: true
}
const listed = {
  teamId: "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30",
  subject,
  since: null,
  upTo: "2026-11-21T09:00:00.000Z",
  exposed: [exposed],
  kept: [{ project: "Shop", environment: "staging", keys: ["API_KEY"] }],
  keptCount: 1
}
const incident = {
  id,
  ...listed,
  openedAt: "2026-11-21T09:00:00.000Z",
  openedBy: { type: "user", id: "01980a5d-11aa-7f00-b1c2-3d4e5f607183", name: "ada@example.com" }
}
const subjectErrors = Schema.Union(Errors.MemberNotFound, Errors.TokenNotFound, Errors.GrantNotFound)

/** Read-only routes of incidents for owners and admins, with any credential of theirs. */
export class IncidentsApi extends HttpApiGroup.make("incidents")
  .add(
    HttpApiEndpoint.get("report", "/teams/:teamId/incident-report")
      .setPath(TeamPath)
      .setUrlParams(IncidentQuery)
      .addSuccess(answers(200, IncidentReport))
      .addError(Schema.Union(MayNotReadTeam, subjectErrors, Errors.IntegrityFailure))
      .middleware(PersonCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "Show the values that a person, a token or a login received",
          description:
            "Current secrets whose values were handed out, and those whose were not. Revokes nothing. For owners and admins.",
          response: listed
        })
      )
  )
  .add(
    HttpApiEndpoint.get("list", "/teams/:teamId/incidents")
      .setPath(TeamPath)
      .addSuccess(answers(200, IncidentList))
      .addError(Schema.Union(MayNotReadTeam, Errors.IntegrityFailure))
      .middleware(PersonCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "List incidents",
          description: "The last 100 of a team, newest first. For owners and admins.",
          response: { items: [{ id, subject, openedAt: incident.openedAt, exposed: 1, out: 1 }] }
        })
      )
  )
  .add(
    HttpApiEndpoint.get("show", "/teams/:teamId/incidents/:incidentId")
      .setPath(IncidentPath)
      .addSuccess(answers(200, Incident))
      .addError(Schema.Union(MayNotReadTeam, Errors.IntegrityFailure))
      .middleware(PersonCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "Show an incident",
          description: "The list from the opening, and the replacements since. For owners and admins.",
          response: incident
        })
      )
  )
  .add(
    HttpApiEndpoint.get("note", "/teams/:teamId/incidents/:incidentId/note")
      .setPath(IncidentPath)
      .addSuccess(answers(200, IncidentNote))
      .addError(Schema.Union(MayNotReadTeam, Errors.IntegrityFailure))
      .middleware(PersonCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "Read the signed burn-down of an incident",
          description:
            "Values handed out, with time and author of each replacement, signed with the key of the checkpoints. For owners and admins.",
          response: { note: "ampoule.incident/v1\n…" }
        })
      )
  )
  .annotateContext(
    OpenApi.annotations({ description: "Incidents: values that were handed out, and their replacements." })
  ) {}

/** Revoking and replacing needs a signed-in person. */
export class IncidentWorkApi extends HttpApiGroup.make("incidentWork")
  .add(
    HttpApiEndpoint.post("open", "/teams/:teamId/incidents")
      .setPath(TeamPath)
      .setPayload(OpenIncident)
      .addSuccess(answers(201, Incident))
      .addError(
        Schema.Union(MayNotManageTeam, subjectErrors, Errors.PlanLimitReached, Errors.IntegrityFailure, BadBody)
      )
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Open an incident",
          description:
            "Revokes all credentials of the person, or the token, rule or login. Then lists the values that were handed out, and signs the list.",
          request: { person: "bob@example.com", since: "2026-11-01T00:00:00.000Z", deactivate: true },
          response: incident
        })
      )
  )
  .add(
    HttpApiEndpoint.post("replace", "/teams/:teamId/incidents/:incidentId/replace")
      .setPath(IncidentPath)
      .setPayload(ReplaceExposed)
      .addSuccess(answers(200, Incident))
      .addError(
        Schema.Union(
          Errors.TeamNotFound,
          Errors.SecretNotFound,
          Errors.SecretVersionConflict,
          MayNotWrite,
          BreaksTheEnvironment,
          BadBody
        )
      )
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Replace a value by a generated one",
          description: "The value is not shown. A value that was already replaced is a 409.",
          request: { secretId: exposed.secretId, length: 40 },
          response: incident
        })
      )
  )
  .add(
    HttpApiEndpoint.post("ask", "/teams/:teamId/incidents/:incidentId/ask")
      .setPath(IncidentPath)
      .setPayload(AskForExposed)
      .addSuccess(answers(201, AskedFor))
      .addError(
        Schema.Union(
          Errors.TeamNotFound,
          Errors.MemberNotFound,
          Errors.SecretNotFound,
          Errors.SecretVersionConflict,
          MayNotWrite,
          Errors.IntegrityFailure,
          BadBody
        )
      )
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Request the new value from a person",
          description:
            "Creates a page for the person with the vendor's key. It works once, for that person, for one day.",
          request: { secretId: exposed.secretId, userId: subject.id },
          response: {
            url: "https://ampoule.example.com/app/provide/EXAMPLEEXAMPLEEXAMPLE123",
            expiresAt: "2026-11-22T09:00:00.000Z"
          }
        })
      )
  )
  .annotateContext(
    OpenApi.annotations({ description: "Opening an incident, and replacing values that were handed out." })
  ) {}

/** Reports of leaked credentials, and their effect (docs/contract/leaked-credentials.md). */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { PersonCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { TeamId } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { MayNotReadTeam } from "./RouteErrors.ts"
import { optional } from "./Strict.ts"
import { boundedList, Timestamp } from "./Values.ts"
import { answers, openEnum, Uuid } from "./Wire.ts"

/** Report of a scanner, in the form of GitHub's secret scanning partners. Further members are allowed. */
const bounded = (max: number) =>
  Schema.String.pipe(Schema.filter((s) => s.length <= max || `must have at most ${max} characters`)).annotations({
    jsonSchema: { type: "string", maxLength: max }
  })
const LeakReport = Schema.Struct({
  token: bounded(4_000),
  type: bounded(200),
  url: optional(Schema.NullOr(bounded(8_000))),
  source: optional(Schema.NullOr(bounded(200)))
}).annotations({ identifier: "LeakReport", description: "Text that a scanner found, with its place." })
type LeakReport = typeof LeakReport.Type

const reportsAtMost = 1_000
export const LeakReports = boundedList(LeakReport, 0, reportsAtMost)

const LeakLabel = Schema.Struct({
  token_raw: Schema.String,
  token_type: Schema.String,
  label: openEnum("true_positive", "false_positive")
}).annotations({ identifier: "LeakLabel", description: "Whether the text is a credential of this server." })
export type LeakLabel = typeof LeakLabel.Type

export const LeakedCredential = Schema.Struct({
  id: Uuid,
  type: openEnum("api_token", "cli_grant", "oauth_token", "session", "management", "invitation", "password_reset"),
  credentialId: Uuid,
  name: Schema.String,
  person: Schema.NullOr(Schema.String).annotations({ description: "E-mail address of its person; null: a token." }),
  url: Schema.NullOr(Schema.String).annotations({ description: "Place where it was found, from the report." }),
  source: Schema.NullOr(Schema.String),
  revoked: Schema.Boolean.annotations({ description: "false: the team's rule is to notify only." }),
  reportedAt: Timestamp
}).annotations({ identifier: "LeakedCredential" })
export type LeakedCredential = typeof LeakedCredential.Type

const LeakedCredentials = Schema.Struct({ items: Schema.Array(LeakedCredential) }).annotations({
  identifier: "LeakedCredentials"
})

const leaked = "amp_at_<id>_<secret and checksum>"
const example = {
  id: "01980a71-2c3d-7e4f-8051-627384950617",
  type: "api_token",
  credentialId: "01980a60-4b5c-7d6e-9f70-8192a3b4c5d6",
  name: "ci",
  person: null,
  url: "https://github.com/example/shop/blob/0f3a/.env",
  source: "content",
  revoked: true,
  reportedAt: "2026-11-21T08:00:00.000Z"
}

export class LeakReportsApi extends HttpApiGroup.make("leakReports")
  .add(
    HttpApiEndpoint.post("report", "/reports/leaked-credentials")
      .setHeaders(
        Schema.Struct({
          "github-public-key-identifier": optional(Schema.String),
          "github-public-key-signature": optional(Schema.String)
        })
      )
      .setPayload(LeakReports)
      .addSuccess(answers(200, Schema.Array(LeakLabel)))
      .addError(
        Schema.Union(Errors.Unauthenticated, Errors.CredentialInvalid, Errors.RouteNotFound, Errors.PayloadTooLarge)
      )
      .annotateContext(
        operation({
          summary: "Report leaked credentials",
          description:
            "For scanners, in the form of GitHub's secret scanning partner program: ECDSA (P-256, SHA-256) over the body, with a key that the operator configured. Without a key this route does not exist. A credential of this server is revoked, or its team notified, by the team's rule.",
          request: [{ token: leaked, type: "ampoule_token", url: example.url, source: "content" }],
          response: [{ token_raw: leaked, token_type: "ampoule_token", label: "true_positive" }]
        })
      )
  )
  .add(
    HttpApiEndpoint.get("list", "/teams/:teamId/leaked-credentials")
      .setPath(Schema.Struct({ teamId: TeamId }))
      .addSuccess(answers(200, LeakedCredentials))
      .addError(MayNotReadTeam)
      .middleware(PersonCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "List leaked credentials of the team",
          description: "The last 100 reports, latest first. For owners and admins.",
          response: { items: [example] }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Leaked credentials." })) {}

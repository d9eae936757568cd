/** Recipients of each version of a secret (docs/contract/audit.md, "Exposure"). */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { AnyCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { ProjectId } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { SecretPath } from "./SecretRequests.ts"
import { EnvironmentMissing, MayNotRead } from "./RouteErrors.ts"
import { optional, strict } from "./Strict.ts"
import {
  EnvironmentSlug,
  Instant,
  isPlainName,
  Page,
  PageSize,
  plainNamePattern,
  SecretKey,
  Timestamp
} from "./Values.ts"
import { readWays, ways, waysDescription } from "./ExposureWays.ts"
import { answers, Integer, Key, openEnum, pageFields, Slug, Uuid } from "./Wire.ts"

const ExposureHolder = Schema.Struct({
  type: openEnum("user", "api_token", "oauth_client", "machine_rule", "backup", "cli_grant", "system"),
  id: Schema.String,
  name: Schema.String,
  person: Schema.NullOr(Schema.String).annotations({ description: "For a connected agent: its person." })
}).annotations({
  identifier: "ExposureHolder",
  description:
    "Recipient of the value: a person, a token, an agent, the CI rule of a job's token, or the recipients of a backup."
})

/** Reads alone: a typed value and a backup are none. */
export const LastRead = Schema.Struct({
  at: Timestamp,
  holder: ExposureHolder,
  way: openEnum(...readWays),
  via: openEnum("rest", "mcp", "dashboard", "cli")
}).annotations({ identifier: "LastRead", description: "Time and recipient of a secret's last read." })
export type LastRead = typeof LastRead.Type

/** One holder, one version, one way. */
export const Exposed = Schema.Struct({
  environmentId: Uuid,
  environment: Slug,
  key: Key,
  version: Schema.NullOr(Integer).annotations({
    description: "Null: unknown, because the trail did not record versions yet, or a sealed file was opened."
  }),
  holder: ExposureHolder,
  way: openEnum(...ways).annotations({ description: waysDescription }),
  via: openEnum("rest", "mcp", "dashboard", "cli"),
  lastIp: Schema.String.annotations({ description: "Address of the last one; may be empty." }),
  firstAt: Timestamp,
  lastAt: Timestamp,
  count: Integer
}).annotations({ identifier: "Exposed" })
export type Exposed = typeof Exposed.Type

const ExposureCounts = Schema.Struct({
  people: Integer,
  tokens: Integer,
  agents: Integer,
  rules: Integer,
  backups: Integer
}).annotations({ identifier: "ExposureCounts" })
export type ExposureCounts = typeof ExposureCounts.Type

export const ExposedVersion = Schema.Struct({
  version: Schema.NullOr(Integer),
  handedTo: ExposureCounts,
  heldBy: ExposureCounts
}).annotations({
  identifier: "ExposedVersion",
  description: "Number of recipients of a version, and of those without a later one (`heldBy`)."
})
export type ExposedVersion = typeof ExposedVersion.Type

const reportFields = {
  upTo: Timestamp.annotations({ description: "Later reads may be missing; they are counted within seconds." }),
  checkedAt: optional(
    Timestamp.annotations({
      description:
        "Time of the last complete verification of the trail. Each report verifies its ends and newer entries."
    })
  ),
  unknownBefore: Schema.NullOr(Timestamp).annotations({
    description: "Before this time the trail has no versions of reads, or it was cut. Null: it has all."
  }),
  leftOutBefore: optional(
    Schema.NullOr(Timestamp).annotations({
      description:
        "For a busy project: reads before this time are left out; narrow with by, token or since. Null: none are."
    })
  ),
  items: Schema.Array(Exposed),
  ...pageFields
}

export const ExposurePage = Schema.Struct(reportFields).annotations({
  identifier: "ExposurePage",
  description: "Recipients, latest first. Never a value."
})
export type ExposurePage = typeof ExposurePage.Type

export const SecretExposure = Schema.Struct({
  key: Key,
  formerly: Schema.Array(Key).annotations({ description: "Former keys, each with an exposure of its own." }),
  renamedTo: Schema.Array(Key).annotations({ description: "Present keys of secrets that had this key before." }),
  versions: Schema.Array(ExposedVersion).annotations({ description: "Newest first, at most 100; unknown last." }),
  ...reportFields
}).annotations({ identifier: "SecretExposure", description: "Recipients of a secret, by version. Never a value." })
export type SecretExposure = typeof SecretExposure.Type

const plainTextOf = (description: string) =>
  Schema.String.pipe(
    Schema.filter((s) => (s.length > 0 && s.length <= 400 && isPlainName(s)) || "must be 1 to 400 plain characters")
  ).annotations({
    jsonSchema: { type: "string", minLength: 1, maxLength: 400, pattern: plainNamePattern },
    description
  })

const queryFields = {
  by: optional(plainTextOf("Person, by e-mail or id, with sessions, command line and connected agents.")),
  token: optional(plainTextOf("API token or CI rule, by name or id.")),
  since: optional(Instant),
  page: optional(Page),
  pageSize: optional(PageSize)
}
export const ExposureQuery = strict(Schema.Struct(queryFields))
export type ExposureQuery = typeof ExposureQuery.Type

const KeyExposureQuery = strict(
  Schema.Struct({ projectId: ProjectId, environment: EnvironmentSlug, key: SecretKey, ...queryFields })
)
type KeyExposureQuery = typeof KeyExposureQuery.Type

const report = {
  upTo: "2026-11-21T08:00:12.000Z",
  checkedAt: "2026-11-21T08:00:12.000Z",
  unknownBefore: null,
  items: [
    {
      environmentId: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7f",
      environment: "production",
      key: "DB_PASSWORD",
      version: 7,
      holder: { type: "api_token", id: "01980a60-4b5c-7d6e-9f70-8192a3b4c5d6", name: "ci", person: null },
      way: "inject",
      via: "cli",
      lastIp: "192.0.2.7",
      firstAt: "2026-11-01T08:00:00.000Z",
      lastAt: "2026-11-21T08:00:00.000Z",
      count: 42
    }
  ],
  page: 1,
  pageSize: 100,
  total: 1,
  hasMore: false
}
const oneToken = { people: 0, tokens: 1, agents: 0, rules: 0, backups: 0 }

// A CLI grant cannot have audit:read: its person reads by the role.
const scope = "secrets:read"
const ofOneSecret = {
  key: "DB_PASSWORD",
  formerly: [],
  renamedTo: [],
  versions: [{ version: 7, handedTo: oneToken, heldBy: oneToken }],
  ...report
}
const readers = "For owners and admins, and API tokens and agents with audit:read."

export class ExposureApi extends HttpApiGroup.make("exposure")
  .add(
    HttpApiEndpoint.get("ofSecret", "/secrets/:secretId/exposure")
      .setPath(SecretPath)
      .setUrlParams(ExposureQuery)
      .addSuccess(answers(200, SecretExposure))
      .addError(Schema.Union(Errors.SecretNotFound, MayNotRead, Errors.IntegrityFailure))
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope,
          summary: "List the recipients of a secret",
          description: `Recipients of each version of the secret's key, with way, count, first and last time. ${readers}`,
          response: ofOneSecret
        })
      )
  )
  .add(
    HttpApiEndpoint.get("ofKey", "/secrets/exposure")
      .setUrlParams(KeyExposureQuery)
      .addSuccess(answers(200, SecretExposure))
      .addError(Schema.Union(EnvironmentMissing, Errors.SecretNotFound, MayNotRead, Errors.IntegrityFailure))
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope,
          summary: "List the recipients of a secret, by its key",
          description: `The same by environment and key. It accepts former keys too: \`renamedTo\` has the present ones. ${readers}`,
          response: ofOneSecret
        })
      )
  )
  .add(
    HttpApiEndpoint.get("ofProject", "/projects/:projectId/exposure")
      .setPath(Schema.Struct({ projectId: ProjectId }))
      .setUrlParams(ExposureQuery)
      .addSuccess(answers(200, ExposurePage))
      .addError(Schema.Union(Errors.ProjectNotFound, MayNotRead, Errors.IntegrityFailure))
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope,
          summary: "List the recipients of a project's secrets",
          description: `The same for all secrets of a project, optionally for one person or token. ${readers}`,
          response: report
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Recipients of the versions of a secret." })) {}

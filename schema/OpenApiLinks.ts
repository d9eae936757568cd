/** Links from responses to further operations, derived from the parameters whose values a response holds. */
import type { Json, JsonObject } from "./OpenApiComponents.ts"

/** By response schema: parameters of other operations, with their places in the body. */
const parametersIn = new Map<string, Readonly<Record<string, string>>>(
  Object.entries({
    ProjectList: { projectId: "/items/0/id" },
    ProjectEnvironmentList: { projectId: "/projectId", environment: "/items/0/slug", envId: "/items/0/id" },
    ListSecretsResponse: { secretId: "/items/0/id" },
    DeletedSecretList: { secretId: "/items/0/id" },
    SecretRef: { secretId: "/id", projectId: "/projectId", environment: "/environment", key: "/key" },
    EnvironmentKeypair: { envId: "/environmentId", keyId: "/keyId" },
    SignedIn: { teamId: "/teams/0/id" },
    MyTeam: { teamId: "/id" },
    MemberList: { userId: "/items/0/userId" },
    Project: { projectId: "/id", teamId: "/teamId" },
    ProjectEnvironment: { envId: "/id" },
    ApiToken: { teamId: "/teamId", tokenId: "/id" },
    ApiTokenWithValue: { teamId: "/teamId", tokenId: "/id" },
    MachineRule: { teamId: "/teamId", ruleId: "/id" },
    Webhook: { teamId: "/teamId", webhookId: "/id" },
    WebhookWithSecret: { teamId: "/teamId", webhookId: "/id" },
    MeResponse: { teamId: "/teams/0/id" },
    VerifyAuthResponse: { teamId: "/teams/0/id" },
    AccessRequest: { requestId: "/id" },
    AccessRequestList: { requestId: "/items/0/id" },
    ChangeRequest: { requestId: "/id" },
    ChangeRequestList: { requestId: "/items/0/id" },
    SecondPersonRequestList: { requestId: "/items/0/id" },
    WaitsForSecondPerson: { requestId: "/requestId" },
    Incident: { incidentId: "/id" },
    IncidentList: { incidentId: "/items/0/id" },
    MySessionList: { sessionId: "/items/0/id" },
    CliGrantList: { grantId: "/items/0/id" },
    TeamSignIn: { issuerId: "/issuers/0/key", ruleId: "/rules/0/id" },
    SignInIssuer: { issuerId: "/key" },
    SignInRule: { ruleId: "/id" },
    MySignInList: { signInId: "/items/0/id" },
    PersonAccess: { credentialId: "/credentials/0/id", authenticatorId: "/authenticators/0/id" }
  })
)

/** Ids of two kinds share a parameter name: the operations that take those of a response. */
const kinds: ReadonlyArray<readonly [responses: RegExp, parameter: string, operations: RegExp]> = [
  [/^AccessRequest/, "requestId", /^access/],
  [/^ChangeRequest/, "requestId", /^change/],
  [/^(?:SecondPersonRequest|WaitsForSecondPerson)/, "requestId", /^secondPerson/],
  [/^MachineRule/, "ruleId", /^machine/],
  [/^(?:TeamSignIn|SignInRule)/, "ruleId", /^teamSignIn/]
]

const parametersOf = (operation: JsonObject) =>
  (operation["parameters"] ?? []) as ReadonlyArray<{
    readonly name: string
    readonly in: string
    readonly required: boolean
  }>

/** Links of a response of `from` with this schema, by target operation id. */
export const linksOf = (from: JsonObject, schema: string, operations: ReadonlyArray<JsonObject>): JsonObject => {
  const places = parametersIn.get(schema)
  if (places === undefined) return {}
  const values = new Map<string, string>([
    ...parametersOf(from)
      .filter((one) => one.in === "path")
      .map(({ name }) => [name, `$request.path.${name}`] as const),
    ...Object.entries(places).map(([name, at]) => [name, `$response.body#${at}`] as const)
  ])
  const links: Record<string, Json> = {}
  const [, shared, taking] = kinds.find(([responses]) => responses.test(schema)) ?? []
  for (const operation of operations) {
    const needed = parametersOf(operation).filter(({ required }) => required)
    const isOther = taking?.test(String(operation["operationId"])) === false
    if (isOther && needed.some(({ name }) => name === shared)) continue
    const available = needed.filter(({ name }) => values.has(name))
    if (available.length < needed.length || !available.some(({ name }) => name in places)) continue
    links[String(operation["operationId"])] = {
      operationId: operation["operationId"],
      parameters: Object.fromEntries(available.map(({ name }) => [name, values.get(name) ?? ""]))
    }
  }
  return links
}

/**
 * Bodies of answers, typed and decoded by the endpoint that the request names: a test cannot read a member that the
 * contract does not have, and a body that breaks the contract fails where it is read, with the reason.
 */
import type { SecondPersonRequestId } from "#schema/Ids.ts"
import * as HttpApi from "@effect/platform/HttpApi"
import type * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Types from "effect/Types"
import { ServerApi } from "#schema/ServerApi.ts"
import type { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import type { ErrorBody } from "#schema/ApiError.ts"
import * as Errors from "#schema/Errors.ts"
import { optional } from "#schema/Strict.ts"

type Group = typeof ServerApi extends HttpApi.HttpApi<string, infer G, infer _E, infer _R> ? G : never
type Named<G extends Group["identifier"]> = HttpApiGroup.HttpApiGroup.EndpointsWithName<Group, G>

/**
 * Where each declared endpoint answers: the one thing about it that its type does not say. The types find a missing
 * one and a wrong method; the path is compared with the declared one when this module is loaded.
 */
const routes = {
  discovery: {
    live: "GET /health/live",
    ready: "GET /health/ready",
    openApi: "GET /openapi.json"
  },
  identity: {
    verify: "GET /me/verify",
    revokeOwnToken: "DELETE /me/token",
    me: "GET /me",
    meCli: "GET /me/cli"
  },
  exposure: {
    ofSecret: "GET /secrets/:secretId/exposure",
    ofKey: "GET /secrets/exposure",
    ofProject: "GET /projects/:projectId/exposure"
  },
  activity: { list: "GET /projects/:projectId/activity" },
  environmentAccess: { ofEnvironment: "GET /environments/:envId/access" },
  projects: {
    list: "GET /projects",
    listEnvironments: "GET /projects/:projectId/environments"
  },
  secrets: {
    create: "POST /secrets",
    list: "GET /secrets",
    createBulk: "POST /secrets/bulk",
    listWithValues: "GET /secrets/with-values",
    readValue: "GET /secrets/value",
    inject: "GET /secrets/inject",
    reportRun: "POST /secrets/run-results",
    diff: "GET /secrets/diff",
    remove: "DELETE /secrets/:secretId",
    deleteBulk: "POST /secrets/delete-bulk",
    composition: "GET /secrets/composition",
    update: "PATCH /secrets/:secretId",
    rollback: "POST /secrets/:secretId/rollback",
    restore: "POST /secrets/:secretId/restore",
    versions: "GET /secrets/:secretId/versions",
    listDeleted: "GET /secrets/deleted",
    change: "POST /projects/:projectId/changes",
    described: "GET /secrets/:secretId/metadata",
    describe: "PATCH /secrets/:secretId/metadata",
    rename: "POST /secrets/:secretId/rename",
    restoreEnvironment: "POST /environments/:envId/restore"
  },
  capabilities: {
    read: "GET /capabilities"
  },
  device: {
    start: "POST /auth/cli/device",
    token: "POST /auth/cli/device/token",
    events: "GET /auth/cli/device/events",
    startManagement: "POST /auth/cli/management",
    endManagement: "DELETE /auth/cli/management",
    logout: "POST /auth/cli/logout"
  },
  sealed: {
    keypair: "GET /environments/:envId/keypair",
    open: "POST /environments/:envId/sealed-values/open",
    export: "POST /environments/:envId/sealed-values/export"
  },
  metadata: {
    authorizationServer: "GET /.well-known/oauth-authorization-server",
    protectedResource: "GET /.well-known/oauth-protected-resource",
    mcpProtectedResource: "GET /.well-known/oauth-protected-resource/mcp"
  },
  dashboardDocument: {
    openApi: "GET /dashboard/openapi.json"
  },
  setup: {
    complete: "POST /setup"
  },
  session: {
    signIn: "POST /auth/session",
    signOut: "DELETE /auth/session",
    changeMe: "PATCH /me",
    changeEmail: "POST /me/email",
    changePassword: "POST /me/password",
    resetPassword: "POST /password-reset"
  },
  teams: {
    create: "POST /teams",
    update: "PATCH /teams/:teamId",
    leave: "POST /teams/:teamId/leave"
  },
  members: {
    list: "GET /teams/:teamId/members",
    invite: "POST /teams/:teamId/invitations",
    acceptInvitation: "POST /invitations/accept",
    update: "PATCH /teams/:teamId/members/:userId",
    remove: "DELETE /teams/:teamId/members/:userId",
    passwordReset: "POST /teams/:teamId/members/:userId/password-reset"
  },
  personAccess: {
    show: "GET /teams/:teamId/members/:userId/access",
    end: "POST /teams/:teamId/members/:userId/end-access",
    endOne: "DELETE /teams/:teamId/members/:userId/credentials/:credentialId",
    confirm: "POST /teams/:teamId/members/:userId/authenticators/:authenticatorId/confirm"
  },
  leakReports: {
    report: "POST /reports/leaked-credentials",
    list: "GET /teams/:teamId/leaked-credentials"
  },
  incidents: {
    report: "GET /teams/:teamId/incident-report",
    list: "GET /teams/:teamId/incidents",
    show: "GET /teams/:teamId/incidents/:incidentId",
    note: "GET /teams/:teamId/incidents/:incidentId/note"
  },
  incidentWork: {
    open: "POST /teams/:teamId/incidents",
    replace: "POST /teams/:teamId/incidents/:incidentId/replace",
    ask: "POST /teams/:teamId/incidents/:incidentId/ask"
  },
  manageProjects: {
    create: "POST /teams/:teamId/projects",
    update: "PATCH /projects/:projectId",
    remove: "DELETE /projects/:projectId",
    createEnvironment: "POST /projects/:projectId/environments",
    updateEnvironment: "PATCH /environments/:envId",
    removeEnvironment: "DELETE /environments/:envId"
  },
  apiTokens: {
    create: "POST /teams/:teamId/api-tokens",
    list: "GET /teams/:teamId/api-tokens",
    update: "PATCH /teams/:teamId/api-tokens/:tokenId",
    rotate: "POST /teams/:teamId/api-tokens/:tokenId/rotate",
    revoke: "POST /teams/:teamId/api-tokens/:tokenId/revoke",
    remove: "DELETE /teams/:teamId/api-tokens/:tokenId"
  },
  machineRules: {
    create: "POST /teams/:teamId/machine-rules",
    list: "GET /teams/:teamId/machine-rules",
    remove: "DELETE /teams/:teamId/machine-rules/:ruleId"
  },
  webhooks: {
    create: "POST /teams/:teamId/webhooks",
    list: "GET /teams/:teamId/webhooks",
    update: "PATCH /teams/:teamId/webhooks/:webhookId",
    rotate: "POST /teams/:teamId/webhooks/:webhookId/rotate",
    test: "POST /teams/:teamId/webhooks/:webhookId/test",
    deliveries: "GET /teams/:teamId/webhooks/:webhookId/deliveries",
    remove: "DELETE /teams/:teamId/webhooks/:webhookId"
  },
  audit: {
    list: "GET /teams/:teamId/audit"
  },
  deviceApproval: {
    show: "GET /auth/cli/device/requests/:userCode",
    approve: "POST /auth/cli/device/requests/:userCode/approve",
    approveManagement: "POST /auth/cli/device/requests/:userCode/approve-management",
    deny: "POST /auth/cli/device/requests/:userCode/deny"
  },
  accessRequests: {
    create: "POST /environments/:envId/access-requests",
    listOfEnvironment: "GET /environments/:envId/access-requests",
    list: "GET /access-requests",
    withdraw: "DELETE /access-requests/:requestId"
  },
  secondPerson: {
    list: "GET /teams/:teamId/second-person",
    approve: "POST /second-person/:requestId/approve",
    deny: "POST /second-person/:requestId/deny",
    link: "POST /second-person/:requestId/link"
  },
  accessDecisions: {
    approve: "POST /access-requests/:requestId/approve",
    deny: "POST /access-requests/:requestId/deny"
  },
  teamSignIn: {
    get: "GET /teams/:teamId/sign-in",
    createIssuer: "POST /teams/:teamId/sign-in/issuers",
    updateIssuer: "PATCH /teams/:teamId/sign-in/issuers/:issuerId",
    deleteIssuer: "DELETE /teams/:teamId/sign-in/issuers/:issuerId",
    createRule: "POST /teams/:teamId/sign-in/rules",
    deleteRule: "DELETE /teams/:teamId/sign-in/rules/:ruleId",
    require: "PATCH /teams/:teamId/sign-in"
  },
  mySignIns: { list: "GET /me/sign-ins", remove: "DELETE /me/sign-ins/:signInId" },
  mySessions: { list: "GET /me/sessions", end: "DELETE /me/sessions/:sessionId" },
  changeRequests: {
    listOfEnvironment: "GET /environments/:envId/change-requests",
    list: "GET /change-requests",
    withdraw: "DELETE /change-requests/:requestId"
  },
  changeDecisions: {
    reveal: "POST /change-requests/:requestId/reveal",
    approve: "POST /change-requests/:requestId/approve",
    deny: "POST /change-requests/:requestId/deny"
  },
  access: {
    listOfProject: "GET /projects/:projectId/grants",
    grantProject: "POST /projects/:projectId/grants",
    listOfEnvironment: "GET /environments/:envId/grants",
    grantEnvironment: "POST /environments/:envId/grants",
    end: "DELETE /access-grants/:grantId"
  },
  myGrants: {
    list: "GET /me/cli-grants",
    revoke: "DELETE /me/cli-grants/:grantId"
  },
  sealingKeys: {
    rotate: "POST /environments/:envId/keypair/rotate",
    retire: "POST /environments/:envId/keypair/:keyId/retire"
  },
  oauth: {
    authorize: "GET /oauth/authorize",
    resume: "GET /oauth/authorize/:uid",
    token: "POST /oauth/token",
    register: "POST /oauth/register",
    revoke: "POST /oauth/revoke"
  }
} as const satisfies {
  readonly [G in Group["identifier"]]: {
    readonly [E in Named<G> as E["name"]]: `${E["method"]} /${string}`
  }
}
type Routes = typeof routes

/** A path by its shape: `*` for each parameter, and for each part that a test fills in. */
type Shape<S extends string> = S extends `${infer Head}/${infer Rest}` ? `${Part<Head>}/${Shape<Rest>}` : Part<S>
type Part<S extends string> = S extends `:${string}` ? "*" : {} extends Record<S, 1> ? "*" : S
type WithoutQuery<S extends string> = S extends `${infer Path}?${string}` ? Path : S

type Declared = {
  [G in keyof Routes]: {
    [N in keyof Routes[G]]: {
      readonly shape: Shape<Routes[G][N] & string>
      readonly success: HttpApiEndpoint.HttpApiEndpoint.SuccessWithName<Named<G>, N & string>
    }
  }[keyof Routes[G]]
}[keyof Routes]
type Successes = { readonly [D in Declared as D["shape"]]: D["success"] }

/** The success of the endpoint; `unknown` where the text of the path does not tell which one it is. */
export type BodyOf<
  Method extends string,
  Path extends string
> = `${Method} ${Shape<WithoutQuery<Path>>}` extends infer S
  ? S extends keyof Successes
    ? Written<Successes[S]>
    : unknown
  : never

/** A write that waits for an approval, and an action that waits for a second person, are another answer: a test that expects it says so by `as`. */
type Written<A> = Exclude<A, ChangeRequest | { readonly requestId: SecondPersonRequestId }>

type Failure = Schema.Schema.Encoded<(typeof Errors)[keyof typeof Errors]>
type Further<F> = F extends ErrorBody<string> ? Omit<F, keyof ErrorBody<string>> : never
/** The body of every failure; the members that single codes add are there with those codes. */
export type ErrorResponse = ErrorBody<Failure["code"]> & Partial<Types.UnionToIntersection<Further<Failure>>>

const anyMore = Schema.Record({ key: Schema.String, value: Schema.Unknown })

export interface Answer<Body = unknown, Head = Headers> {
  readonly status: number
  readonly headers: Head
  readonly text: string
  /**
   * The success, which the endpoint's own schema decodes; throws when the answer is a failure. Of a path that no
   * endpoint declares: what JSON it is, undefined when it is none.
   */
  readonly json: Body
  /** The failure, which is one that the endpoint declares; throws when the answer is a success. */
  readonly error: ErrorResponse
  /** The body as another schema reads it: of what the API does not declare, as `/mcp`. */
  readonly as: <A, I>(schema: Schema.Schema<A, I>) => A
}

/** A failure in whichever shape: ours, OAuth's (RFC 6749 5.2), or JSON-RPC's. */
export const AnyFailure = Schema.Struct(
  {
    code: optional(Schema.String),
    error: optional(Schema.Union(Schema.String, Schema.Struct({ code: Schema.Number }, anyMore)))
  },
  anyMore
)

/** Exactly what the schema says: a client ignores further members, a test does not. */
const exact = { onExcessProperty: "error" } as const

export const exactly = <A, I>(schema: Schema.Schema<A, I>) => Schema.decodeUnknownSync(schema, exact)
/** JSON text as the schema reads it. */
export const parse = <A, I>(schema: Schema.Schema<A, I>) => Schema.decodeUnknownSync(Schema.parseJson(schema), exact)

type AnySchema = Schema.Schema.AnyNoContext
interface Endpoint {
  readonly route: string
  readonly path: RegExp
  readonly successes: ReadonlyMap<number, AnySchema | undefined>
  readonly errors: ReadonlyMap<number, AnySchema | undefined>
}

const anyError: AnySchema = Schema.Union(...Object.values(Errors))

type Answers = ReadonlyMap<number, { readonly ast: Option.Option<Schema.Schema.Any["ast"]> }>
const schemas = (answers: Answers) =>
  new Map(
    [...answers].map(([status, { ast }]) => [
      status,
      Option.getOrUndefined(Option.map(ast, (ast): AnySchema => Schema.make(ast)))
    ])
  )

const endpoints: ReadonlyArray<Endpoint> = (() => {
  const list: Array<Endpoint> = []
  const table: Record<string, Record<string, string>> = routes
  HttpApi.reflect(ServerApi, {
    onGroup: () => {},
    onEndpoint: ({ endpoint: { method, name, path }, errors, group, successes }) => {
      const route = `${method} ${path}`
      const said = table[group.identifier]?.[name]
      if (said !== route) throw new Error(`${group.identifier}.${name} is ${route}, not ${said}`)
      list.push({
        route,
        path: new RegExp(`^${route.replaceAll(".", "\\.").replaceAll(/:[a-zA-Z]+/g, "[^/]+")}$`),
        successes: schemas(successes),
        // The authorization server's failures have shapes of their own (RFC 6749): `as` reads them.
        errors: group.identifier === "oauth" ? new Map() : schemas(errors)
      })
    }
  })
  // A path of words is looked for before one with parameters: `/secrets/deleted` before `/secrets/:secretId`.
  return list.sort((a, b) => a.route.split(":").length - b.route.split(":").length)
})()

/** A failure of the closed list, whichever it is. */
export const failure = (body: unknown): ErrorResponse => {
  exactly(anyError)(body)
  // Reading a failure makes an instance of its class: what is on the wire has been checked by it.
  return body as ErrorResponse
}

/** An answer with its body. `json` and `error` are decoded when they are asked for. */
export const answer = <Body, Head>(
  method: string,
  path: string,
  { headers, status, text }: { readonly status: number; readonly headers: Head; readonly text: string }
): Answer<Body, Head> => {
  const name = `${method} ${path.replace(/[?#].*/s, "")}`
  const endpoint = endpoints.find(({ path }) => path.test(name))
  const whole = (): unknown => {
    try {
      return JSON.parse(text)
    } catch {
      return undefined
    }
  }
  const checked = (schema: AnySchema): unknown => {
    const body = whole()
    try {
      Schema.decodeUnknownSync(schema, exact)(body)
    } catch (error) {
      throw new Error(`${name} answered ${status}, not with what it declares: ${String(error)}\n${text}`, {
        cause: error
      })
    }
    return body
  }
  const success = () => {
    if (endpoint === undefined) return whole()
    if (!endpoint.successes.has(status))
      throw new Error(`${name} answered ${status}, which is no success of it: ${text}`)
    const schema = endpoint.successes.get(status)
    return schema === undefined ? undefined : checked(schema)
  }
  const failure = () => {
    if (endpoint === undefined ? status < 400 : endpoint.successes.has(status))
      throw new Error(`${name} answered ${status}, which is no failure: ${text}`)
    return checked(endpoint?.errors.get(status) ?? anyError)
  }
  return {
    status,
    headers,
    text,
    // The schemas of bodies change nothing, so that what was checked is of their type.
    get json() {
      return success() as Body
    },
    get error() {
      return failure() as ErrorResponse
    },
    as: (schema) => parse(schema)(text)
  }
}

/** The same of what `fetch` gives. */
export const ofResponse = async <const Method extends string, const Path extends string>(
  method: Method,
  path: Path,
  response: Response
) => {
  const { headers, status } = response
  return answer<BodyOf<Method, Path>, Headers>(method, path, { status, headers, text: await response.text() })
}

import * as HttpApi from "@effect/platform/HttpApi"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { ServerApi } from "#schema/ServerApi.ts"
import { ApproveDevice } from "#schema/DeviceApi.ts"
import { CreateApiToken, UpdateApiToken } from "#schema/ApiTokensApi.ts"
import { CreateProject } from "#schema/ManageProjectsApi.ts"
import { CreateMachineRule } from "#schema/MachineIdentityApi.ts"
import { Examples } from "#schema/Operation.ts"
import { OpenSealedValues } from "#schema/SealedApi.ts"
import * as Secrets from "#schema/SecretRequests.ts"

const issuesOf = (schema: Schema.Schema.Any, input: unknown) =>
  // Every request schema is self-contained; `Schema.Any` only hides its types.
  Either.match(Schema.decodeUnknownEither(schema as Schema.Schema<unknown>)(input), {
    onLeft: (error) => ParseResult.ArrayFormatter.formatErrorSync(error),
    onRight: () => []
  })

const fieldOf = (schema: Schema.Schema.Any, input: unknown) => issuesOf(schema, input)[0]?.path.join(".")

interface Route {
  readonly name: string
  readonly method: string
  readonly payload: Option.Option<Schema.Schema.All>
  readonly query: Option.Option<Schema.Schema.All>
  readonly path: Option.Option<Schema.Schema.All>
  readonly headers: Option.Option<Schema.Schema.All>
  readonly request: unknown
}

const routes: Array<Route> = []
HttpApi.reflect(ServerApi, {
  onGroup: () => undefined,
  onEndpoint: ({ endpoint, group, mergedAnnotations }) => {
    routes.push({
      name: `${group.identifier}.${endpoint.name}`,
      method: endpoint.method,
      payload: endpoint.payloadSchema,
      query: endpoint.urlParamsSchema,
      path: endpoint.pathSchema,
      headers: endpoint.headersSchema,
      request: Option.getOrUndefined(Context.getOption(mergedAnnotations, Examples))?.request
    })
  }
})
/** All but those of the authorization server: OAuth 2.1 3.1 has unknown parameters ignored. */
const servedRoutes = routes.filter(({ name }) => !name.startsWith("oauth."))

const schemaOf = (schema: Option.Option<Schema.Schema.All>) => Option.getOrThrow(schema) as Schema.Schema.Any

describe("every route", () => {
  for (const route of servedRoutes) {
    it(`${route.name} refuses an unknown query parameter by its name`, () => {
      assert.strictEqual(fieldOf(schemaOf(route.query), { zz: "1" }), "zz")
    })
  }

  // A list has no members by name; what a scanner sends beside them is its own.
  for (const route of servedRoutes.filter(({ method, request }) => method !== "GET" && !Array.isArray(request))) {
    it(`${route.name} refuses an unknown body member by its name`, () => {
      const example = typeof route.request === "object" ? route.request : {}
      assert.strictEqual(fieldOf(schemaOf(route.payload), { ...example, zz: 1 }), "zz")
    })
  }

  for (const route of routes.filter(({ request }) => request !== undefined)) {
    it(`${route.name} takes the body of its example`, () => {
      assert.deepStrictEqual(issuesOf(schemaOf(route.payload), route.request), [])
    })
  }

  it("without a declared body takes none, null or {}", () => {
    const restore = servedRoutes.find(({ name }) => name === "secrets.restore")
    assert.isDefined(restore)
    for (const body of [null, {}]) assert.deepStrictEqual(issuesOf(schemaOf(restore.payload), body), [])
    for (const body of ["text", 1, [1]]) assert.isNotEmpty(issuesOf(schemaOf(restore.payload), body))
  })
})

describe("a refusal", () => {
  const marker = "hunter2 marker"
  /** Placeholders for any value of a request: the marker in every shape that JSON has. */
  const anything = FastCheck.letrec<{ value: unknown }>((tie) => ({
    value: FastCheck.oneof(
      { depthSize: "small" },
      FastCheck.constantFrom<unknown>(
        marker,
        marker.repeat(6_000),
        `\ud800${marker}`,
        1,
        -1,
        null,
        true,
        "literal",
        "${",
        "A"
      ),
      FastCheck.array(tie("value"), { maxLength: 3 }),
      FastCheck.dictionary(FastCheck.constantFrom("key", "value", "teamId", "scopes", "hostname"), tie("value"), {
        maxKeys: 3
      })
    )
  })).value

  const sentences = /^[a-z]/
  /** Alphabet of the sentences that the error envelope lets through. */
  const plain = /^(?:must |is too |is not accepted: )[\w .,:;()$+{}-]{1,200}$/

  for (const route of routes) {
    const parts = [route.payload, route.query, route.path, route.headers].flatMap(
      Option.toArray
    ) as Array<Schema.Schema.Any>
    const names = [
      ...new Set([
        "zz",
        ...Object.keys((route.request as object | undefined) ?? {}),
        "projectId",
        "environment",
        "page",
        "key",
        "source",
        "cursor",
        "since",
        "actor",
        "userCode",
        "idempotency-key"
      ])
    ]
    it.prop(
      `of ${route.name} never carries the input in a sentence of ours`,
      [FastCheck.dictionary(FastCheck.constantFrom(...names), anything, { maxKeys: 6 })],
      ([input]) => {
        const base = typeof route.request === "object" ? route.request : {}
        for (const schema of parts) {
          for (const given of [input, { ...base, ...input }]) {
            for (const { _tag, message } of issuesOf(schema, given)) {
              if (_tag === "Missing" || _tag === "Unexpected" || !sentences.test(message)) continue
              assert.notInclude(message, "hunter2")
              assert.match(message, plain)
            }
          }
        }
      },
      { fastCheck: { numRuns: 30 } }
    )
  }
})

const projectId = "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e"
const secretId = "01980a5f-02d4-7e61-8c3b-1d9e5f7a2b44"
const here = { projectId, environment: "development" }

describe("writing a secret", () => {
  const secret = { ...here, key: "A" }

  it("takes either value or source", () => {
    assert.strictEqual(fieldOf(Secrets.CreateSecret, { ...secret, value: "a", source: "b" }), "source")
    assert.strictEqual(fieldOf(Secrets.UpdateSecret, { value: "a", source: "b" }), "source")
  })

  it("takes no source for a literal", () => {
    assert.strictEqual(fieldOf(Secrets.CreateSecret, { ...secret, kind: "literal", source: "b" }), "source")
    assert.strictEqual(fieldOf(Secrets.UpdateSecret, { kind: "literal", source: "b" }), "source")
  })

  it("takes neither, and value as another name of a template's source", () => {
    for (const more of [
      {},
      { kind: "literal" },
      { kind: "template", value: "${B}" },
      { source: "${B}" },
      { value: "" }
    ]) {
      assert.deepStrictEqual(issuesOf(Secrets.CreateSecret, { ...secret, ...more }), [])
    }
  })

  it("refuses null where a member may be absent", () => {
    for (const member of ["kind", "value", "source", "expectedVersion"]) {
      assert.strictEqual(fieldOf(Secrets.CreateSecret, { ...secret, [member]: null }), member)
    }
  })

  it("refuses an update that changes nothing", () => {
    assert.strictEqual(fieldOf(Secrets.UpdateSecret, {}), "value")
    assert.strictEqual(fieldOf(Secrets.UpdateSecret, { expectedVersion: 1 }), "value")
    assert.deepStrictEqual(issuesOf(Secrets.UpdateSecret, { kind: "literal" }), [])
  })

  it("keeps what it read out of logs and JSON", () => {
    const body = Schema.decodeUnknownSync(Secrets.CreateSecret)({ ...secret, value: "hunter2" })
    assert.notInclude(JSON.stringify(body), "hunter2")
    assert.strictEqual(body.value === undefined ? undefined : Redacted.value(body.value), "hunter2")
  })
})

describe("a bulk request", () => {
  const entries = (...keys: ReadonlyArray<string>) => ({ ...here, secrets: keys.map((key) => ({ key, value: "v" })) })
  const numbered = (n: number) => Array.from({ length: n }, (_, i) => `K${i}`)

  it("names the second of two equal keys or ids", () => {
    assert.strictEqual(fieldOf(Secrets.CreateSecretsBulk, entries("A", "A")), "secrets.1.key")
    assert.strictEqual(fieldOf(Secrets.CreateSecretsBulk, entries("A", "B", "C", "B")), "secrets.3.key")
    assert.strictEqual(fieldOf(Secrets.DeleteSecretsBulk, { ...here, ids: [secretId, secretId] }), "ids.1")
  })

  it("knows an id again in another case", () => {
    assert.strictEqual(
      fieldOf(Secrets.DeleteSecretsBulk, { ...here, ids: [secretId, secretId.toUpperCase()] }),
      "ids.1"
    )
  })

  it("has 1 to 100 entries", () => {
    assert.deepStrictEqual(issuesOf(Secrets.CreateSecretsBulk, entries(...numbered(100))), [])
    assert.strictEqual(fieldOf(Secrets.CreateSecretsBulk, entries(...numbered(101))), "secrets")
    assert.strictEqual(fieldOf(Secrets.CreateSecretsBulk, entries()), "secrets")
    assert.strictEqual(fieldOf(Secrets.DeleteSecretsBulk, { ...here, ids: [] }), "ids")
  })

  it("is counted before any of its entries is looked at", () => {
    let looked = 0
    const entry = {
      get key() {
        looked++
        return "A"
      },
      value: "v"
    }
    assert.strictEqual(
      fieldOf(Secrets.CreateSecretsBulk, { ...here, secrets: Array.from({ length: 101 }, () => entry) }),
      "secrets"
    )
    assert.strictEqual(looked, 0)
    assert.deepStrictEqual(issuesOf(Secrets.CreateSecretsBulk, { ...here, secrets: [entry] }), [])
    assert.isAbove(looked, 0)
  })

  it("names the member of an entry that is wrong", () => {
    const body = {
      ...here,
      secrets: [
        { key: "A", value: "v" },
        { key: "b", value: "v" }
      ]
    }
    assert.strictEqual(fieldOf(Secrets.CreateSecretsBulk, body), "secrets.1.key")
    const unknown = { ...here, secrets: [{ key: "A", value: "v", kind: "literal" }] }
    assert.strictEqual(fieldOf(Secrets.CreateSecretsBulk, unknown), "secrets.0.kind")
  })
})

describe("session bodies", () => {
  it("bound MCP scopes by the access level", () => {
    const token = { name: "ci", mcpScopes: ["secrets:write"] }
    assert.strictEqual(fieldOf(CreateApiToken, token), "mcpScopes")
    assert.strictEqual(fieldOf(CreateApiToken, { ...token, accessLevel: "read" }), "mcpScopes")
    assert.deepStrictEqual(issuesOf(CreateApiToken, { ...token, accessLevel: "write" }), [])
  })

  it("refuse empty lists of projects and environments, and a wider access level", () => {
    assert.strictEqual(fieldOf(CreateApiToken, { name: "ci", projects: [] }), "projects")
    assert.strictEqual(fieldOf(CreateApiToken, { name: "ci", environments: [] }), "environments")
    assert.strictEqual(fieldOf(UpdateApiToken, { accessLevel: "write" }), "accessLevel")
    assert.strictEqual(fieldOf(UpdateApiToken, {}), "name")
  })

  it("never grant audit:read to a command line", () => {
    const teams = [{ teamId: projectId, scopes: ["audit:read"] }]
    assert.strictEqual(fieldOf(ApproveDevice, { teams }), "teams.0.scopes.0")
    assert.strictEqual(fieldOf(ApproveDevice, { teams: [] }), "teams")
  })

  it("name the second of two equal slugs", () => {
    const environments = [{ slug: "a" }, { slug: "b" }, { slug: "a" }]
    assert.strictEqual(fieldOf(CreateProject, { name: "Shop", environments }), "environments.2.slug")
  })
})

describe("opening sealed values", () => {
  it("takes 1 to 500 entries beside the manifest", () => {
    const body = (n: number) => ({
      keyId: "ek_0a1b2c3d",
      entries: Object.fromEntries(Array.from({ length: n }, (_, i) => [`K${i}`, "sealed:v1:ek_0a1b2c3d:AA"]))
    })
    assert.strictEqual(fieldOf(OpenSealedValues, body(0)), "entries")
    assert.strictEqual(fieldOf(OpenSealedValues, body(501)), "entries")
    assert.deepStrictEqual(issuesOf(OpenSealedValues, body(500)), [])
    const withManifest = body(500)
    assert.deepStrictEqual(
      issuesOf(OpenSealedValues, {
        ...withManifest,
        entries: { ...withManifest.entries, _manifest: "sealed:v1:ek_0a1b2c3d:AA" }
      }),
      []
    )
  })

  it("counts its entries before it looks at any", () => {
    const looked = new Set<string>()
    const body = (...names: ReadonlyArray<string>) => {
      const entries = {}
      for (const name of names) {
        Object.defineProperty(entries, name, {
          enumerable: true,
          get: () => {
            looked.add(name)
            return "sealed:v1:ek_0a1b2c3d:AA"
          }
        })
      }
      return { keyId: "ek_0a1b2c3d", entries }
    }
    const names = Array.from({ length: 501 }, (_, i) => `K${i}`)
    assert.strictEqual(fieldOf(OpenSealedValues, body(...names)), "entries")
    assert.strictEqual(fieldOf(OpenSealedValues, body("_manifest")), "entries")
    assert.deepStrictEqual([...looked], [])
    assert.deepStrictEqual(issuesOf(OpenSealedValues, body("K0", "_manifest")), [])
    assert.deepStrictEqual([...looked], ["K0", "_manifest"])
  })

  it("names what is wrong in its entries, and takes no list or text for them", () => {
    const faultOf = (entries: unknown) => fieldOf(OpenSealedValues, { keyId: "ek_0a1b2c3d", entries })
    assert.strictEqual(faultOf({ A: 1 }), "entries.A")
    assert.strictEqual(faultOf({ A: "x".repeat(360_001) }), "entries.A")
    assert.strictEqual(faultOf(JSON.parse('{"A":"x","__proto__":"x"}')), "entries.__proto__")
    for (const other of [[], ["x"], "x", 1, null]) assert.strictEqual(faultOf(other), "entries")
  })
})

describe("claims of a trust rule", () => {
  it("may not have a name that would be lost", () => {
    const rule = (claims: string) => ({ name: "ci", issuer: "https://ci.example", claims: JSON.parse(claims) })
    assert.deepStrictEqual(issuesOf(CreateMachineRule, rule('{"sub":"repo:a"}')), [])
    assert.strictEqual(fieldOf(CreateMachineRule, rule('{"sub":"repo:a","__proto__":"x"}')), "claims.__proto__")
  })
})

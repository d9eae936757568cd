/** Shapes of the command line read what the contract's schemas declare (`src/cli/terminal/Shape.ts`). */
import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Either from "effect/Either"
import * as fc from "effect/FastCheck"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import { members } from "#schema/ApiError.ts"
import { Capabilities } from "#schema/CapabilitiesApi.ts"
import { ReadinessResponse } from "#schema/DiscoveryApi.ts"
import { ExposurePage, SecretExposure } from "#schema/ExposureApi.ts"
import { VerifyAuthResponse } from "#schema/IdentityApi.ts"
import { ProjectEnvironmentList, ProjectList } from "#schema/ProjectsApi.ts"
import { InjectedSecrets, ListSecretsResponse, SecretWithValue } from "#schema/SecretResponses.ts"
import { optional } from "#schema/Strict.ts"
import { Readiness } from "#src/cli/account/Doctor.ts"
import { Verified } from "#src/cli/connection/Verified.ts"
import { CapabilitiesBody } from "#src/cli/connection/Capabilities.ts"
import { envelope } from "#src/cli/connection/Link.ts"
import { VerifiedBody } from "#src/cli/connection/OnlyEnvironment.ts"
import * as Names from "#src/cli/connection/Names.ts"
import { ProjectListBody } from "#src/cli/connection/Target.ts"
import { OfKey, OfProject } from "#src/cli/secrets/Exposed.ts"
import { Page } from "#src/cli/secrets/List.ts"
import { PrintedMembers, ValueBody } from "#src/cli/secrets/Value.ts"
import { Page as ProjectPage } from "#src/cli/team/ProjectList.ts"
import type * as Shape from "#src/cli/terminal/Shape.ts"
import * as Aliases from "#src/cli/values/Aliases.ts"
import * as EnvironmentSource from "#src/cli/values/EnvironmentSource.ts"
import { filesBelow } from "#test/imports.ts"

interface Pair {
  readonly shape: Shape.Shape<unknown>
  readonly json: fc.Arbitrary<unknown>
  readonly isDeclared: (body: unknown) => boolean
  /** The body as the schema decodes it, as JSON. */
  readonly decoded: (body: unknown) => string
  /** A member whose own members the shape takes as they are: a later server may have others. */
  readonly open: string | undefined
}
const pair = <A, I>(shape: Shape.Shape<unknown>, schema: Schema.Schema<A, I>, open?: string): Pair => {
  const decode = Schema.decodeUnknownEither(schema)
  const isDeclared = (body: unknown) => Either.isRight(decode(body))
  const json = Arbitrary.make(Schema.encodedSchema(schema))
    .map((body): unknown => JSON.parse(JSON.stringify(body)))
    // JSON has no NaN and no Infinity.
    .filter(isDeclared)
  return { shape, json, isDeclared, decoded: (body) => JSON.stringify(Either.getOrThrow(decode(body))), open }
}

/** Shapes of answers of the server, by their place in the source. */
const answers = new Map<string, Pair>([
  ["connection/Capabilities.ts CapabilitiesBody", pair(CapabilitiesBody, Capabilities, "features")],
  [
    "connection/Link.ts envelope",
    pair(envelope, Schema.Struct({ ...members, code: Schema.String, field: optional(members.field) }))
  ],
  ["connection/OnlyEnvironment.ts VerifiedBody", pair(VerifiedBody, VerifyAuthResponse)],
  ["connection/Names.ts Projects", pair(Names.Projects, ProjectList)],
  ["connection/Names.ts Environments", pair(Names.Environments, ProjectEnvironmentList)],
  ["connection/Names.ts Keys", pair(Names.Keys, ListSecretsResponse)],
  ["connection/Target.ts ProjectListBody", pair(ProjectListBody, ProjectList)],
  ["secrets/List.ts Page", pair(Page, ListSecretsResponse)],
  ["connection/Verified.ts Verified", pair(Verified, VerifyAuthResponse)],
  ["account/Doctor.ts Readiness", pair(Readiness, ReadinessResponse)],
  ["secrets/Exposed.ts OfProject", pair(OfProject, ExposurePage)],
  ["secrets/Exposed.ts OfKey", pair(OfKey, SecretExposure)],
  ["team/ProjectList.ts Page", pair(ProjectPage, ProjectList)],
  ["secrets/Value.ts ValueBody", pair(ValueBody, SecretWithValue)],
  ["secrets/Value.ts PrintedMembers", pair(PrintedMembers, SecretWithValue)],
  ["values/Aliases.ts Page", pair(Aliases.Page, ListSecretsResponse)],
  ["values/EnvironmentSource.ts ValuesBody", pair(EnvironmentSource.ValuesBody, InjectedSecrets)]
])
/** Shapes of files that the command line itself writes: nothing else declares them. And parts of the shapes above. */
const own = [
  "connection/Link.ts readEnvelope",
  "connection/Logins.ts Login",
  "connection/Logins.ts Logins",
  "connection/OnlyEnvironment.ts Only",
  "connection/OnlyEnvironment.ts Remembered",
  "connection/ProjectFile.ts Trusted",
  "connection/ProjectFile.ts decodeContent",
  "connection/ProjectFile.ts decodeMembers",
  "connection/Suggest.ts CachedNames",
  "connection/Target.ts CachedIds",
  "connection/Capabilities.ts decode",
  "sealed/Keys.ts Key",
  "sealed/Keys.ts KeyCache",
  "connection/Verified.ts texts",
  "secrets/Exposed.ts Counts",
  "secrets/Exposed.ts Recipient",
  "secrets/List.ts Item",
  "values/Aliases.ts Item",
  "values/OfflineCache.ts decodeCopy"
]

/** Printed by `--json` as they are: a member that the schema has and the shape lacks would be missing there. */
const whole = [
  "connection/Verified.ts Verified",
  "secrets/Exposed.ts OfProject",
  "secrets/Exposed.ts OfKey",
  "team/ProjectList.ts Page"
]

/** The body with one member, at a random depth, replaced by a value of another kind. */
const altered = (
  body: unknown,
  random: fc.Random
): { readonly body: unknown; readonly path: ReadonlyArray<string> } => {
  if (typeof body === "object" && body !== null && Object.keys(body).length > 0 && random.nextInt(0, 3) > 0) {
    const names = Object.keys(body)
    const name = names[random.nextInt(0, names.length - 1)] ?? ""
    const member: unknown = Reflect.get(body, name)
    const inner = altered(member, random)
    const copy = Array.isArray(body) ? body.with(Number(name), inner.body) : { ...body, [name]: inner.body }
    return { body: copy, path: [name, ...inner.path] }
  }
  const others = [null, true, 7, "text", [], {}].filter((other) => kindOf(other) !== kindOf(body))
  return { body: others[random.nextInt(0, others.length - 1)], path: [] }
}
const kindOf = (value: unknown) => (value === null ? "null" : Array.isArray(value) ? "array" : typeof value)

const at = (value: unknown, path: ReadonlyArray<string>): unknown =>
  path.reduce<unknown>(
    (part, name) => (typeof part === "object" && part !== null ? Reflect.get(part, name) : undefined),
    value
  )

/** Every member of the decoded part is that of the body. */
const isPart = (part: unknown, body: unknown): boolean =>
  typeof part === "object" && part !== null
    ? kindOf(part) === kindOf(body) && Object.entries(part).every(([name, member]) => isPart(member, at(body, [name])))
    : part === body

const draws = fc.noShrink(fc.infiniteStream(fc.nat(1_000_000)))
const randomOf = (stream: fc.Stream<number>) =>
  ({ nextInt: (min: number, max: number) => min + ((stream.next().value ?? 0) % (max - min + 1)) }) as fc.Random

describe("the shapes of the command line", () => {
  it("are all here: of an answer of the server beside its schema, or of a file of ours", () => {
    const declared = filesBelow("src/cli").flatMap((file) =>
      Array.from(
        fs.readFileSync(file, "utf8").matchAll(/^(?:export )?const (\w+) = Shape\./gm),
        ([, name]) => `${file.replace("src/cli/", "")} ${name}`
      )
    )
    assert.deepStrictEqual(declared.toSorted(), [...answers.keys(), ...own].toSorted())
  })

  for (const [name, { isDeclared, json, open, shape }] of answers) {
    it(`read every answer that the schema declares, unchanged: ${name}`, () => {
      fc.assert(
        fc.property(json, (body) => {
          const decoded = shape(body)
          assert.isTrue(Option.isSome(decoded) && isPart(decoded.value, body))
        })
      )
    })

    it(`refuse an answer whose member the schema refuses, where they read the member: ${name}`, () => {
      let refused = 0
      fc.assert(
        fc.property(json, draws, (original, stream) => {
          const { body, path } = altered(original, randomOf(stream))
          const decoded = shape(body)
          if (isDeclared(body)) return assert.isTrue(Option.isSome(decoded))
          if (Option.isNone(decoded)) refused++
          // The altered member is none that the shape reads.
          else if (path.length < 2 || path[0] !== open) assert.isUndefined(at(decoded.value, path), path.join("."))
        }),
        { numRuns: 300 }
      )
      assert.isAbove(refused, 10)
    })
  }

  for (const name of whole) {
    it(`have every member that the schema declares, in its order: ${name}`, () => {
      const declared = answers.get(name)
      assert.isDefined(declared)
      fc.assert(
        fc.property(declared.json, (body) => {
          assert.strictEqual(JSON.stringify(Option.getOrThrow(declared.shape(body))), declared.decoded(body))
        })
      )
    })
  }
})

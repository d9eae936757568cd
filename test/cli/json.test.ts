/** Output of `--json`, command by command, against the schema that docs/command-line/json.md promises. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import { AccessRequest } from "#schema/AccessRequestsApi.ts"
import { AuditEntry } from "#schema/Audit.ts"
import { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import { EnvironmentAccess } from "#schema/EnvironmentAccessApi.ts"
import { ExposurePage, SecretExposure } from "#schema/ExposureApi.ts"
import { VerifyAuthResponse } from "#schema/IdentityApi.ts"
import { IncidentRef, IncidentReport } from "#schema/IncidentApi.ts"
import { MySession } from "#schema/MySessionsApi.ts"
import { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import { cliScopes } from "#schema/Scopes.ts"
import * as Answers from "#schema/SecretResponses.ts"
import { manual } from "#src/cli/Commands.ts"
import type { Page } from "#src/cli/help/Page.ts"
import { exactly } from "#test/support/Bodies.ts"
import { failureOf } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { app, setUp } from "./ProjectFolder.ts"

/** Commands with `--json`, by their words. */
const commands = (page: Page, before: ReadonlyArray<string> = []): ReadonlyArray<string> => {
  const own = page.options.some(([option]) => option.startsWith("--json")) ? [before.join(" ")] : []
  return [...own, ...page.below.flatMap((below) => commands(below, [...before, below.name]))]
}

/** Those that need a person's approval, a server of their own or its database, with the file that reads their documents. */
const elsewhere: Readonly<Record<string, ReadonlyArray<string>>> = {
  "management.test.ts": [
    "projects create",
    "projects update",
    "projects delete",
    "environments create",
    "environments update",
    "environments delete",
    "tokens list",
    "tokens create",
    "tokens rotate",
    "tokens revoke",
    "members list",
    "members invite",
    "members update",
    "members remove",
    "second-person list",
    "second-person link",
    "sessions end",
    "sessions end-all"
  ],
  "login.test.ts": ["login", "logout", "setup"],
  "seal.test.ts": ["seal set", "seal export", "seal manifest", "seal check", "reseal"],
  "access.test.ts": ["changes show", "changes withdraw"],
  "operators, in test/cli, test/vault": [
    "vault status",
    "vault rotate",
    "vault rotate-data-keys",
    "vault verify-log",
    "migrate"
  ],
  "operators, in test/cli/admin.test.ts alone": [
    "admin users",
    "admin accounts",
    "admin accounts vouch",
    "admin reset-link",
    "admin change-email",
    "admin remove-factor",
    "admin remove-user",
    "admin deactivate-user",
    "admin activate-user",
    "admin teams",
    "admin create-team",
    "admin suspend-team",
    "admin resume-team",
    "admin remove-team"
  ],
  "operators, in test/audit and test/backup": ["audit verify", "backup create", "restore"]
}

const list = <A, I>(schema: Schema.Schema<A, I>) => Schema.Array(schema)
const text = Schema.String
const Written = Schema.Struct({
  ...Answers.SecretRef.fields,
  outcome: Schema.Literal("created", "updated", "unchanged")
})
const client = Schema.Struct({
  server: text,
  serverFrom: text,
  source: text,
  why: text,
  login: Schema.optional(Schema.Struct({ email: text, protection: text })),
  target: Schema.Struct({
    project: Schema.NullOr(text),
    environment: Schema.NullOr(text),
    projectFrom: Schema.NullOr(text),
    environmentFrom: Schema.NullOr(text)
  })
})

/** In this order: each finds what those before it wrote. `stdin`: what the command reads. */
const documents: ReadonlyArray<{
  readonly words: string
  readonly schema: Schema.Schema.AnyNoContext
  readonly with?: ReadonlyArray<string>
  readonly stdin?: string
}> = [
  { words: "trust", schema: Schema.Struct({ file: text, project: text, environment: text }) },
  { words: "use", with: ["staging"], schema: Schema.Struct({ file: text, project: text, environment: text }) },
  { words: "use", schema: Schema.Struct({ project: text, environment: text }) },
  { words: "open", schema: Schema.Struct({ url: text }) },
  { words: "whoami", schema: Schema.Struct({ ...VerifyAuthResponse.fields, client }) },
  { words: "projects", schema: list(Project) },
  { words: "projects list", schema: list(Project) },
  { words: "projects environments", schema: list(ProjectEnvironment) },
  { words: "environments list", schema: list(ProjectEnvironment) },
  { words: "secrets set", with: ["API_KEY"], stdin: "one", schema: Written },
  { words: "secrets set", with: ["API_KEY"], stdin: "two", schema: Written },
  { words: "secrets get", with: ["API_KEY"], schema: Answers.SecretWithValue },
  { words: "secrets list", schema: list(Answers.SecretListItem) },
  { words: "secrets list", with: ["--last-read"], schema: list(Answers.SecretListItem) },
  { words: "secrets copy", with: ["API_KEY", "--to", "development"], schema: list(Written) },
  { words: "secrets rename", with: ["API_KEY", "NEW_KEY"], schema: Answers.RenamedSecret },
  { words: "secrets note", with: ["NEW_KEY", "--owner", "payments"], schema: Answers.DescribedSecret },
  { words: "secrets notes", schema: list(Answers.SecretListItem) },
  {
    words: "secrets import",
    with: ["-", "--yes"],
    stdin: "EXTRA_KEY=1\n",
    schema: Schema.Struct({ created: Schema.Number, updated: Schema.Number, unchanged: Schema.Number })
  },
  { words: "secrets diff", with: ["development", "staging"], schema: Answers.SecretDiff },
  { words: "secrets history", with: ["NEW_KEY"], schema: Answers.SecretVersionList },
  { words: "secrets rollback", with: ["NEW_KEY", "1"], schema: Answers.SecretRef },
  { words: "secrets unset", with: ["EXTRA_KEY"], schema: Answers.DeleteSecretResult },
  { words: "secrets deleted", schema: Answers.DeletedSecretList.fields.items },
  { words: "secrets restore", with: ["EXTRA_KEY"], schema: Answers.SecretRef },
  { words: "secrets restore-at", with: ["--at", "1m", "--dry-run"], schema: Answers.EnvironmentRestoration },
  { words: "graph", schema: Answers.SecretCompositionGraph },
  { words: "activity", schema: Schema.Struct({ items: list(AuditEntry), hasMore: Schema.Boolean }) },
  { words: "exposed", schema: ExposurePage },
  { words: "exposed", with: ["NEW_KEY"], schema: SecretExposure },
  { words: "incident", schema: list(IncidentRef) },
  { words: "incident", with: ["--person", "OWNER"], schema: IncidentReport },
  { words: "access list", schema: EnvironmentAccess },
  { words: "access requests", schema: list(AccessRequest) },
  { words: "changes list", schema: list(ChangeRequest) },
  { words: "sessions", schema: list(MySession) },
  { words: "sessions list", schema: list(MySession) },
  {
    words: "doctor",
    schema: list(Schema.Struct({ check: text, state: Schema.Literal("ok", "warning", "failed"), text }))
  }
]

/** Asked for and withdrawn by a member, where grants decide. */
const byMember = ["access request", "access withdraw"]

layer(app, { excludeTestServices: true, timeout: 300_000 })("--json", (it) => {
  it.effect(
    "has a schema for the document of every command",
    () =>
      Effect.sync(() => {
        const tried = new Set([...documents.map(({ words }) => words), ...byMember])
        const all = new Set([...tried, ...Object.values(elsewhere).flat()])
        assert.deepStrictEqual([...all].sort(), [...new Set(commands(manual()))].sort())
        for (const [file, words] of Object.entries(elsewhere).filter(([name]) => name.endsWith(".ts"))) {
          const source = fs.readFileSync(new URL(file, import.meta.url), "utf8")
          for (const one of words) assert.include(source, `"${one.split(" ").join('", "')}"`, `${file}: ${one}`)
        }
      }),
    300_000
  )

  it.scoped(
    "prints one document of that schema, and nothing else",
    () =>
      Effect.gen(function* () {
        const { project, run } = yield* setUp()
        const { team } = project
        const login = yield* World.grant({ person: team.owner, teams: [{ team, scopes: cliScopes }] })
        yield* World.session(team.owner)
        const env = { AMPOULE_API_TOKEN: login.text }
        for (const { schema, stdin, with: more = [], words } of documents) {
          const line = [
            ...words.split(" "),
            "--json",
            ...more.map((word) => (word === "OWNER" ? team.owner.email : word))
          ]
          const ended = yield* run(line, { env, ...(stdin === undefined ? {} : { stdin }) })
          const name = line.join(" ")
          assert.isTrue(ended.code === 0 || words === "doctor", `${name}: ${ended.stderr}`)
          assert.doesNotThrow(() => exactly(schema)(JSON.parse(ended.stdout)), undefined, `${name}: ${ended.stdout}`)
        }
      }),
    300_000
  )

  it.scoped(
    "prints a failure of server, parser or command in the same shape",
    () =>
      Effect.gen(function* () {
        const { project, run } = yield* setUp()
        const { team } = project
        yield* TestApp.patch(`/environments/${project.production.id}`, {
          session: (yield* World.session(team.owner)).text,
          json: { readers: "granted" }
        })
        const member = yield* World.member(team, "member")
        const login = yield* World.grant({ person: member, teams: [{ team, scopes: cliScopes }] })
        const env = { AMPOULE_API_TOKEN: login.text }
        const asking = ["access", "request", "--json", "-e", "production", "--for", "2h", "--why", "Incident 42"]
        const request = exactly(AccessRequest)(JSON.parse((yield* run(asking, { env })).stdout))
        const withdrawn = yield* run(["access", "withdraw", "--json", request.id], { env })
        assert.deepStrictEqual(JSON.parse(withdrawn.stdout), { id: request.id, state: "withdrawn" })

        for (const [words, code, exit] of [
          [["secrets", "get", "--json", "ABSENT"], "SECRET_NOT_FOUND", 1],
          [["secrets", "list", "--json", "-e", "nowhere"], "ENVIRONMENT_NOT_FOUND", 1],
          [["secrets", "list", "--json", "-e", "Not a slug"], "USAGE", 2],
          [["secrets", "get", "--json", "KEY", "-e", "production"], "ENVIRONMENT_NOT_GRANTED", 1],
          [["activity", "--json"], "FORBIDDEN", 1],
          [["access", "list", "--json"], "FORBIDDEN", 1],
          [["projects", "create", "--json", "Mine"], "FAILED", 1],
          [["secrets", "get", "--json", "not a key"], "USAGE", 2],
          [["secrets", "list", "--json", "--url", "http://127.0.0.1:1"], "SERVER_UNREACHABLE", 1]
        ] as const) {
          const ended = yield* run(words, { env })
          const name = words.join(" ")
          assert.deepStrictEqual([name, ended.code, ended.stdout], [name, exit, ""])
          const failure = failureOf(ended.stderr.slice(ended.stderr.indexOf("{")))
          assert.deepStrictEqual([name, failure.code], [name, code])
          assert.isNotEmpty(failure.message)
        }
        const refusal = yield* run(["activity"], { env })
        assert.include(refusal.stderr, "Only owners and admins of the team")
      }),
    300_000
  )
})

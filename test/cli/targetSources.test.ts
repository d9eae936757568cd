/** Reports that name where project and environment come from. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { app, setUp } from "./ProjectFolder.ts"

const Findings = Schema.parseJson(Schema.Array(Schema.Struct({ check: Schema.String, text: Schema.String })))
const Whoami = Schema.parseJson(Schema.Struct({ client: Schema.Struct({ target: Schema.Object }) }))

layer(app, { excludeTestServices: true })("whoami and doctor", (it) => {
  it.scoped("name the source of project and environment", () =>
    Effect.gen(function* () {
      const { project, run } = yield* setUp()
      const targetOf = (env: Readonly<Record<string, string>>) =>
        Effect.gen(function* () {
          const who = yield* run(["whoami", "--json"], { env })
          const doctor = Schema.decodeSync(Findings)((yield* run(["doctor", "--json"], { env })).stdout)
          const text = doctor.find(({ check }) => check === "target")?.text
          assert.include((yield* run(["whoami"], { env })).stdout.replaceAll(/\s+/g, " "), `target: ${text}`)
          return [Schema.decodeSync(Whoami)(who.stdout).client.target, text] as const
        })
      const [byFile, fileText] = yield* targetOf({})
      assert.deepInclude(byFile, { environment: "development", environmentFrom: ".ampoule.json" })
      assert.match(fileText ?? "", /^project .* \(\.ampoule\.json\), environment development \(\.ampoule\.json\)$/)
      const [byVariable, text] = yield* targetOf({ AMPOULE_PROJECT: project.slug, AMPOULE_ENVIRONMENT: "qa" })
      assert.deepEqual(byVariable, {
        project: project.slug,
        environment: "qa",
        projectFrom: "AMPOULE_PROJECT",
        environmentFrom: "AMPOULE_ENVIRONMENT"
      })
      assert.strictEqual(text, `project ${project.slug} (AMPOULE_PROJECT), environment qa (AMPOULE_ENVIRONMENT)`)
    })
  )
})

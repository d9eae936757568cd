import { assert, describe, it } from "@effect/vitest"
import * as Target from "#src/ClientTarget.ts"

const only = {
  projectId: "01980a5e-2b4c-7d11-9f3a-1c2d3e4f5061",
  project: "shop",
  environmentId: "01980a5e-2b4c-7d11-9f3a-1c2d3e4f5062",
  environment: "production"
}
const file = { project: "site", environment: "development" }
const namesOf = (parts: Target.Parts) => [
  parts.project && [parts.project.name, parts.project.source],
  parts.environment && [parts.environment.name, parts.environment.source]
]
const all = (options: Parameters<typeof Target.fromCaller>[0], variables: Record<string, string>) =>
  namesOf(Target.withFile(Target.withCredential(Target.fromCaller(options, variables), only), file))

describe("the target of a client", () => {
  it("comes from an option, else a variable, else the only environment, else the file", () => {
    const variables = { AMPOULE_PROJECT: "shop", AMPOULE_ENVIRONMENT: "staging" }
    assert.deepStrictEqual(all({ project: "api", environment: "qa" }, variables), [
      ["api", "option"],
      ["qa", "option"]
    ])
    assert.deepStrictEqual(all({ environment: "qa" }, variables), [
      ["shop", "variable"],
      ["qa", "option"]
    ])
    assert.deepStrictEqual(all({}, variables), [
      ["shop", "variable"],
      ["staging", "variable"]
    ])
    assert.deepStrictEqual(all({}, {}), [
      ["shop", "credential"],
      ["production", "credential"]
    ])
    assert.deepStrictEqual(namesOf(Target.withFile(Target.fromCaller({}, {}), file)), [
      ["site", "file"],
      ["development", "file"]
    ])
  })

  it("ignores an empty variable and blanks around a name", () => {
    const parts = Target.fromCaller({ project: "" }, { AMPOULE_PROJECT: " \n", AMPOULE_ENVIRONMENT: " qa\n" })
    assert.deepStrictEqual(namesOf(parts), [undefined, ["qa", "variable"]])
    assert.isFalse(Target.isComplete(parts))
  })

  it("takes no environment of the credential for another project, and the id for its own", () => {
    const other = Target.withCredential(Target.fromCaller({ project: "api" }, {}), only)
    assert.deepStrictEqual(namesOf(other), [["api", "option"], undefined])
    for (const project of ["shop", only.projectId.toUpperCase()]) {
      const own = Target.withCredential(Target.fromCaller({ project }, {}), only)
      assert.deepStrictEqual([own.project?.id, own.environment?.name], [only.projectId, "production"])
    }
  })
})

/** Grants as the statement that verifies a credential brings them: read once, ended in time, and never believed unsealed. */
import { assert, describe, it } from "@effect/vitest"
import { createSecretKey, randomBytes, randomUUID } from "node:crypto"
import { EnvironmentIdOut, ProjectIdOut, TeamIdOut, UserIdOut } from "#schema/Ids.ts"
import * as KeyRing from "#src/crypto/KeyRing.ts"
import * as RowMac from "#src/rows/RowMac.ts"
import * as PersonGrants from "#src/credentials/PersonGrants.ts"

const row = (until: number | null, environmentId: string | null = randomUUID()) => ({
  id: randomUUID(),
  teamId: TeamIdOut.make(randomUUID()),
  userId: UserIdOut.make(randomUUID()),
  projectId: ProjectIdOut.make(randomUUID()),
  environmentId: environmentId === null ? null : EnvironmentIdOut.make(environmentId),
  level: "values" as const,
  until
})
type Row = ReturnType<typeof row>
const line = (macs: RowMac.RowMac, one: Row, mac = macs.of("access_grants", one).toString("hex")) =>
  [
    one.id,
    one.teamId,
    one.userId,
    one.projectId,
    one.environmentId ?? "-",
    one.level,
    one.until === null ? "-" : `${one.until}.000000`,
    mac
  ].join(" ")

const makeMacs = () => {
  const forged: Array<string> = []
  const key = () => KeyRing.unbound(createSecretKey(randomBytes(32)))
  const keys = { rows: key(), credentials: key(), passwords: key() }
  return { forged, macs: RowMac.make(keys, (_, id) => void forged.push(id)) }
}

describe("grants that a person holds", () => {
  it("are there until they end, also where the text was read before", () => {
    const { macs } = makeMacs()
    const [lasting, ending] = [row(null, null), row(2_000)]
    const text = [lasting, ending].map((one) => line(macs, one)).join("\n")
    const at = (now: number) => PersonGrants.inForce(text, now, macs).map(({ projectId }) => projectId)
    assert.deepStrictEqual(at(1_000), [lasting.projectId, ending.projectId])
    assert.deepStrictEqual(at(1_999), [lasting.projectId, ending.projectId])
    assert.deepStrictEqual(at(2_000), [lasting.projectId])
    assert.deepStrictEqual(at(1_000), [lasting.projectId, ending.projectId])
    const [first] = PersonGrants.inForce(text, 1_000, macs)
    assert.deepStrictEqual(first, { environmentId: null, level: "values", projectId: lasting.projectId, until: null })
  })

  it("count for nothing where no server wrote them, and that is reported each time", () => {
    const { forged, macs } = makeMacs()
    const [own, foreign, unsealed] = [row(null), row(null), row(null)]
    const text = [line(macs, own), line(macs, foreign, "ab".repeat(32)), line(macs, unsealed, "-")].join("\n")
    for (let i = 0; i < 2; i++) {
      assert.deepStrictEqual(
        PersonGrants.inForce(text, 0, macs).map(({ projectId }) => projectId),
        [own.projectId]
      )
    }
    assert.deepStrictEqual(forged, [foreign.id, unsealed.id, foreign.id, unsealed.id])
    // Another holder of keys believes other rows.
    assert.deepStrictEqual(PersonGrants.inForce(line(macs, own), 0, makeMacs().macs), [])
  })
})

import { BaseSequencer, type TestSpecification } from "vitest/node"

/**
 * Files of minutes, the longest first. Vitest begins with the largest file where it has no earlier times: a short one
 * that takes minutes would begin last, and the others would be over.
 */
const slow = [
  "test/docs/runbooks.test.ts",
  "test/soak/soak.test.ts",
  "test/cli/secrets.test.ts",
  "test/docs/commands.test.ts",
  "test/backup/release.test.ts",
  "test/upgrade/rolling.test.ts"
]

const rankOf = ({ moduleId }: TestSpecification): number => {
  const at = slow.findIndex((file) => moduleId.endsWith(`/${file}`))
  return at < 0 ? slow.length : at
}

export class SlowFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
    return (await super.sort(files)).sort((one, other) => rankOf(one) - rankOf(other))
  }
}

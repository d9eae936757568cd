/** What the forms that set a password have in common. */
import type { AnyApiError } from "#schema/ApiError.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"

const passwordHint = "At least 12 characters. A sentence that only you would write works well."
const enterAgain = "The server does not send passwords back to the page. Please enter it again."
export const passwordHintAfter = (problem: AnyApiError | undefined) =>
  problem === undefined ? passwordHint : `${passwordHint} ${enterAgain}`

/** Problems that no field shows. */
export const General = ({
  fields,
  problem
}: {
  readonly problem: AnyApiError | undefined
  readonly fields: ReadonlyArray<string>
}) => (problem?.field !== undefined && fields.includes(problem.field) ? null : <Ui.ProblemNote problem={problem} />)

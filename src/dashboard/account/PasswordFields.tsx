/** Common parts of the forms that set a password. */
import type { AnyApiError } from "#schema/ApiError.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"

const passwordHint = "At least 12 characters. A sentence that only you would write works well."
const enterAgain = "The server does not send passwords back to the page. Please enter it again."

/** Field for a password that the person chooses. `newPassword` beside a current or earlier one. */
export const NewPassword = ({
  focus = false,
  name,
  problem
}: {
  readonly name: "password" | "newPassword"
  readonly problem: AnyApiError | undefined
  readonly focus?: boolean
}) => (
  <Ui.TextField
    name={name}
    label={name === "password" ? "Password" : "New password"}
    type="password"
    autocomplete="new-password"
    focus={focus}
    hint={problem === undefined ? passwordHint : `${passwordHint} ${enterAgain}`}
    problem={problem}
  />
)

/** Problem that belongs to none of the form's fields. */
export const General = ({
  fields,
  problem
}: {
  readonly problem: AnyApiError | undefined
  readonly fields: ReadonlyArray<string>
}) => (problem?.field !== undefined && fields.includes(problem.field) ? null : <Ui.ProblemNote problem={problem} />)

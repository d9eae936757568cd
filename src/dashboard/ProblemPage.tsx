import type { AnyApiError } from "#schema/ApiError.ts"
import { Card } from "./Layout.tsx"
import * as Paths from "./Paths.ts"
import * as Problem from "./Problem.ts"
import type { Visitor } from "./Visit.ts"

/** A page that could not be shown, or a change that was refused and has no form to show it. */
export const ProblemPage = ({ problem, visit }: { readonly visit: Visitor; readonly problem: AnyApiError }) => {
  const { detail, title } = Problem.explain(problem)
  return (
    <Card who={visit} title={title} lead={detail === "" ? undefined : detail}>
      <p>
        <a class="button button-plain" href={Paths.home}>
          {visit.caller === null ? "Go to the sign-in page" : "Go to your projects"}
        </a>
      </p>
    </Card>
  )
}

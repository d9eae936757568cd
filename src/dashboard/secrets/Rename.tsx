/** Form that renames a secret. */
import * as Effect from "effect/Effect"
import type { AnyApiError } from "#schema/ApiError.ts"
import { ValidationFailed } from "#schema/Errors.ts"
import { RenameSecret } from "#schema/SecretRequests.ts"
import { isDangerous } from "#src/formats/DangerousNames.ts"
import { type AtSecret, here, type SecretDetails, usedBy } from "./AtSecret.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import type { Attempt } from "#src/dashboard/frame/Routes.ts"
import { anyway, DangerousNames } from "./Forms.tsx"

export const RenamePanel = (
  props: SecretDetails & { readonly attempt: Attempt; readonly problem: AnyApiError | undefined }
) => {
  const { attempt, currentVersion, node, problem } = props
  const typed = problem === undefined ? node.key : attempt.form.text("key").trim().toUpperCase()
  const users = usedBy(props).length
  const asks = problem?.field === anyway
  return (
    <section class="section panel" aria-labelledby="rename">
      <h2 id="rename">Rename</h2>
      {problem === undefined || problem.field === "key" || asks ? null : <Ui.ProblemNote problem={problem} />}
      <details class="confirm" open={problem !== undefined}>
        <summary class="button button-plain">Change the key</summary>
        <form method="post" action={`${here(props)}/rename`} class="confirm-panel confirm-plain">
          <p>
            The secret keeps its versions. Programs that read <code>{node.key}</code> no longer find it.
          </p>
          <input type="hidden" name="expectedVersion" value={String(currentVersion)} />
          <Ui.TextField id="rename-key" name="key" label="New key" mono capitals value={typed} problem={problem} />
          {users === 0 ? null : (
            <Ui.CheckBox
              name="references"
              value="rewrite"
              checked={problem !== undefined && attempt.form.has("references")}
            >
              {users === 1 ? "Update the secret that uses it" : `Update the ${users} secrets that use it`}
            </Ui.CheckBox>
          )}
          {asks ? (
            <DangerousNames keys={[typed]}>
              <Ui.CheckBox name={anyway} value={typed}>
                Rename it anyway
              </Ui.CheckBox>
            </DangerousNames>
          ) : null}
          <Ui.Submit>Rename</Ui.Submit>
        </form>
      </details>
    </section>
  )
}

export const decodeRename = Effect.fnUntraced(function* (form: Form.Form, { location }: AtSecret) {
  const references = form.filled("references")
  const input = yield* Form.decode(RenameSecret)({
    // Keys are in capitals, as the page shows them during typing.
    key: form.text("key").trim().toUpperCase(),
    ...(references === undefined ? {} : { references }),
    expectedVersion: Number(form.text("expectedVersion"))
  })
  if (location.writes && isDangerous(input.key) && form.text(anyway) !== input.key) {
    return yield* new ValidationFailed({ field: anyway, message: "A secret of this name is dangerous" })
  }
  return input
})

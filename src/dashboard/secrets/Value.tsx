/** A hidden value with a button. Only the response to a POST contains it, after the audit trail recorded the read. */
import * as Icons from "#src/dashboard/frame/Icons.tsx"

export interface RevealedValue {
  readonly key: string
  readonly text: string
  readonly representation: "materialized" | "source"
}

export const SecretValue = ({
  action,
  of,
  revealed,
  secretKey
}: {
  /** Address of the reveal. */
  readonly action: string
  readonly secretKey: string
  /** Selects one of several values with this key. */
  readonly of?: string | number
  /** The revealed value, for a reveal without a script. */
  readonly revealed?: RevealedValue | undefined
}) => {
  const text = revealed?.key === secretKey ? revealed.text : undefined
  return (
    <form method="post" action={action} class="value" data-value-form>
      <input type="hidden" name="key" value={secretKey} />
      {of === undefined ? null : <input type="hidden" name="of" value={of} />}
      {text === undefined ? (
        <span class="value-mask" data-value-text>
          ••••••••
        </span>
      ) : (
        <span class={text === "" ? "hint" : "value-text"} data-value-text tabIndex={0}>
          {text === "" ? "(empty)" : text}
        </span>
      )}
      <button class="button button-quiet" data-reveal aria-pressed="false">
        <Icons.Eye /> <span data-verb>{text === undefined ? "Reveal" : "Reveal again"}</span>
        <span class="hidden"> the value of {secretKey}</span>
      </button>
      <button type="button" class="button button-quiet needs-script" data-copy-value>
        <Icons.Copy /> <span data-verb>Copy</span>
        <span class="hidden"> the value of {secretKey}</span>
      </button>
      <span class="error" data-value-error />
    </form>
  )
}

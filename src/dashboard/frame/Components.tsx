/** Common components of pages. */
import type { ComponentChildren } from "preact"
import type { AnyApiError } from "#schema/ApiError.ts"
import * as Form from "./Form.ts"
import * as Icons from "./Icons.tsx"
import { Mark } from "./Mark.tsx"
import * as Problem from "./Problem.ts"

// --- words ---

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

/** Relative time; the exact time is in the title. */
export const ago = (at: number, now: number): string => {
  const past = now - at
  if (past < minute) return "just now"
  if (past < hour) return `${Math.floor(past / minute)} min ago`
  if (past < day) return `${Math.floor(past / hour)} h ago`
  if (past < 30 * day) return `${Math.floor(past / day)} d ago`
  return new Date(at).toISOString().slice(0, 10)
}
const until = (at: number, now: number): string => {
  const remaining = at - now
  if (remaining <= 0) return "expired"
  // Rounded, so that a new link for a week says 7 days.
  if (remaining < hour) return `in ${Math.max(1, Math.round(remaining / minute))} min`
  if (remaining < 2 * day) return `in ${Math.round(remaining / hour)} h`
  return `in ${Math.round(remaining / day)} d`
}
export const exact = (iso: string): string => `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`

export const Ago = ({ at, now }: { readonly at: string; readonly now: number }) => (
  <time dateTime={at} title={exact(at)}>
    {ago(Date.parse(at), now)}
  </time>
)
export const Until = ({ at, now }: { readonly at: string; readonly now: number }) => (
  <time dateTime={at} title={exact(at)}>
    {until(Date.parse(at), now)}
  </time>
)

/** Key of a secret, which may break after each underscore. */
export const KeyName = ({ name }: { readonly name: string }) => (
  <>{name.split("_").flatMap((part, i) => (i === 0 ? [part] : ["_", <wbr />, part]))}</>
)

export const Badge = ({
  children,
  tone = "plain"
}: {
  readonly children: ComponentChildren
  readonly tone?: "plain" | "accent" | "amber" | "danger" | "ok"
}) => <span class={`badge badge-${tone}`}>{children}</span>

export const Protected = () => (
  <Badge tone="amber">
    <Icons.Lock /> protected
  </Badge>
)

export const Callout = ({
  children,
  tone = "info",
  title,
  role
}: {
  readonly children?: ComponentChildren
  readonly tone?: "info" | "danger" | "warning" | "ok"
  readonly title?: ComponentChildren
  readonly role?: "alert" | "status"
}) => (
  <div class={`callout callout-${tone}`} role={role}>
    {tone === "info" ? <Icons.Info /> : tone === "ok" ? <Icons.Check /> : <Icons.Warning />}
    <div>
      {title === undefined ? null : <p class="callout-title">{title}</p>}
      {children}
    </div>
  </div>
)

export const Keys = ({ of }: { readonly of: ReadonlyArray<string> }) => (
  <ul class="keys">
    {of.map((key) => (
      <li>
        <code>{key}</code>
      </li>
    ))}
  </ul>
)

export const ProblemNote = ({ problem }: { readonly problem: AnyApiError | undefined }) => {
  if (problem === undefined) return null
  const { detail, title } = Problem.explain(problem)
  const keys = Problem.keysOf(problem)
  return (
    <Callout tone="danger" title={title} role="alert">
      {detail === "" ? null : <p>{detail}</p>}
      {keys.length === 0 ? null : <Keys of={keys} />}
    </Callout>
  )
}

// --- forms ---

interface FieldProps {
  readonly name: string
  readonly label: ComponentChildren
  readonly hint?: ComponentChildren
  readonly problem?: AnyApiError | undefined
  /** Name of the member that a problem names, if it differs from the field's name. */
  readonly member?: string
  /** Needed if a page has several fields of one name. */
  readonly id?: string
}

/** Common attributes of a field's control and its frame. */
const field = ({ hint, id: own, label, member, name, problem }: FieldProps) => {
  const id = own ?? `f-${name}`
  const error = Problem.about(problem, member ?? name)
  const ids = [...(hint === undefined ? [] : [`${id}-hint`]), ...(error === undefined ? [] : [`${id}-error`])]
  return {
    frame: { id, label, hint, error },
    control: {
      id,
      name,
      "aria-invalid": error === undefined ? undefined : ("true" as const),
      "aria-describedby": ids.length === 0 ? undefined : ids.join(" ")
    }
  }
}

const FieldFrame = ({
  children,
  error,
  hint,
  id,
  label
}: ReturnType<typeof field>["frame"] & { readonly children: ComponentChildren }) => (
  <div class={error === undefined ? "field" : "field field-wrong"}>
    <label for={id}>{label}</label>
    {children}
    {hint === undefined ? null : (
      <p class="hint" id={`${id}-hint`}>
        {hint}
      </p>
    )}
    {error === undefined ? null : (
      <p class="error" id={`${id}-error`}>
        {error}
      </p>
    )}
  </div>
)

interface TextProps extends FieldProps {
  readonly value?: string | undefined
  readonly focus?: boolean
  readonly optional?: boolean
}

export const TextField = ({
  autocomplete = "off",
  capitals = false,
  focus = false,
  mono = false,
  optional = false,
  type = "text",
  value,
  ...props
}: TextProps & {
  readonly type?: "text" | "email" | "password" | "date" | "datetime-local"
  readonly autocomplete?: string
  readonly mono?: boolean
  /** Turns letters into capitals during typing. */
  readonly capitals?: boolean
}) => {
  const { control, frame } = field(props)
  return (
    <FieldFrame {...frame}>
      <input
        {...control}
        type={type}
        class={mono ? "mono" : undefined}
        value={value}
        required={!optional}
        autocomplete={autocomplete}
        autofocus={focus}
        autocapitalize={capitals ? "characters" : "off"}
        spellcheck={false}
        data-capitals={capitals ? "" : undefined}
      />
    </FieldFrame>
  )
}

export const TextArea = ({
  rows = 4,
  value,
  focus = false,
  optional = false,
  placeholder,
  takesFiles = false,
  ...props
}: TextProps & {
  readonly rows?: number
  readonly placeholder?: string
  /** Takes the text of a dropped file; only the form sends it. */
  readonly takesFiles?: boolean
}) => {
  const { control, frame } = field(props)
  return (
    <FieldFrame {...frame}>
      <textarea
        {...control}
        rows={rows}
        class="mono"
        required={!optional}
        autofocus={focus}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        placeholder={placeholder}
        data-takes-files={takesFiles ? "" : undefined}
        // Browsers drop the first line break after the tag (HTML, 4.10.11).
        value={value === undefined ? undefined : /^[\r\n]/.test(value) ? `\n${value}` : value}
      />
    </FieldFrame>
  )
}

interface Choice {
  readonly value: string
  readonly label: string
  readonly group?: string
}

export const Select = ({
  choices,
  value,
  ...props
}: FieldProps & {
  readonly choices: ReadonlyArray<Choice>
  readonly value?: string | undefined
}) => {
  const { control, frame } = field(props)
  const option = (choice: Choice) => (
    <option value={choice.value} selected={choice.value === value}>
      {choice.label}
    </option>
  )
  const groups = [...new Set(choices.flatMap(({ group }) => group ?? []))]
  return (
    <FieldFrame {...frame}>
      <select {...control}>
        {choices.filter(({ group }) => group === undefined).map(option)}
        {groups.map((label) => (
          <optgroup label={label.replaceAll("_", " ")}>
            {choices.filter(({ group }) => group === label).map(option)}
          </optgroup>
        ))}
      </select>
    </FieldFrame>
  )
}

export const CheckBox = ({
  checked = false,
  children,
  hint,
  name,
  type = "checkbox",
  value = "yes"
}: {
  readonly name: string
  readonly value?: string
  readonly checked?: boolean
  readonly type?: "checkbox" | "radio"
  readonly children: ComponentChildren
  readonly hint?: ComponentChildren
}) => (
  <label class="check">
    <input type={type} name={name} value={value} checked={checked} />
    <span>
      {children}
      {hint === undefined ? null : <span class="hint">{hint}</span>}
    </span>
  </label>
)

/** End of a form: its button, and a link back. */
export const Submit = ({ cancel, children }: { readonly cancel?: string; readonly children: ComponentChildren }) => (
  <div class="buttons">
    <button class="button button-primary">{children}</button>
    {cancel === undefined ? null : <LinkButton href={cancel}>Cancel</LinkButton>}
  </div>
)

interface LinkProps {
  readonly href: string
  readonly children: ComponentChildren
}
export const LinkButton = ({ children, href, primary = false }: LinkProps & { readonly primary?: boolean }) => (
  <a class={`button button-${primary ? "primary" : "plain"}`} href={href}>
    {children}
  </a>
)
export const AddButton = ({ children, href }: LinkProps) => (
  <LinkButton href={href} primary>
    <Icons.Plus /> {children}
  </LinkButton>
)

/** A form of one button. */
export const Act = ({
  action,
  children,
  fields = {},
  kind = "plain"
}: {
  readonly action: string
  readonly children: ComponentChildren
  readonly fields?: Readonly<Record<string, string>>
  readonly kind?: "plain" | "quiet"
}) => (
  <form method="post" action={action} class="act">
    {Object.entries(fields).map(([name, value]) => (
      <input type="hidden" name={name} value={value} />
    ))}
    <button class={`button button-${kind}`}>{children}</button>
  </form>
)

/** Field in which a person types a name to confirm a permanent deletion (`Form.repeats`). */
export const Repeat = ({ name, problem }: { readonly name: string; readonly problem: AnyApiError | undefined }) => (
  <TextField
    // Encoded, since a name may have spaces and an id may not.
    id={`confirm-${encodeURIComponent(name)}`}
    name={Form.confirm}
    mono
    label={
      <>
        Type <code>{name}</code> to confirm
      </>
    }
    problem={problem}
  />
)

/** Confirmation of a destructive action, in place and without a script. */
export const Confirm = ({
  action,
  children,
  label,
  of,
  problem,
  quiet = false,
  repeat,
  tone = "danger",
  verb
}: {
  readonly action: string
  readonly label: string
  /** Object of the action, for screen readers: in a list all labels are equal. */
  readonly of?: string
  /** For rows of tables, where a border around each button would draw too much attention. */
  readonly quiet?: boolean
  readonly verb: string
  readonly children: ComponentChildren
  readonly tone?: "danger" | "plain"
  /** Text that the person must type first. */
  readonly repeat?: string
  readonly problem?: AnyApiError | undefined
}) => (
  <details class="confirm" open={problem !== undefined}>
    <summary class={`button ${tone === "plain" ? "button-plain" : quiet ? "button-quiet" : "button-danger-quiet"}`}>
      {label}
      {of === undefined ? null : <span class="hidden"> {of}</span>}
    </summary>
    <form method="post" action={action} class={`confirm-panel confirm-${tone}`}>
      {children}
      {repeat === undefined ? null : <Repeat name={repeat} problem={problem} />}
      <button class={`button ${tone === "danger" ? "button-danger" : "button-primary"}`}>{verb}</button>
    </form>
  </details>
)

export const Empty = ({ children, title }: { readonly title: string; readonly children?: ComponentChildren }) => (
  <div class="empty">
    <Mark />
    <p class="empty-title">{title}</p>
    {children}
  </div>
)

/** One line of a `dl.facts`. `is` takes one value, children take a sentence. */
export const Fact = ({
  children,
  is,
  name
}: {
  readonly name: ComponentChildren
  readonly is?: ComponentChildren
  readonly children?: ComponentChildren
}) => (
  <>
    <dt>{name}</dt>
    <dd>
      {is}
      {children}
    </dd>
  </>
)

/** A table. On a phone, its rows become cards (see the stylesheet). */
export const Table = ({
  children,
  head,
  kind,
  label
}: {
  readonly label: string
  /** Class with own column widths in the stylesheet. */
  readonly kind?: "secrets" | "compared" | "audit" | "handed"
  readonly head: ReadonlyArray<string>
  readonly children: ComponentChildren
}) => (
  <table class={kind === undefined ? "table" : `table ${kind}`}>
    <caption class="hidden">{label}</caption>
    <thead>
      <tr>
        {head.map((title) => (
          <th scope="col">{title === "" ? <span class="hidden">Actions</span> : title}</th>
        ))}
      </tr>
    </thead>
    <tbody>{children}</tbody>
  </table>
)

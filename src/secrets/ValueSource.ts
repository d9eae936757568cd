/**
 * A value of a request, as data: its text is scanned here, once, and its kind is decided when the key is locked. Pure.
 * Texts leave their `Redacted` here, since templates need them; the result goes to the cipher alone.
 */
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { SecretKind, SecretText } from "#schema/Values.ts"
import * as TemplateScan from "./TemplateScan.ts"

/**
 * The origin of a text. `caller`: sent in the request, so its author knows it. `copied`: of another environment.
 * `stored`: an earlier text of the same secret, which the caller did not see. `server`: generated or expanded here,
 * hence no guess.
 */
const Origin = Schema.Literal("caller", "copied", "stored", "server")
type Origin = typeof Origin.Type

/** A text to store under a key, with its kind. */
export interface Write {
  readonly kind: SecretKind
  /** Written with `kind: literal`: later writes without a kind keep it a literal. */
  readonly pinned: boolean
  readonly text: string
  readonly from: Origin
  /** Scan of the text, where one was made. */
  readonly scan?: TemplateScan.Scan | undefined
}

/** The origin of a change's text; undefined for a deletion. Another secret's text goes on in `write`. */
export const originOf = (change: Write | { readonly write: Write } | null | undefined): Origin | undefined => {
  if (change === undefined || change === null) return undefined
  return "from" in change ? change.from : change.write.from
}

/** The secret of a key; `text`: where it was opened. */
export interface Stored {
  readonly pinned: boolean
  readonly text?: string
}

export interface ValueSource {
  /** Undefined: the stored text gets another kind. */
  readonly text: string | undefined
  /** Undefined: a literal where the key holds a pinned one, else by the text. */
  readonly kind: SecretKind | undefined
  readonly pinned: boolean
  readonly from: Origin
  readonly scan: TemplateScan.Scan | undefined
  /** UTF-8 bytes of the text. */
  readonly bytes: number
  /** Keys that the text may refer to, by itself: a stored literal that is pinned stays one. */
  readonly references: ReadonlyArray<string>
}

const noReferences: ReadonlyArray<string> = []

const sourceOf = (
  text: string | undefined,
  kind: SecretKind | undefined,
  pinned: boolean,
  from: Origin
): ValueSource => {
  const scan = text === undefined || kind === "literal" ? undefined : TemplateScan.scan(text)
  return {
    text,
    kind,
    pinned,
    from,
    scan,
    bytes: text === undefined ? 0 : Buffer.byteLength(text),
    references: scan?.parts === undefined ? noReferences : TemplateScan.references(scan.parts)
  }
}

interface RequestedValue {
  readonly kind?: SecretKind
  readonly value?: SecretText
  readonly source?: SecretText
}

/**
 * A value, a template, or the stored text taken as another kind. An explicit kind wins; see docs/contract/secrets.md.
 */
export const requested = ({ kind, source, value }: RequestedValue): ValueSource => {
  const sent = source ?? value
  const text = sent === undefined ? undefined : Redacted.value(sent)
  return sourceOf(text, kind ?? (source === undefined ? undefined : "template"), kind === "literal", "caller")
}

const verbatim = (text: string, kind: SecretKind, from: Origin): ValueSource =>
  sourceOf(text, kind, kind === "literal" && text.includes("${"), from)

/** The text of another environment, as it is written there. */
export const copied = (text: string, kind: SecretKind): ValueSource => verbatim(text, kind, "copied")

/** A text of a sealed file that the caller sent. */
export const unsealed = (text: string): ValueSource => verbatim(text, "literal", "caller")

export const generated = (text: string): ValueSource => sourceOf(text, "literal", false, "server")

/** A write of an approved change request. */
export const decided = ({ from, kind, pinned, text }: Write): ValueSource => sourceOf(text, kind, pinned, from)

/** The text to store; `stored` is undefined for a new key. */
export const writeOf = (source: ValueSource, stored?: Stored): Write => {
  const text = source.text ?? stored?.text ?? ""
  const from = source.text === undefined && stored !== undefined ? "stored" : source.from
  const { kind, pinned } = source
  if (kind !== undefined) return { kind, pinned, text, from, scan: source.scan }
  if (stored?.pinned === true) return { kind: "literal", pinned: true, text, from, scan: undefined }
  const scan = source.scan ?? TemplateScan.scan(text)
  return { kind: scan.kind, pinned: false, text, from, scan }
}

/** Keys that the texts of these may refer to. */
export const references = (sources: ReadonlyArray<ValueSource>): ReadonlyArray<string> =>
  sources.length === 1 ? sources[0].references : [...new Set(sources.flatMap((source) => source.references))]

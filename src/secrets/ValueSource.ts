/**
 * Where a value comes from, and what is stored for it once it is known what its key holds. Pure. Here the texts of a
 * request leave their `Redacted`: templates need them, and what they become goes no further than to the cipher.
 */
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import type { SecretKind, SecretText } from "#schema/Values.ts"
import * as Template from "./Template.ts"

/** A text to store under a key; the kind is decided. */
export interface Write {
  readonly kind: SecretKind
  /** Written with `kind: literal`: later writes without a kind keep it a literal. */
  readonly pinned: boolean
  readonly text: string
  /**
   * The request (sent or copied), an earlier text of the same secret, or this server, which generated or expanded it.
   * The last is no guess; the second was not seen by the caller.
   */
  readonly from: "caller" | "stored" | "server"
}

/** What a key holds now; `text` as far as it was opened. */
export interface Stored {
  readonly pinned: boolean
  readonly text?: string
}

/** `stored` is undefined for a new key. */
export type ValueSource = (stored: Stored | undefined) => Write

interface RequestedValue {
  readonly kind?: SecretKind
  readonly value?: SecretText
  readonly source?: SecretText
}

/**
 * A value, a template, or the stored text taken as another kind. An explicit kind wins; see docs/contract/secrets.md.
 */
export const requested =
  ({ kind, source, value }: RequestedValue): ValueSource =>
  (stored) => {
    const sent = source ?? value
    const text = sent === undefined ? (stored?.text ?? "") : Redacted.value(sent)
    const from = sent === undefined && stored !== undefined ? "stored" : "caller"
    if (kind === "literal") return { kind, pinned: true, text, from }
    if (kind === "template") return { kind, pinned: false, text, from }
    if (source !== undefined) return { kind: "template", pinned: false, text, from }
    if (stored?.pinned === true) return { kind: "literal", pinned: true, text, from }
    return { kind: Template.kindOf(text), pinned: false, text, from }
  }

/** The keys that what comes from these may refer to, as far as it is known before their own keys are read. */
export const mentions = (sources: Iterable<ValueSource>): ReadonlyArray<string> => [
  ...new Set(
    [...sources].flatMap((source) => {
      const { kind, text } = source(undefined)
      return kind === "literal"
        ? []
        : Either.match(Template.parse(text), { onLeft: () => [], onRight: Template.references })
    })
  )
]

/** The text itself, whatever it looks like: copied as written, or opened from a sealed file. */
export const verbatim =
  (text: string, kind: SecretKind = "literal"): ValueSource =>
  () => ({ kind, pinned: kind === "literal" && text.includes("${"), text, from: "caller" })

export const generated =
  (text: string): ValueSource =>
  () => ({ kind: "literal", pinned: false, text, from: "server" })

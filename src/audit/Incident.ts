/**
 * The burn-down of an incident, as a signed note: the exposed current values, and for each its replacement, with the
 * time, the actor and the id of the audit entry.
 *
 *   ampoule.incident/v1
 *   {"id":…,"team":…,"subject":…,"since":…,"openedAt":…,"openedBy":…,"upTo":…,"at":…,"kept":…}
 *   exposed {"environmentId":…,"key":…,"version":…,…,"replaced":null}        one for each exposed value
 *   kept {"environmentId":…,"environment":…,"project":…,"keys":[…]}          values that were not exposed
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SignedNote from "./SignedNote.ts"

const origin = "ampoule.incident/v1"

const Person = Schema.Struct({ type: Schema.String, id: Schema.String, name: Schema.String })

/** `entry` is the id of an audit entry. `version` is null for a deletion. */
const Replacement = Schema.Struct({
  version: Schema.NullOr(Schema.Number),
  at: Schema.String,
  by: Person,
  entry: Schema.String
})
type Replacement = typeof Replacement.Type

/** `key` is the secret's new key. */
const Rename = Schema.Struct({ key: Schema.String, at: Schema.String, entry: Schema.String })

const ExposedLine = Schema.Struct({
  projectId: Schema.String,
  project: Schema.String,
  environmentId: Schema.String,
  environment: Schema.String,
  protected: Schema.Boolean,
  secretId: Schema.String,
  key: Schema.String,
  version: Schema.Number,
  /** Keys that its value is composed of. A change of one changes it too. */
  uses: Schema.Array(Schema.String),
  count: Schema.Number,
  firstAt: Schema.String,
  lastAt: Schema.String,
  /** False: the trail does not record which version was handed out, or whether its author typed it. */
  certain: Schema.Boolean,
  /** Ways of `schema/ExposureWays.ts`. Absent in notes that count no authors. */
  ways: Schema.optional(Schema.Array(Schema.String)),
  /**
   * It was inside of a composed value that was handed out before the trail named such secrets. The server knows it from
   * the references of that time, which the trail does not have.
   */
  inferred: Schema.optional(Schema.Boolean),
  replaced: Schema.NullOr(Replacement),
  /** Renames since the incident was opened; `key` stays the original one. */
  renames: Schema.optional(Schema.Array(Rename))
})
export type ExposedLine = typeof ExposedLine.Type

const UnexposedLine = Schema.Struct({
  environmentId: Schema.String,
  environment: Schema.String,
  project: Schema.String,
  keys: Schema.Array(Schema.String)
})
export type UnexposedLine = typeof UnexposedLine.Type

const Head = Schema.Struct({
  id: Schema.String,
  team: Schema.String,
  subject: Person,
  since: Schema.NullOr(Schema.String),
  openedAt: Schema.String,
  openedBy: Person,
  /** Reads after this time may be missing. */
  upTo: Schema.String,
  /** Time of the list. Absent: the time of opening. */
  listedAt: Schema.optional(Schema.String),
  /** Replacements until this time are included. */
  at: Schema.String,
  /** Number of current values that were not exposed. */
  kept: Schema.Number,
  /** Whether a value that its author typed counts as handed to them. Absent: a note of a release that did not count it. */
  countsAuthors: Schema.optional(Schema.Boolean)
})
export type Head = typeof Head.Type

export interface BurnDown {
  readonly head: Head
  readonly exposed: ReadonlyArray<ExposedLine>
  readonly kept: ReadonlyArray<UnexposedLine>
}

export const text = ({ exposed, head, kept }: BurnDown): string =>
  [
    origin,
    JSON.stringify(head),
    ...exposed.map((one) => `exposed ${JSON.stringify(one)}`),
    ...kept.map((one) => `kept ${JSON.stringify(one)}`)
  ]
    .map((line) => `${line}\n`)
    .join("")

const decodeHead = Schema.decodeUnknownOption(Schema.parseJson(Head))
const decodeExposed = Schema.decodeUnknownOption(Schema.parseJson(ExposedLine))
const decodeKept = Schema.decodeUnknownOption(Schema.parseJson(UnexposedLine))

const parse = (signed: string): BurnDown | undefined => {
  const [first, second = "", ...lines] = signed.trimEnd().split("\n")
  const head = Option.getOrUndefined(decodeHead(second))
  if (first !== origin || head === undefined) return undefined
  const exposed: Array<ExposedLine> = []
  const kept: Array<UnexposedLine> = []
  for (const line of lines) {
    const at = line.indexOf(" ")
    const word = line.slice(0, at)
    const json = line.slice(at + 1)
    const one = word === "exposed" ? Option.getOrUndefined(decodeExposed(json)) : undefined
    const other = word === "kept" ? Option.getOrUndefined(decodeKept(json)) : undefined
    if (one !== undefined) exposed.push(one)
    else if (other !== undefined) kept.push(other)
    else return undefined
  }
  return { head, exposed, kept }
}

export const open = (
  note: string,
  keys: ReadonlyArray<SignedNote.NoteKey>
): Either.Either<BurnDown, SignedNote.Refusal> =>
  Either.flatMap(SignedNote.open(note, keys), (signed) => {
    const burnDown = parse(signed)
    return burnDown === undefined ? Either.left("is no signed note" as const) : Either.right(burnDown)
  })

const itemOf = (environmentId: string, key: string) => `${environmentId} ${key}`

/** Whether the subject typed the text itself: of a composed value, this text may hold a secret beside the references. */
const isTyped = ({ ways = [] }: Pick<ExposedLine, "ways">): boolean => ways.includes("wrote")

/**
 * Values that are still as exposed: neither replaced, nor composed of a replaced value. Among the values that a
 * composed one uses, only exposed ones count. A composed value that the subject typed stays until its own text changes.
 */
export const stillExposed = (exposed: ReadonlyArray<ExposedLine>): ReadonlyArray<ExposedLine> => {
  const byItem = new Map(exposed.map((one) => [itemOf(one.environmentId, one.key), one]))
  const isOut = (one: ExposedLine, seen: ReadonlySet<ExposedLine>): boolean =>
    one.replaced === null &&
    (one.uses.length === 0 ||
      isTyped(one) ||
      one.uses.some((key) => {
        const used = byItem.get(itemOf(one.environmentId, key))
        return used !== undefined && !seen.has(used) && isOut(used, new Set([...seen, used]))
      }))
  return exposed.filter((one) => isOut(one, new Set([one])))
}

/** Writes that replace or delete a key's value, which the trail records as replacements. */
export const replacingActions: ReadonlyArray<string> = ["secret.create", "secret.update", "secret.delete"]

/** Writes that bring an earlier text back. The trail does not record which. */
export const carryingActions: ReadonlyArray<string> = ["secret.rollback", "secret.restore"]

/** Actions whose entries name the version that a secret had before and keeps. */
export const removingActions: ReadonlyArray<string> = ["secret.delete", "secret.restore"]

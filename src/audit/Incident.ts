/**
 * The burn-down of a bad day, as a signed note: which current values somebody was handed, and when each was replaced, by
 * whom, with the id of the entry that says so.
 *
 *   ampoule.incident/v1
 *   {"id":…,"team":…,"subject":…,"since":…,"openedAt":…,"openedBy":…,"upTo":…,"at":…,"kept":…}
 *   exposed {"environmentId":…,"key":…,"version":…,…,"replaced":null}        one for each value that was handed out
 *   kept {"environmentId":…,"environment":…,"project":…,"keys":[…]}          values that were not
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SignedNote from "./SignedNote.ts"

const origin = "ampoule.incident/v1"

const Person = Schema.Struct({ type: Schema.String, id: Schema.String, name: Schema.String })

/** `entry`: of the trail. `version`: null, deleted. */
const Replaced = Schema.Struct({
  version: Schema.NullOr(Schema.Number),
  at: Schema.String,
  by: Person,
  entry: Schema.String
})
export type Replaced = typeof Replaced.Type

/** `key`: what the secret was called from then on. */
const Renamed = Schema.Struct({ key: Schema.String, at: Schema.String, entry: Schema.String })

const Exposed = Schema.Struct({
  projectId: Schema.String,
  project: Schema.String,
  environmentId: Schema.String,
  environment: Schema.String,
  protected: Schema.Boolean,
  secretId: Schema.String,
  key: Schema.String,
  version: Schema.Number,
  /** Keys that it is composed of; it follows them. */
  uses: Schema.Array(Schema.String),
  count: Schema.Number,
  firstAt: Schema.String,
  lastAt: Schema.String,
  /** False: the trail does not say which version was handed out. */
  certain: Schema.Boolean,
  replaced: Schema.NullOr(Replaced),
  /** Since the incident was opened; `key` stays what it was then. */
  renames: Schema.optional(Schema.Array(Renamed))
})
export type Exposed = typeof Exposed.Type

const Kept = Schema.Struct({
  environmentId: Schema.String,
  environment: Schema.String,
  project: Schema.String,
  keys: Schema.Array(Schema.String)
})
export type Kept = typeof Kept.Type

const Head = Schema.Struct({
  id: Schema.String,
  team: Schema.String,
  subject: Person,
  since: Schema.NullOr(Schema.String),
  openedAt: Schema.String,
  openedBy: Person,
  /** Reads from then on may be missing. */
  upTo: Schema.String,
  /** When the list was made; without it when the incident was opened. */
  listedAt: Schema.optional(Schema.String),
  /** What was replaced until then. */
  at: Schema.String,
  /** How many current values were not handed out. */
  kept: Schema.Number
})
export type Head = typeof Head.Type

export interface BurnDown {
  readonly head: Head
  readonly exposed: ReadonlyArray<Exposed>
  readonly kept: ReadonlyArray<Kept>
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
const decodeExposed = Schema.decodeUnknownOption(Schema.parseJson(Exposed))
const decodeKept = Schema.decodeUnknownOption(Schema.parseJson(Kept))

const parse = (signed: string): BurnDown | undefined => {
  const [first, second = "", ...lines] = signed.trimEnd().split("\n")
  const head = Option.getOrUndefined(decodeHead(second))
  if (first !== origin || head === undefined) return undefined
  const exposed: Array<Exposed> = []
  const kept: Array<Kept> = []
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
    const found = parse(signed)
    return found === undefined ? Either.left("is no signed note" as const) : Either.right(found)
  })

const itemOf = (environmentId: string, key: string) => `${environmentId} ${key}`

/**
 * Values that are as somebody had them: neither replaced nor composed of what was replaced. A composed value follows what
 * it uses, as far as that was handed out.
 */
export const stillOut = (exposed: ReadonlyArray<Exposed>): ReadonlyArray<Exposed> => {
  const byItem = new Map(exposed.map((one) => [itemOf(one.environmentId, one.key), one]))
  const isOut = (one: Exposed, seen: ReadonlySet<Exposed>): boolean =>
    one.replaced === null &&
    (one.uses.length === 0 ||
      one.uses.some((key) => {
        const used = byItem.get(itemOf(one.environmentId, key))
        return used !== undefined && !seen.has(used) && isOut(used, new Set([...seen, used]))
      }))
  return exposed.filter((one) => isOut(one, new Set([one])))
}

/** Writes that give a key another value, or none: the trail's word for each replacement. */
export const replacing: ReadonlyArray<string> = ["secret.create", "secret.update", "secret.delete"]

/** Writes that bring an earlier text back: the trail does not say which. */
export const carrying: ReadonlyArray<string> = ["secret.rollback", "secret.restore"]

/** Actions whose entries name the version that a secret had before, and keeps. */
export const removing: ReadonlyArray<string> = ["secret.delete", "secret.restore"]

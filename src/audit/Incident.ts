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
import type { Problems } from "./Problems.ts"
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
  replaced: Schema.NullOr(Replaced)
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

const Entry = Schema.parseJson(
  Schema.Struct({
    id: Schema.String,
    at: Schema.String,
    actor: Schema.Struct({ id: Schema.String }),
    action: Schema.String,
    outcome: Schema.String,
    environmentId: Schema.optional(Schema.String),
    keys: Schema.Array(Schema.String),
    versions: Schema.optional(Schema.Array(Schema.Number))
  })
)
type Entry = typeof Entry.Type
const decodeEntry = Schema.decodeUnknownOption(Entry)

/** Writes that give a key another value, or none: the trail's word for each replacement. */
export const replacing: ReadonlyArray<string> = ["secret.create", "secret.update", "secret.delete"]

const says = (entry: Entry, { environmentId, key, replaced, version }: Exposed): boolean => {
  if (replaced === null || entry.outcome !== "allowed" || entry.environmentId !== environmentId) return false
  if (entry.at !== replaced.at || entry.actor.id !== replaced.by.id || !replacing.includes(entry.action)) return false
  const i = entry.keys.indexOf(key)
  if (i < 0) return false
  return replaced.version === null
    ? entry.action === "secret.delete"
    : entry.action !== "secret.delete" && entry.versions?.[i] === replaced.version && replaced.version > version
}

/** Whether a trail tells what burn-downs say; fed with the bodies of all of its entries. */
export class Check {
  readonly #open = new Map<string, Array<Exposed>>()
  readonly notes: ReadonlyArray<BurnDown>

  constructor(notes: ReadonlyArray<BurnDown>) {
    this.notes = notes
    for (const one of notes.flatMap(({ exposed }) => exposed)) {
      if (one.replaced === null) continue
      const others = this.#open.get(one.replaced.entry)
      if (others === undefined) this.#open.set(one.replaced.entry, [one])
      else others.push(one)
    }
  }

  add(body: string): void {
    if (this.#open.size === 0 || !body.includes('"action":"secret.')) return
    const entry = Option.getOrUndefined(decodeEntry(body))
    const named = entry === undefined ? undefined : this.#open.get(entry.id)
    if (entry === undefined || named === undefined) return
    const wrong = named.filter((one) => !says(entry, one))
    if (wrong.length === 0) this.#open.delete(entry.id)
    else this.#open.set(entry.id, wrong)
  }

  /** What the trail does not tell, between its bounds. */
  finish(problems: Problems, since: string | null, until: string | null): void {
    for (const one of [...this.#open.values()].flat()) {
      const at = one.replaced?.at ?? ""
      if ((since !== null && at < since) || (until !== null && at >= until)) continue
      problems.say(
        `The burn-down says that ${one.key} in ${one.environment} was replaced at ${at}: the trail does not.`
      )
    }
  }
}

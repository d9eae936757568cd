/**
 * Who was handed what, and what was written, out of the bodies of a trail alone: what `src/trail/ExposureIndex.ts` reads
 * in the database, told a second time for a verification that has no database. Entries may come in any order.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Values from "./Values.ts"

const Named = Schema.Struct({ type: Schema.String, id: Schema.String })
const Entry = Schema.parseJson(
  Schema.Struct({
    id: Schema.String,
    at: Schema.String,
    team: Schema.NullOr(Schema.String),
    actor: Named,
    action: Schema.String,
    outcome: Schema.String,
    environmentId: Schema.optional(Schema.String),
    keys: Schema.Array(Schema.String),
    keyList: Schema.optional(Schema.String),
    versions: Schema.optional(Schema.Array(Schema.Number)),
    contains: Schema.optional(Schema.Record({ key: Schema.String, value: Schema.Number })),
    revision: Schema.optional(Schema.Number),
    target: Schema.optional(Named),
    via: Schema.String
  })
)
type Entry = typeof Entry.Type
const decodeEntry = Schema.decodeUnknownOption(Entry)

/** Reads that differ in when alone. */
export interface Read {
  readonly environmentId: string
  readonly keys: ReadonlyArray<string>
  readonly keyList: string | undefined
  readonly versions: ReadonlyArray<number> | undefined
  readonly revision: number | undefined
  readonly actor: { readonly type: string; readonly id: string }
  /** Milliseconds, each as often as there was a read. */
  readonly times: Array<number>
}

/** What an entry did to one key. `version`: 0 where the key has no value after it. */
export interface Write {
  readonly id: string
  readonly at: string
  readonly by: string
  readonly action: string
  readonly environmentId: string
  readonly revision: number
  readonly key: string
  /** As the entry names it: after the write, or of a deletion and of the former key of a rename, before it. */
  readonly named: number
  readonly version: number
  /** The key of which it took an earlier text over. */
  readonly carriedFrom: string | undefined
  /** Of a rename: the key from then on. */
  readonly nextKey: string | undefined
}

const reading = new Set(["secret.inject", "secret.read", "secret.list_values", "sealed.open"])
const writing = new Set(Values.actions)
const owning = new Set(["grant.issue", "oauth.consent", "machine.exchange"])
/** Cheaper than to parse every entry. */
const mayConcern = /"action":"(?:secret\.|sealed\.open|grant\.issue|oauth\.consent|machine\.exchange|audit\.baseline)/

const ofKey = (environmentId: string, key: string) => `${environmentId} ${key}`

export class HandedOut {
  readonly #teams: ReadonlySet<string>
  readonly #reads = new Map<string, Read>()
  readonly #writes = new Map<string, Array<Write>>()
  readonly #owners = new Map<string, { readonly type: string; readonly id: string }>()
  readonly #lists = new Map<string, ReadonlyArray<string>>()
  /** Revisions of environments that a rename made: what else they wrote has its text from before. */
  readonly #renamed = new Set<string>()

  /** What concerns other teams is forgotten. */
  constructor(teams: ReadonlySet<string>) {
    this.#teams = teams
  }

  addList(hash: string, keys: ReadonlyArray<string>): void {
    if (this.#teams.size > 0) this.#lists.set(hash, keys)
  }

  add(body: string): void {
    if (this.#teams.size === 0 || !mayConcern.test(body)) return
    const entry = Option.getOrUndefined(decodeEntry(body))
    if (entry === undefined || entry.outcome !== "allowed") return
    if (owning.has(entry.action)) this.#addOwner(entry)
    if (entry.team === null || !this.#teams.has(entry.team)) return
    if (reading.has(entry.action)) this.#addReads(entry)
    if (writing.has(entry.action)) this.#addWrites(entry)
  }

  #addOwner({ action, actor, target }: Entry): void {
    if (target === undefined) return
    const [credential, owner] = action === "machine.exchange" ? [actor, target] : [target, actor]
    if (!this.#owners.has(credential.id)) this.#owners.set(credential.id, owner)
  }

  #addReads(entry: Entry): void {
    const { action, actor, at, contains = {}, environmentId, keyList, keys, revision, target, versions, via } = entry
    if (environmentId === undefined) return
    const said = action === "sealed.open" ? {} : versions === undefined ? { revision } : { versions }
    const inside = Object.keys(contains).sort()
    const parts = [
      { keys, keyList, versions: undefined, revision: undefined, ...said },
      ...(inside.length === 0
        ? []
        : [{ keys: inside, keyList: undefined, versions: inside.map((key) => contains[key]), revision: undefined }])
    ]
    for (const part of parts) {
      const id = JSON.stringify([environmentId, part, keyList, action, target?.type ?? "", via, actor.type, actor.id])
      const known = this.#reads.get(id)
      if (known !== undefined) known.times.push(Date.parse(at))
      else this.#reads.set(id, { ...part, environmentId, actor, times: [Date.parse(at)] })
    }
  }

  #addWrites({ action, actor, at, environmentId, id, keys, revision, versions }: Entry): void {
    if (environmentId === undefined || revision === undefined || versions === undefined) return
    const isRename = action === "secret.rename"
    if (isRename) this.#renamed.add(ofKey(environmentId, String(revision)))
    const carries = action === "secret.rollback" || action === "secret.restore"
    keys.forEach((key, i) => {
      const isFormer = isRename && i === 0
      const named = versions[i] ?? 0
      const write: Write = {
        id,
        at,
        by: actor.id,
        action,
        environmentId,
        revision,
        key,
        named,
        version: action === "secret.delete" || isFormer ? 0 : named,
        carriedFrom: isRename ? keys[0] : carries ? key : undefined,
        nextKey: isFormer ? keys[1] : undefined
      }
      const place = ofKey(environmentId, key)
      const others = this.#writes.get(place)
      if (others === undefined) this.#writes.set(place, [write])
      else others.push(write)
    })
  }

  /** Writes of a key, by revision. */
  writes(environmentId: string, key: string): ReadonlyArray<Write> {
    return [...(this.#writes.get(ofKey(environmentId, key)) ?? [])].sort((a, b) => a.revision - b.revision)
  }

  /** The key of which a write took an earlier text over, also where a rename gave a template the new key. */
  carriedFrom({ carriedFrom, environmentId, key, revision, version }: Write): string | undefined {
    if (carriedFrom !== undefined) return carriedFrom
    return version > 0 && this.isRename(environmentId, revision) ? key : undefined
  }

  isRename(environmentId: string, revision: number): boolean {
    return this.#renamed.has(ofKey(environmentId, String(revision)))
  }

  reads(): Iterable<Read> {
    return this.#reads.values()
  }

  keysOf({ keyList, keys }: Read): ReadonlyArray<string> {
    return keyList === undefined ? keys : (this.#lists.get(keyList) ?? keys)
  }

  ownerOf(id: string): { readonly type: string; readonly id: string } | undefined {
    return this.#owners.get(id)
  }
}

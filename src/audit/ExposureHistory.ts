/**
 * Exposures and writes, computed from the bodies of a trail alone, for a verification without a database. It mirrors
 * `src/trail/ExposureIndex.ts`. Entries may be added in any order.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Way } from "#schema/ExposureWays.ts"
import { carryingActions } from "./Incident.ts"
import * as Values from "./Values.ts"

const Reference = Schema.Struct({ type: Schema.String, id: Schema.String, name: Schema.optional(Schema.String) })
type Reference = typeof Reference.Type
const Entry = Schema.parseJson(
  Schema.Struct({
    id: Schema.String,
    at: Schema.String,
    team: Schema.NullOr(Schema.String),
    actor: Reference,
    action: Schema.String,
    outcome: Schema.String,
    environmentId: Schema.optional(Schema.String),
    keys: Schema.Array(Schema.String),
    keyList: Schema.optional(Schema.String),
    versions: Schema.optional(Schema.Array(Schema.Number)),
    contains: Schema.optional(Schema.Record({ key: Schema.String, value: Schema.Number })),
    revision: Schema.optional(Schema.Number),
    typed: Schema.optional(Schema.Boolean),
    earlier: Schema.optional(Schema.Boolean),
    target: Schema.optional(Reference),
    via: Schema.String
  })
)
type Entry = typeof Entry.Type
const decodeEntry = Schema.decodeUnknownOption(Entry)

/** Reads that differ only in time. */
export interface Read {
  readonly environmentId: string
  readonly keys: ReadonlyArray<string>
  readonly keyList: string | undefined
  readonly versions: ReadonlyArray<number> | undefined
  readonly revision: number | undefined
  readonly actor: Reference
  readonly way: Way
  /** False: a write whose entry does not say whether its author typed the text. */
  readonly certain: boolean
  /** Milliseconds, one for each read. */
  readonly times: Array<number>
}

/** The effect of an entry on one key. `version` is 0 if the key has no value afterwards. */
export interface Write {
  readonly id: string
  readonly at: string
  readonly by: string
  readonly action: string
  readonly environmentId: string
  readonly revision: number
  readonly key: string
  /** The version in the entry: after the write, or before it for a deletion and for the old key of a rename. */
  readonly namedVersion: number
  readonly version: number
  /** The key whose earlier text it carries over. */
  readonly carriedFrom: string | undefined
  /** Whether it brings a text back that the secret had before. */
  readonly carries: boolean
  /** For a rename, the new key. */
  readonly nextKey: string | undefined
}

const readActions = new Set(["secret.inject", "secret.read", "secret.list_values", "sealed.open"])
const writeActions = new Set(Values.actions)
const ownerActions = new Set(["grant.issue", "oauth.consent", "machine.exchange", "change.request"])
/** Filters entries before parsing, which costs more. */
const mayConcern =
  /"action":"(?:secret\.|sealed\.open|grant\.issue|oauth\.consent|machine\.exchange|change\.request|audit\.baseline)/

const isWrite = ({ action }: Entry) => Values.textActions.includes(action)

/** The first condition that holds, as in `src/trail/HandOuts.ts`. A burn-down counts no backups. */
const wayConditions: Readonly<Record<Way, (entry: Entry) => boolean>> = {
  backup: () => false,
  wrote: isWrite,
  opened: ({ action }) => action === "sealed.open",
  sealed: ({ target }) => target?.type === "sealing_key",
  copy: ({ target }) => target?.type === "environment",
  model: ({ via }) => via === "mcp",
  inject: ({ action }) => action === "secret.inject",
  read: () => true
}
// Object.keys of a record of these names.
const orderedWays = Object.keys(wayConditions) as ReadonlyArray<Way>
const wayOf = (entry: Entry): Way => orderedWays.find((way) => wayConditions[way](entry)) ?? "read"

/** Whether its author holds the text. An entry of an earlier release does not say whether the author typed it. */
const handsToAuthor = (entry: Entry) => isWrite(entry) && entry.versions !== undefined && entry.typed !== false

const ofKey = (environmentId: string, key: string) => `${environmentId} ${key}`

export class ExposureHistory {
  readonly #teams: ReadonlySet<string>
  readonly #reads = new Map<string, Read>()
  readonly #writes = new Map<string, Array<Write>>()
  readonly #owners = new Map<string, Reference>()
  readonly #lists = new Map<string, ReadonlyArray<string>>()
  /** Revisions of environments that a rename made. Other writes of such a revision keep their earlier text. */
  readonly #renamed = new Set<string>()

  /** Entries of other teams are dropped. */
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
    if (ownerActions.has(entry.action)) this.#addOwner(entry)
    if (entry.team === null || !this.#teams.has(entry.team)) return
    if (readActions.has(entry.action) || handsToAuthor(entry)) this.#addReads(entry)
    if (writeActions.has(entry.action)) this.#addWrites(entry)
  }

  #addOwner({ action, actor, target }: Entry): void {
    if (target === undefined) return
    const [credential, owner] = action === "machine.exchange" ? [actor, target] : [target, actor]
    if (!this.#owners.has(credential.id)) this.#owners.set(credential.id, owner)
  }

  #addReads(entry: Entry): void {
    const { at, contains = {}, environmentId, keyList, keys, revision, target, versions, via } = entry
    if (environmentId === undefined) return
    const way = wayOf(entry)
    const certain = way !== "wrote" || entry.typed !== undefined
    // The text of an approved change is its proposer's.
    const actor = way === "wrote" && target?.type === "change_request" ? target : entry.actor
    const versionInfo = way === "opened" ? {} : versions === undefined ? { revision } : { versions }
    const inside = Object.keys(contains).sort()
    const insideVersions = way === "opened" ? undefined : inside.map((key) => contains[key])
    const parts = [
      { keys, keyList, versions: undefined, revision: undefined, ...versionInfo },
      ...(inside.length === 0
        ? []
        : [{ keys: inside, keyList: undefined, revision: undefined, versions: insideVersions }])
    ]
    for (const part of parts) {
      const id = JSON.stringify([environmentId, part, keyList, way, certain, via, actor.type, actor.id])
      const existing = this.#reads.get(id)
      if (existing !== undefined) existing.times.push(Date.parse(at))
      else this.#reads.set(id, { ...part, environmentId, actor, way, certain, times: [Date.parse(at)] })
    }
  }

  #addWrites({ action, actor, at, earlier, environmentId, id, keys, revision, versions }: Entry): void {
    if (environmentId === undefined || revision === undefined || versions === undefined) return
    const isRename = action === "secret.rename"
    if (isRename) this.#renamed.add(ofKey(environmentId, String(revision)))
    const carries = carryingActions.includes(action) || earlier === true
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
        namedVersion: named,
        version: action === "secret.delete" || isFormer ? 0 : named,
        carriedFrom: isRename ? keys[0] : carries ? key : undefined,
        carries,
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

  /** The key whose earlier text a write carries over. Includes templates that a rename gave the new key. */
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

  /** The actor of a read, and the owner of their credential. A proposal that was cut names its person by address. */
  actorOf({ actor }: Read): { readonly actor: Reference; readonly owner: Reference | undefined } {
    const isProposal = actor.type === "change_request"
    const author = isProposal ? (this.#owners.get(actor.id) ?? { ...actor, type: "address" }) : actor
    return { actor: author, owner: this.#owners.get(author.id) }
  }
}

/** Verifies a trail: links, numbers, columns, and heads that seals or checkpoints confirm. */
import { chain, genesis, hasMacs, type Head, type Proves, sameBytes, tailMillis } from "./Chain.ts"
import type { Cut } from "./Checkpoint.ts"
import { type Problem, Problems } from "./Problems.ts"
import * as Tail from "./Tail.ts"

/** The columns beside a body in the database, as text, which must agree with the body. */
export type Columns = Readonly<Record<string, string | null>>

export interface Link {
  readonly stream: string
  readonly seq: number
  readonly hash: Uint8Array
  /** The hashed text. */
  readonly body: string
  readonly columns?: Columns
  /** In the database: the MAC (`Entry.macOf` of `src/trail`) of the last entry of each statement. */
  readonly mac?: Uint8Array | null
}

/** An entry that must exist with this hash. */
export interface ExpectedHead extends Head {
  /** Its source, such as "its seal" or "the checkpoint of …". */
  readonly source: string
  /** No entry may follow it. */
  readonly final?: boolean
  /** Present for seals. */
  readonly times?: Tail.SealTimes
}

export interface Options {
  /** Heads that must exist, several per stream if needed. */
  readonly expected: ReadonlyArray<ExpectedHead>
  readonly cuts: ReadonlyArray<Cut>
  /** For streams that begin in the middle (a part of a trail), the link before the first entry. */
  readonly starts?: ReadonlyMap<string, Head>
  /** For a part up to a time: heads after the last entry do not apply. */
  readonly openEnd?: boolean
  /** For a part from a time on: a stream may be absent. */
  readonly openStart?: boolean
  /** Hexadecimal hashes of intact key lists. Unset: not checked. */
  readonly lists?: ReadonlySet<string>
  /** Set if the key of the entries is available. */
  readonly proves?: Proves
  /**
   * Set for a trail with seals (the database). Every entry must be sealed, except those younger than `grace`
   * milliseconds at `now`, and plausible leftovers of a process. `alone`: no other process uses the database.
   */
  readonly sealed?: { readonly now: number; readonly grace: number; readonly alone?: boolean }
}

export interface Report {
  readonly entries: number
  readonly streams: number
  /** Entries that wait for a seal. */
  readonly unsealed: number
  /** Streams whose process ended before it sealed its last entries. Another process will close them. */
  readonly notClosed: number
  readonly from: number | undefined
  readonly to: number | undefined
  readonly problems: ReadonlyArray<Problem>
  /** All problems, including unlisted ones. */
  readonly problemCount: number
}

interface StreamState {
  seq: number
  hash: Uint8Array
  mac: Uint8Array | null
  entries: number
  broken: boolean
  readonly waiting: Array<ExpectedHead>
  sealedTo: number
  final: boolean
  times: Tail.SealTimes | undefined
  unsealed: number
  unsealedOldest: number
  unsealedNewest: number
  unsealedFirst: number
}

type SealOptions = NonNullable<Options["sealed"]>

/** Too recent to need a seal. */
const isYoung = ({ unsealedNewest, unsealedOldest }: StreamState, { grace, now }: SealOptions): boolean =>
  unsealedOldest >= now - grace && unsealedNewest <= now + grace

/** The process ended, and no other one has closed the stream yet. */
const isAbandoned = ({ times }: StreamState, { alone = false, now }: SealOptions): boolean =>
  times !== undefined && (alone || !Tail.isRunning(times, now))

/** Body members, by the column that repeats them. */
const repeatedMembers: ReadonlyMap<string, string> = new Map(
  Object.entries({
    id: "id",
    at: "at",
    teamId: "team",
    projectId: "project",
    environmentId: "environmentId",
    environment: "environment",
    action: "action",
    keyList: "keyList"
  })
)

const textOf = (value: unknown): string | null => (typeof value === "string" ? value : null)

const parseBody = (body: string): Readonly<Record<string, unknown>> | undefined => {
  try {
    const value: unknown = JSON.parse(body)
    // The check makes it a record; its members stay unknown.
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

/** Takes the entries of each stream in order; streams may alternate. */
export class Verifier {
  readonly #options: Options
  readonly #streams = new Map<string, StreamState>()
  readonly #expected = new Map<string, Array<ExpectedHead>>()
  readonly #cuts = new Map<string, Cut>()
  readonly #problems = new Problems()
  #entries = 0
  #from: number | undefined
  #to: number | undefined

  constructor(options: Options) {
    this.#options = options
    for (const cut of options.cuts) this.#cuts.set(cut.stream, cut)
    for (const one of options.expected) {
      const all = this.#expected.get(one.stream)
      if (all === undefined) this.#expected.set(one.stream, [one])
      else all.push(one)
    }
  }

  #problem(stream: string, seq: number | null, what: string) {
    this.#problems.add({ stream, seq, what })
  }

  #begin(stream: string): StreamState {
    const cut = this.#cuts.get(stream)
    const start = this.#options.starts?.get(stream)
    const begin: Head = start ?? cut ?? { stream, seq: 0, hash: genesis(stream) }
    const expected = this.#expected.get(stream) ?? []
    for (const one of expected) {
      // The hash at the beginning can be compared; earlier ones are gone.
      if (one.seq === begin.seq && !sameBytes(one.hash, begin.hash)) {
        this.#problem(stream, one.seq, `${one.source} names another hash than the beginning of the stream has`)
      }
    }
    const seals = expected.filter((one) => one.final !== undefined)
    const state: StreamState = {
      seq: begin.seq,
      hash: begin.hash,
      mac: null,
      entries: 0,
      broken: false,
      waiting: expected.filter((one) => one.seq > begin.seq).sort((a, b) => a.seq - b.seq),
      sealedTo: seals.reduce((last, one) => Math.max(last, one.seq), 0),
      final: seals.some((one) => one.final === true),
      times: seals.find((one) => one.times !== undefined)?.times,
      unsealed: 0,
      unsealedOldest: Number.POSITIVE_INFINITY,
      unsealedNewest: 0,
      unsealedFirst: 0
    }
    this.#streams.set(stream, state)
    return state
  }

  add({ body, columns, hash, mac = null, seq, stream }: Link): void {
    this.#entries++
    const state = this.#streams.get(stream) ?? this.#begin(stream)
    // Each stream reports one break: the links after it are meaningless.
    if (state.broken) return
    const markBroken = (what: string) => {
      state.broken = true
      this.#problem(stream, seq, what)
    }
    if (seq !== state.seq + 1) {
      if (seq <= state.seq) {
        return markBroken(state.entries === 0 ? "is before the beginning of the stream" : "is out of order or repeated")
      }
      return state.entries === 0
        ? markBroken(`is the first of its stream: entries ${state.seq + 1} to ${seq - 1} are missing`)
        : markBroken(`follows entry ${state.seq}: entries between them are missing`)
    }
    const computed = chain(state.hash, body)
    if (!sameBytes(computed, hash))
      return markBroken("does not fit its hash and the entry before: it was altered or moved")
    const parsed = parseBody(body)
    if (parsed === undefined) return markBroken("is no entry")
    if (parsed["stream"] !== stream || parsed["seq"] !== seq) return markBroken("was written as another entry")
    if (columns !== undefined) this.#compare(stream, seq, parsed, columns)
    const list = textOf(parsed["keyList"])
    if (list !== null && this.#options.lists?.has(list) === false) {
      this.#problem(stream, seq, "names a list of keys that is gone or was altered")
    }
    state.seq = seq
    state.hash = computed
    state.mac = mac
    state.entries++
    const at = Date.parse(textOf(parsed["at"]) ?? "")
    if (Number.isNaN(at)) return markBroken("has no time")
    this.#from = Math.min(at, this.#from ?? at)
    this.#to = Math.max(at, this.#to ?? at)
    while (state.waiting[0]?.seq === seq) {
      const one = state.waiting.shift()
      if (one !== undefined && !sameBytes(one.hash, computed)) {
        return markBroken(`is another entry than ${one.source} vouches for: the stream was rewritten`)
      }
    }
    if (this.#options.sealed !== undefined && seq > state.sealedTo) {
      if (state.final) return markBroken("was added after the stream was closed")
      if (state.unsealed++ === 0) state.unsealedFirst = seq
      state.unsealedOldest = Math.min(state.unsealedOldest, at)
      state.unsealedNewest = Math.max(state.unsealedNewest, at)
    }
  }

  #compare(stream: string, seq: number, body: Readonly<Record<string, unknown>>, columns: Columns) {
    for (const [column, member] of repeatedMembers) {
      if (columns[column] !== undefined && columns[column] !== textOf(body[member])) {
        return this.#problem(stream, seq, `has a column (${column}) that says something else than the entry`)
      }
    }
    const actor = body["actor"]
    const id = typeof actor === "object" && actor !== null && "id" in actor ? textOf(actor.id) : null
    if (columns["actorId"] !== undefined && columns["actorId"] !== id) {
      this.#problem(stream, seq, "has a column (actorId) that says something else than the entry")
    }
  }

  /** Undefined: their process can have left the unsealed entries, or will still seal them. */
  #unsealedProblem(state: StreamState, sealed: SealOptions): string | undefined {
    if (isYoung(state, sealed)) return undefined
    const { times } = state
    if (times === undefined) return "begins a stream that no seal knows: the vault never vouched for it"
    const { unsealedNewest: newest, unsealedOldest: oldest } = state
    const what =
      Tail.implausibility(times, { oldest, newest }) ??
      (!isAbandoned(state, sealed) && (oldest < sealed.now - tailMillis || newest > sealed.now + sealed.grace)
        ? "are under no seal, and too old to be waiting for one"
        : undefined)
    return what === undefined ? undefined : `and ${state.unsealed - 1} after it ${what}`
  }

  /** Also detects a stream whose entries are all gone. */
  finish(): Report {
    const { openEnd = false, openStart = false, proves = () => true, sealed } = this.#options
    for (const stream of this.#expected.keys()) {
      if (!this.#streams.has(stream) && !openStart) this.#begin(stream)
    }
    let unsealed = 0
    let notClosed = 0
    for (const [stream, state] of this.#streams) {
      if (state.broken) continue
      const ahead = state.waiting.at(-1)
      if (ahead !== undefined && !openEnd) {
        const last = state.entries === 0 ? "there is none" : `the last one is ${state.seq}`
        this.#problem(
          stream,
          state.seq + 1,
          `is missing, with all up to ${ahead.seq}: ${ahead.source} vouches for ${ahead.seq} entries, and ${last}`
        )
      }
      if (hasMacs(stream) && state.entries > 0 && !proves(state.hash, state.mac)) {
        this.#problem(stream, state.seq, "is the last of its stream, and no server wrote it")
        continue
      }
      if (sealed === undefined || state.unsealed === 0) continue
      const what = this.#unsealedProblem(state, sealed)
      if (what !== undefined) {
        this.#problem(stream, state.unsealedFirst, what)
        continue
      }
      unsealed += state.unsealed
      if (isAbandoned(state, sealed)) notClosed++
    }
    return {
      entries: this.#entries,
      streams: this.#streams.size,
      unsealed,
      notClosed,
      from: this.#from,
      to: this.#to,
      problems: this.#problems.listed,
      problemCount: this.#problems.count
    }
  }
}

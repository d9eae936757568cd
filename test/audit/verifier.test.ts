/** Sentences of the verifier for each fault, word for word, and the border at which each begins. */
import { assert, describe, it } from "@effect/vitest"
import {
  chain,
  deadAfterMillis,
  genesis,
  graceMillis,
  heartbeatMillis,
  tailMillis,
  withMacs
} from "#src/audit/Chain.ts"
import { type Columns, type ExpectedHead, type Link, type Options, Verifier } from "#src/audit/Verify.ts"
import { at, linked } from "./Trails.ts"

const stream = "01980a5c-0001-7000-8000-000000000001"
const links = linked(stream, ["a", "b", "c"])
const [first, second, third] = links
/** The time of the last entry. */
const end = at + 2_000

const verify = (given: ReadonlyArray<Link>, options: Partial<Options> = {}) => {
  const verifier = new Verifier({ expected: [], cuts: [], ...options })
  for (const link of given) verifier.add(link)
  return verifier.finish()
}
/** The problems, each with the entry that it is about. */
const messagesOf = (given: ReadonlyArray<Link>, options: Partial<Options> = {}) =>
  verify(given, options).problems.map(({ seq, what }) => `${seq} ${what}`)

/** Entries of these texts, whatever they are, with hashes that fit. */
const raw = (...bodies: ReadonlyArray<string>): ReadonlyArray<Link> => {
  let hash: Uint8Array = genesis(stream)
  return bodies.map((body, i) => {
    hash = chain(hash, body)
    return { stream, seq: i + 1, hash, body }
  })
}
const saying = (members: object, seq = 1) => JSON.stringify({ stream, seq, at: new Date(at).toISOString(), ...members })

const head = (link: Link) => ({ stream: link.stream, seq: link.seq, hash: link.hash })
const seal = (link: Link, more: Partial<ExpectedHead> = {}): ExpectedHead => ({
  ...head(link),
  source: "its seal",
  final: false,
  ...more
})
const pin = (link: Link): ExpectedHead => ({ ...head(link), source: "the checkpoint" })
const otherHash = Buffer.alloc(32)

describe("an entry", () => {
  it("that is not the next one is named by its place", () => {
    assert.deepStrictEqual(messagesOf([third]), ["3 is the first of its stream: entries 1 to 2 are missing"])
    assert.deepStrictEqual(messagesOf([first, third]), ["3 follows entry 1: entries between them are missing"])
    assert.deepStrictEqual(messagesOf([first, second, second]), ["2 is out of order or repeated"])
    assert.deepStrictEqual(messagesOf([first, second, first]), ["1 is out of order or repeated"])
    const starts = new Map([[stream, head(second)]])
    assert.deepStrictEqual(messagesOf([third], { starts }), [])
    assert.deepStrictEqual(messagesOf([second, third], { starts }), ["2 is before the beginning of the stream"])
  })

  it("that was altered, is none, or was written as another is named, and the entries after it are not", () => {
    const altered = "2 does not fit its hash and the entry before: it was altered or moved"
    assert.deepStrictEqual(messagesOf([first, { ...second, hash: otherHash }, third]), [altered])
    for (const body of ["{", "null", '"text"', "3"])
      assert.deepStrictEqual(messagesOf(raw(body)), ["1 is no entry"], body)
    for (const members of [{ seq: 2 }, { seq: "1" }, { stream: `${stream}0` }])
      assert.deepStrictEqual(messagesOf(raw(saying(members))), ["1 was written as another entry"])
    for (const members of [{ at: undefined }, { at: "yesterday" }, { at: 3 }])
      assert.deepStrictEqual(messagesOf(raw(saying(members), "{")), ["1 has no time"])
  })

  it("names a list of keys that exists, where somebody looked", () => {
    const listed = raw(saying({ keyList: "ab" }), saying({ at: "never" }, 2))
    assert.deepStrictEqual(messagesOf(listed, { lists: new Set(["ab"]) }), ["2 has no time"])
    assert.deepStrictEqual(messagesOf(listed), ["2 has no time"])
    const gone = "1 names a list of keys that is gone or was altered"
    assert.deepStrictEqual(messagesOf(listed, { lists: new Set(["cd"]) }), [gone, "2 has no time"])
    assert.deepStrictEqual(messagesOf(links, { lists: new Set() }), [])
  })

  it("says in each column what it says itself", () => {
    const members = {
      id: "i",
      team: "t",
      project: "p",
      environmentId: "e",
      environment: "prod",
      action: "a",
      keyList: "k"
    }
    const columns: Columns = {
      id: "i",
      at: new Date(at).toISOString(),
      teamId: "t",
      projectId: "p",
      environmentId: "e",
      environment: "prod",
      action: "a",
      keyList: "k",
      actorId: "ada"
    }
    const [entry] = raw(saying({ ...members, actor: { id: "ada" } }))
    const differs = (column: string) => [`1 has a column (${column}) that says something else than the entry`]
    assert.deepStrictEqual(messagesOf([{ ...entry, columns }]), [])
    assert.deepStrictEqual(messagesOf([{ ...entry, columns: {} }]), [])
    for (const column of Object.keys(columns)) {
      assert.deepStrictEqual(messagesOf([{ ...entry, columns: { ...columns, [column]: "other" } }]), differs(column))
      assert.deepStrictEqual(messagesOf([{ ...entry, columns: { [column]: null } }]), differs(column))
    }
    // One of them is enough.
    assert.deepStrictEqual(messagesOf([{ ...entry, columns: { id: "x", action: "x", actorId: "x" } }]), differs("id"))
    // An actor without an id, and none.
    for (const actor of [undefined, null, "ada", {}, { id: 3 }]) {
      const [by] = raw(saying({ actor }))
      assert.deepStrictEqual(messagesOf([{ ...by, columns: { actorId: null } }]), [])
      assert.deepStrictEqual(messagesOf([{ ...by, columns: { actorId: "ada" } }]), differs("actorId"))
    }
  })
})

describe("what vouches for a head", () => {
  it("is compared with the beginning, with each entry, and with the end, whatever its order", () => {
    const rewritten = (seq: number, source: string) =>
      `${seq} is another entry than ${source} vouches for: the stream was rewritten`
    assert.deepStrictEqual(messagesOf(links, { expected: [pin(third), seal(first), pin(second), seal(third)] }), [])
    const wrong = { ...pin(second), hash: otherHash }
    for (const expected of [[wrong], [seal(second), wrong], [wrong, seal(second)], [pin(third), wrong, pin(first)]])
      assert.deepStrictEqual(messagesOf(links, { expected }), [rewritten(2, "the checkpoint")])
    const start = { ...pin(first), seq: 0, hash: genesis(stream) }
    assert.deepStrictEqual(messagesOf(links, { expected: [start] }), [])
    const otherStart = "0 the checkpoint names another hash than the beginning of the stream has"
    assert.deepStrictEqual(messagesOf(links, { expected: [{ ...start, hash: otherHash }] }), [otherStart])
    // Before a cut nothing can be looked at.
    const cuts = [{ ...head(second), before: new Date(at).toISOString() }]
    assert.deepStrictEqual(messagesOf([third], { cuts, expected: [{ ...pin(first), hash: otherHash }] }), [])
    // Where a part begins is not where the whole was cut.
    assert.deepStrictEqual(messagesOf([second, third], { cuts, starts: new Map([[stream, head(first)]]) }), [])
  })

  it("says how much is missing at the end, unless a part was asked for", () => {
    const beyond = { ...pin(third), seq: 5 }
    const missing = "is missing, with all up to 5: the checkpoint vouches for 5 entries, and"
    assert.deepStrictEqual(messagesOf(links, { expected: [beyond, pin(third)] }), [`4 ${missing} the last one is 3`])
    assert.deepStrictEqual(messagesOf([], { expected: [beyond] }), [`1 ${missing} there is none`])
    assert.deepStrictEqual(messagesOf([], { expected: [beyond], openStart: true }), [])
    assert.deepStrictEqual(messagesOf(links, { expected: [beyond], openStart: true }), [
      `4 ${missing} the last one is 3`
    ])
    assert.deepStrictEqual(messagesOf(links, { expected: [beyond], openEnd: true }), [])
    // A broken stream says nothing of its end.
    assert.lengthOf(messagesOf([third], { expected: [beyond] }), 1)
  })

  it("is for the ends of new streams a server, by its MAC", () => {
    const own = linked(withMacs(stream), ["a", "b"]).map((link, i) => ({ ...link, mac: Buffer.from([i]) }))
    const lookUps: Array<unknown> = []
    const proves = (answer: boolean) => (hash: Uint8Array, mac: Uint8Array | null) => {
      lookUps.push([hash, mac])
      return answer
    }
    assert.deepStrictEqual(messagesOf(own, { proves: proves(true) }), [])
    const unsealed = { sealed: { now: end + 10 * tailMillis, grace: graceMillis } }
    const nobody = "2 is the last of its stream, and no server wrote it"
    assert.deepStrictEqual(messagesOf(own, { proves: proves(false), ...unsealed }), [nobody])
    assert.deepStrictEqual(lookUps, [
      [own[1].hash, own[1].mac],
      [own[1].hash, own[1].mac]
    ])
    const without = { ...own[0], mac: null }
    assert.deepStrictEqual(messagesOf([without], { proves: (_, mac) => mac !== null }), [nobody.replace("2", "1")])
    // A verifier without a key looks at none; streams of earlier releases have none; one without entries has no last.
    assert.deepStrictEqual(messagesOf(own), [])
    assert.deepStrictEqual(messagesOf(links, { proves: proves(false) }), [])
    const gone = messagesOf([], { expected: [seal(own[1])], proves: proves(false) })
    assert.deepStrictEqual(gone, ["1 is missing, with all up to 2: its seal vouches for 2 entries, and there is none"])
  })
})

describe("entries under no seal", () => {
  /** Sealed up to the first entry by a process that was seen so long before now. */
  const tail = (now: number, seen: number, sealedAt = at, alone?: boolean) =>
    verify(links, {
      expected: [seal(first, { times: { sealedAt, seenAt: now - seen } })],
      sealed: { now, grace: graceMillis, ...(alone === undefined ? {} : { alone }) }
    })
  const says = (report: ReturnType<typeof verify>) => [
    report.problems.map(({ seq, what }) => `${seq} ${what}`),
    report.unsealed,
    report.notClosed
  ]

  it("are none under the last of the seals; what says no more than a head is no seal", () => {
    const sealed = { now: at + 10 * tailMillis, grace: graceMillis }
    const none = verify(links, { expected: [seal(third), seal(first)], sealed })
    assert.deepStrictEqual(says(none), [[], 0, 0])
    // A process that ended, and had all its entries sealed before, left nothing to close.
    const ended = { times: { sealedAt: end, seenAt: end } }
    assert.deepStrictEqual(says(verify(links, { expected: [seal(third, ended)], sealed })), [[], 0, 0])
    const unknown = "1 begins a stream that no seal knows: the vault never vouched for it"
    assert.deepStrictEqual(says(verify(links, { expected: [pin(third)], sealed })), [[unknown], 0, 0])
  })

  it("wait for one as long as they are young, by a clock that may differ", () => {
    const young = (now: number) => says(verify(links, { sealed: { now, grace: graceMillis } }))
    const unknown = [["1 begins a stream that no seal knows: the vault never vouched for it"], 0, 0]
    assert.deepStrictEqual(young(at + graceMillis), [[], 3, 0])
    assert.deepStrictEqual(young(at + graceMillis + 1), unknown)
    assert.deepStrictEqual(young(end - graceMillis), [[], 3, 0])
    assert.deepStrictEqual(young(end - graceMillis - 1), unknown)
  })

  it("wait too long when their process runs and minutes have passed, or when they come from the future", () => {
    const running = 2 * heartbeatMillis
    const tooOld = [["2 and 1 after it are under no seal, and too old to be waiting for one"], 0, 0]
    assert.deepStrictEqual(says(tail(at + 1_000 + tailMillis, running, at + tailMillis)), [
      ["2 and 1 after it are under no seal, although a later one was made"],
      0,
      0
    ])
    assert.deepStrictEqual(says(tail(at + 1_000 + tailMillis, running)), [[], 2, 0])
    assert.deepStrictEqual(says(tail(at + 1_000 + tailMillis + 1, running)), tooOld)
    const future = end - graceMillis - 1
    assert.isAtMost(graceMillis, deadAfterMillis)
    assert.deepStrictEqual(says(tail(future, 0)), tooOld)
    // The last of them may be ahead of this clock by the grace, whatever the first one's age.
    const ahead = (now: number) =>
      says(
        verify(links, {
          expected: [seal(first, { times: { sealedAt: at, seenAt: now } })],
          sealed: { now, grace: 400 }
        })
      )
    assert.deepStrictEqual(ahead(end - 400), [[], 2, 0])
    assert.deepStrictEqual(ahead(end - 401), tooOld)
  })

  it("are what a process left when it was not seen for long, or when there is no other one", () => {
    const now = end + 2 * tailMillis
    assert.deepStrictEqual(says(tail(now, now - end)), [[], 2, 1])
    // It reports that it runs, and no other server runs.
    const lately = at + 1_000 + tailMillis
    assert.deepStrictEqual(says(tail(lately, 0, at, true)), [[], 2, 1])
    assert.deepStrictEqual(says(tail(lately, 0, at, false)), [[], 2, 0])
    assert.deepStrictEqual(says(tail(lately, 2 * heartbeatMillis + 1)), [[], 2, 1])
  })

  it("are judged by the times of a seal that tells them, whichever of the seals it is", () => {
    const now = end + 2 * tailMillis
    const telling = seal(first, { times: { sealedAt: at, seenAt: end } })
    for (const expected of [
      [telling, seal(first)],
      [seal(first), telling]
    ])
      assert.deepStrictEqual(says(verify(links, { expected, sealed: { now, grace: graceMillis } })), [[], 2, 1])
  })

  it("come after a stream that was closed only by somebody's hand", () => {
    const closed = [seal(first, { final: true })]
    const sealed = { now: end, grace: graceMillis }
    assert.deepStrictEqual(messagesOf(links, { expected: closed, sealed }), ["2 was added after the stream was closed"])
    assert.deepStrictEqual(messagesOf(links, { expected: closed }), [])
    assert.deepStrictEqual(messagesOf([first], { expected: closed, sealed }), [])
  })
})

describe("the report", () => {
  it("counts entries, streams and problems, and says from when to when", () => {
    const other = linked("01980a5c-0002-7000-8000-000000000001", ["x"])
    const { entries, from, problemCount, streams, to, unsealed } = verify([second, ...other, third, first])
    assert.deepStrictEqual(
      { entries, from, problemCount, streams, to, unsealed },
      {
        entries: 4,
        from: at,
        problemCount: 1,
        streams: 2,
        to: at,
        unsealed: 0
      }
    )
    const backwards = raw(saying({ at: new Date(at + 5).toISOString() }), saying({}, 2))
    assert.deepStrictEqual([verify(backwards).from, verify(backwards).to], [at, at + 5])
    const nothing = verify([])
    assert.deepStrictEqual([nothing.from, nothing.to, nothing.entries], [undefined, undefined, 0])
  })
})

import { assert, describe, it } from "@effect/vitest"
import * as Streams from "#src/trail/Streams.ts"
import * as Chain from "#src/audit/Chain.ts"

const position = (seq: number, text: string): Streams.Position => ({ seq, hash: Chain.chain(Buffer.alloc(32), text) })

describe("a process knows its own stream of reads", () => {
  it("after a failed statement: the head before it, or the head that it would have left, and no other", () => {
    const stream = Streams.openRead("01980a5c-0001-7000-8000-000000000001")
    assert.isTrue(Streams.isOwnRead(stream, Streams.beginning(stream)))
    Streams.attempt(stream, position(3, "first try"))
    Streams.attempt(stream, position(1, "second try"))
    assert.isTrue(Streams.isOwnRead(stream, Streams.beginning(stream)))
    // The first one may still come, even after the database was looked at.
    Streams.settleRead(stream, Streams.beginning(stream))
    assert.isTrue(Streams.isOwnRead(stream, position(3, "first try")))
    assert.isTrue(Streams.isOwnRead(stream, position(1, "second try")))
    assert.isFalse(Streams.isOwnRead(stream, position(1, "forged")))
    assert.isFalse(Streams.isOwnRead(stream, position(3, "second try")))
  })

  it("after a statement that is known to be committed: that head alone", () => {
    const stream = Streams.openRead("01980a5c-0001-7000-8000-000000000001")
    Streams.attempt(stream, position(1, "failed"))
    Streams.settleRead(stream, position(2, "committed"))
    assert.isTrue(Streams.isOwnRead(stream, position(2, "committed")))
    assert.isFalse(Streams.isOwnRead(stream, position(1, "failed")))
    assert.isFalse(Streams.isOwnRead(stream, Streams.beginning(stream)))
  })

  it("whatever number of statements fails, in a bounded memory", () => {
    const stream = Streams.openRead("01980a5c-0001-7000-8000-000000000001")
    for (let i = 0; i < 5_000; i++) Streams.attempt(stream, position(1, String(i)))
    assert.isBelow(stream.attempted.size, 2_000)
    assert.isTrue(Streams.isOwnRead(stream, position(1, "4999")))
  })
})

describe("a process knows its own stream of writes", () => {
  it("heads that it gave to transactions, and the last one that was seen committed; nothing before that", () => {
    const stream = Streams.openWrite("01980a5c-0001-7000-8000-000000000002")
    Streams.noteWrite(stream, position(1, "rolled back"))
    Streams.noteWrite(stream, position(1, "committed"))
    Streams.noteWrite(stream, position(2, "next"))
    for (const own of [Streams.beginning(stream), position(1, "rolled back"), position(1, "committed")]) {
      assert.isTrue(Streams.isOwnWrite(stream, own))
    }
    assert.isFalse(Streams.isOwnWrite(stream, position(2, "forged")))
    Streams.settleWrite(stream, position(1, "committed"))
    assert.isTrue(Streams.isOwnWrite(stream, position(1, "committed")))
    assert.isTrue(Streams.isOwnWrite(stream, position(2, "next")))
    assert.isFalse(Streams.isOwnWrite(stream, position(1, "rolled back")))
    assert.isFalse(Streams.isOwnWrite(stream, Streams.beginning(stream)))
  })
})

describe("a stream that is left", () => {
  it("is replaced once, and waits to be closed unless another process has done that", () => {
    const own: Streams.OwnStreams = {
      read: Streams.openRead("a"),
      writes: [Streams.openWrite("a2"), Streams.openWrite("b")],
      retired: [],
      aliveAt: undefined
    }
    const { read } = own
    const [, write] = own.writes
    assert.isTrue(Streams.retire(own, read, "c", 30_000))
    assert.isFalse(Streams.retire(own, read, "d", 30_000))
    assert.isTrue(Streams.retire(own, write, "e", undefined))
    assert.deepStrictEqual(
      Streams.all(own).map(({ id }) => id),
      ["c", "a2", "e"].map(Chain.withMacs)
    )
    assert.deepStrictEqual(own.retired, [{ stream: read, closeAt: 30_000 }])
  })
})

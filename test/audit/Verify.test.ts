/** Every way of altering a trail is found, and a trail that nobody altered verifies. */
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { generateKeyPairSync, sign } from "node:crypto"
import { chain, genesis, graceMillis } from "#src/audit/Chain.ts"
import * as Checkpoint from "#src/audit/Checkpoint.ts"
import * as Export from "#src/audit/Export.ts"
import { Problems } from "#src/audit/Problems.ts"
import * as SignedNote from "#src/audit/SignedNote.ts"
import { type ExpectedHead, type Link, type Options, Verifier } from "#src/audit/Verify.ts"
import { parsed, Texts } from "#test/support/Json.ts"
import { at, lastOf, linked, trails } from "./Trails.ts"

const runs = { numRuns: 1_000 }
const linkOf = parsed(Schema.Struct({ keys: Texts }))

const sealsOf = (all: ReadonlyArray<ReadonlyArray<Link>>): ReadonlyArray<ExpectedHead> =>
  all.map((links) => ({ ...lastOf(links), source: "its seal", final: false }))

const verify = (links: ReadonlyArray<Link>, options: Partial<Options> = {}) => {
  const verifier = new Verifier({ expected: [], cuts: [], ...options })
  for (const link of links) verifier.add(link)
  return verifier.finish()
}

/** A stream, and one of its entries (0-based). */
const picked = trails.chain((all) =>
  FastCheck.tuple(FastCheck.constant(all), FastCheck.nat(all.length - 1), FastCheck.nat()).map(([all, stream, n]) => ({
    all,
    stream,
    i: n % all[stream].length
  }))
)
const replaced = (all: ReadonlyArray<ReadonlyArray<Link>>, stream: number, links: ReadonlyArray<Link>) =>
  all.flatMap((one, n) => (n === stream ? links : one))

const assertReported = (links: ReadonlyArray<Link>, all: ReadonlyArray<ReadonlyArray<Link>>, stream: number) => {
  const report = verify(links, {
    expected: sealsOf(all),
    sealed: { now: at + 86_400_000, grace: graceMillis }
  })
  assert.isAbove(report.problemCount, 0)
  assert.strictEqual(report.problems[0].stream, all[stream][0].stream)
}

describe("a trail", () => {
  it("verifies as it was written, whatever the order of its streams", () => {
    FastCheck.assert(
      FastCheck.property(trails, FastCheck.boolean(), (all, alternating) => {
        const longest = Math.max(...all.map((links) => links.length))
        const links = alternating
          ? Array.from({ length: longest }, (_, i) => all.flatMap((one) => one.slice(i, i + 1))).flat()
          : all.flat()
        const report = verify(links, { expected: sealsOf(all), sealed: { now: at, grace: 0 } })
        assert.deepStrictEqual(report.problems, [])
        assert.strictEqual(report.entries, all.flat().length)
        assert.strictEqual(report.unsealed, 0)
      }),
      runs
    )
  })

  it("with an altered entry does not verify, whichever byte it is", () => {
    FastCheck.assert(
      FastCheck.property(picked, FastCheck.nat(), ({ all, i, stream }, where) => {
        const link = all[stream][i]
        const bytes = Buffer.from(link.body)
        bytes[where % bytes.length] ^= 1
        assertReported(
          replaced(all, stream, all[stream].with(i, { ...link, body: bytes.toString("latin1") })),
          all,
          stream
        )
      }),
      runs
    )
  })

  it("with an altered entry and every later hash made to fit does not verify against its seal", () => {
    FastCheck.assert(
      FastCheck.property(picked, ({ all, i, stream }) => {
        let hash: Uint8Array = i === 0 ? genesis(all[stream][0].stream) : all[stream][i - 1].hash
        const links = all[stream].map((link, n) => {
          if (n < i) return link
          const body = n === i ? link.body.replace("secret.inject", "secret.list") : link.body
          hash = chain(hash, body)
          return { ...link, body, hash }
        })
        assertReported(replaced(all, stream, links), all, stream)
      }),
      runs
    )
  })

  it("with a deleted entry does not verify, nor with its numbers and hashes closed up", () => {
    FastCheck.assert(
      FastCheck.property(picked, FastCheck.boolean(), ({ all, i, stream }, relinked) => {
        const rest = all[stream].toSpliced(i, 1)
        if (!relinked) return assertReported(replaced(all, stream, rest), all, stream)
        let hash: Uint8Array = genesis(all[stream][0].stream)
        const links = rest.map((link, n) => {
          const body = link.body.replace(/"seq":\d+/, `"seq":${n + 1}`)
          hash = chain(hash, body)
          return { ...link, seq: n + 1, body, hash }
        })
        assertReported(replaced(all, stream, links), all, stream)
      }),
      runs
    )
  })

  it("with an inserted entry does not verify: a repeated one, or a new one that everything after fits", () => {
    FastCheck.assert(
      FastCheck.property(picked, FastCheck.boolean(), ({ all, i, stream }, relinked) => {
        const link = all[stream][i]
        if (!relinked) return assertReported(replaced(all, stream, all[stream].toSpliced(i, 0, link)), all, stream)
        const texts = all[stream].toSpliced(i, 0, link).map((one) => linkOf(one.body).keys[0])
        assertReported(replaced(all, stream, linked(link.stream, texts)), all, stream)
      }),
      runs
    )
  })

  it("with two entries swapped does not verify, whether they keep their numbers or not", () => {
    FastCheck.assert(
      FastCheck.property(picked, FastCheck.boolean(), ({ all, i, stream }, renumbered) => {
        const j = (i + 1) % all[stream].length
        const [a, b] = [all[stream][i], all[stream][j]]
        const links = all[stream]
          .with(i, renumbered ? { ...b, seq: a.seq } : b)
          .with(j, renumbered ? { ...a, seq: b.seq } : a)
        assertReported(replaced(all, stream, links), all, stream)
      }),
      runs
    )
  })

  it("with its tail cut off does not verify, down to nothing", () => {
    FastCheck.assert(
      FastCheck.property(picked, ({ all, i, stream }) => {
        assertReported(replaced(all, stream, all[stream].slice(0, i)), all, stream)
      }),
      runs
    )
  })

  it("replaced by a made-up one does not verify: no seal knows its streams", () => {
    FastCheck.assert(
      FastCheck.property(trails, trails, (all, made) => {
        const forged = made.flatMap((links, n) =>
          linked(
            `01980a5c-0002-7000-8000-${String(n).padStart(12, "0")}`,
            links.map((link) => link.body)
          )
        )
        const options = { sealed: { now: at + 86_400_000, grace: graceMillis } }
        assert.isAbove(verify(forged, { ...options, expected: sealsOf(all) }).problemCount, 0)
        // Also when the seals are gone too.
        assert.isAbove(verify(forged, options).problemCount, 0)
      }),
      runs
    )
  })

  it("relabelled as another stream does not verify, nor without the keys", () => {
    FastCheck.assert(
      FastCheck.property(picked, FastCheck.boolean(), ({ all, stream }, keepBodies) => {
        const other = "01980a5c-0003-7000-8000-000000000001"
        const links = keepBodies
          ? all[stream].map((link) => ({ ...link, stream: other }))
          : linked(
              other,
              all[stream].map((link) => link.body)
            )
        const report = verify(replaced(all, stream, links), {
          expected: sealsOf(all),
          sealed: { now: at + 86_400_000, grace: graceMillis }
        })
        assert.isAbove(report.problemCount, 0)
      }),
      runs
    )
  })

  it("may end in young entries under no seal, not in old ones, and in none after it was closed", () => {
    FastCheck.assert(
      FastCheck.property(picked, ({ all, i, stream }) => {
        const links = all[stream]
        const head = i === 0 ? { ...links[0], seq: 0, hash: genesis(links[0].stream) } : links[i - 1]
        const seal = { ...head, source: "its seal" }
        const now = at + links.length * 1_000
        const of = (final: boolean, now: number) =>
          verify(links, { expected: [{ ...seal, final }], sealed: { now, grace: graceMillis } })
        assert.deepStrictEqual(of(false, now).problems, [])
        assert.strictEqual(of(false, now).unsealed, links.length - i)
        assert.strictEqual(of(false, now + graceMillis + links.length * 1_000).problems[0]?.seq, i + 1)
        assert.strictEqual(of(true, now).problems[0]?.seq, i + 1)
      }),
      runs
    )
  })

  it("whose columns say something else than its entries does not verify", () => {
    const [link] = linked("01980a5c-0001-7000-8000-000000000001", ["A"])
    const columns = {
      action: "secret.inject",
      actorId: "A",
      environment: null,
      id: "01980a5c-0001-7000-8000-000000000000"
    }
    assert.deepStrictEqual(verify([{ ...link, columns }]).problems, [])
    for (const [column, value] of Object.entries({
      action: "secret.list",
      actorId: "B",
      environment: "prod",
      id: null
    })) {
      const [problem] = verify([{ ...link, columns: { ...columns, [column]: value } }]).problems
      assert.include(problem?.what, column)
    }
  })
})

const { privateKey, publicKey } = generateKeyPairSync("ed25519")
const key = SignedNote.noteKey(
  "ampoule-audit-rk_00000000",
  publicKey.export({ format: "der", type: "spki" }).subarray(-32)
)
const signed = (text: string) => SignedNote.print(text, key, sign(null, Buffer.from(text), privateKey))

describe("signed notes", () => {
  it("open with the key and with no other, and not after any change", () => {
    const text = "origin\n1\nline\n"
    assert.deepStrictEqual(SignedNote.open(signed(text), [key]), Either.right(text))
    assert.isTrue(Either.isLeft(SignedNote.open(signed(text), [])))
    FastCheck.assert(
      FastCheck.property(FastCheck.nat(), (where) => {
        const bytes = Buffer.from(signed(text))
        bytes[where % bytes.length] ^= 1
        assert.isTrue(Either.isLeft(SignedNote.open(bytes.toString("utf8"), [key])))
      }),
      runs
    )
  })

  it("have keys that are printed and read back, and refused when mistyped", () => {
    const text = SignedNote.printKey(key)
    const back = SignedNote.parseKey(text)
    assert.deepStrictEqual(back._tag === "Some" ? SignedNote.printKey(back.value) : "", text)
    for (let i = 0; i < text.length; i++) {
      const wrong = text.slice(0, i) + (text[i] === "A" ? "B" : "A") + text.slice(i + 1)
      const parsed = SignedNote.parseKey(wrong)
      assert.isTrue(parsed._tag === "None" || wrong === text, wrong)
    }
  })

  it("are those of the format's published example", () => {
    // C2SP signed-note: key and note of golang.org/x/mod/sumdb/note.
    const peter = SignedNote.parseKey("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
    const note = [
      "If you think cryptography is the answer to your problem,",
      "then you don't know what your problem is.",
      "",
      "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=",
      ""
    ].join("\n")
    assert.isTrue(peter._tag === "Some" && Either.isRight(SignedNote.open(note, [peter.value])))
  })
})

describe("checkpoints", () => {
  const written = (all: ReadonlyArray<ReadonlyArray<Link>>, steps: number, newWriter = Checkpoint.newWriter) => {
    let state = newWriter("01980a5c-0009-7000-8000-000000000001")
    const notes: Array<string> = []
    for (let step = 1; step <= steps; step++) {
      const heads = all.map((links) => links[Math.ceil((links.length * step) / steps) - 1])
      const { next, text } = Checkpoint.text(state, { at: at + step, heads, accepted: [] })
      notes.push(signed(text))
      state = next
    }
    return notes
  }
  const read = (notes: ReadonlyArray<string>, keys = [key], until?: number) => {
    const reader = new Checkpoint.Reader(keys, until)
    for (const line of notes.join("\n").split("\n")) reader.line(line)
    reader.end()
    return reader
  }
  const pinned = (reader: Checkpoint.Reader): ReadonlyArray<ExpectedHead> =>
    [...reader.pins.values()].map((pin) => ({ ...pin, source: "the checkpoint" }))

  it("name the last head of each stream, and catch an older database that is whole in itself", () => {
    FastCheck.assert(
      FastCheck.property(trails, FastCheck.integer({ min: 1, max: 5 }), FastCheck.nat(), (all, steps, n) => {
        const reader = read(written(all, steps))
        assert.deepStrictEqual(reader.problems, [])
        assert.strictEqual(reader.count, steps)
        assert.deepStrictEqual(verify(all.flat(), { expected: pinned(reader) }).problems, [])
        const stream = n % all.length
        // As it was earlier, seals and all: only the checkpoint knows that there was more.
        const older = all.map((links, i) => (i === stream ? links.slice(0, n % links.length) : links))
        const report = verify(older.flat(), {
          expected: [...pinned(reader), ...sealsOf(older.filter((l) => l.length > 0))]
        })
        assert.strictEqual(report.problems[0]?.stream, all[stream][0].stream)
      }),
      { numRuns: 300 }
    )
  })

  it("in a log are read among its other lines, also from the middle on; a gap between them is a problem", () => {
    const all = [linked("01980a5c-0001-7000-8000-000000000001", ["a", "b", "c", "d"])]
    const lines = written(all, 4, Checkpoint.newLogWriter).map((note) => Checkpoint.printLine(note).trimEnd())
    const log = lines.flatMap((line) => [line, '{"level":"INFO","message":"another line"}', "{ not JSON"])
    const whole = read(log)
    assert.deepStrictEqual([whole.problems, whole.count, whole.fragments], [[], 4, 0])
    const later = read(lines.slice(2))
    assert.deepStrictEqual([later.problems, later.count], [[], 2])
    assert.strictEqual(later.pins.get(all[0][0].stream)?.seq, 4)
    assert.isAbove(read(lines.toSpliced(2, 1)).problemCount, 0)
    // A checkpoint file does not become a log.
    const file = written(all, 4).map((note) => Checkpoint.printLine(note).trimEnd())
    assert.deepStrictEqual(read(file).problems, [])
    assert.isAbove(read(file.slice(1)).problemCount, 0)
  })

  it("that do not verify are counted, however many; the first hundred are listed", () => {
    const [note] = written([linked("01980a5c-0001-7000-8000-000000000001", ["a"])], 1)
    const reader = read(
      Array.from({ length: 200_000 }, () => note.replace("at 2", "at 1")),
      []
    )
    assert.deepStrictEqual([reader.problemCount, reader.problems.length], [200_000, 100])
    const problems = new Problems()
    problems.addReport(reader)
    problems.addReport(reader)
    assert.deepStrictEqual([problems.count, problems.listed.length], [400_000, 100])
  })

  it("cannot be taken out, put in or changed unnoticed", () => {
    const all = [linked("01980a5c-0001-7000-8000-000000000001", ["a", "b", "c", "d"])]
    const notes = written(all, 4)
    for (let i = 0; i < 3; i++) assert.isAbove(read(notes.toSpliced(i, 1)).problems.length, 0, `without ${i}`)
    assert.isAbove(read([...notes, notes[3]]).problems.length, 0)
    assert.isAbove(read(notes, []).problems.length, 0)
    FastCheck.assert(
      FastCheck.property(FastCheck.nat(3), FastCheck.nat(), (i, where) => {
        const bytes = Buffer.from(notes[i])
        // A newline may become anything: what is no whole note any more is a gap in the numbering.
        bytes[where % (bytes.length - 1)] ^= 1
        const reader = read(notes.with(i, bytes.toString("utf8")))
        assert.isTrue(reader.problems.length > 0 || reader.count < 4 || reader.fragments > 0)
      }),
      runs
    )
    // The last character of a signature has bits to spare: one signature has one spelling.
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    for (const [i, note] of notes.entries()) {
      const respelled = note.replace(
        /^(— .+)(.)=$/m,
        (_, line: string, last: string) => `${line}${alphabet[alphabet.indexOf(last) + 1]}=`
      )
      assert.notStrictEqual(respelled, note)
      assert.isAbove(read(notes.with(i, respelled)).problems.length, 0)
    }
  })

  it("of a crash end in a fragment, which is no problem", () => {
    const all = [linked("01980a5c-0001-7000-8000-000000000001", ["a", "b"])]
    const [first, second] = written(all, 2)
    const reader = read([first, second.slice(0, 60)])
    assert.deepStrictEqual(reader.problems, [])
    assert.strictEqual(reader.fragments, 1)
    assert.strictEqual(reader.count, 1)
  })

  it("that accept a restored state take the place of what was signed before, in whichever file", () => {
    const all = [linked("01980a5c-0001-7000-8000-000000000001", ["a", "b", "c"])]
    const notes = written(all, 1)
    const state = Checkpoint.newWriter("01980a5c-0009-7000-8000-000000000002")
    const accepted = [{ present: all[0][0], signed: all[0][2] }]
    const note = signed(Checkpoint.text(state, { at: at + 10, heads: [], accepted }).text)
    for (const order of [
      [...notes, note],
      [note, ...notes]
    ]) {
      assert.deepStrictEqual(verify(all[0].slice(0, 1), { expected: pinned(read(order)) }).problems, [])
    }
    assert.isAbove(verify(all[0].slice(0, 1), { expected: pinned(read(notes)) }).problemCount, 0)
  })

  it("begin streams after cuts that are signed, and after no other", () => {
    const [links] = [linked("01980a5c-0001-7000-8000-000000000001", ["a", "b", "c"])]
    const cut: Checkpoint.Cut = {
      stream: links[0].stream,
      seq: 1,
      hash: links[0].hash,
      before: new Date(at).toISOString()
    }
    const opened = Checkpoint.openCut(signed(Checkpoint.cutText(cut)), [key])
    assert.isTrue(Either.isRight(opened))
    if (Either.isRight(opened)) {
      assert.deepStrictEqual(verify(links.slice(1), { cuts: [opened.right], expected: sealsOf([links]) }).problems, [])
      assert.isAbove(verify(links.slice(2), { cuts: [opened.right] }).problemCount, 0)
      assert.isAbove(verify(links, { cuts: [opened.right] }).problemCount, 0)
    }
    assert.isAbove(verify(links.slice(1)).problemCount, 0)
    assert.isTrue(Either.isLeft(Checkpoint.openCut(signed(Checkpoint.cutText(cut)).replace("\n1\n", "\n2\n"), [key])))
  })
})

describe("an export", () => {
  it("reads back as it was written", () => {
    FastCheck.assert(
      FastCheck.property(trails, (all) => {
        for (const { body, hash, seq, stream } of all.flat()) {
          const text = Export.print({ type: "entry", hash, body })
          assert.deepStrictEqual(Export.parse(text.trimEnd()), { type: "entry", hash: Buffer.from(hash), body })
          assert.deepStrictEqual(Export.placeOf(body), { stream, seq })
        }
      }),
      { numRuns: 200 }
    )
  })

  it("holds no cell that a spreadsheet would run", () => {
    for (const start of ["=", "+", "-", "@", "\t=", " =", "\r", "\uff1d", '"=']) {
      assert.match(Export.cell(`${start}1+1`), /^"'/, JSON.stringify(start))
    }
    assert.strictEqual(Export.cell("plain, text"), '"plain, text"')
    FastCheck.assert(
      FastCheck.property(FastCheck.string(), (value) => {
        const cell = Export.cell(value)
        const inner = cell.slice(1, -1).replaceAll('""', '"')
        assert.isTrue(inner === value || inner === `'${value}`)
        assert.notMatch(inner, /^\s*[=+\-@]/)
      }),
      runs
    )
  })
})

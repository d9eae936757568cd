import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as ParseResult from "effect/ParseResult"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { SecretId, uuidPattern } from "#schema/Ids.ts"
import * as Values from "#schema/Values.ts"

const accepts = <A, I>(schema: Schema.Schema<A, I>, input: unknown) =>
  Either.isRight(Schema.decodeUnknownEither(schema)(input))

const sentence = <A, I>(schema: Schema.Schema<A, I>, input: unknown): string =>
  Either.match(Schema.decodeUnknownEither(schema)(input), {
    onLeft: (error) => ParseResult.ArrayFormatter.formatErrorSync(error)[0].message,
    onRight: () => ""
  })

const hex = (n: number) =>
  FastCheck.string({ unit: FastCheck.constantFrom(..."0123456789abcdefABCDEF"), minLength: n, maxLength: n })

describe("a uuid", () => {
  it.prop(
    "is accepted in versions 1 to 8 and both cases, and folded to lower case",
    [
      hex(8),
      hex(4),
      FastCheck.constantFrom(..."12345678"),
      hex(3),
      FastCheck.constantFrom(..."89abAB"),
      hex(3),
      hex(12)
    ],
    ([a, b, version, c, variant, d, e]) => {
      const uuid = `${a}-${b}-${version}${c}-${variant}${d}-${e}`
      assert.strictEqual(Schema.decodeSync(SecretId)(uuid), uuid.toLowerCase())
    }
  )

  it("may be nil or max, in the case that the contract gives", () => {
    assert.isTrue(accepts(SecretId, "00000000-0000-0000-0000-000000000000"))
    assert.isTrue(accepts(SecretId, "ffffffff-ffff-ffff-ffff-ffffffffffff"))
    assert.isFalse(accepts(SecretId, "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"))
  })

  it("has the pattern of the contract, letter by letter", () => {
    assert.strictEqual(
      uuidPattern.source,
      "^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}|00000000-0000-0000-0000-000000000000|ffffffff-ffff-ffff-ffff-ffffffffffff)$"
    )
  })

  it.each([
    ["version 0", "01980a5e-7c11-0b3a-9d54-6f2f8a1c0b7e"],
    ["version 9", "01980a5e-7c11-9b3a-9d54-6f2f8a1c0b7e"],
    ["variant 7", "01980a5e-7c11-7b3a-7d54-6f2f8a1c0b7e"],
    ["braces", "{01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e}"],
    ["no dashes", "01980a5e7c117b3a9d546f2f8a1c0b7e"],
    ["a line after it", "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e\n"],
    ["nothing", ""]
  ])("is refused with %s", (_, uuid) => {
    assert.strictEqual(sentence(SecretId, uuid), "must be a uuid")
  })
})

describe("an environment slug", () => {
  it.each(["a", "0", "dev-2", "a-", "x".repeat(50)])("may be %s", (slug) => {
    assert.isTrue(accepts(Values.EnvironmentSlug, slug))
  })
  it.each(["", "-a", "Dev", "a_b", "a b", "ä", "a\n", "x".repeat(51)])("may not be %j", (slug) => {
    assert.isFalse(accepts(Values.EnvironmentSlug, slug))
  })
})

describe("a secret key", () => {
  it.each(["A", "A0_", "DATABASE_URL", `K${"_".repeat(254)}`])("may be %s", (key) => {
    assert.isTrue(accepts(Values.SecretKey, key))
  })
  it.each(["", "a", "0A", "_A", "A-B", "A B", "Ä", "A\n", "__proto__", "A".repeat(256)])("may not be %j", (key) => {
    assert.isFalse(accepts(Values.SecretKey, key))
  })
})

describe("a sealing key id", () => {
  it("is ek_ and 8 lower-case hex digits", () => {
    assert.isTrue(accepts(Values.SealingKeyId, "ek_0a1b2c3d"))
    for (const id of ["ek_0A1B2C3D", "ek_0a1b2c3", "ek_0a1b2c3d4", "0a1b2c3d", "ek_0a1b2c3g"]) {
      assert.isFalse(accepts(Values.SealingKeyId, id), id)
    }
  })
})

describe("the text of a secret", () => {
  it("counts code points, not UTF-16 units", () => {
    assert.isTrue(accepts(Values.SecretText, "🜚".repeat(65_536)))
    assert.isFalse(accepts(Values.SecretText, "🜚".repeat(65_536) + "x"))
    assert.isTrue(accepts(Values.SecretText, "x".repeat(65_536)))
    assert.isFalse(accepts(Values.SecretText, "x".repeat(65_537)))
  })

  it.prop("counts as the string iterator does", [FastCheck.string({ unit: "grapheme" })], ([s]) => {
    assert.strictEqual(Values.codePoints(s), [...s].length)
  })

  it.prop(
    "refuses a lone surrogate at any place",
    [FastCheck.string(), FastCheck.integer({ min: 0xd800, max: 0xdfff }), FastCheck.string()],
    ([before, surrogate, after]) => {
      const text = `${before} ${String.fromCharCode(surrogate)} ${after}`
      assert.isFalse(accepts(Values.SecretText, text))
      assert.isFalse(accepts(Values.Name, text))
    }
  )

  it.prop("comes through unchanged, NUL and line ends too", [FastCheck.string({ unit: "binary" })], ([s]) => {
    assert.strictEqual(Redacted.value(Schema.decodeSync(Values.SecretText)(s)), s)
  })

  it.prop("is never in the message of a refusal", [FastCheck.string({ minLength: 8 })], ([s]) => {
    const long = s.padEnd(65_537 * 2, s)
    assert.strictEqual(sentence(Values.SecretText, long), "must be well-formed text of at most 65536 characters")
  })
})

describe("a name", () => {
  it.each(["Ada", "平台", "a b", "❤️ team", "x".repeat(100), "🜚".repeat(100)])("may be %s", (name) => {
    assert.isTrue(accepts(Values.Name, name))
  })
  it.each([
    ["empty", ""],
    ["blank", "  "],
    ["too long", "x".repeat(101)],
    ["a control character", "a\u0007b"],
    ["a line end", "a\nb"],
    ["a bidi override", "a\u202eb"],
    ["a bidi isolate", "a\u2066b"],
    ["a zero-width space", "a\u200bb"],
    ["a byte order mark", "\ufeffab"],
    ["a grapheme joiner", "a\u034fb"],
    ["a filler", "a\u3164b"],
    ["text in tag characters", "a\u{e0068}\u{e0069}b"],
    ["bytes in variation selectors", "a\u{e0101}b"]
  ])("may not be %s", (_, name) => {
    assert.isFalse(accepts(Values.Name, name))
  })
})

describe("a number in a query", () => {
  it("is an integer within its bounds", () => {
    for (const page of ["1", "42", "10000"]) assert.strictEqual(Schema.decodeSync(Values.Page)(page), Number(page))
    for (const page of ["0", "10001", "-1", "1.5"]) assert.isFalse(accepts(Values.Page, page), page)
    assert.strictEqual(Schema.decodeSync(Values.PageSize)("500"), 500)
    for (const size of ["0", "501"]) assert.isFalse(accepts(Values.PageSize, size), size)
  })
  it.each(["1e2", " 5 ", "0x10", "5.0", "+7", "", "05", "٣", "Infinity", "9".repeat(17)])("may not be %j", (page) => {
    assert.strictEqual(sentence(Values.Page, page), "must be an integer from 1 to 10000")
  })
})

describe("expectedVersion", () => {
  it("is 0 to 9007199254740991", () => {
    for (const version of [0, 1, Number.MAX_SAFE_INTEGER]) assert.isTrue(accepts(Values.ExpectedVersion, version))
    for (const version of [-1, 0.5, Number.MAX_SAFE_INTEGER + 1, NaN, Infinity, "1", null]) {
      assert.isFalse(accepts(Values.ExpectedVersion, version), String(version))
    }
  })
})

describe("a moment in a query", () => {
  it("comes out in UTC", () => {
    assert.strictEqual(Schema.decodeSync(Values.Instant)("2026-11-21T09:00:00+01:00"), "2026-11-21T08:00:00.000Z")
  })
  it.each(["2026-11-21", "yesterday", "2026-13-01T00:00:00Z", "2026-11-21T08:00:00", "0000-01-01T00:00:00Z"])(
    "may not be %j",
    (moment) => {
      assert.strictEqual(sentence(Values.Instant, moment), "must be an ISO 8601 time")
    }
  )
})

describe("a moment in a query that the calendar does not have", () => {
  const two = (n: number) => String(n).padStart(2, "0")

  it.each([
    "2026-02-29T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "2026-04-31T00:00:00Z",
    "2026-02-31T23:59+14:00",
    "2026-11-00T00:00:00Z",
    "2026-11-21T24:00:00Z",
    "2026-11-21T08:60:00Z",
    "2026-11-21T08:00:60Z",
    "1900-02-29T00:00:00Z"
  ])("may not be %j", (moment) => {
    assert.strictEqual(sentence(Values.Instant, moment), "must be an ISO 8601 time")
  })

  it("may be the 29th of February of a leap year", () => {
    assert.strictEqual(Schema.decodeSync(Values.Instant)("2028-02-29T23:59:59.5Z"), "2028-02-29T23:59:59.500Z")
    assert.strictEqual(Schema.decodeSync(Values.Instant)("2000-02-29T23:00-02:00"), "2000-03-01T01:00:00.000Z")
  })

  it.prop(
    "is each that comes out on another day than it went in",
    [
      FastCheck.integer({ min: 1000, max: 2999 }),
      FastCheck.integer({ min: 1, max: 12 }),
      FastCheck.integer({ min: 1, max: 31 })
    ],
    ([year, month, day]) => {
      const date = `${year}-${two(month)}-${two(day)}`
      const days = [31, year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28, 31, 30, 31, 30]
      const has = day <= [...days, 31, 31, 30, 31, 30, 31][month - 1]
      assert.strictEqual(accepts(Values.Instant, `${date}T12:00:00Z`), has)
      if (has) assert.strictEqual(Schema.decodeSync(Values.Instant)(`${date}T12:00:00Z`).slice(0, 10), date)
    }
  )
})

describe("a credential or password that is checked", () => {
  it.prop(
    "refuses a lone surrogate at any place",
    [FastCheck.string(), FastCheck.integer({ min: 0xd800, max: 0xdfff }), FastCheck.string()],
    ([before, surrogate, after]) => {
      const text = `${before} ${String.fromCharCode(surrogate)} ${after}`
      for (const schema of [Values.Password, Values.CredentialText, Values.NewPassword]) {
        assert.strictEqual(sentence(schema, text), "must be well-formed text")
      }
      assert.strictEqual(sentence(Values.UserCode, text), "must be well-formed text")
    }
  )

  it("has as many characters as the document says, counted as code points", () => {
    assert.strictEqual(sentence(Values.CredentialText, ""), "must not be empty")
    assert.strictEqual(sentence(Values.CredentialText, "🜚".repeat(257)), "is too long")
    for (const text of ["x", "🜚".repeat(256)]) assert.isTrue(accepts(Values.CredentialText, text))
    assert.strictEqual(sentence(Values.Password, "🜚".repeat(1_025)), "is too long")
    for (const text of ["", "🜚".repeat(1_024)]) assert.isTrue(accepts(Values.Password, text))
  })
})

describe("a list with a bounded number of entries", () => {
  const counting = () => {
    const seen: Array<string> = []
    const item = Schema.String.pipe(Schema.filter((entry) => seen.push(entry) > 0))
    return { seen, list: Values.boundedList(item, 1, 3) }
  }

  it("is counted before any entry is decoded", () => {
    const { list, seen } = counting()
    for (const given of [[], ["a", "b", "c", "d"], Array(10_000).fill("a"), Array(10_000).fill(1)]) {
      assert.strictEqual(sentence(list, given), "must have 1 to 3 entries")
    }
    assert.deepStrictEqual(seen, [])
    assert.deepStrictEqual(Schema.decodeUnknownSync(list)(["a", "b", "c"]), ["a", "b", "c"])
    assert.deepStrictEqual(seen, ["a", "b", "c"])
  })

  it.prop(
    "says of every other input what its entries say, and reads back what it prints",
    [FastCheck.oneof(FastCheck.array(FastCheck.jsonValue(), { maxLength: 3 }), FastCheck.jsonValue())],
    ([given]) => {
      const fields = <A, I>(schema: Schema.Schema<A, I>) =>
        Either.mapLeft(Schema.decodeUnknownEither(schema)(given), (error) =>
          ParseResult.ArrayFormatter.formatErrorSync(error).map(({ path }) => path)
        )
      const counts = Array.isArray(given) && (given.length < 1 || given.length > 3)
      assert.deepStrictEqual(
        fields(Values.boundedList(SecretId, 1, 3)),
        counts ? Either.left([[]]) : fields(Schema.Array(SecretId))
      )
      const upper = "01980A5F-02D4-7E61-8C3B-1D9E5F7A2B44"
      const list = Schema.decodeSync(Values.boundedList(SecretId, 1, 3))([upper])
      assert.deepStrictEqual(Schema.encodeSync(Values.boundedList(SecretId, 1, 3))(list), [upper.toLowerCase()])
    }
  )
})

describe("an idempotency key", () => {
  it("is 1 to 255 ASCII characters", () => {
    assert.isTrue(accepts(Values.IdempotencyKey, "x".repeat(255)))
    for (const key of ["", "x".repeat(256), "é", "a\u0000"]) assert.isFalse(accepts(Values.IdempotencyKey, key))
  })
})

describe("a user code", () => {
  it("is read without regard to case, dashes and spaces", () => {
    for (const code of ["bcdf-ghjk", "BCDF GHJK", "b-c-d-f g-h-j-k", "BCDFGHJK"]) {
      assert.strictEqual(Schema.decodeSync(Values.UserCode)(code), "BCDFGHJK")
    }
  })
})

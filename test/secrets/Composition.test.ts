import * as Composition from "#src/secrets/Composition.ts"
import * as Template from "#src/secrets/Template.ts"
import * as TemplateScan from "#src/secrets/TemplateScan.ts"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"

const template = (source: string): Composition.Entry => Either.getOrThrow(Composition.entry("template", source))

/** A state written as an object: `t:` starts a template, anything else is a literal. */
const stateOf = (secrets: Record<string, string>): Composition.State =>
  new Map(
    Object.entries(secrets).map(([key, text]) => [
      key,
      text.startsWith("t:") ? template(text.slice(2)) : Composition.literal(text)
    ])
  )

const resolveOne = (state: Composition.State, key: string) =>
  Either.map(Composition.resolve(state, [key]), (values) => values.get(key))
const check = (state: Composition.State) => Composition.checkAfter(state, new Map())
const values = (state: Composition.State) => Either.getOrThrow(Composition.resolve(state))
const problem = <A>(outcome: Either.Either<A, Composition.Problem>): Composition.Problem => {
  assert(Either.isLeft(outcome), "expected a problem")
  return outcome.left
}
const tagOf = (outcome: Either.Either<unknown, Composition.Problem>) =>
  Either.isLeft(outcome) ? outcome.left._tag : "fine"

const keyNames = ["A", "B", "C", "D", "E", "F"]
const literalText = FastCheck.string({
  unit: FastCheck.constantFrom("$", "{", "}", "${A}", "$${", "A", "x", "\0", "😀"),
  maxLength: 6
})
/**
 * Sources made of escaped text and references. A text ending in `$` can join with what follows to an escape or to `${`.
 */
const anySource = (keys: ReadonlyArray<string>) =>
  FastCheck.array(
    FastCheck.oneof(
      literalText.map(Template.escape),
      FastCheck.constantFrom(...keys).map((key) => "${" + key + "}")
    ),
    { maxLength: 4 }
  ).map((pieces) => pieces.join(""))
const entryOver = (keys: ReadonlyArray<string>): FastCheck.Arbitrary<Composition.Entry> =>
  FastCheck.oneof(
    literalText.map(Composition.literal),
    anySource(keys)
      .filter((source) => {
        const { parts } = TemplateScan.scan(source)
        return parts !== undefined && TemplateScan.references(parts).every((used) => keys.includes(used))
      })
      .map(template)
  )

/** Any graph: cycles and missing keys happen. */
const anyState: FastCheck.Arbitrary<Composition.State> = FastCheck.oneof(
  FastCheck.array(FastCheck.tuple(FastCheck.constantFrom(...keyNames), entryOver([...keyNames, "GONE", "LOST"])), {
    maxLength: 6
  }).map((entries) => new Map(entries)),
  FastCheck.tuple(...keyNames.map(() => entryOver(keyNames))).map(
    (entries) => new Map(entries.map((entry, i) => [keyNames[i], entry]))
  )
)

/** A graph without cycles: each key uses later ones only. */
const soundState: FastCheck.Arbitrary<Composition.State> = FastCheck.tuple(
  ...keyNames.map((_, i) =>
    i === keyNames.length - 1 ? literalText.map(Composition.literal) : entryOver(keyNames.slice(i + 1))
  )
).map((entries) => new Map(entries.map((entry, i) => [keyNames[i], entry])))

/** Expansion by substitution, as the words of the contract say it. Exponential, so for small graphs only. */
const naiveExpand = (state: Composition.State, key: string): string => {
  const entry = state.get(key)
  if (entry === undefined) return ""
  return entry.kind === "literal"
    ? entry.text
    : entry.parts.map((part) => (typeof part === "string" ? part : naiveExpand(state, part.key))).join("")
}
const naiveDepth = (state: Composition.State, key: string): number => {
  const entry = state.get(key)
  return entry === undefined
    ? 0
    : Math.max(0, ...Composition.referencesOf(entry).map((used) => 1 + naiveDepth(state, used)))
}
const naiveReaches = (
  state: Composition.State,
  from: string,
  to: string,
  seen: ReadonlyArray<string> = []
): boolean => {
  const entry = state.get(from)
  return (
    entry !== undefined &&
    Composition.referencesOf(entry).some(
      (used) => used === to || (!seen.includes(used) && naiveReaches(state, used, to, [...seen, used]))
    )
  )
}

const runs = { fastCheck: { numRuns: 1_000 } }

describe("resolving an environment", () => {
  it("expands templates over templates and never scans what a reference brings in", () => {
    const state = stateOf({
      URL: "t:postgres://${USER}:${PASS}@${HOST}/db?x=$${PASS}",
      HOST: "t:${NAME}.internal",
      NAME: "db",
      USER: "me",
      PASS: "${NAME}$${\0😀"
    })
    assert.deepStrictEqual(
      [...values(state)],
      [
        ["HOST", "db.internal"],
        ["NAME", "db"],
        ["PASS", "${NAME}$${\0😀"],
        ["URL", "postgres://me:${NAME}$${\0😀@db.internal/db?x=${PASS}"],
        ["USER", "me"]
      ]
    )
    assert.deepStrictEqual(resolveOne(state, "HOST"), Either.right("db.internal"))
  })

  it.prop(
    "agrees with naive substitution on every sound graph",
    [soundState],
    ([state]) => {
      const resolved = values(state)
      assert.deepStrictEqual([...resolved.keys()], [...state.keys()].sort())
      for (const key of state.keys()) {
        assert.strictEqual(resolved.get(key), naiveExpand(state, key))
        assert.deepStrictEqual(resolveOne(state, key), Either.right(naiveExpand(state, key)))
      }
    },
    runs
  )

  it.prop(
    "changes nothing where nothing refers to anything",
    [FastCheck.dictionary(FastCheck.constantFrom(...keyNames), literalText)],
    ([secrets]) => {
      const state: Composition.State = new Map(
        Object.entries(secrets).map(([key, text]) => [key, Composition.literal(text)])
      )
      const once = values(state)
      assert.deepStrictEqual(Object.fromEntries(once), secrets)
      assert.deepStrictEqual(values(new Map([...once].map(([key, text]) => [key, Composition.literal(text)]))), once)
    }
  )

  it.prop(
    "ends on every graph, with values exactly when the check passes",
    [anyState],
    ([state]) => {
      const checked = check(state)
      const resolved = Composition.resolve(state)
      assert.strictEqual(tagOf(resolved), tagOf(checked))
      const missing = [...new Set([...state.values()].flatMap(Composition.referencesOf))].filter(
        (key) => !state.has(key)
      )
      const cyclic = [...state.keys()].some((key) => naiveReaches(state, key, key))
      assert.strictEqual(
        tagOf(checked),
        missing.length > 0 ? "TEMPLATE_REFERENCE_MISSING" : cyclic ? "TEMPLATE_CYCLE" : "fine"
      )
      if (Either.isRight(checked)) return
      if (checked.left._tag === "TEMPLATE_REFERENCE_MISSING")
        assert.deepStrictEqual(checked.left.references, missing.sort())
      if (checked.left._tag === "TEMPLATE_CYCLE") {
        const { cycle } = checked.left
        assert.strictEqual(cycle[0], [...cycle].sort()[0])
        assert.strictEqual(new Set(cycle).size, cycle.length)
        cycle.forEach((key, i) => {
          const entry = state.get(key)
          assert.include(entry === undefined ? [] : Composition.referencesOf(entry), cycle[(i + 1) % cycle.length])
        })
      }
    },
    runs
  )

  it.prop(
    "says the same whatever order the secrets come in",
    [anyState],
    ([state]) => {
      const reversed = new Map([...state].reverse())
      assert.deepStrictEqual(
        Either.mapLeft(check(reversed), (e) => JSON.stringify(e)),
        Either.mapLeft(check(state), (e) => JSON.stringify(e))
      )
    },
    runs
  )

  it("looks only at what the one key builds on", () => {
    const state = stateOf({ OK: "t:${BASE}!", BASE: "b", BROKEN: "t:${GONE}" })
    assert.deepStrictEqual(resolveOne(state, "OK"), Either.right("b!"))
    assert.strictEqual(tagOf(Composition.resolve(state)), "TEMPLATE_REFERENCE_MISSING")
    assert.strictEqual(tagOf(resolveOne(state, "ABSENT")), "TEMPLATE_REFERENCE_MISSING")
  })
})

describe("depth", () => {
  const chain = (references: number, end = "x") =>
    Object.fromEntries(
      Array.from({ length: references + 1 }, (_, i) => [`K${i}`, i === references ? end : `t:\${K${i + 1}}`])
    )

  it("allows 10 references on a path and not 11", () => {
    assert.strictEqual(values(stateOf(chain(10))).get("K0"), "x")
    assert.strictEqual(tagOf(check(stateOf(chain(11)))), "TEMPLATE_TOO_DEEP")
    assert.strictEqual(tagOf(resolveOne(stateOf(chain(11)), "K0")), "TEMPLATE_TOO_DEEP")
    assert.deepStrictEqual(resolveOne(stateOf(chain(11)), "K1"), Either.right("x"))
  })

  const indices = Array.from({ length: 14 }, (_, i) => i)
  it.prop(
    "counts the longest path of any graph",
    [
      FastCheck.tuple(...indices.map(() => FastCheck.subarray(indices, { maxLength: 4 }))),
      FastCheck.subarray(indices, { minLength: 10 })
    ],
    ([uses, linked]) => {
      const usedBy = (i: number) => [
        ...uses[i].filter((used) => used > i),
        ...(linked.includes(i) && i < 13 ? [i + 1] : [])
      ]
      const state = stateOf(
        Object.fromEntries(
          indices.map((i) => [
            `K${i}`,
            "t:" +
              usedBy(i)
                .map((used) => `\${K${used}}`)
                .join("")
          ])
        )
      )
      const deepest = Math.max(...[...state.keys()].map((key) => naiveDepth(state, key)))
      assert.strictEqual(tagOf(check(state)), deepest > 10 ? "TEMPLATE_TOO_DEEP" : "fine")
    },
    runs
  )

  it("does not overflow the stack on a chain or a cycle of 5,000 keys", () => {
    assert.strictEqual(tagOf(check(stateOf(chain(4_999)))), "TEMPLATE_TOO_DEEP")
    const ring = problem(Composition.resolve(stateOf(chain(4_999, "t:${K0}"))))
    assert(ring._tag === "TEMPLATE_CYCLE")
    assert.strictEqual(ring.cycle.length, 5_000)
    assert.deepStrictEqual(ring.cycle.slice(0, 3), ["K0", "K1", "K2"])
    assert.strictEqual(Composition.transitiveDependents(stateOf(chain(4_999)), "K4999").length, 4_999)
  })
})

describe("cycles", () => {
  it("start at their smallest key, wherever the walk met them", () => {
    const ring = problem(check(stateOf({ A: "t:${D}", D: "t:${C}", C: "t:${B}", B: "t:${D}" })))
    assert(ring._tag === "TEMPLATE_CYCLE")
    assert.deepStrictEqual(ring.cycle, ["B", "D", "C"])
  })

  it("are looked for once per key: a ladder of 5,000 rungs has more paths than could be walked", () => {
    const ladder = Object.fromEntries(
      Array.from({ length: 5_000 }, (_, i) => [`K${i}`, i < 4_998 ? `t:\${K${i + 1}}\${K${i + 2}}` : "x"])
    )
    assert.strictEqual(tagOf(check(stateOf(ladder))), "TEMPLATE_TOO_DEEP")
  })
})

describe("size", () => {
  it("refuses a 30-key doubling chain", () => {
    const doubling = (keys: number) =>
      stateOf(
        Object.fromEntries(
          Array.from({ length: keys }, (_, i) => [
            `K${i}`,
            i === keys - 1 ? "0123456789" : `t:\${K${i + 1}}\${K${i + 1}}`
          ])
        )
      )
    assert.strictEqual(tagOf(Composition.resolve(doubling(30))), "TEMPLATE_TOO_DEEP")
    assert.strictEqual(values(doubling(11)).get("K0")?.length, 10_240)
  })

  it("refuses a template of 64 KiB that holds 16,384 references, at any depth", () => {
    const bomb = (key: string) => "t:" + `\${${key}}`.repeat(16_384)
    const text = "x".repeat(65_536)
    for (const depth of [1, 2, 9]) {
      const secrets: Record<string, string> = { A: text }
      for (let i = 0; i < depth; i++) secrets["BCDEFGHIJ"[i]] = bomb("ABCDEFGHI"[i])
      assert.strictEqual(tagOf(Composition.resolve(stateOf(secrets))), "VALUE_TOO_LARGE")
      assert.strictEqual(tagOf(resolveOne(stateOf(secrets), "B")), "VALUE_TOO_LARGE")
    }
    assert.strictEqual(values(stateOf({ A: "", B: bomb("A"), C: bomb("B") })).get("C"), "")
    assert.strictEqual(values(stateOf({ A: "1234", B: bomb("A") })).get("B")?.length, 65_536)
    assert.strictEqual(tagOf(check(stateOf({ A: "12345", B: bomb("A") }))), "VALUE_TOO_LARGE")
  })

  it("names the template at fault, though a value that it uses comes first in the request", () => {
    const fieldOf = (secrets: Record<string, string>) => {
      const state = stateOf(secrets)
      const error = Composition.checkAfter(new Map(), state, (key) => `secrets.${key}`)
      return problem(error).field
    }
    assert.strictEqual(fieldOf({ Z1: "x".repeat(60_000), Z2: "t:${Z1}${Z1}" }), "secrets.Z2")
    const chain = Object.fromEntries(
      Array.from({ length: 12 }, (_, i) => [`K${i}`, i === 11 ? "x" : `t:\${K${i + 1}}`])
    )
    // The key that is used comes first.
    assert.strictEqual(fieldOf(Object.fromEntries(Object.entries(chain).reverse())), "secrets.K0")
  })

  it("counts code points, not UTF-16 units", () => {
    const half = "😀".repeat(32_768)
    assert.strictEqual(values(stateOf({ A: half, B: "t:${A}${A}" })).get("B")?.length, 131_072)
    assert.strictEqual(tagOf(check(stateOf({ A: half, B: "t:${A}x${A}" }))), "VALUE_TOO_LARGE")
  })

  it("holds 16 MiB of UTF-8 per environment and not a byte more", () => {
    /** So many values of the text of BASE, that one among them. */
    const full = (text: string, count: number) => ({
      ...Object.fromEntries(Array.from({ length: count - 1 }, (_, i) => [`K${i}`, "t:${BASE}"])),
      BASE: text
    })
    const ascii = "x".repeat(65_536)
    assert.strictEqual(tagOf(Composition.resolve(stateOf(full(ascii, 256)))), "fine")
    assert.strictEqual(tagOf(Composition.resolve(stateOf({ ...full(ascii, 256), MORE: "x" }))), "PLAN_LIMIT_REACHED")
    const astral = "😀".repeat(65_536)
    assert.strictEqual(tagOf(check(stateOf(full(astral, 64)))), "fine")
    assert.strictEqual(tagOf(check(stateOf(full(astral, 65)))), "PLAN_LIMIT_REACHED")
    // Templates that expand to nothing are large too where they are read as written.
    const written = stateOf({ A: "t:" + "${BASE}".repeat(9_362), BASE: "" })
    const after = (besides: number) =>
      Composition.checkAfter(written, new Map(), undefined, { written: besides, expanded: 0 })
    assert.strictEqual(tagOf(after(16 * 1024 * 1024 - 65_534)), "fine")
    assert.strictEqual(tagOf(after(16 * 1024 * 1024 - 65_533)), "PLAN_LIMIT_REACHED")
  })
})

describe("totals", () => {
  const full = 16 * 1024 * 1024

  it("are bytes of UTF-8, as written and as expanded", () => {
    const totals = (secrets: Record<string, string>) => Composition.totalsOf(stateOf(secrets))
    assert.deepStrictEqual(totals({}), { written: 0, expanded: 0 })
    assert.deepStrictEqual(totals({ A: "\u00e9" }), { written: 2, expanded: 2 })
    assert.deepStrictEqual(totals({ A: "\u00e9", B: "t:<${A}${A}" }), { written: 2 + 9, expanded: 2 + 5 })
    // A reference is written with three characters more than its key, an escape with one more than it means.
    assert.deepStrictEqual(totals({ LONG_KEY: "", B: "t:${LONG_KEY}" }), { written: 11, expanded: 0 })
    assert.deepStrictEqual(totals({ A: "${", B: "t:$${$${" }), { written: 2 + 6, expanded: 2 + 4 })
  })

  it.prop("are those of all sources and of all values", [soundState], ([state]) => {
    const bytes = (texts: Iterable<string>) => [...texts].reduce((sum, text) => sum + Buffer.byteLength(text), 0)
    const totals = {
      written: bytes([...state.values()].map(Composition.sourceOf)),
      expanded: bytes(values(state).values())
    }
    assert.deepStrictEqual(Composition.totalsOf(state), totals)
    assert.deepStrictEqual(check(state), Either.right(totals))
  })

  it("include what the state leaves out, and either sum fills the environment", () => {
    const state = stateOf({ A: "a", B: "t:${A}" })
    const after = (besides: Composition.Totals) => Composition.checkAfter(state, new Map(), undefined, besides)
    assert.deepStrictEqual(Composition.totalsOf(state, { written: 10, expanded: 20 }), { written: 15, expanded: 22 })
    const last = { written: full - 5, expanded: full - 2 }
    assert.deepStrictEqual(after(last), Either.right({ written: full, expanded: full }))
    assert.strictEqual(tagOf(after({ ...last, written: full - 4 })), "PLAN_LIMIT_REACHED")
    assert.strictEqual(tagOf(after({ ...last, expanded: full - 1 })), "PLAN_LIMIT_REACHED")
  })
})

describe("changes", () => {
  const fields = (key: string) => `secrets.${key}.source`

  it("are checked against the state after all of them", () => {
    const state = stateOf({ A: "a" })
    const outcome = Composition.checkAfter(
      state,
      new Map([
        ["B", template("${C}")],
        ["C", template("${A}")]
      ])
    )
    assert.strictEqual(tagOf(outcome), "fine")
    assert.strictEqual(state.size, 1)
    assert.strictEqual(
      tagOf(
        Composition.checkAfter(
          state,
          new Map([
            ["B", template("${A}")],
            ["A", null]
          ])
        )
      ),
      "TEMPLATE_REFERENCE_MISSING"
    )
  })

  it("are blamed in the order of the request", () => {
    const state = stateOf({ BASE: "b", TOP: "t:${BASE}" })
    const missing = problem(
      Composition.checkAfter(
        state,
        new Map([
          ["PLAIN", Composition.literal("p")],
          ["OK", template("${BASE}")],
          ["Z", template("${BASE}${NO}")],
          ["A", template("${GONE}${NO}")]
        ]),
        fields
      )
    )
    assert(missing._tag === "TEMPLATE_REFERENCE_MISSING")
    assert.deepStrictEqual(missing.references, ["GONE", "NO"])
    assert.strictEqual(missing.field, "secrets.Z.source")

    const cycle = problem(
      Composition.checkAfter(
        state,
        new Map([
          ["OK", template("${TOP}")],
          ["BASE", template("${TOP}")]
        ]),
        fields
      )
    )
    assert(cycle._tag === "TEMPLATE_CYCLE")
    assert.deepStrictEqual(cycle.cycle, ["BASE", "TOP"])
    assert.strictEqual(cycle.field, "secrets.BASE.source")

    const self = problem(Composition.checkAfter(state, new Map([["SELF", template("${SELF}")]]), fields))
    assert(self._tag === "TEMPLATE_CYCLE")
    assert.deepStrictEqual(self.cycle, ["SELF"])
  })

  it("that make a base value too large for its dependents are blamed for it", () => {
    const state = stateOf({ BASE: "b", TOP: "t:${BASE}${BASE}", OTHER: "o" })
    const outcome = Composition.checkAfter(
      state,
      new Map([
        ["OTHER", Composition.literal("x".repeat(40_000))],
        ["BASE", Composition.literal("x".repeat(40_000))]
      ]),
      fields
    )
    assert.strictEqual(problem(outcome)._tag, "VALUE_TOO_LARGE")
    assert.strictEqual(problem(outcome).field, "secrets.BASE.source")
  })

  it("in the middle or at the end of a path that becomes too deep are blamed for it", () => {
    const steps = Object.fromEntries(
      Array.from({ length: 11 }, (_, i) => [`K${i}`, i === 5 || i === 10 ? "x" : `t:\${K${i + 1}}`])
    )
    for (const [key, used] of [
      ["K5", "K6"],
      ["K10", "OTHER"]
    ]) {
      const state = stateOf({ ...steps, K5: key === "K5" ? "x" : "t:${K6}", OTHER: "o", EXTRA: "t:${K0}" })
      const outcome = Composition.checkAfter(
        state,
        new Map([
          ["OTHER", Composition.literal("p")],
          [key, template(`\${${used}}`)]
        ]),
        fields
      )
      assert.strictEqual(problem(outcome)._tag, "TEMPLATE_TOO_DEEP")
      assert.strictEqual(problem(outcome).field, key === "K5" ? "secrets.K5.source" : "secrets.OTHER.source")
    }
  })

  it("are not blamed for a path that is as long as it may be, beside one that is too long", () => {
    const path = (name: string, references: number) =>
      Array.from({ length: references + 1 }, (_, i): [string, Composition.Entry] => [
        `${name}${i}`,
        i === references ? Composition.literal("x") : template(`\${${name}${i + 1}}`)
      ])
    const changes = new Map([...path("FITS", 10), ...path("DEEP", 11)])
    const deep = problem(Composition.checkAfter(new Map(), changes, fields))
    assert.strictEqual(deep._tag, "TEMPLATE_TOO_DEEP")
    assert.strictEqual(deep.field, "secrets.DEEP0.source")
  })

  it("that are in no member of the request leave the blame to the next", () => {
    const changes = new Map([
      ["A", template("${GONE}")],
      ["B", template("${GONE}")]
    ])
    const outcome = Composition.checkAfter(new Map(), changes, (key) => (key === "A" ? undefined : fields(key)))
    assert.strictEqual(problem(outcome).field, "secrets.B.source")
  })

  it("carry no field when nobody names one", () => {
    assert.strictEqual(problem(Composition.checkAfter(new Map(), new Map([["A", template("${B}")]]))).field, undefined)
  })

  it.prop(
    "give the state that check judges",
    [anyState, anyState, FastCheck.subarray(keyNames)],
    ([state, writes, deletes]) => {
      const changes: Composition.Changes = new Map<string, Composition.Entry | null>([
        ...writes,
        ...deletes.map((key) => [key, null] as const)
      ])
      const after = Composition.apply(state, changes)
      assert.strictEqual(tagOf(Composition.checkAfter(state, changes, fields)), tagOf(check(after)))
      for (const key of keyNames) {
        assert.strictEqual(after.get(key), deletes.includes(key) ? undefined : (writes.get(key) ?? state.get(key)))
      }
    },
    runs
  )
})

describe("dependents", () => {
  it("are direct or transitive, sorted, and not the key itself", () => {
    const state = stateOf({ A: "a", C: "t:${A}", B: "t:${A}${A}", D: "t:${C}", E: "t:x", F: "$${A}${A}" })
    assert.deepStrictEqual(Composition.dependents(state, "A"), ["B", "C"])
    assert.deepStrictEqual(Composition.transitiveDependents(state, "A"), ["B", "C", "D"])
    assert.deepStrictEqual(Composition.dependentsOfAll(state, new Set(["A", "B", "C"])), ["D"])
    assert.deepStrictEqual(Composition.dependents(state, "D"), [])
  })

  it.prop(
    "are the keys from which the key can be reached",
    [soundState, FastCheck.constantFrom(...keyNames)],
    ([state, key]) => {
      const reach = [...state.keys()].filter((from) => naiveReaches(state, from, key)).sort()
      assert.deepStrictEqual(Composition.transitiveDependents(state, key), reach)
    },
    runs
  )
})

describe("flatten", () => {
  const flattened = (state: Composition.State, key: string) => Either.getOrThrow(Composition.flatten(state, key))

  it("puts the value where the reference was and keeps the others", () => {
    const state = stateOf({ A: "${X}", B: "t:<${A}|${C}|$${A}>", C: "t:${A}", D: "t:${C}" })
    assert.deepStrictEqual(flattened(state, "A"), [
      { key: "B", kind: "template", text: "<$${X}|${C}|$${A}>" },
      { key: "C", kind: "literal", text: "${X}" }
    ])
  })

  it("inlines the neighbour that could only be read as an escape", () => {
    const state = stateOf({ A: "$", B: "{C}", C: "c", T: "t:${A}${B}${C}" })
    assert.deepStrictEqual(flattened(state, "A"), [{ key: "T", kind: "template", text: "$${C}${C}" }])
  })

  it("falls back to the expanded text when the escaped source would be too long to write", () => {
    const state = stateOf({ A: "${".repeat(32_000), B: "b", T: "t:${A}${B}" })
    assert.deepStrictEqual(flattened(state, "A"), [{ key: "T", kind: "literal", text: "${".repeat(32_000) + "b" }])
  })

  it("keeps a source that is as long as one can be", () => {
    // The reference and the value that takes its place have four characters each.
    const rest = "x".repeat(65_528)
    const state = stateOf({ A: "1234", B: "b", T: `t:\${A}\${B}${rest}` })
    assert.deepStrictEqual(flattened(state, "A"), [{ key: "T", kind: "template", text: `1234\${B}${rest}` }])
  })

  it.prop(
    "leaves every other value as it was, and no reference to the key",
    [soundState, FastCheck.constantFrom(...keyNames)],
    ([state, key]) => {
      const before = values(state)
      const changes = new Map<string, Composition.Entry | null>([[key, null]])
      for (const { key: user, kind, text } of flattened(state, key)) {
        const entry = Either.getOrThrow(Composition.entry(kind, text))
        assert.strictEqual(kind === "literal", Composition.referencesOf(entry).length === 0)
        assert.notInclude(Composition.referencesOf(entry), key)
        changes.set(user, entry)
      }
      assert.deepStrictEqual([...changes.keys()].slice(1), Composition.dependents(state, key))
      const after = Composition.apply(state, changes)
      assert.strictEqual(tagOf(check(after)), "fine")
      const expected = new Map(before)
      expected.delete(key)
      assert.deepStrictEqual([...values(after)], [...expected])
    },
    runs
  )
})

describe("a renamed key", () => {
  it("is called by its new name in all that use it directly, and nowhere else", () => {
    const state = stateOf({ B: "t:${A}${C}$${A}${A}", A: "a", C: "t:x${A}", D: "t:${C}", E: "${A}" })
    assert.deepStrictEqual(Composition.rekeyed(state, "A", "NEW"), [
      { key: "B", text: "${NEW}${C}$${A}${NEW}" },
      { key: "C", text: "x${NEW}" }
    ])
    assert.deepStrictEqual(Composition.rekeyed(state, "D", "NEW"), [])
  })

  it("with a longer name may make a source longer than one can be", () => {
    // Four characters become eight; 65,536 are allowed.
    const fits = "x".repeat(65_528)
    const state = stateOf({ A: "a", B: `t:${fits}\${A}`, C: `t:${fits}x\${A}` })
    assert.deepStrictEqual(Composition.rekeyed(state, "A", "LONG5"), [
      { key: "B", text: `${fits}\${LONG5}` },
      { key: "C", text: undefined }
    ])
  })
})

describe("an entry", () => {
  it.prop("gives back the text it was made from", [anySource(keyNames)], ([source]) => {
    assert.strictEqual(Composition.sourceOf(Composition.literal(source)), source)
    const outcome = Composition.entry("template", source, "source")
    if (Either.isRight(outcome)) assert.strictEqual(Composition.sourceOf(outcome.right), source)
    else assert.strictEqual(outcome.left.field, "source")
  })
})

describe("the places of other values", () => {
  it("name what a composed value holds, also within what it holds", () => {
    const state = stateOf({
      USER: "app",
      NONE: "",
      PASS: "t:x${USER}y",
      URL: "t:pg://${USER}:${PASS}@${NONE}db",
      ALONE: "a"
    })
    const places = Either.getOrThrow(Composition.spans(state, ["URL", "ALONE"]))
    const url = Either.getOrThrow(Composition.resolve(state, ["URL"])).get("URL") ?? ""
    assert.deepStrictEqual([...places.keys()], ["URL"])
    const texts = (places.get("URL") ?? []).map(({ end, start }) => url.slice(start, end))
    assert.deepStrictEqual(texts, ["app", "xappy", "app"])
  })

  it.prop("hold exactly the values of keys that are used", [anyState], ([state]) => {
    const resolved = Composition.resolve(state)
    if (Either.isLeft(resolved)) return
    for (const [key, places] of Either.getOrThrow(Composition.spans(state, [...state.keys()]))) {
      const text = resolved.right.get(key) ?? ""
      const others = new Set([...resolved.right].filter(([other]) => other !== key).map(([, value]) => value))
      for (const { end, start } of places) assert.isTrue(others.has(text.slice(start, end)), key)
    }
  })
})

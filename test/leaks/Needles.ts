/** Thousands of texts that must not turn up, each in every form in which a careless program could have written it down. */

const hexOf = (bytes: Buffer) => bytes.toString("hex")
const base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
const base32Of = (bytes: Buffer) => {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("")
  return (bits.match(/.{5}/g) ?? []).map((five) => base32[Number.parseInt(five, 2)]).join("")
}
const swapped = (bytes: Buffer) => Buffer.from(bytes).swap16()

/** Each form of a text, without the characters at its ends that depend on the neighbours. */
export const forms = (text: string): ReadonlyArray<readonly [form: string, bytes: Buffer]> => {
  const bytes = Buffer.from(text)
  const wide = Buffer.from(text, "utf16le")
  const base64 = [0, 1, 2].map((shift) =>
    Buffer.concat([Buffer.alloc(shift), bytes])
      .toString("base64")
      .slice(shift === 0 ? 0 : 4, -4)
  )
  const named = (name: string, one: string) => [name, Buffer.from(one)] as const
  return [
    ["as it is", bytes],
    named("reversed", [...text].reverse().join("")),
    named("in capitals", text.toUpperCase()),
    ["UTF-16", wide],
    ["UTF-16, the other way", swapped(wide)],
    named("hex", hexOf(bytes)),
    named("hex in capitals", hexOf(bytes).toUpperCase()),
    ["hex in UTF-16", Buffer.from(hexOf(bytes), "utf16le")],
    named(
      "percent",
      hexOf(bytes).replaceAll(/../g, (byte) => `%${byte}`)
    ),
    named(
      "escaped",
      hexOf(bytes).replaceAll(/../g, (byte) => `\\x${byte}`)
    ),
    named(
      "escaped by code point",
      hexOf(bytes).replaceAll(/../g, (byte) => `\\u00${byte}`)
    ),
    named("numbers", [...bytes].join(",")),
    named("numbers in lines", [...bytes].join(", ")),
    named("base32", base32Of(bytes)),
    ...base64.map((one, shift) => named(`base64 from byte ${shift}`, one)),
    ...base64.map((one, shift) =>
      named(`base64 for addresses from byte ${shift}`, one.replaceAll("+", "-").replaceAll("/", "_"))
    )
  ]
}

/** So much of each form is looked for: what was cut off is found as well. */
const width = 16
const bits = 24

interface Needle {
  readonly name: string
  readonly form: string
  readonly bytes: Buffer
}
interface Found {
  readonly name: string
  readonly form: string
}

const hash = (bytes: Uint8Array, at: number) => {
  const low = bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24)
  const high = bytes[at + 4] | (bytes[at + 5] << 8) | (bytes[at + 6] << 16) | (bytes[at + 7] << 24)
  const mixed = Math.imul(low, 0x9e3779b1) ^ Math.imul(high, 0x85ebca6b)
  return (mixed ^ (mixed >>> 15)) >>> (32 - bits)
}

/** Finds all of them in one pass: by eight bytes of each, then by the whole. */
export const make = (texts: Readonly<Record<string, string>>) => {
  const marks = new Uint8Array(2 ** bits)
  const byHash = new Map<number, Array<Needle>>()
  for (const [name, text] of Object.entries(texts)) {
    for (const [form, all] of forms(text)) {
      if (all.length < width) throw new Error(`${name}, ${form}: too short to be looked for`)
      const needle = { name, form, bytes: all.subarray(0, width) }
      const key = hash(needle.bytes, width - 8)
      marks[key] = 1
      byHash.set(key, [...(byHash.get(key) ?? []), needle])
    }
  }
  /** Needles of a text, each once. */
  const findIn = (bytes: Buffer): ReadonlyArray<Found> => {
    const hits = new Map<string, Found>()
    for (let end = width; end <= bytes.length; end++) {
      const key = hash(bytes, end - 8)
      if (marks[key] === 0) continue
      for (const { bytes: wanted, form, name } of byHash.get(key) ?? []) {
        if (bytes.compare(wanted, 0, width, end - width, end) === 0) hits.set(`${name}, ${form}`, { name, form })
      }
    }
    return [...hits.values()]
  }
  return { findIn }
}
export type Needles = ReturnType<typeof make>

/**
 * Masks known texts in a byte stream, also across chunks (docs/security.md, "Lessons from others"). It searches for all
 * texts at once (Aho-Corasick), in what a reader sees: colours and other unseen bytes do not part a text. Only bytes that
 * may still become a match are held back.
 */
import { Buffer } from "node:buffer"
import { encodedForms, piecesOf, plainForms, shortestMasked } from "./Needles.ts"
import * as VisibleBytes from "./VisibleBytes.ts"

const mask = Buffer.from("[redacted]")
/** Limit of the tables below, which take about 21 bytes for each byte of text. */
const maximumBytes = 4 * 1024 * 1024

export interface Redactor {
  /** Returns the part of the stream that may be shown. */
  readonly push: (chunk: Uint8Array) => Uint8Array
  /** Ends the stream, and returns the bytes that were held back. */
  readonly flush: () => Uint8Array
}

export interface Masks {
  /** A new one for each stream. */
  readonly redactor: () => Redactor
  /** Keys whose values are too short to mask. */
  readonly unmasked: ReadonlyArray<string>
  /** Keys whose values are so long that only their plain text is masked. */
  readonly plainOnly: ReadonlyArray<string>
}

/** All texts as one automaton: a trie of numbered nodes, with the node to continue from when a byte does not match. */
interface Automaton {
  /** Node after this byte. */
  readonly step: (node: number, byte: number) => number
  /** Number of bytes that led to this node and may still become a match. */
  readonly depth: Int32Array
  /** Length of the longest text that ends in this node; 0 = none. */
  readonly matched: Int32Array
}

interface Trie {
  /** First child of a node; its siblings follow. 0 = none, since the root is never a child. */
  readonly child: Int32Array
  readonly sibling: Int32Array
  readonly byteOf: Uint8Array
  readonly depth: Int32Array
  readonly matched: Int32Array
  readonly nodes: number
}

const childOf = ({ byteOf, child, sibling }: Trie, node: number, byte: number): number => {
  let at = child[node]!
  while (at !== 0 && byteOf[at] !== byte) at = sibling[at]!
  return at
}

const buildTrie = (needles: ReadonlyArray<Uint8Array>, total: number): Trie => {
  const trie = {
    child: new Int32Array(total + 1),
    sibling: new Int32Array(total + 1),
    byteOf: new Uint8Array(total + 1),
    depth: new Int32Array(total + 1),
    matched: new Int32Array(total + 1),
    nodes: 1
  }
  for (const needle of needles) {
    let node = 0
    for (const byte of needle) {
      let to = childOf(trie, node, byte)
      if (to === 0) {
        to = trie.nodes++
        trie.byteOf[to] = byte
        trie.depth[to] = trie.depth[node]! + 1
        trie.sibling[to] = trie.child[node]!
        trie.child[node] = to
      }
      node = to
    }
    trie.matched[node] = needle.length
  }
  return trie
}

const buildAutomaton = (needles: ReadonlyArray<Uint8Array>, total: number): Automaton => {
  const trie = buildTrie(needles, total)
  const { byteOf, child, depth, matched, nodes, sibling } = trie
  /** Node of the longest proper suffix that is also a prefix of a needle. */
  const fallback = new Int32Array(total + 1)
  const step = (from: number, byte: number): number => {
    let node = from
    for (;;) {
      const to = childOf(trie, node, byte)
      if (to !== 0 || node === 0) return to
      node = fallback[node]!
    }
  }
  const queue = new Int32Array(nodes)
  let tail = 1
  for (let head = 0; head < tail; head++) {
    const node = queue[head]!
    for (let to = child[node]!; to !== 0; to = sibling[to]!) {
      queue[tail++] = to
      fallback[to] = node === 0 ? 0 : step(fallback[node]!, byteOf[to]!)
      if (matched[to] === 0) matched[to] = matched[fallback[to]!]!
    }
  }
  return { step, depth, matched }
}

const makeRedactor = ({ depth, matched, step }: Automaton): Redactor => {
  const reader = VisibleBytes.reader()
  let pending = Buffer.alloc(0)
  /** For each pending byte: 1 = part of a needle. */
  let hidden = new Uint8Array(0)
  /** Places in `pending` of the bytes that a reader sees, and the node after each. */
  let places: Array<number> = []
  let nodes: Array<number> = []
  /** The node before the first of `places`. */
  let before = 0
  /** The node after all bytes, seen or not: a terminal sequence may hold a value too. */
  let raw = 0
  /** True when the last released byte was masked: the mask is not repeated. */
  let masking = false

  const release = (until: number): Uint8Array => {
    const parts: Array<Uint8Array> = []
    for (let i = 0; i < until;) {
      const secret = hidden[i] === 1
      let end = i + 1
      while (end < until && (hidden[end] === 1) === secret) end++
      if (!secret) parts.push(pending.subarray(i, end))
      else if (!masking) parts.push(mask)
      masking = secret
      i = end
    }
    const released = Buffer.concat(parts)
    pending = Buffer.from(pending.subarray(until))
    hidden = hidden.slice(until)
    const gone = places.findIndex((place) => place >= until)
    const count = gone < 0 ? places.length : gone
    before = nodes[count - 1] ?? before
    places = places.slice(count).map((place) => place - until)
    nodes = nodes.slice(count)
    return released
  }
  const see = (place: number) => {
    const node = step(nodes.at(-1) ?? before, pending[place]!)
    places.push(place)
    nodes.push(node)
    const length = matched[node]!
    if (length > 0) hidden.fill(1, places[Math.max(0, places.length - length)], place + 1)
  }
  /** The character that was seen last is written over. */
  const back = () => {
    let place: number | undefined
    do {
      place = places.pop()
      nodes.pop()
    } while (place !== undefined && (pending[place]! & 0xc0) === 0x80)
  }
  const readByte = (place: number) => {
    raw = step(raw, pending[place]!)
    const length = matched[raw]!
    if (length > 0) hidden.fill(1, place + 1 - length, place + 1)
    reader.read(pending[place]!, place, see, back)
  }
  /** First byte that may still be part of a match. */
  const firstUndecided = (): number => {
    const open = depth[nodes.at(-1) ?? before]!
    const first = open === 0 ? pending.length : (places[places.length - open] ?? 0)
    return Math.min(first, pending.length - depth[raw]!, reader.undecidedFrom(pending.length))
  }
  return {
    push: (chunk) => {
      const from = pending.length
      pending = Buffer.concat([pending, chunk])
      const marks = new Uint8Array(pending.length)
      marks.set(hidden)
      hidden = marks
      for (let i = from; i < pending.length; i++) readByte(i)
      const until = firstUndecided()
      reader.shift(until)
      return release(until)
    },
    flush: () => {
      reader.end(see)
      const rest = release(pending.length)
      before = 0
      raw = 0
      return rest
    }
  }
}

/** Needles by their bytes, each once. */
const collection = () => {
  const needles = new Map<string, Buffer>()
  const add = (texts: ReadonlyArray<string>): number => {
    let size = 0
    for (const text of texts) {
      for (const bytes of [Buffer.from(text), VisibleBytes.of(Buffer.from(text))]) {
        const name = bytes.toString("latin1")
        if (bytes.length < shortestMasked || needles.has(name)) continue
        needles.set(name, bytes)
        size += bytes.length
      }
    }
    return size
  }
  return { needles, add }
}

/** Bytes of all encoded forms of a text, at most, for each byte of it. */
const formBytes = 20

/** `others`: texts without a key that are masked too, such as the values that a composed one holds. */
export const masks = (
  values: Readonly<Record<string, string>>,
  others: ReadonlyArray<string> = []
): Masks | "too much" => {
  const byKey = Object.entries(values).map(([key, value]) => ({ key: [key], value, pieces: piecesOf(value) }))
  const all = [...byKey, ...others.map((value) => ({ key: [], value, pieces: piecesOf(value) }))]
  const { add, needles } = collection()
  let total = 0
  for (const { pieces } of all) total += add(pieces.flatMap(plainForms))
  if (total > maximumBytes) return "too much"
  const plainOnly: Array<string> = []
  // Short values first: so as many keys as possible are masked in every form.
  for (const { key, pieces, value } of all.toSorted((a, b) => a.value.length - b.value.length)) {
    if (pieces.length === 0) continue
    const texts = [value, ...pieces]
    const size = formBytes * texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
    if (total + size > maximumBytes) plainOnly.push(...key)
    else total += add(texts.flatMap(encodedForms))
  }
  const automaton = buildAutomaton([...needles.values()], total)
  const unmasked = byKey.flatMap(({ key, pieces, value }) => (value !== "" && pieces.length === 0 ? key : []))
  return { redactor: () => makeRedactor(automaton), unmasked, plainOnly }
}

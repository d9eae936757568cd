/**
 * Masks known texts in a byte stream, also across chunks (docs/security.md, "Lessons from others"). It searches for all
 * texts at once (Aho-Corasick). Only bytes that may still become a match are held back.
 */
import { Buffer } from "node:buffer"

const mask = Buffer.from("[redacted]")
/** Characters. Shorter texts occur in ordinary output by chance: masking them would hide much and protect nothing. */
export const shortestMasked = 4
/** Limit of the tables below, which take about 21 bytes for each byte of text. */
const maximumBytes = 4 * 1024 * 1024

/** Each line separately, since output is read line by line, also in JSON's and a URL's encoding. */
const piecesOf = (value: string): ReadonlyArray<string> =>
  value
    .split(/\r\n|\n|\r/)
    .map((line) => line.trim())
    .filter((line) => [...line].length >= shortestMasked)
    .flatMap((line) => [line, JSON.stringify(line).slice(1, -1), encodeURIComponent(line.toWellFormed())])

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
  let state = 0
  let pending = Buffer.alloc(0)
  /** For each pending byte: 1 = part of a needle. */
  let hidden = new Uint8Array(0)
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
    return released
  }
  return {
    push: (chunk) => {
      const from = pending.length
      pending = Buffer.concat([pending, chunk])
      const marks = new Uint8Array(pending.length)
      marks.set(hidden)
      hidden = marks
      for (let i = from; i < pending.length; i++) {
        state = step(state, pending[i]!)
        const length = matched[state]!
        if (length > 0) hidden.fill(1, i + 1 - length, i + 1)
      }
      return release(pending.length - depth[state]!)
    },
    flush: () => {
      state = 0
      return release(pending.length)
    }
  }
}

export const masks = (values: Readonly<Record<string, string>>): Masks | "too much" => {
  const needles = [...new Set(Object.values(values).flatMap(piecesOf))].map((text) => Buffer.from(text))
  const total = needles.reduce((sum, needle) => sum + needle.length, 0)
  if (total > maximumBytes) return "too much"
  const unmasked = Object.keys(values).filter((key) => {
    const value = values[key] ?? ""
    return value !== "" && piecesOf(value).length === 0
  })
  const automaton = buildAutomaton(needles, total)
  return { redactor: () => makeRedactor(automaton), unmasked }
}

/**
 * Hash chains of audit entries, and hashes of their long lists of keys. Entries form streams: in each, a hash covers the
 * text of its entry and the hash before (docs/security.md, "Audit"). The server writes with this folder and the command
 * line verifies with it, so it imports neither.
 */
import { createHash } from "node:crypto"

/** The number and hash of a stream's last entry. Before the first one: number 0 and the genesis hash. */
export interface Head {
  readonly stream: string
  readonly seq: number
  /** 32 bytes. */
  readonly hash: Uint8Array
}

/** h_0 of a stream. It covers the stream's id, so an entry cannot be presented as another stream's first. */
export const genesis = (stream: string): Buffer =>
  createHash("sha256").update("ampoule audit v1").update(stream).digest()

/** h_i = SHA-256(h_{i-1} || body). The first part has a fixed length, so the concatenation is injective. */
export const chain = (previous: Uint8Array, body: string): Buffer =>
  createHash("sha256").update(previous).update(body).digest()

/** Whether a server wrote the entry with this hash. */
export type Proves = (hash: Uint8Array, mac: Uint8Array | null) => boolean

/**
 * Streams with MACs have ids of UUID version 8, and streams of earlier releases version 7. The vault's seal covers the
 * id, so one cannot pass for the other.
 */
const versionDigit = 14
export const withMacs = (id: string): string => `${id.slice(0, versionDigit)}8${id.slice(versionDigit + 1)}`
export const hasMacs = (stream: string): boolean => stream[versionDigit] === "8"

export const sameBytes = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0

/**
 * The text under the vault's MAC. `final` forbids entries after this head. Each field follows its length (4 bytes,
 * big-endian), so two heads never encode alike.
 */
export const sealText = (head: Head, final: boolean): Uint8Array => {
  const fields = [
    "ampoule audit seal v1",
    head.stream,
    String(head.seq),
    Buffer.from(head.hash).toString("hex"),
    final ? "final" : "open"
  ]
  return Buffer.concat(
    fields.flatMap((field) => {
      const length = Buffer.alloc(4)
      length.writeUInt32BE(Buffer.byteLength(field))
      return [length, Buffer.from(field)]
    })
  )
}

/**
 * Streams are sealed at this interval (ms), and as soon as this many entries are unsealed. A deletion before the seal
 * is not detected. During an outage of the vault nothing is sealed, so this applies to all entries since.
 */
export const anchorMillis = 10_000
export const anchorEntries = 1_000
/** The greatest age of an unsealed entry while the vault works: the interval above, and differences of clocks. */
export const graceMillis = 60_000
/**
 * The interval at which a process reports that it is alive, and the silence after which others close its streams (ms).
 */
export const heartbeatMillis = 60_000
export const deadAfterMillis = 300_000
/** The time that the service works without its vault (ms). */
export const outageMillis = 900_000
/** The longest time span of unsealed entries: an outage of the vault, followed by the end of the process. */
export const tailMillis = outageMillis + deadAfterMillis

// --- lists of keys ---

/** Most keys that an entry contains itself. */
const maxInline = 8

/** A cache by array: recorded arrays never change, and a snapshot returns the same array for every read. */
const cachedHashes = new WeakMap<ReadonlyArray<string>, string>()

/** SHA-256 of a label and of the list as JSON, in hexadecimal. */
const hashOf = (keys: ReadonlyArray<string>): string => {
  const cached = cachedHashes.get(keys)
  if (cached !== undefined) return cached
  const hash = createHash("sha256").update("ampoule audit keys v1").update(JSON.stringify(keys)).digest("hex")
  cachedHashes.set(keys, hash)
  return hash
}

/** Whether the entry names this list. */
export const isList = (keys: ReadonlyArray<string>, name: string): boolean => hashOf(keys) === name

/**
 * The hash by which an entry names a long list, which is stored once: a read of 4,000 secrets takes as little space in
 * the trail as one of 10. Undefined: the entry contains the keys itself.
 */
export const hashIfLong = (keys: ReadonlyArray<string> = []): string | undefined =>
  keys.length > maxInline ? hashOf(keys) : undefined

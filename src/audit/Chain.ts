/**
 * A leaf folder: the server writes and the command line verifies with it; it imports nothing of either.
 *
 * Entries form streams. Within one, each hash covers the text of its entry and the hash before (docs/security.md, "Audit").
 */
import { createHash, createHmac, type KeyObject, timingSafeEqual } from "node:crypto"

/** Where a stream stands: its last entry's number and hash; number 0 and the genesis hash before the first. */
export interface Head {
  readonly stream: string
  readonly seq: number
  /** 32 bytes. */
  readonly hash: Uint8Array
}

/** h_0 of a stream; no entry can be relabelled as another stream's first. */
export const genesis = (stream: string): Buffer =>
  createHash("sha256").update("ampoule audit v1").update(stream).digest()

/** h_i = SHA-256(h_{i-1} || body): both ends are known lengths or the rest, so the join is injective. */
export const chain = (previous: Uint8Array, body: string): Buffer =>
  createHash("sha256").update(previous).update(body).digest()

/**
 * The last entry of each statement carries a MAC of its hash, which covers the whole stream up to it, under a key that
 * servers have and a writer of the database has not. So nobody else can put an entry at the end of a stream. The MAC is
 * a column of the database: whoever has no key can do without it.
 */
export const entryMac = (key: KeyObject, hash: Uint8Array): Buffer =>
  createHmac("sha256", key).update("ampoule audit entry v1").update(hash).digest()

/** Whether a server wrote the entry with this hash. */
export type Proves = (hash: Uint8Array, mac: Uint8Array | null) => boolean

export const proves =
  (key: KeyObject): Proves =>
  (hash, mac) =>
    mac?.length === 32 && timingSafeEqual(mac, entryMac(key, hash))

/**
 * Streams whose ends carry MACs have UUIDs of version 8 for ids. Streams of releases before have version 7; nobody can
 * pass one for the other, since the vault's seal covers the id.
 */
const version = 14
export const withMacs = (id: string): string => `${id.slice(0, version)}8${id.slice(version + 1)}`
export const hasMacs = (stream: string): boolean => stream[version] === "8"

export const sameBytes = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0

/**
 * What the vault's MAC covers. `final`: nothing may follow this head. Fields are preceded by their length (4 bytes,
 * big-endian), so no two heads encode alike.
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
 * A stream is sealed every so many milliseconds, and as soon as so many entries have come since: what is cut off there
 * before its seal is not noticed. While the vault is away nothing can be sealed, so that this is everything since then.
 */
export const anchorMillis = 10_000
export const anchorEntries = 1_000
/**
 * How old an entry may be that no seal covers yet, in a trail that is being sealed: the anchor, and clocks that differ.
 */
export const graceMillis = 60_000
/** How often a process says that it runs, and when others take one that does not for dead and close its streams. */
export const heartbeatMillis = 60_000
export const deadAfterMillis = 300_000
/** How long the service goes on without its vault. */
export const outageMillis = 900_000
/** The time that entries under no seal can span: the vault was away as long as it may be, then their process ended. */
export const tailMillis = outageMillis + deadAfterMillis

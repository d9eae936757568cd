/** Trails made up for tests: streams of entries, linked and numbered as the service does it. */
import * as FastCheck from "effect/FastCheck"
import { chain, genesis } from "#src/audit/Chain.ts"
import type { Link } from "#src/audit/Verify.ts"

const uuid = (n: number) => `01980a5c-0001-7000-8000-${String(n).padStart(12, "0")}`

export const at = Date.parse("2026-11-21T08:00:00.000Z")

/** `texts`: what each entry says, one stream. */
export const linked = (stream: string, texts: ReadonlyArray<string>): ReadonlyArray<Link> => {
  let hash: Uint8Array = genesis(stream)
  return texts.map((text, i) => {
    const seq = i + 1
    const body = JSON.stringify({
      action: "secret.inject",
      actor: { id: text, name: text, type: "user" },
      at: new Date(at + i * 1_000).toISOString(),
      id: uuid(i),
      keys: [text],
      seq,
      stream
    })
    hash = chain(hash, body)
    return { stream, seq, hash, body }
  })
}

const text = FastCheck.string({ maxLength: 12 })

/** One to four streams of two to twenty entries each. */
export const trails = FastCheck.array(FastCheck.array(text, { minLength: 2, maxLength: 20 }), {
  minLength: 1,
  maxLength: 4
}).map((all) => all.map((texts, i) => linked(uuid(i), texts)))

export const lastOf = (links: ReadonlyArray<Link>): Link => links[links.length - 1]

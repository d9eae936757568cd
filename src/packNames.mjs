// @ts-check
/**
 * Packs the names of `src/formats/DangerousNameLists.ts` for the client library, which is bundled into functions at the
 * edge: sorted, each one as a letter for the length that it shares with the one before, and its rest. Reasons are left
 * out, since the library names the variables alone.
 */
import { build } from "esbuild"

const letters = "abcdefghijklmnopqrstuvwxyz"

/** @param {ReadonlyArray<string>} names upper-case words */
const packed = (names) => {
  let before = ""
  const parts = [...names].sort().map((name) => {
    let shared = 0
    while (shared < 25 && shared < name.length && name[shared] === before[shared]) shared++
    before = name
    return `${letters[shared]}${name.slice(shared)}`
  })
  return parts.join("")
}

/** Inverse of `packed`, as it is bundled: names separated by blanks. */
const unpack = `const unpack = (text, last = "") =>
  text.replace(/([a-z])([A-Z0-9_]*)/g, (_, length, rest) => (last = last.slice(0, parseInt(length, 36) - 10) + rest) + " ")`

const words = (/** @type {string | undefined} */ text = "") => text.split(/\s+/).filter((word) => word !== "")

/** @type {import("esbuild").Plugin} */
export const packNames = {
  name: "pack names",
  setup: (plugin) => {
    plugin.onLoad({ filter: /[\\/]DangerousNameLists\.ts$/ }, async ({ path: file }) => {
      const { outputFiles } = await build({ entryPoints: [file], bundle: true, write: false, format: "esm" })
      const text = Buffer.from(outputFiles[0]?.contents ?? "").toString("base64")
      /** @type {typeof import("./formats/DangerousNameLists.ts")} */
      const { groups, harmless } = await import(`data:text/javascript;base64,${text}`)
      const of = (/** @type {"names" | "prefixes" | "suffixes"} */ member) =>
        groups.flatMap((group) => words(group[member]))
      const group = [`names: /* @__PURE__ */ unpack("${packed(of("names"))}")`]
      for (const member of /** @type {const} */ (["prefixes", "suffixes"]))
        group.push(`${member}: "${of(member).join(" ")}"`)
      const contents = `${unpack}
        export const groups = [{ reason: "", ${group.join(", ")} }]
        export const harmless = /* @__PURE__ */ unpack("${packed(words(harmless))}")`
      return { contents, loader: "js" }
    })
  }
}

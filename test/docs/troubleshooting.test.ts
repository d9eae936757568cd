/** Messages that docs/troubleshooting.md quotes are those of the program. */
import { assert, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as path from "node:path"

const sources = ["src", "layers", "schema"]
  .flatMap((folder) =>
    fs.readdirSync(folder, { recursive: true, encoding: "utf8" }).map((name) => path.join(folder, name))
  )
  .filter((file) => /\.tsx?$/.test(file))
  .map((file) => fs.readFileSync(file, "utf8"))

it("the page of symptoms quotes messages that the program has", () => {
  const page = fs.readFileSync("docs/troubleshooting.md", "utf8")
  // A message is a sentence with a capital in the first column; `…` is what differs each time.
  const messages = [...page.matchAll(/^\| `((?:[A-Z]\S*|…) [^`]{8,})` \|/gm)].map(([, message]) => message)
  assert.isAbove(messages.length, 12)
  const missing = messages.flatMap((message) =>
    message
      .split("…")
      .map((part) => part.trim())
      .filter((part) => part.length > 3 && !sources.some((source) => source.includes(part)))
      .map((part) => `${message}: "${part}"`)
  )
  assert.deepStrictEqual(missing, [])
})

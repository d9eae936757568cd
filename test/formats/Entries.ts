import type { Entry } from "#src/formats/Entry.ts"
import type { Format } from "#src/formats/FormatNames.ts"
import * as FastCheck from "effect/FastCheck"

/** Values in which everything that some format treats specially is common. */
export const value: FastCheck.Arbitrary<string> = FastCheck.string({
  unit: FastCheck.constantFrom(
    ..."'\"`\\$#{}=:;&|<>()[]*?!~%@-,\n\r\t \0".split(""),
    "'",
    "\\",
    "\n",
    "#",
    " #",
    "\\n",
    "\\'",
    "'\\''",
    "${A}",
    "$(id)",
    "B=",
    "\u2028",
    "\u0085",
    "\u00a0",
    "\ufeff",
    "\u007f",
    "é",
    "😀",
    "a",
    "0"
  ),
  maxLength: 12
})

const key: FastCheck.Arbitrary<string> = FastCheck.oneof(
  FastCheck.constantFrom("Y", "N", "NO", "YES", "ON", "OFF", "NULL", "TRUE", "FALSE", "E1", "INF"),
  FastCheck.stringMatching(/^[A-Z][A-Z0-9_]{0,6}$/)
)

export const entries = (values: FastCheck.Arbitrary<string>): FastCheck.Arbitrary<ReadonlyArray<Entry>> =>
  FastCheck.uniqueArray(FastCheck.record({ key, value: values }), { selector: (entry) => entry.key, maxLength: 6 })

/** Anything that looks a little like a file of the format. */
export const fileOf = (format: Format): FastCheck.Arbitrary<string> =>
  FastCheck.string({
    unit: FastCheck.constantFrom(
      ..."'\"`\\$#={}[]:,&*!|>-? \t\n\r\0".split(""),
      "A",
      "B=",
      "C: ",
      "\n",
      "\n",
      "export ",
      format === "json" ? '"K":' : "K=",
      format === "yaml" ? "\n  - " : "'v'",
      "null",
      "1",
      "\ufeff"
    ),
    maxLength: 40
  })

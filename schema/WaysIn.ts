/** Ways in of a person, and the effect of a way out on each (docs/security.md, "Ways in"). */
import * as Schema from "effect/Schema"
import { Integer, openEnum } from "./Wire.ts"

export type WayEnding = "ended" | "out_of_use" | "closed" | "kept"

export const EndedWay = Schema.Struct({
  way: openEnum(
    "links",
    "password",
    "sessions",
    "tokens",
    "logins",
    "agents",
    "devices",
    "steps",
    "recoveryCodes",
    "passkeys",
    "app",
    "identities"
  ),
  ending: openEnum("ended", "out_of_use", "closed", "kept").annotations({
    description:
      "ended: for good. out_of_use: until the person confirms it after a reset link. closed: it opens this team no more until an owner confirms it. kept: it goes on."
  }),
  count: Integer.annotations({ description: "Number of changed items, where they are counted." })
}).annotations({ identifier: "EndedWay", description: "One kind of what lets a person in, and what happened to it." })
export type EndedWay = typeof EndedWay.Type

export const EndedWays = Schema.Array(EndedWay).annotations({
  description: "Every kind of what lets a person in, by name."
})

import * as Schema from "effect/Schema"
import { SecondPersonRequestIdOut } from "./Ids.ts"
import { answers } from "./Wire.ts"

/** Response of an action that waits. */
export const WaitsForSecondPerson = answers(
  202,
  Schema.Struct({ requestId: SecondPersonRequestIdOut }).annotations({
    identifier: "WaitsForSecondPerson",
    description: "The team requires a second person for this: another owner or admin decides about the request."
  })
)

export const waitsExample = { requestId: "01980a5e-9f00-7a10-8b21-3c4d5e6f7082" }

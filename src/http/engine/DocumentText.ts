/** The text of an OpenAPI document: only a server knows the address that goes into it. */
import type { JsonObject } from "#schema/OpenApiComponents.ts"

/** What comes before the addresses of the server, and what comes after them. */
export interface DocumentText {
  readonly head: string
  readonly tail: string
}

export interface DocumentTexts {
  readonly contract: DocumentText
  readonly dashboard: DocumentText
}

export const textOf = ({ info, openapi, ...rest }: JsonObject): DocumentText => ({
  head: JSON.stringify({ openapi, info }).slice(0, -1),
  tail: JSON.stringify(rest).slice(1)
})

/** As a server of this address publishes it. */
export const at = (baseUrl: string, { head, tail }: DocumentText): string =>
  `${head},"servers":${JSON.stringify([{ url: baseUrl }])},${tail}`

/** JSON has no line breaks of its own. */
export const pack = ({ contract, dashboard }: DocumentTexts): string =>
  [contract.head, contract.tail, dashboard.head, dashboard.tail].join("\n")

export const unpack = (packed: string): DocumentTexts => {
  const [contractHead = "", contractTail = "", dashboardHead = "", dashboardTail = ""] = packed.split("\n")
  return {
    contract: { head: contractHead, tail: contractTail },
    dashboard: { head: dashboardHead, tail: dashboardTail }
  }
}

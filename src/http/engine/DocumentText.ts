/** Text of an OpenAPI document, split where the server's address belongs: only a running server knows it. */
import type { JsonObject } from "#schema/OpenApiComponents.ts"

/** The parts before and after the addresses of the server. */
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

/** The document as a server with this address publishes it. */
export const at = (baseUrl: string, { head, tail }: DocumentText): string =>
  `${head},"servers":${JSON.stringify([{ url: baseUrl }])},"externalDocs":${JSON.stringify({ url: `${baseUrl}/docs/api` })},${tail}`

/**
 * Joins with line breaks, which `JSON.stringify` never writes.
 *
 * @public The build calls it (`src/bundle.mjs`).
 */
export const pack = ({ contract, dashboard }: DocumentTexts): string =>
  [contract.head, contract.tail, dashboard.head, dashboard.tail].join("\n")

export const unpack = (packed: string): DocumentTexts => {
  const [contractHead = "", contractTail = "", dashboardHead = "", dashboardTail = ""] = packed.split("\n")
  return {
    contract: { head: contractHead, tail: contractTail },
    dashboard: { head: dashboardHead, tail: dashboardTail }
  }
}

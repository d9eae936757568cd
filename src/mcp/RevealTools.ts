/** Tools that return values in plain text. */
import * as Effect from "effect/Effect"
import type { SecretReads } from "#src/secrets/SecretReads.ts"
import type { SealingKeys } from "#src/projects/SealingKeys.ts"
import { done, type Handlers } from "./Tool.ts"

export interface RevealToolNeeds {
  readonly reads: SecretReads
  readonly sealingKeys: SealingKeys
}

export const handlers = ({
  reads,
  sealingKeys
}: RevealToolNeeds): Pick<Handlers, "reveal_secret_value" | "resolve_environment" | "open_sealed_values"> => ({
  reveal_secret_value: ({ reason, ...query }) =>
    Effect.map(reads.value(query, reason), (answer) => {
      const { key, value, version } = answer.value()
      return done({ key, version, value })
    }),

  resolve_environment: (query) => Effect.map(reads.resolved(query), (values) => done({ values })),

  open_sealed_values: ({ entries, keyId, ...at }) =>
    Effect.map(sealingKeys.openIn(at, { entries, keyId }), ({ activeKey, values }) =>
      done({ values, ...(activeKey === undefined ? {} : { activeKey }) })
    )
})

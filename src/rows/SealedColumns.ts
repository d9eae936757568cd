/** Columns of authorization rows with a box under a service key: a rotation seals each again with its row. */
import type { ServiceKeyName } from "#src/crypto/KeyGenerations.ts"
import type { Place } from "#src/crypto/ServiceBox.ts"

interface SealedColumn {
  readonly key: ServiceKeyName
  /** Binds the box to its row and owner. */
  readonly placeOf: (row: { readonly id: string; readonly userId: string; readonly teamId: string }) => Place
}

export const sealedColumns = {
  totp_factors: {
    key: "second-factors",
    placeOf: ({ id, userId }: { readonly id: string; readonly userId: string }): Place => ({
      purpose: "totp secret",
      ids: [`${userId} ${id}`]
    })
  },
  sign_in_issuers: {
    key: "issuer-secrets",
    placeOf: ({ id, teamId }: { readonly id: string; readonly teamId: string }): Place => ({
      purpose: "issuer secret",
      ids: [teamId, id]
    })
  }
} as const satisfies Readonly<Record<string, SealedColumn>>

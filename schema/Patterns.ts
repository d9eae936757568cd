/** Patterns of names and ids, for programs that do not load the schema library. */

export const environmentSlug = /^[a-z0-9][a-z0-9-]*$/
export const longestSlug = 50

export const secretKey = /^[A-Z][A-Z0-9_]*$/
export const longestKey = 255

/** The contract's uuid pattern (docs/contract/secrets.md): versions 1 to 8, nil and max. */
export const uuid =
  /^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}|00000000-0000-0000-0000-000000000000|ffffffff-ffff-ffff-ffff-ffffffffffff)$/

export const commitOf: (root: string, given?: string) => string | undefined

/** Writes the bundled files into a folder. */
export const buildIslands: (folder: string) => Promise<ReadonlyArray<string>>

/** The bundled files as text, by name. */
export const bundled: () => Promise<ReadonlyMap<string, string>>
/** Writes them into a folder. */
export const buildIslands: (folder: string) => Promise<void>

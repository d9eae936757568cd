/** For its test: the compiler does not read a script of Node. */
export const files: ReadonlyArray<string>
export const named: (text: string) => ReadonlyArray<string>
export const pinned: (text: string, digests: ReadonlyMap<string, string>) => string
export const byDigest: (text: string, digest: string) => string
export const digestOf: (name: string, registry: string) => Promise<string>
export const digestsIn: (text: string) => ReadonlyMap<string, string>
export const moved: (present: ReadonlyMap<string, string>) => ReadonlyArray<string>
export const write: (folder: string, ours: string | undefined) => void
export const pack: (file: string, folder: string) => void

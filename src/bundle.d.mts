import type { BuildOptions, Metafile } from "esbuild"

export const bundle: (out: string, more: BuildOptions) => Promise<Metafile>

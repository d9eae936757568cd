import type { Plugin } from "esbuild"

export declare const packNames: Plugin

/** Messages between `Pglite.ts` and its thread. */

/**
 * Source of the database: a folder (created if it is missing), a dump (a file), or an empty one. The last two are in
 * memory.
 */
export type Origin = { readonly folder: string } | { readonly template: string } | { readonly empty: true }

export interface WorkerInput {
  readonly origin: Origin
  /** Int32 that counts fsync calls. */
  readonly fsyncCounter?: SharedArrayBuffer
}

export type ToWorker =
  | { readonly type: "open" | "close"; readonly connection: number }
  | { readonly type: "bytes"; readonly connection: number; readonly bytes: Uint8Array }
  | { readonly type: "dump" | "stop" }

export type FromWorker =
  | { readonly type: "initializing" | "ready" }
  | { readonly type: "failed"; readonly sentence: string }
  | { readonly type: "opened" | "closed"; readonly connection: number }
  | { readonly type: "bytes"; readonly connection: number; readonly bytes: Uint8Array }
  | { readonly type: "broken" }
  | { readonly type: "dumped"; readonly bytes: Uint8Array }

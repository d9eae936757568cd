/**
 * For the processes that run tests: `fetch` of Node reads answers in WebAssembly, and V8 11.3 (Node 20) can end a process
 * that gives up optimised JavaScript with such a call inlined (`layers/Pglite.ts` says where it stops). It ended a CI run.
 */
export const safeWebAssembly = ["--no-turbo-inline-js-wasm-calls"]

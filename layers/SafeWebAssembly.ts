/**
 * For V8, of a process that runs WebAssembly: V8 11.3 (Node 20) can end the process when it gives up optimised JavaScript
 * that has a call of WebAssembly inlined ("unreachable code", in Deoptimizer::TranslatedValueForWasmReturnKind). It ended a
 * process of tests, whose `fetch` reads answers in WebAssembly.
 */
export const safeWebAssembly = "--no-turbo-inline-js-wasm-calls"

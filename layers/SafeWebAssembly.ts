/**
 * Flag of V8 for processes that run WebAssembly. V8 11.3 (Node 20) can end the process when it deoptimises JavaScript
 * with an inlined call of WebAssembly ("unreachable code", in Deoptimizer::TranslatedValueForWasmReturnKind). It ended
 * a process of tests, whose `fetch` parses responses in WebAssembly.
 */
export const safeWebAssembly = "--no-turbo-inline-js-wasm-calls"

// @ts-check
/** `npm run test:clients [NAME…]`: generated clients (run.mjs), then programs with our own package (programs.mjs). */
await import("./run.mjs")
await import("./programs.mjs")

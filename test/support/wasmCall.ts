/**
 * A program: optimises a function of JavaScript that calls WebAssembly, and has V8 give the optimised code up during such
 * a call; V8 says on standard output what it does. With a folder as its argument it opens the embedded database first.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as v8 from "node:v8"
import * as Pglite from "#layers/Pglite.ts"

/** Imports `e.f: [] -> []`, exports `g: [] -> [i32]`, which calls it and answers 7. */
const module = new WebAssembly.Module(
  // prettier-ignore
  new Uint8Array([
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    1, 8, 2, 0x60, 0, 0, 0x60, 0, 1, 0x7f,
    2, 7, 1, 1, 0x65, 1, 0x66, 0, 0,
    3, 2, 1, 1,
    7, 5, 1, 1, 0x67, 0, 1,
    10, 8, 1, 6, 0, 0x10, 0, 0x41, 7, 0x0b
  ])
)

const giveUp = Effect.sync(() => {
  v8.setFlagsFromString("--allow-natives-syntax")
  v8.setFlagsFromString("--trace-deopt-verbose")
  // The names with `%` are V8's; a parser of TypeScript does not know them.
  const answer: unknown = new Function(
    "WebAssembly",
    "module",
    `let during = () => {};
    const { g } = new WebAssembly.Instance(module, { e: { f: () => during() } }).exports;
    const hot = () => { const n = g(); return [n]; };
    %PrepareFunctionForOptimization(hot);
    hot(); hot();
    %OptimizeFunctionOnNextCall(hot);
    hot();
    during = () => { %DeoptimizeFunction(hot); };
    return hot()[0];`
  )(WebAssembly, module)
  process.stdout.write(`answered ${String(answer)}\n`)
})

const folder = process.argv[2]
const program =
  folder === undefined
    ? giveUp
    : Effect.provide(
        Effect.flatMap(SqlClient.SqlClient, (sql) => Effect.zipRight(sql`SELECT 1`, giveUp)),
        Pglite.layerFolder(folder)
      )

void Effect.runPromise(Effect.provide(program, Logger.remove(Logger.defaultLogger)))

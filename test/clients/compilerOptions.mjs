// @ts-check
/** Options of a strict program that compiles against the package, without the types of its runtime. */
export const compilerOptions = {
  noEmit: true,
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  target: "ES2023",
  module: "NodeNext",
  lib: ["ES2023", "DOM", "DOM.Iterable"],
  types: []
}

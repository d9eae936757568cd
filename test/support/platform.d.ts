/**
 * Input of the platform is unknown until a schema has decoded it: these come before the
 * library's own overloads, which answer `any`.
 */
interface JSON {
  parse(text: string, reviver?: (this: unknown, key: string, value: unknown) => unknown): unknown
}
interface Body {
  json(): Promise<unknown>
}

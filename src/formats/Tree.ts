/** Contents of JSON and YAML, with the place of each part in the file. */

export type Node = { readonly at: number } & (
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "null" }
  | { readonly type: "array"; readonly items: ReadonlyArray<Node> }
  | { readonly type: "object"; readonly members: ReadonlyArray<Member> }
)
export type Member = readonly [key: string, at: number, value: Node]
export type ObjectNode = Extract<Node, { readonly type: "object" }>

export interface Broken {
  readonly at: number
  readonly reason: string
  readonly remedy?: "flatten"
}

/** Deeper than any export, shallow enough for the call stack. */
export const maxNesting = 32

export const isObject = (node: Node | undefined): node is ObjectNode => node?.type === "object"
export const textOf = (node: Node | undefined): string | undefined => (node?.type === "text" ? node.text : undefined)

/** The value of the member with this name, by name for each level. */
export const member = (node: Node | undefined, ...names: ReadonlyArray<string>): Node | undefined => {
  let inner = node
  for (const name of names) {
    inner = inner?.type === "object" ? inner.members.find(([other]) => other === name)?.[2] : undefined
  }
  return inner
}

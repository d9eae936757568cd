/** The files of deploy, as data. */
import { readdirSync, readFileSync } from "node:fs"
import { isSeq, parseAllDocuments, type YAMLMap, YAMLSeq } from "yaml"

/** Untyped on purpose: the tests look at the files as they are. */
// eslint-disable-next-line typescript/no-explicit-any
export type Document = any

/** Every document of a file; anything that YAML finds odd is a failure. */
export const yaml = (file: string): ReadonlyArray<Document> =>
  parseAllDocuments(readFileSync(file, "utf8"), {
    merge: true,
    // Of compose files: "instead of what the other file says".
    customTags: [
      {
        tag: "!override",
        collection: "seq",
        nodeClass: YAMLSeq,
        resolve: (value: YAMLSeq | YAMLMap) => (isSeq(value) ? value : undefined)
      }
    ]
  }).map((document) => {
    const problems = [...document.errors, ...document.warnings]
    if (problems.length > 0) throw new Error(`${file}: ${problems.map(String).join("; ")}`)
    return document.toJS()
  })

const kubernetes = "deploy/kubernetes"
export const manifests = (): ReadonlyArray<Document> =>
  readdirSync(kubernetes)
    .filter((name) => name.endsWith(".yaml") && name !== "kustomization.yaml")
    .flatMap((name) => yaml(`${kubernetes}/${name}`))

/** Sections of fenced code, by their language. */
export const fences = (file: string): ReadonlyArray<{ readonly language: string; readonly text: string }> =>
  [...readFileSync(file, "utf8").matchAll(/^```(\S*)\n(.*?)^```$/gms)].map(([, language, text]) => ({ language, text }))

const blockNamed = (name: string) => new RegExp(`^\`\`\`\\S+ ${name.replaceAll(".", "\\.")}\\n(.*?)^\`\`\`$`, "ms")

/** The block of a page that is marked with this name of a file. */
export const block = (page: string, name: string): string => {
  const text = blockNamed(name).exec(readFileSync(page, "utf8"))?.[1]
  if (text === undefined) throw new Error(`${page} has no ${name}`)
  return text
}

/** Pages of a folder. */
export const pagesIn = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder)
    .filter((name) => name.endsWith(".md"))
    .map((name) => `${folder}/${name}`)

/** The block with this name in the one recipe that has it. */
export const recipe = (name: string): string => {
  const [page, ...others] = pagesIn("docs/recipes").filter((file) => blockNamed(name).test(readFileSync(file, "utf8")))
  if (page === undefined || others.length > 0) throw new Error(`${name} is in ${others.length + 1} recipes`)
  return block(page, name)
}

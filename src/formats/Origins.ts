/**
 * Exports of other programs, recognised by their form: secret managers, Kubernetes, hosts, Terraform. A refusal names the
 * path of the key, never a value.
 */
import * as Either from "effect/Either"
import { type Broken, isObject, member, type Node, type ObjectNode, textOf } from "./Tree.ts"

interface TreeEntry {
  readonly key: string
  readonly value: string
  readonly at: number
  readonly note?: string
}
type Found = Either.Either<TreeEntry, Broken>
type Founds = ReadonlyArray<Found>

/** `divider`: names of nested values are joined with it. */
export interface TreeOptions {
  readonly flatten?: string
}

export interface Recognised {
  /** The program that prints this, where the form says so. */
  readonly origin: string | undefined
  readonly entries: Founds
  /** Names that the program adds by itself, and that are left out. */
  readonly leftOut: ReadonlyArray<string>
}

const broken = (at: number, reason: string, remedy?: "flatten"): Found =>
  Either.left({ at, reason, ...(remedy === undefined ? {} : { remedy }) })

/** For a message: a name is no value, but it can be long and hold anything. */
const nameIn = (path: string): string => path.replace(/[^\x20-\x7e]/g, "·").slice(0, 80)

const entryOf = (key: string, at: number, value: Node, path = key): Found => {
  if (value.type === "text") return Either.right({ key, value: value.text, at })
  if (value.type === "null") return broken(at, `the value of ${nameIn(path)} is null`)
  const what = value.type === "object" ? "an object" : "a list"
  return broken(at, `the value of ${nameIn(path)} is ${what}, and not text`, "flatten")
}

/** Entries of nested values, by names that are joined with `divider`; the items of a list have their number. */
const flattened = (key: string, at: number, value: Node, divider: string): Founds => {
  if (value.type === "object") {
    return value.members.flatMap(([name, offset, inner]) =>
      flattened(`${key}${divider}${name}`, offset, inner, divider)
    )
  }
  return value.type === "array"
    ? value.items.flatMap((inner, i) => flattened(`${key}${divider}${i}`, inner.at, inner, divider))
    : [entryOf(key, at, value)]
}

const flat = (node: ObjectNode, { flatten }: TreeOptions): Founds =>
  node.members.flatMap(([key, at, value]) =>
    flatten === undefined ? [entryOf(key, at, value)] : flattened(key, at, value, flatten)
  )

/** Of a path like `/app/production/db-url` or `projects/1/secrets/db-url/versions/2`. */
const lastOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1)

/** Members that name a secret and hold its value: Infisical's export and its API, then AWS and what is like it. */
const shapes = [
  ["key", "value"],
  ["secretKey", "secretValue"],
  ["Name", "Value"],
  ["name", "value"]
] as const
const comments = ["comment", "secretComment"] as const

const withNote = (found: Found, item: Node): Found => {
  const note = comments.map((name) => textOf(member(item, name))?.trim() ?? "").find((text) => text !== "")
  return note === undefined ? found : Either.map(found, (entry) => ({ ...entry, note }))
}

const entryOfItem = (item: Node): Found => {
  if (item.type !== "object") return broken(item.at, "the item is not an object")
  for (const [keyName, valueName] of shapes) {
    const [key, value] = [textOf(member(item, keyName)), member(item, valueName)]
    if (key === undefined || value === undefined) continue
    if (value.type === "null" && member(item, "attributes") !== undefined) {
      return broken(item.at, `${nameIn(key)} has no value here: \`az keyvault secret show\` prints one with it`)
    }
    return withNote(entryOf(keyName === "Name" ? lastOf(key) : key, item.at, value), item)
  }
  return broken(item.at, "the item has no key and value")
}

const base64Form = /^[A-Za-z0-9+/_-]*={0,2}$/

/** UTF-8 text of base64; undefined: other bytes. Without `Buffer`, since pages read files too. */
const decodedText = (encoded: string): string | undefined => {
  try {
    const bytes = Uint8Array.from(atob(encoded.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0))
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

const base64 = (key: string, at: number, value: Node): Found => {
  const encoded = textOf(value)?.replaceAll(/\s/g, "")
  if (encoded === undefined || !base64Form.test(encoded)) return broken(at, `the value of ${nameIn(key)} is not base64`)
  const decoded = decodedText(encoded)
  return decoded === undefined
    ? broken(at, `the value of ${nameIn(key)} is binary, and not UTF-8 text: encode it, and store it as base64`)
    : Either.right({ key, value: decoded, at })
}

// --- programs ---

type Reader = (node: ObjectNode, options: TreeOptions) => Omit<Recognised, "leftOut"> | undefined

const vault: Reader = (node, options) => {
  const data = member(node, "data")
  if (!isObject(data) || (member(node, "lease_id") ?? member(node, "request_id")) === undefined) return undefined
  // The second version of the engine keeps the entries a level down, beside their metadata.
  const inner = member(data, "data")
  const isSecond = isObject(inner) && isObject(member(data, "metadata"))
  return { origin: "vault kv get", entries: flat(isSecond ? inner : data, options) }
}

const manifest = (node: Node): Founds => {
  const kind = textOf(member(node, "kind")) ?? ""
  if (kind === "List" || kind.endsWith("List")) {
    const items = member(node, "items")
    return items?.type === "array" ? items.items.flatMap(manifest) : [broken(node.at, "the List has no items")]
  }
  if (kind !== "Secret" && kind !== "ConfigMap") {
    return [broken(node.at, "a manifest that is neither a Secret nor a ConfigMap: take it out")]
  }
  const [data, plain, binary] = [member(node, "data"), member(node, "stringData"), member(node, "binaryData")]
  const read = kind === "Secret" ? base64 : entryOf
  const texts = isObject(plain) ? plain.members : []
  const overridden = new Set(texts.map(([key]) => key))
  return [
    // As the API server has it: stringData goes over data.
    ...(isObject(data) ? data.members : [])
      .filter(([key]) => !overridden.has(key))
      .map(([key, at, value]) => read(key, at, value)),
    ...texts.map(([key, at, value]) => entryOf(key, at, value)),
    ...(isObject(binary) ? binary.members.map(([key, at, value]) => base64(key, at, value)) : [])
  ]
}

const isManifest = (node: Node): boolean =>
  member(node, "apiVersion") !== undefined &&
  /^(?:Secret|ConfigMap|List|SecretList|ConfigMapList)$/.test(textOf(member(node, "kind")) ?? "")

const kubernetes: Reader = (node) =>
  isManifest(node)
    ? {
        origin: textOf(member(node, "kind")) === "ConfigMap" ? "kubectl get configmap" : "kubectl get secret",
        entries: manifest(node)
      }
    : undefined

/** `aws secretsmanager get-secret-value`: the JSON object in its text, else its text under its own name. */
const secretsManager =
  (scan: (text: string) => Either.Either<Node, Broken>): Reader =>
  (node, options) => {
    const text = member(node, "SecretString")
    const name = textOf(member(node, "Name"))
    if (text === undefined || name === undefined) return undefined
    const inner = text.type === "text" ? scan(text.text) : Either.left(undefined)
    const moved = <A extends { readonly at: number }>(part: A): A => ({ ...part, at: text.at })
    return {
      origin: "aws secretsmanager",
      entries:
        Either.isRight(inner) && isObject(inner.right)
          ? flat(inner.right, options).map((found) => Either.mapBoth(found, { onLeft: moved, onRight: moved }))
          : [entryOf(lastOf(name), text.at, text)]
    }
  }

const parameters: Reader = (node) => {
  const many = member(node, "Parameters")
  if (many?.type === "array") return { origin: "aws ssm", entries: many.items.map(entryOfItem) }
  const one = member(node, "Parameter")
  return isObject(one) ? { origin: "aws ssm", entries: [entryOfItem(one)] } : undefined
}

const gcloud: Reader = (node) => {
  const payload = member(node, "payload", "data")
  const version = /^projects\/[^/]+\/secrets\/([^/]+)\//.exec(textOf(member(node, "name")) ?? "")
  return payload === undefined || version === null
    ? undefined
    : { origin: "gcloud secrets", entries: [base64(version[1] ?? "", payload.at, payload)] }
}

/** `az keyvault secret show`. */
const keyVault: Reader = (node) =>
  /\/secrets\/[^/]+/.test(textOf(member(node, "id")) ?? "") && textOf(member(node, "name")) !== undefined
    ? { origin: "az keyvault secret", entries: [entryOfItem(node)] }
    : undefined

/** Fields of an item of 1Password; one without a value (an empty note, a section's title) is no secret. */
const fieldsOf = (item: Node): Founds => {
  const fields = member(item, "fields")
  if (fields?.type !== "array") {
    return [broken(item.at, "the item has no fields: `op item get` prints them, and `op item list` does not")]
  }
  return fields.items.flatMap((field) => {
    const key = textOf(member(field, "label")) ?? textOf(member(field, "id"))
    const value = member(field, "value")
    return key === undefined || value === undefined ? [] : [entryOf(key, field.at, value)]
  })
}
const isOnePassword = (node: Node): boolean =>
  isObject(member(node, "vault")) && member(node, "category") !== undefined && member(node, "title") !== undefined
const onePassword: Reader = (node) =>
  isOnePassword(node) ? { origin: "op item get", entries: fieldsOf(node) } : undefined

/** Vercel's API: a value that is kept from readers, or that is still encrypted, is not in the answer. */
const vercelEntry = (item: Node): Found => {
  const key = textOf(member(item, "key"))
  const isHidden = textOf(member(item, "type")) === "sensitive" || textOf(member(item, "decrypted")) === "false"
  return key !== undefined && isHidden
    ? broken(
        item.at,
        `the value of ${nameIn(key)} is sensitive in Vercel or still encrypted: \`vercel env pull\` writes what can be read`
      )
    : entryOfItem(item)
}
const vercel: Reader = (node) => {
  const envs = member(node, "envs")
  return envs?.type === "array" ? { origin: "vercel env", entries: envs.items.map(vercelEntry) } : undefined
}

const isTerraformOutput = (node: Node): boolean =>
  isObject(node) && member(node, "value") !== undefined && member(node, "sensitive") !== undefined
const terraform: Reader = (node, { flatten }) =>
  node.members.length > 0 && node.members.every(([, , value]) => isTerraformOutput(value))
    ? {
        origin: "terraform output",
        entries: node.members.flatMap(([key, at, output]) => {
          const value = member(output, "value") ?? output
          return flatten === undefined ? [entryOf(key, at, value)] : flattened(key, at, value, flatten)
        })
      }
    : undefined

/** `doppler secrets --json`: as written where its references are to keys that come along, else as computed. */
const doppler: Reader = (node) => {
  const isDoppler = node.members.every(([, , value]) => member(value, "computed") !== undefined)
  if (node.members.length === 0 || !isDoppler) return undefined
  const keys = new Set(node.members.map(([key]) => key))
  const entries = node.members.map(([key, at, value]) => {
    const raw = textOf(member(value, "raw"))
    const references = raw?.match(/\$\{[^}]*\}?/g) ?? []
    const comesAlong = references.every((reference) => keys.has(reference.slice(2, -1)))
    const chosen = raw !== undefined && comesAlong ? member(value, "raw") : member(value, "computed")
    if (chosen === undefined || chosen.type === "null") {
      return broken(at, `the value of ${nameIn(key)} is restricted in Doppler, and not in the export`)
    }
    const note = textOf(member(value, "note"))?.trim() ?? ""
    return Either.map(entryOf(key, at, chosen), (entry) => (note === "" ? entry : { ...entry, note }))
  })
  return { origin: "doppler secrets", entries }
}

/** Netlify's API: a value for each context. */
const netlifyEntry = (item: Node): Found => {
  const key = textOf(member(item, "key")) ?? ""
  const values = member(item, "values")
  const all = values?.type === "array" ? values.items : []
  const chosen = all.length === 1 ? all[0] : all.find((one) => textOf(member(one, "context")) === "all")
  const value = member(chosen, "value")
  return value === undefined
    ? broken(
        item.at,
        `${nameIn(key)} has values for several contexts: \`netlify env:list --context production --json\` prints those of one`
      )
    : entryOf(key, item.at, value)
}
const isNetlify = (item: Node): boolean =>
  member(item, "values")?.type === "array" && textOf(member(item, "key")) !== undefined

const fromArray = (items: ReadonlyArray<Node>): Omit<Recognised, "leftOut"> => {
  if (items.length > 0 && items.every(isNetlify)) return { origin: "netlify env", entries: items.map(netlifyEntry) }
  if (items.length > 0 && items.every(isOnePassword)) return { origin: "op item get", entries: items.flatMap(fieldsOf) }
  if (items.some((item) => textOf(member(item, "type")) === "sensitive" && member(item, "target") !== undefined)) {
    return { origin: "vercel env", entries: items.map(vercelEntry) }
  }
  return { origin: undefined, entries: items.map(entryOfItem) }
}

/** Names that `doppler secrets download` adds to say where the values are from. */
const dopplersOwn = ["DOPPLER_PROJECT", "DOPPLER_CONFIG", "DOPPLER_ENVIRONMENT"]

const withoutDopplersOwn = (found: Omit<Recognised, "leftOut">): Recognised => {
  const keys = new Set(found.entries.flatMap((entry) => (Either.isRight(entry) ? [entry.right.key] : [])))
  if (!dopplersOwn.every((key) => keys.has(key))) return { ...found, leftOut: [] }
  const entries = found.entries.filter((entry) => Either.isLeft(entry) || !dopplersOwn.includes(entry.right.key))
  return { origin: found.origin ?? "doppler secrets", entries, leftOut: dopplersOwn }
}

/** Which program printed it, and its entries. `scan` reads JSON that is a text within. */
export const recognise = (
  node: Node,
  options: TreeOptions,
  scan: (text: string) => Either.Either<Node, Broken>
): Recognised => {
  if (node.type === "array") return withoutDopplersOwn(fromArray(node.items))
  if (node.type !== "object") {
    return { origin: undefined, entries: [broken(node.at, "neither an object nor an array")], leftOut: [] }
  }
  const readers = [
    vault,
    kubernetes,
    secretsManager(scan),
    parameters,
    gcloud,
    keyVault,
    onePassword,
    vercel,
    doppler,
    terraform
  ]
  for (const read of readers) {
    const recognised = read(node, options)
    if (recognised !== undefined) return withoutDopplersOwn(recognised)
  }
  return withoutDopplersOwn({ origin: undefined, entries: flat(node, options) })
}

/** Manifests of several documents of YAML. */
export const areManifests = (nodes: ReadonlyArray<Node>): boolean => nodes.every(isManifest)
export const fromManifests = (nodes: ReadonlyArray<Node>): Recognised => ({
  origin: "kubectl get secret",
  entries: nodes.flatMap(manifest),
  leftOut: []
})

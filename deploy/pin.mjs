// @ts-check
/**
 * Names the images that this repository's files start from by their digests. `npm run release:check` writes the pinned
 * files into the release; they are looked up there, where the registries are reached, and never guessed. By hand:
 * `node deploy/pin.mjs FOLDER` writes `deploy/Dockerfile`, `docker-compose.yml` and the Kubernetes files there.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
export const files = ["deploy/Dockerfile", "docker-compose.yml"]
const line = /^(\s*(?:FROM|image:) +)([\w./-]+:[\w.-]+)(?=\s|$)/gm
/** The image that a release makes itself. */
const own = /^ampoule:/

/** Images that a file names by a tag. @param {string} text */
export const named = (text) =>
  [...text.matchAll(line)].map(([, , name = ""]) => name).filter((name) => name !== "" && !own.test(name))

/** The file with each of them by its digest too. @param {string} text @param {ReadonlyMap<string, string>} digests */
export const pinned = (text, digests) =>
  text.replaceAll(line, (all, before, name) => {
    const digest = digests.get(name)
    return digest === undefined ? all : `${before}${name}@${digest}`
  })

/** Where an image is: Docker's registry for a name without a host. @param {string} name */
const placeOf = (name) => {
  const [image = "", tag = ""] = name.split(/:(?=[^/:]+$)/)
  const [host = "", ...rest] = image.split("/")
  if (rest.length > 0 && /[.:]|^localhost$/.test(host))
    return { registry: `https://${host}`, image: rest.join("/"), tag }
  return { registry: "https://registry-1.docker.io", image: rest.length === 0 ? `library/${image}` : image, tag }
}
const manifests = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json"
].join(", ")

/**
 * What the registry says the tag is now (OCI distribution specification); for all platforms where it has several.
 * @param {string} name @param {string} [registry] another address of the registry
 */
export const digestOf = async (name, registry) => {
  const place = placeOf(name)
  const url = `${registry ?? place.registry}/v2/${place.image}/manifests/${place.tag}`
  const ask = (/** @type {Record<string, string>} */ headers) =>
    fetch(url, { method: "HEAD", headers: { accept: manifests, ...headers }, signal: AbortSignal.timeout(20_000) })
  let answer = await ask({})
  const challenge = answer.headers.get("www-authenticate") ?? ""
  if (answer.status === 401 && /^bearer /i.test(challenge)) {
    const given = Object.fromEntries([...challenge.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, value]) => [key, value]))
    const realm = new URL(given["realm"] ?? "")
    for (const key of ["service", "scope"]) if (given[key] !== undefined) realm.searchParams.set(key, given[key])
    const { access_token: access, token = access } = await (
      await fetch(realm, { signal: AbortSignal.timeout(20_000) })
    ).json()
    answer = await ask({ authorization: `Bearer ${token}` })
  }
  const digest = answer.headers.get("docker-content-digest") ?? ""
  if (!answer.ok || !/^sha256:[0-9a-f]{64}$/.test(digest))
    throw new Error(`${name}: the registry answered ${answer.status}`)
  return digest
}

/** @param {string} folder */
const into = (folder) => (/** @type {string} */ file, /** @type {string} */ text) => {
  fs.mkdirSync(path.dirname(path.join(folder, file)), { recursive: true })
  fs.writeFileSync(path.join(folder, file), text)
}
const read = (/** @type {string} */ file) => fs.readFileSync(path.join(root, file), "utf8")

/** Kubernetes takes a digest in the place of the tag. @param {string} text @param {string} digest */
export const byDigest = (text, digest) => text.replace(/^(\s+)newTag: .*$/m, `$1digest: ${digest}`)

/** The Kubernetes files, with our own image as it was made. @param {string} folder @param {string | undefined} ours */
export const writeOwn = (folder, ours) => {
  for (const name of fs.readdirSync(path.join(root, "deploy/kubernetes"))) {
    const file = `deploy/kubernetes/${name}`
    into(folder)(file, ours === undefined ? read(file) : byDigest(read(file), ours))
  }
}

/**
 * Writes the files of a release: images of others as the registries have them, our own as it was made.
 * @param {string} folder @param {string | undefined} ours digest of the release's own image
 */
export const write = async (folder, ours) => {
  const texts = new Map(files.map((file) => [file, read(file)]))
  /** @type {Map<string, string>} */
  const digests = new Map()
  for (const name of new Set([...texts.values()].flatMap(named))) digests.set(name, await digestOf(name))
  for (const [file, text] of texts) into(folder)(file, pinned(text, digests))
  writeOwn(folder, ours)
  return Object.fromEntries(digests)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const found = await write(path.resolve(process.argv[2] ?? "pinned"), process.argv[3])
  for (const [name, digest] of Object.entries(found)) process.stdout.write(`${name}@${digest}\n`)
}

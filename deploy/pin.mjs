// @ts-check
/**
 * Files to start a release, as a folder and as `ampoule-deploy.tar`: Compose, Kubernetes and systemd files with their
 * dependencies, and the Dockerfile: `node deploy/pin.mjs FOLDER [DIGEST OF OURS]`. Images are named by the digests of all
 * their platforms, in the repository too. `node deploy/pin.mjs --update` asks the registries for the present digest of
 * each tag and writes it into the repository's files; `npm run release:check` says which tags have moved.
 */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
/** Files with images of others. */
export const files = ["deploy/Dockerfile", "docker-compose.yml"]
/** Copied unchanged: the files that Compose mounts, the scripts for its secrets, and the units. */
const others = [
  "LICENSE",
  "deploy/Caddyfile",
  "deploy/compose.tls.yml",
  "deploy/grafana-dashboard.json",
  "deploy/make-secrets.sh",
  "deploy/make-vault-certificates.sh",
  "deploy/postgres-init.sh"
]
const folders = ["deploy/kubernetes", "deploy/systemd"]
const line = /^(\s*(?:FROM|image:) +)([\w./-]+:[\w.-]+)(?:@(sha256:[0-9a-f]{64}))?(?=\s|$)/gm
/** Image that a release builds. */
const own = /^ampoule:/

/** Images with a tag in a file. @param {string} text */
export const named = (text) =>
  [...text.matchAll(line)].map(([, , name = ""]) => name).filter((name) => name !== "" && !own.test(name))

/** Digests in a file, by image. @param {string} text */
export const digestsIn = (text) =>
  new Map([...text.matchAll(line)].flatMap(([, , name = "", digest]) => (digest === undefined ? [] : [[name, digest]])))

/** The file with these digests in place of its own. @param {string} text @param {ReadonlyMap<string, string>} digests */
export const pinned = (text, digests) =>
  text.replaceAll(line, (all, before, name) => {
    const digest = digests.get(name)
    return digest === undefined ? all : `${before}${name}@${digest}`
  })

/** Registry of an image: Docker's for a name without a host. @param {string} name */
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
 * Present digest of the tag at the registry (OCI distribution specification), of all its platforms.
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

const read = (/** @type {string} */ file) => fs.readFileSync(path.join(root, file), "utf8")

/** Kubernetes accepts a digest in place of the tag. @param {string} text @param {string} digest */
export const byDigest = (text, digest) => text.replace(/^(\s+)newTag: .*$/m, `$1digest: ${digest}`)

/** A release has no source to build: its image is loaded from a file. @param {string} text of the Compose file */
const loaded = (text) =>
  text
    .replace("docker compose up -d --build", "docker load --input ampoule-image.tar && docker compose up -d")
    .replace(
      /^( +)build:\n(?:\1 +.*\n)+/m,
      "$1# What `docker load` brought. From a registry of yours: its name by digest, and without the next line.\n$1pull_policy: never\n"
    )

/** Present digests of all images of others. @returns {Promise<ReadonlyMap<string, string>>} */
export const lookUp = async () => {
  /** @type {Map<string, string>} */
  const digests = new Map()
  for (const name of new Set(files.flatMap((file) => named(read(file))))) digests.set(name, await digestOf(name))
  return digests
}

/** Images whose tag has another digest by now. @param {ReadonlyMap<string, string>} present */
export const moved = (present) =>
  files.flatMap((file) =>
    [...digestsIn(read(file))].flatMap(([name, own]) => (present.get(name) === own ? [] : [name]))
  )

/**
 * Writes the files of a release.
 * @param {string} folder
 * @param {string | undefined} ours digest of the release's own image
 */
export const write = (folder, ours) => {
  const put = (/** @type {string} */ file, /** @type {string} */ text) => {
    const to = path.join(folder, file)
    fs.mkdirSync(path.dirname(to), { recursive: true })
    fs.writeFileSync(to, text)
    fs.chmodSync(to, fs.statSync(path.join(root, file)).mode & 0o755)
  }
  for (const file of files) put(file, loaded(read(file)))
  for (const file of others) put(file, read(file))
  for (const below of folders) {
    for (const name of fs.readdirSync(path.join(root, below))) {
      const file = `${below}/${name}`
      put(file, ours === undefined ? read(file) : byDigest(read(file), ours))
    }
  }
}

/** Reproducible: the same folder gives the same bytes. @param {string} file @param {string} folder */
export const pack = (file, folder) => {
  const still = ["--format=gnu", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]
  const names = fs.readdirSync(folder).sort()
  execFileSync("tar", ["-cf", file, ...still, "--mode=u=rwX,go=rX", "-C", folder, ...names])
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , first = "pinned", ours] = process.argv
  if (first === "--update") {
    const present = await lookUp()
    for (const file of files) fs.writeFileSync(path.join(root, file), pinned(read(file), present))
    for (const [name, digest] of present) process.stdout.write(`${name}@${digest}\n`)
  } else write(path.resolve(first), ours)
}

// @ts-check
/**
 * `npm run release:publish`: signs the files that `npm run release:check` made, and publishes them: the image and the
 * files to a registry of images, the package with npm. A version that the registries have with other bytes is refused
 * before anything is sent; a second run sends only what is missing. docs/releasing.md has the settings.
 */
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { provenance, statement, subjects } from "./provenance.mjs"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const out = path.join(root, ".artifacts/release")
const { name, version } = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"))

const fail = (/** @type {string} */ text) => {
  process.stderr.write(`${text}\n`)
  process.exit(1)
}
const say = (/** @type {string} */ text) => process.stdout.write(`${text}\n`)
const setting = (/** @type {string} */ key, /** @type {string} */ means) =>
  process.env[key] ?? fail(`Set ${key}: ${means} (docs/releasing.md).`) ?? ""

const image = setting("AMPOULE_RELEASE_IMAGE", "the image without a tag, as in registry.example.com/ampoule")
const key = setting("AMPOULE_RELEASE_KEY", "a key of cosign, as a file or as the address of a KMS")
const files = process.env["AMPOULE_RELEASE_FILES"] ?? `${image}-release`
const builder = process.env["AMPOULE_RELEASE_BUILDER"] ?? "urn:ampoule:builder:local"
const isTransparent = process.env["AMPOULE_RELEASE_TRANSPARENCY"] !== "off"
/** A registry of this machine has no certificate, and is for rehearsals. */
const isLocal = /^127\.0\.0\.1[:/]/.test(image)

/** @param {string} command @param {ReadonlyArray<string>} args */
const run = (command, args, cwd = out) => {
  const { error, status, stderr, stdout } = spawnSync(command, args, { cwd, encoding: "utf8", maxBuffer: 2 ** 28 })
  if (error !== undefined) fail(`${command} does not start: ${error.message}. docs/releasing.md lists the programs.`)
  return { ok: status === 0, stdout, stderr }
}
/** @param {string} command @param {ReadonlyArray<string>} args */
const must = (command, args, cwd = out) => {
  const { ok, stderr, stdout } = run(command, args, cwd)
  if (!ok) fail(`${command} ${args[0]} failed: ${stderr}${stdout}`)
  return stdout
}
const digestOf = (/** @type {string} */ algorithm, /** @type {string} */ file) =>
  createHash(algorithm).update(fs.readFileSync(path.join(out, file)))

// --- what is published, and from which commit ---

if (!fs.existsSync(path.join(out, "SHA256SUMS"))) fail("There is nothing to publish. Run npm run release:check first.")
must("sha256sum", ["--check", "--quiet", "SHA256SUMS"])
if (must("git", ["status", "--porcelain"], root) !== "") fail("Some changes are not committed.")
const tags = must("git", ["tag", "--points-at", "HEAD"], root).split("\n")
if (!tags.includes(`v${version}`)) fail(`The commit has no tag v${version}. Run git tag --sign v${version}.`)
const commit = must("git", ["rev-parse", "HEAD"], root).trim()
const made = JSON.parse(fs.readFileSync(path.join(out, "ampoule.cdx.json"), "utf8")).metadata.component
if (made.version !== version) fail(`The files are those of ${made.version}. Run npm run release:check again.`)
const said = must(path.join(out, "ampoule-linux-x64"), ["--version"]).trim()
if (said !== `${version} (${commit.slice(0, 12)})`)
  fail(`The files are those of ${said}. Run npm run release:check again.`)
if (!isLocal) {
  const [, section = ""] = fs.readFileSync(path.join(root, "CHANGELOG.md"), "utf8").split(`\n## ${version}\n`)
  if (section.trimStart().startsWith("Not released yet."))
    fail(`CHANGELOG.md says that ${version} is not released yet.`)
}

const digest = JSON.parse(must("tar", ["-xOf", "ampoule-image.tar", "index.json"])).manifests[0].digest
const tarball = `${name}-${version}.tgz`

// --- what the registries have already ---

const plain = isLocal ? ["--plain-http"] : []
const tls = (/** @type {string} */ side) => (isLocal ? [`--${side}tls-verify=false`] : [])

/** True when the registry has these bytes; false when it has none. @param {string} what @param {string | undefined} there @param {string} here */
const isPublished = (what, there, here) => {
  if (there === undefined || there === "") return false
  if (there !== here) fail(`${what} is published with other bytes: ${there}, and not ${here}. Nothing was sent.`)
  return true
}
/**
 * The output about a published version. Undefined: the registry answers that it has none. Any other failure stops, since
 * it could hide other bytes.
 * @param {string} command @param {ReadonlyArray<string>} args
 */
const lookUp = (command, args) => {
  const { ok, stderr, stdout } = run(command, args)
  if (ok) return stdout
  if (!/(?:manifest|name) unknown|\bnot found\b|\bE404\b/.test(stderr)) {
    fail(`${command} ${args[0]} gets no answer from the registry: ${stderr}Nothing was sent.`)
  }
  return undefined
}
const imageAt = lookUp("skopeo", ["inspect", ...tls(""), `docker://${image}:${version}`])
const hasImage = isPublished(
  `${image}:${version}`,
  imageAt === undefined ? undefined : JSON.parse(imageAt).Digest,
  digest
)
const filesAt = lookUp("oras", ["manifest", "fetch", ...plain, `${files}:${version}`])
/** @type {Array<{ digest: string, annotations?: Record<string, string> }>} */
const layers = filesAt === undefined ? [] : JSON.parse(filesAt).layers
const sums = layers.find(({ annotations }) => annotations?.["org.opencontainers.image.title"] === "SHA256SUMS")
const hasFiles = isPublished(
  `${files}:${version}`,
  filesAt === undefined ? undefined : (sums?.digest ?? "no checksums"),
  `sha256:${digestOf("sha256", "SHA256SUMS").digest("hex")}`
)
const packageAt = lookUp("npm", ["view", `${name}@${version}`, "dist.integrity"])
const integrity = `sha512-${digestOf("sha512", tarball).digest("base64")}`
const hasPackage = isPublished(`${name}@${version}`, packageAt?.trim(), integrity)

// --- signatures ---

const work = fs.mkdtempSync(path.join(tmpdir(), "ampoule-publish-"))
process.once("exit", () => fs.rmSync(work, { recursive: true, force: true }))
const put = (/** @type {string} */ file, /** @type {unknown} */ content) => {
  fs.writeFileSync(path.join(work, file), JSON.stringify(content))
  return path.join(work, file)
}
/** Without a transparency log cosign asks no service. */
const services = isTransparent
  ? []
  : [
      "--signing-config",
      put("signing.json", { mediaType: "application/vnd.dev.sigstore.signingconfig.v0.2+json" }),
      "--trusted-root",
      put("trusted.json", { mediaType: "application/vnd.dev.sigstore.trustedroot+json;version=0.1" })
    ]
/** @param {string} verb @param {ReadonlyArray<string>} args */
const cosign = (verb, args) => must("cosign", [verb, "--yes", "--key", key, ...services, ...args])

const bom = JSON.parse(fs.readFileSync(path.join(out, "ampoule.cdx.json"), "utf8"))
const predicates = [
  {
    type: "slsaprovenance1",
    uri: "https://slsa.dev/provenance/v1",
    file: "provenance",
    predicate: provenance(version, builder)
  },
  { type: "cyclonedx", uri: "https://cyclonedx.org/bom", file: "ampoule.cdx", predicate: bom }
]
if (!hasFiles) {
  fs.writeFileSync(path.join(out, "ampoule.pub"), must("cosign", ["public-key", "--key", key]))
  cosign("sign-blob", ["--bundle", "SHA256SUMS.sigstore.json", "SHA256SUMS"])
  for (const { file, predicate, uri } of predicates) {
    const about = put("statement.json", statement(uri, subjects(out, digest), predicate))
    cosign("attest-blob", ["--statement", about, "--bundle", `${file}.sigstore.json`])
  }
  say("signed: the checksums, the provenance and the bill of materials")
}

// --- the registries; npm last, because a version there is final ---

if (!hasImage) {
  const to = `docker://${image}:${version}`
  must("skopeo", ["copy", "--quiet", "--preserve-digests", ...tls("dest-"), "oci-archive:ampoule-image.tar", to])
}
const http = isLocal ? ["--allow-http-registry"] : []
cosign("sign", [...http, `${image}@${digest}`])
for (const { predicate, type } of predicates) {
  cosign("attest", [...http, "--type", type, "--predicate", put("predicate.json", predicate), `${image}@${digest}`])
}
say(`${image}:${version}@${digest}${hasImage ? " existed, and has a further signature" : ""}`)
if (!hasFiles) {
  const date = new Date(must("git", ["show", "--no-patch", "--format=%cI", "HEAD"], root).trim()).toISOString()
  const annotations = ["--annotation", `org.opencontainers.image.created=${date}`]
  const type = ["--artifact-type", "application/vnd.ampoule.release"]
  const names = fs.readdirSync(out).filter((one) => one !== "ampoule-image.tar")
  must("oras", ["push", ...plain, ...type, ...annotations, `${files}:${version}`, ...names.sort()])
}
say(`${files}:${version}${hasFiles ? " existed" : ""}`)
if (!hasPackage) must("npm", ["publish", "--loglevel=error", tarball])
say(`${name}@${version} ${integrity}${hasPackage ? " existed" : ""}`)

// @ts-check
/**
 * `npm run release:check`: makes what a release consists of, from the last commit, into `.artifacts/release`: package,
 * executables, image, the files that start it with images by digest, software bill of materials (CycloneDX), list of
 * licences, checksums. AMPOULE_RELEASE_DIGESTS=off compares no digest with its registry, where none is reached. Fails on a break of what the
 * last release documented (test/release/surface.test.ts), on bytes that differ between two packings, and on a licence
 * that nobody looked at. Writes test/records/release.json.
 */
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { node } from "../../deploy/executable.mjs"
import { targets } from "../../deploy/executables.mjs"
import * as Pin from "../../deploy/pin.mjs"
import { debian } from "../../deploy/rootfs.mjs"

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..")
const out = path.join(root, ".artifacts/release")
const tools = process.env["AMPOULE_RELEASE_DIR"] ?? path.join(tmpdir(), "ampoule-release")
const cyclonedx = "6.0.1"
/** Of these anybody may pass on what we build, with their texts (`dist/licences.txt`). */
const fine = ["0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BlueOak-1.0.0", "ISC", "MIT", "MIT-0", "Unlicense"]
/**
 * Of these we pass on libraries of Debian in the image: separate files, unchanged, with their texts in
 * `usr/share/doc` and `usr/share/common-licenses`. The exception lets any program use GCC's.
 */
const fineAsLibraries = ["LGPL-2.1-or-later", "GPL-3.0-or-later WITH GCC-exception-3.1"]

/**
 * Of these we pass on Bun, unchanged, in front of our program, with the text that names its parts and their sources
 * (`deploy/bun-licence.txt`). Anybody can put a Bun with changed libraries in its place.
 */
const fineAsRuntime = ["MIT AND LGPL-2.0-or-later AND LGPL-2.1-or-later"]

const json = (/** @type {string} */ file) => JSON.parse(fs.readFileSync(file, "utf8"))
const check = (/** @type {boolean} */ holds, /** @type {string} */ otherwise) => {
  if (!holds) throw new Error(otherwise)
}
const run = (/** @type {string} */ command, /** @type {ReadonlyArray<string>} */ args, cwd = root) =>
  execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"], maxBuffer: 2 ** 28 })
const sha256 = (/** @type {string} */ file) => createHash("sha256").update(fs.readFileSync(file)).digest("hex")
const say = (/** @type {string} */ text) => process.stdout.write(`${text}\n`)

const { version } = json(path.join(root, "package.json"))
const changed = run("git", ["status", "--porcelain"])
check(changed === "", `there is something that is not committed:\n${changed}`)
// npm packs the rights of files, and those of a checkout depend on the account.
process.umask(0o022)
for (const line of run("git", ["ls-files", "--stage", "-z"])
  .split("\0")
  .filter((line) => line.startsWith("100"))) {
  const [entry = "", file = ""] = line.split("\t")
  fs.chmodSync(path.join(root, file), entry.startsWith("100755") ? 0o755 : 0o644)
}
fs.rmSync(out, { recursive: true, force: true })
fs.mkdirSync(out, { recursive: true })

run(path.join(root, "node_modules/.bin/vitest"), ["run", "test/release"])
const before = json(path.join(root, "test/records/surface.json"))
say(`all that release ${before.release} documented is there`)

// --- the package ---

const pack = (/** @type {string} */ to) => {
  run("npm", ["pack", "--silent", "--pack-destination", to])
  return path.join(to, `ampoule-${version}.tgz`)
}
const tarball = pack(out)
const twice = fs.mkdtempSync(path.join(tmpdir(), "ampoule-again-"))
check(sha256(tarball) === sha256(pack(twice)), "two packings of the package differ")
fs.rmSync(twice, { recursive: true })
say("the package, twice the same")

// --- executables and image ---

run(process.execPath, ["deploy/executable.mjs", path.join(out, "ampoule-server-linux-x64")])
run(process.execPath, ["deploy/executables.mjs", out])
say("the executables")
const [image = ""] = run(process.execPath, ["deploy/image.mjs", path.join(out, "ampoule-image.tar")]).split(" ")
say("the image")

// --- the files that start it, with every image by its digest ---

/** The digests of the repository's files. The registries say which tags have moved; a digest is never made up. */
const isLookedUp = process.env["AMPOULE_RELEASE_DIGESTS"] !== "off"
const movedTags = isLookedUp ? Pin.moved(await Pin.lookUp()) : []
const baseImages = {
  digests: Object.fromEntries(Pin.files.flatMap((file) => [...Pin.digestsIn(fs.readFileSync(file, "utf8"))])),
  compared: isLookedUp
    ? `with the registries; moved since: ${movedTags.join(", ") || "none"}`
    : "AMPOULE_RELEASE_DIGESTS is off"
}
const starts = fs.mkdtempSync(path.join(tmpdir(), "ampoule-pinned-"))
Pin.write(starts, image)
Pin.pack(path.join(out, "ampoule-deploy.tar"), starts)
fs.rmSync(starts, { recursive: true })
say("every image by its digest")
if (movedTags.length > 0) say(`newer builds of ${movedTags.join(", ")}: node deploy/pin.mjs --update`)

// --- what others made: bill of materials, licences ---

fs.mkdirSync(tools, { recursive: true })
fs.writeFileSync(path.join(tools, "package.json"), JSON.stringify({ private: true }))
run("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", `@cyclonedx/cyclonedx-npm@${cyclonedx}`], tools)
const all = path.join(tools, "all.cdx.json")
const generator = path.join(tools, "node_modules/@cyclonedx/cyclonedx-npm/bin/cyclonedx-npm-cli.js")
run(process.execPath, [generator, "--flatten-components", "--output-reproducible", "--output-file", all])

const { bundled, external } = json(path.join(root, "dist/packages.json"))
/** Dependencies of a package that stays outside. @type {Set<string>} */
const shipped = new Set(bundled)
const add = (/** @type {string} */ name) => {
  const folder = `node_modules/${name}`
  if (shipped.has(folder) || !fs.existsSync(path.join(root, folder))) return
  shipped.add(folder)
  const { dependencies = {}, optionalDependencies = {} } = json(path.join(root, folder, "package.json"))
  for (const needed of Object.keys({ ...dependencies, ...optionalDependencies })) add(needed)
}
for (const name of external) add(name)
const named = new Set(
  [...shipped].map((folder) => {
    const { name, version } = json(path.join(root, folder, "package.json"))
    return `${name}@${version}`
  })
)
const bom = json(all)
/** @typedef {{ "bom-ref": string, group?: string, name: string, version: string, scope?: string, properties?: Array<{ name: string }>, licenses?: Array<{ expression?: string, license?: { id?: string, name?: string } }> }} Component */
const fullName = (/** @type {Component} */ { group, name, version }) =>
  `${group === undefined ? "" : `${group}/`}${name}@${version}`
/** @type {Array<Component>} */
const components = bom.components.filter((/** @type {Component} */ one) => named.has(fullName(one)))
const names = new Set(components.map(fullName))
check(
  names.size === named.size,
  `not in the bill of materials: ${[...named].filter((one) => !names.has(one)).join(", ")}`
)
// In the repository most are for development, since the build puts them into the bundle; in a release they are
// installed.
for (const one of components) {
  delete one.scope
  one.properties = one.properties?.filter(({ name }) => name !== "cdx:npm:package:development")
}
const kept = new Set([bom.metadata.component["bom-ref"], ...components.map((one) => one["bom-ref"])])
bom.components = components
bom.dependencies = bom.dependencies
  .filter((/** @type {{ ref: string }} */ { ref }) => kept.has(ref))
  .map((/** @type {{ ref: string, dependsOn?: Array<string> }} */ { dependsOn = [], ref }) => ({
    ref,
    dependsOn: dependsOn.filter((one) => kept.has(one))
  }))
/** Other parts of executable and image, by the digests that they were made from. */
const digestsOf = (/** @type {string} */ integrity) => {
  const [algorithm = "", digest = ""] = integrity.split("-")
  return [{ alg: algorithm.replace("sha", "SHA-"), content: Buffer.from(digest, "base64").toString("hex") }]
}
const inside = (/** @type {ReadonlyArray<string>} */ ...files) =>
  files.map((file) => ({ name: "ampoule:in", value: file }))
/** @param {import("../../deploy/packages.mjs").Package} one @param {string} type @param {string} licence @param {string} file */
const fromNpm = ({ integrity, name, version }, type, licence, file) => {
  const [group, rest = ""] = name.split("/")
  const purl = `pkg:npm/${name.replace("@", "%40")}@${version}`
  const hashes = digestsOf(integrity)
  const licenses = [{ expression: licence }]
  return { type, "bom-ref": purl, group, name: rest, version, licenses, purl, hashes, properties: inside(file) }
}
const besides = [
  {
    type: "platform",
    "bom-ref": `pkg:npm/${node.name}@${node.version}`,
    name: node.name,
    version: node.version,
    description: "Node.js",
    // Node's own, and those of what is in it: `LICENSE` of the release, in licences.txt.
    licenses: [{ license: { id: "MIT" } }],
    cpe: `cpe:2.3:a:nodejs:node.js:${node.version}:*:*:*:*:*:*:*`,
    purl: `pkg:npm/${node.name}@${node.version}`,
    hashes: digestsOf(node.integrity),
    properties: inside("ampoule-server-linux-x64", "image")
  },
  ...targets.flatMap(({ bun, file, keyring }) => [
    fromNpm(bun, "platform", fineAsRuntime[0] ?? "", file),
    fromNpm(keyring, "library", "MIT", file)
  ]),
  ...debian.map(({ digest, licence, name, version }) => {
    const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=amd64&distro=debian-12`
    return {
      type: "library",
      "bom-ref": purl,
      name,
      version,
      licenses: [{ expression: licence }],
      purl,
      hashes: [{ alg: "SHA-256", content: digest }],
      properties: inside("image")
    }
  })
]
/** Parts of the sources from others: `deploy/licences` has their licences. */
const copied = [["lucide", "1.62.0", "ISC AND MIT"]].map(([name, version, expression]) => ({
  type: "library",
  "bom-ref": `pkg:npm/${name}@${version}`,
  name,
  version,
  licenses: [{ expression }],
  purl: `pkg:npm/${name}@${version}`
}))
check(
  fs.readdirSync(path.join(root, "deploy/licences")).join() ===
    copied.map(({ name, version }) => `${name}-${version}.txt`).join(),
  "what deploy/licences has is in the bill of materials"
)
besides.push(...copied)
components.push(...besides)
bom.dependencies.push(...besides.map((one) => ({ ref: one["bom-ref"] })))
fs.writeFileSync(path.join(out, "ampoule.cdx.json"), `${JSON.stringify(bom, null, 2)}\n`)

const licences = Object.fromEntries(
  components
    .map((one) => [
      fullName(one),
      (one.licenses ?? []).map(({ expression, license }) => expression ?? license?.id ?? license?.name).join(" AND ")
    ])
    .sort()
)
fs.writeFileSync(path.join(out, "licences.json"), `${JSON.stringify(licences, null, 2)}\n`)
const libraries = new Set(debian.map(({ name, version }) => `${name}@${version}`))
const unknown = Object.entries(licences).filter(
  ([name, licence]) =>
    !(libraries.has(name) && fineAsLibraries.includes(licence)) &&
    !(name.startsWith("@oven/bun-") && fineAsRuntime.includes(licence)) &&
    !licence
      .replaceAll(/[()]/g, "")
      .split(" AND ")
      .every((/** @type {string} */ one) => one.split(" OR ").some((id) => fine.includes(id)))
)
check(unknown.length === 0, `licences that nobody looked at: ${unknown.map((one) => one.join(" ")).join(", ")}`)
say(`${components.length} components, each with a licence that may be passed on`)

// --- checksums ---

const files = fs.readdirSync(out).sort()
const sums = files.map((name) => ({
  name,
  sha256: sha256(path.join(out, name)),
  bytes: fs.statSync(path.join(out, name)).size
}))
fs.writeFileSync(path.join(out, "SHA256SUMS"), sums.map(({ name, sha256 }) => `${sha256}  ${name}\n`).join(""))
run("sha256sum", ["--check", "--quiet", "SHA256SUMS"], out)
const byLicence = Object.values(licences).reduce(
  (count, licence) => ({ ...count, [licence]: (count[licence] ?? 0) + 1 }),
  {}
)
const record = {
  what: "What a release consists of, made from one commit. npm run release:check",
  date: new Date().toISOString().slice(0, 10),
  commit: run("git", ["rev-parse", "--short", "HEAD"]).trim(),
  version,
  comparedWith: before.release,
  tools: { "@cyclonedx/cyclonedx-npm": cyclonedx },
  image,
  baseImages,
  components: components.length,
  licences: byLicence,
  files: sums
}
const file = path.join(root, "test/records/release.json")
fs.writeFileSync(file, JSON.stringify(record))
run(path.join(root, "node_modules/.bin/oxfmt"), [file])
say(`${files.length} files and their checksums in ${path.relative(root, out)}`)

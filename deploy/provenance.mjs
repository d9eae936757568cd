// @ts-check
/** In-toto statements about the files of a release: SLSA provenance, and the bill of materials. */
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { materials } from "./materials.mjs"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const read = (/** @type {string} */ file) => fs.readFileSync(file)
const sha256 = (/** @type {string | Buffer} */ bytes) => createHash("sha256").update(bytes).digest("hex")

/** @typedef {{ name: string, digest: { sha256: string } }} Subject */

/** Files that `SHA256SUMS` lists, and the image by its digest. @param {string} folder @param {string} image */
export const subjects = (folder, image) => [
  ...read(path.join(folder, "SHA256SUMS"))
    .toString("utf8")
    .trim()
    .split("\n")
    .map((line) => {
      const [sum = "", name = ""] = line.split("  ")
      return { name, digest: { sha256: sum } }
    }),
  { name: "image", digest: { sha256: image.replace("sha256:", "") } }
]

/** @param {string} predicateType @param {ReadonlyArray<Subject>} subject @param {object} predicate */
export const statement = (predicateType, subject, predicate) => ({
  _type: "https://in-toto.io/Statement/v1",
  subject,
  predicateType,
  predicate
})

/** SLSA provenance of a build from the last commit. @param {string} version @param {string} builder a URI */
export const provenance = (version, builder) => ({
  buildDefinition: {
    // docs/releasing.md describes it: `npm ci`, then `npm run release:check`, in a clone of the commit.
    buildType: "urn:ampoule:release:1",
    externalParameters: { version },
    internalParameters: {},
    resolvedDependencies: [
      {
        name: "source",
        digest: { gitCommit: execFileSync("git", ["rev-parse", "HEAD"], { cwd: root, encoding: "utf8" }).trim() }
      },
      { name: "package-lock.json", digest: { sha256: sha256(read(path.join(root, "package-lock.json"))) } },
      ...materials.map(({ algorithm, digest, purl }) => ({ uri: purl, digest: { [algorithm]: digest } }))
    ]
  },
  runDetails: { builder: { id: builder, version: { node: process.versions.node } } }
})

// @ts-check
/** Parts of executables and image that come from a registry by their digests, without the packages of the lock. */
import { node } from "./executable.mjs"
import { targets } from "./executables.mjs"
import { debian } from "./rootfs.mjs"

/** Digests in hexadecimal. @param {string} integrity as npm writes it */
const ofNpm = (integrity) => {
  const [algorithm = "", digest = ""] = integrity.split("-")
  return { algorithm, digest: Buffer.from(digest, "base64").toString("hex") }
}

/** @param {import("./packages.mjs").Package} one */
const npmPackage = ({ integrity, name, version }) => ({
  purl: `pkg:npm/${name.replace("@", "%40")}@${version}`,
  ...ofNpm(integrity)
})

export const materials = [
  npmPackage(node),
  ...targets.flatMap(({ bun, keyring }) => [npmPackage(bun), npmPackage(keyring)]),
  ...debian.map(({ digest, name, version }) => ({
    purl: `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=amd64&distro=debian-12`,
    algorithm: "sha256",
    digest
  }))
]

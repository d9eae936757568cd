// @ts-check
/** Parts of executables and image that come from a registry by their digests, without the packages of the lock. */
import { node } from "./executable.mjs"
import { debian } from "./rootfs.mjs"

/** Digests in hexadecimal. @param {string} integrity as npm writes it */
const ofNpm = (integrity) => {
  const [algorithm = "", digest = ""] = integrity.split("-")
  return { algorithm, digest: Buffer.from(digest, "base64").toString("hex") }
}

export const materials = [
  { purl: `pkg:npm/${node.name}@${node.version}`, ...ofNpm(node.integrity) },
  ...debian.map(({ digest, name, version }) => ({
    purl: `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=amd64&distro=debian-12`,
    algorithm: "sha256",
    digest
  }))
]

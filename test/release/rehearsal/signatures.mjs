// @ts-check
/** Verification of a published release, by the commands of docs/releasing.md. */
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { check } from "../../package/newcomer.mjs"

/**
 * @param {string} work @param {NodeJS.ProcessEnv} env with cosign and oras in its PATH
 */
export const verifier = (work, env) => {
  /** @param {string} command @param {ReadonlyArray<string>} args @param {string} cwd */
  const run = (command, args, cwd = work) =>
    spawnSync(command, args, { cwd, env, encoding: "utf8", maxBuffer: 2 ** 28 })
  /** @param {string} command @param {ReadonlyArray<string>} args @param {string} [cwd] */
  const must = (command, args, cwd) => {
    const { status, stderr, stdout } = run(command, args, cwd)
    check(status === 0, `${command} ${args.join(" ")}: ${status}\n${stderr}${stdout}`)
    return stdout
  }
  /** A rehearsal has no transparency log, and cosign asks no service. */
  const offline = ["--insecure-ignore-tlog", "--trusted-root", path.join(work, "trusted.json")]
  fs.writeFileSync(
    path.join(work, "trusted.json"),
    `{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`
  )

  /** @param {string} folder @param {string} key */
  const sums = (folder, key) =>
    run(
      "cosign",
      ["verify-blob", "--key", key, ...offline, "--bundle", "SHA256SUMS.sigstore.json", "SHA256SUMS"],
      folder
    )
  /** @param {string} folder @param {string} key @param {"provenance" | "ampoule.cdx"} about @param {string} file */
  const attestation = (folder, key, about, file) => {
    const type = about === "provenance" ? "slsaprovenance1" : "cyclonedx"
    const words = ["verify-blob-attestation", "--key", key, ...offline, "--type", type]
    // cosign reads no file of more than 128 MB.
    const digest = createHash("sha256")
      .update(fs.readFileSync(path.join(folder, file)))
      .digest("hex")
    const subject = ["--digest", digest, "--digestAlg", "sha256"]
    return run("cosign", [...words, "--bundle", `${about}.sigstore.json`, ...subject], folder)
  }
  /** The statement of a bundle, after its verification. @param {string} folder @param {string} about */
  const statement = (folder, about) => {
    const { dsseEnvelope } = JSON.parse(fs.readFileSync(path.join(folder, `${about}.sigstore.json`), "utf8"))
    return JSON.parse(Buffer.from(dsseEnvelope.payload, "base64").toString("utf8"))
  }
  /** @param {string} image @param {string} key */
  const image = (image, key) => {
    const words = ["--key", key, ...offline, "--allow-http-registry"]
    must("cosign", ["verify", ...words, image])
    for (const type of ["slsaprovenance1", "cyclonedx"]) {
      must("cosign", ["verify-attestation", ...words, "--type", type, image])
    }
  }
  /** The same signature of the checksums, without cosign. @param {string} folder @param {string} key */
  const openssl = (folder, key) => {
    const line = `set -o pipefail; jq -r .messageSignature.signature SHA256SUMS.sigstore.json | base64 -d > SHA256SUMS.sig`
    must("bash", ["-c", line], folder)
    must("openssl", ["dgst", "-sha256", "-verify", key, "-signature", "SHA256SUMS.sig", "SHA256SUMS"], folder)
  }
  return { run, must, sums, attestation, statement, image, openssl }
}

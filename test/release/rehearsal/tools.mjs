// @ts-check
/** Programs of a rehearsal, a registry of images on this machine, and a key for signatures. */
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { freePort } from "../../clients/server.mjs"
import { answers } from "../../package/newcomer.mjs"

const folder = process.env["AMPOULE_REHEARSAL_DIR"] ?? path.join(tmpdir(), "ampoule-rehearsal-tools")

/** Programs from the Go module proxy. */
export const modules = {
  cosign: "github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3",
  oras: "oras.land/oras/cmd/oras@v1.3.6"
}
/** Programs of Debian, and their packages. */
const debian = {
  chroot: "coreutils",
  "docker-registry": "docker-registry",
  go: "golang-go",
  jq: "jq",
  openssl: "openssl",
  "qemu-aarch64": "qemu-user libc6-arm64-cross",
  skopeo: "skopeo",
  umoci: "umoci"
}

/** Installs cosign and oras once. @returns the folder with both */
export const install = () => {
  const missing = Object.entries(debian).filter(([program]) => spawnSync("which", [program]).status !== 0)
  if (missing.length > 0) {
    throw new Error(`Run apt-get install ${missing.map(([, name]) => name).join(" ")}, then try again.`)
  }
  const bin = path.join(folder, "bin")
  for (const [program, module] of Object.entries(modules)) {
    const version = path.join(bin, `${program}.version`)
    if (fs.existsSync(version) && fs.readFileSync(version, "utf8") === module) continue
    execFileSync("go", ["install", module], { env: { ...process.env, GOBIN: bin }, stdio: ["ignore", "pipe", "pipe"] })
    fs.writeFileSync(version, module)
  }
  return bin
}

/** A registry of images. @param {string} work */
export const imageRegistry = async (work) => {
  const port = await freePort()
  const config = path.join(work, "images.json")
  const settings = {
    version: "0.1",
    log: { level: "error", accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: path.join(work, "images") } },
    http: { addr: `127.0.0.1:${port}` }
  }
  fs.writeFileSync(config, JSON.stringify(settings))
  const child = spawn("docker-registry", ["serve", config], { stdio: "ignore" })
  await answers(`http://127.0.0.1:${port}/v2/`, child, "docker-registry")
  const stop = async () => {
    child.kill("SIGTERM")
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit")
  }
  return { host: `127.0.0.1:${port}`, stop }
}

/** A key of cosign, for this rehearsal alone. @param {string} bin @param {string} to @param {Record<string, string>} env */
export const makeKey = (bin, to, env) => {
  fs.mkdirSync(to)
  execFileSync(path.join(bin, "cosign"), ["generate-key-pair"], { cwd: to, env, stdio: "pipe" })
  return path.join(to, "cosign.key")
}

// @ts-check
/**
 * `npm run build:image [FILE]`: the image of a release, built without an engine and a base image, as a file for `docker
 * load`, `podman load` or `skopeo copy oci-archive:…`. It has Node's binary, three Debian libraries for it, and the
 * program, but no shell and no package manager. Each part has a digest, so the build is reproducible. User, ports and
 * health check come from the Dockerfile. Needs Debian 12 for its packages.
 */
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { gzipSync } from "node:zlib"
import { nodePackage } from "./executable.mjs"
import { commitOf } from "../src/commit.mjs"
import * as Rootfs from "./rootfs.mjs"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const to = path.resolve(process.argv[2] ?? path.join(root, ".artifacts/ampoule-image.tar"))
const commit = commitOf(root)
const { version } = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"))

const work = fs.mkdtempSync(path.join(tmpdir(), "ampoule-image-"))
const sha256 = (/** @type {string | Buffer} */ bytes) => createHash("sha256").update(bytes).digest("hex")
/** @param {string} folder @param {string} file @param {string | Buffer} content */
const put = (folder, file, content) => {
  fs.mkdirSync(path.dirname(path.join(folder, file)), { recursive: true })
  fs.writeFileSync(path.join(folder, file), content)
}

/** Minimal Debian with only these packages, and their licences. */
const base = () => {
  const folder = path.join(work, "debian")
  for (const { digest, name, version: release } of [...Rootfs.debian, Rootfs.texts]) {
    const into = path.join(work, name)
    fs.mkdirSync(into)
    execFileSync("apt-get", ["download", "-qq", `${name}=${release}`], { cwd: into, stdio: ["ignore", "pipe", "pipe"] })
    const [file = ""] = fs.readdirSync(into)
    const deb = path.join(into, file)
    if (sha256(fs.readFileSync(deb)) !== digest) throw new Error(`${file} is not what it was`)
    execFileSync("dpkg-deb", ["--extract", deb, folder])
  }
  // Texts, which never change; every Debian has them.
  fs.cpSync("/usr/share/common-licenses", path.join(folder, "usr/share/common-licenses"), { recursive: true })
  return folder
}

const system = () => {
  const folder = path.join(work, "system")
  Rootfs.system(folder, base(), nodePackage())
  return folder
}

const program = () => {
  const folder = path.join(work, "program")
  const dist = path.join(work, "dist")
  execFileSync(process.execPath, [path.join(root, "src/build.mjs"), dist], { stdio: "pipe" })
  Rootfs.program(folder, dist, nodePackage())
  return folder
}

const own = () => {
  const folder = path.join(work, "own")
  Rootfs.own(folder)
  return folder
}

/** @param {string} folder @param {number} owner @param {ReadonlyArray<string>} more */
const layer = (folder, owner, more) => {
  const ids = [`--owner=${owner}`, `--group=${owner}`, "--numeric-owner"]
  const still = ["--format=gnu", "--sort=name", "--mtime=@0"]
  const names = fs.readdirSync(folder).sort()
  const tar = execFileSync("tar", ["-c", ...still, ...ids, ...more, "-C", folder, ...names], { maxBuffer: 2 ** 30 })
  return { diff: `sha256:${sha256(tar)}`, blob: gzipSync(tar, { level: 9 }) }
}

/** Instructions of the Dockerfile's last stage, in the form of an image configuration. */
const configuration = () => {
  const [, text = ""] = fs
    .readFileSync(path.join(root, "deploy/Dockerfile"), "utf8")
    .replaceAll("\\\n", "")
    .split("\nFROM scratch\n")
  const of = (/** @type {string} */ name) => new RegExp(`^${name} +(.*)$`, "m").exec(text)?.[1] ?? ""
  const check = /--interval=(\d+)s --timeout=(\d+)s --start-period=(\d+)s --retries=(\d+) +CMD (\[.*\])$/.exec(
    of("HEALTHCHECK")
  )
  if (check === null) throw new Error("the Dockerfile's HEALTHCHECK is not understood")
  const nanoseconds = (/** @type {number} */ i) => Number(check[i]) * 1e9
  return {
    User: of("USER"),
    ExposedPorts: { [`${of("EXPOSE")}/tcp`]: {} },
    Env: of("ENV").split(" "),
    Entrypoint: JSON.parse(of("ENTRYPOINT")),
    Cmd: JSON.parse(of("CMD")),
    Volumes: { [of("VOLUME")]: {} },
    WorkingDir: of("WORKDIR"),
    StopSignal: of("STOPSIGNAL"),
    Labels: {
      "org.opencontainers.image.title": "ampoule",
      "org.opencontainers.image.version": version,
      ...(commit === undefined ? {} : { "org.opencontainers.image.revision": commit })
    },
    Healthcheck: {
      Test: ["CMD", ...JSON.parse(check[5] ?? "[]")],
      Interval: nanoseconds(1),
      Timeout: nanoseconds(2),
      StartPeriod: nanoseconds(3),
      Retries: Number(check[4])
    }
  }
}

try {
  const readable = ["--mode=u=rwX,go=rX"]
  const layers = [layer(system(), 0, readable), layer(program(), 0, readable), layer(own(), 10001, [])]
  const image = path.join(work, "image")
  /** @param {string | Buffer} content @param {string} mediaType */
  const blob = (content, mediaType) => {
    const digest = sha256(content)
    put(image, `blobs/sha256/${digest}`, content)
    return { mediaType, digest: `sha256:${digest}`, size: Buffer.byteLength(content) }
  }
  const oci = "application/vnd.oci.image"
  const config = blob(
    JSON.stringify({
      created: "1970-01-01T00:00:00Z",
      architecture: "amd64",
      os: "linux",
      config: configuration(),
      rootfs: { type: "layers", diff_ids: layers.map(({ diff }) => diff) }
    }),
    `${oci}.config.v1+json`
  )
  const blobs = layers.map((one) => blob(one.blob, `${oci}.layer.v1.tar+gzip`))
  const manifest = blob(
    JSON.stringify({ schemaVersion: 2, mediaType: `${oci}.manifest.v1+json`, config, layers: blobs }),
    `${oci}.manifest.v1+json`
  )
  const annotations = {
    "io.containerd.image.name": `docker.io/library/ampoule:${version}`,
    "org.opencontainers.image.ref.name": version
  }
  put(image, "oci-layout", JSON.stringify({ imageLayoutVersion: "1.0.0" }))
  put(image, "index.json", JSON.stringify({ schemaVersion: 2, manifests: [{ ...manifest, annotations }] }))
  // For engines that only know Docker's own format.
  const file = (/** @type {{ digest: string }} */ { digest }) => `blobs/${digest.replace(":", "/")}`
  put(
    image,
    "manifest.json",
    JSON.stringify([{ Config: file(config), RepoTags: [`ampoule:${version}`], Layers: blobs.map(file) }])
  )
  fs.mkdirSync(path.dirname(to), { recursive: true })
  const still = ["--format=gnu", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]
  execFileSync("tar", ["-cf", to, ...still, "--mode=u=rwX,go=rX", "-C", image, ...fs.readdirSync(image).sort()])
  process.stdout.write(
    `${manifest.digest}  ${path.relative(process.cwd(), to)} (${(fs.statSync(to).size / 1e6).toFixed(0)} MB)\n`
  )
} finally {
  fs.rmSync(work, { recursive: true, force: true })
}

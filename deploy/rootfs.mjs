// @ts-check
/**
 * Content of an image of Ampoule: Node, the few Debian libraries for it, the program, and all licences, without a shell
 * or a package manager. `deploy/image.mjs` makes it from packages with known digests. The Dockerfile makes it from its
 * build image: `node deploy/rootfs.mjs FOLDER PREFIX` writes the folders `system` and `program` (for root) and `own`
 * (for the user) from this machine, with the Node in PREFIX.
 */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/** From Debian 12, amd64, with digests (SHA-256) of its signed index. The licences are those of the extracted files. */
export const debian = [
  {
    name: "libc6",
    version: "2.36-9+deb12u14",
    digest: "ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf",
    licence: "LGPL-2.1-or-later"
  },
  {
    name: "libgcc-s1",
    version: "12.2.0-14+deb12u1",
    digest: "3016e62cb4b7cd8038822870601f5ed131befe942774d0f745622cc77d8a88f7",
    licence: "GPL-3.0-or-later WITH GCC-exception-3.1"
  },
  {
    name: "libstdc++6",
    version: "12.2.0-14+deb12u1",
    digest: "5cd3171216d4ab0fc911cfe9c35509bf2dd8f47761c43b7f6a4296701551a24d",
    licence: "GPL-3.0-or-later WITH GCC-exception-3.1"
  }
]
/** Path of Debian's copyright files for two of them. */
export const texts = {
  name: "gcc-12-base",
  version: "12.2.0-14+deb12u1",
  digest: "1896a2aacf4ad681ff5eacc24a5b0ca4d5d9c9b9c9e4b6de5197bc1e116ea619"
}

const platforms = {
  x64: { libraries: "lib/x86_64-linux-gnu", loader: "lib64/ld-linux-x86-64.so.2" },
  arm64: { libraries: "lib/aarch64-linux-gnu", loader: "lib/ld-linux-aarch64.so.1" }
}
/** Libraries that Node and the native add-ons load, and those that resolve host names. */
const needed = [
  "libc.so.6",
  "libdl.so.2",
  "libgcc_s.so.1",
  "libm.so.6",
  "libnss_dns.so.2",
  "libnss_files.so.2",
  "libpthread.so.0",
  "libresolv.so.2",
  "librt.so.1",
  "libstdc++.so.6"
]

/** Copies a file; a link is replaced by its target. @param {string} from @param {string} to @param {number} mode */
const copy = (from, to, mode) => {
  fs.mkdirSync(path.dirname(to), { recursive: true })
  fs.writeFileSync(to, fs.readFileSync(from))
  fs.chmodSync(to, mode)
}

/**
 * Node and the libraries, with the licences of the libraries.
 * @param {string} folder
 * @param {string} base a Debian with these packages: `/`, or a folder that they were unpacked to
 * @param {string} prefix has `bin/node`
 */
export const system = (folder, base, prefix) => {
  const { libraries, loader } = platforms[process.arch === "arm64" ? "arm64" : "x64"]
  const found = (/** @type {string} */ name) => {
    const places = [libraries, `usr/${libraries}`].map((place) => path.join(base, place, name))
    const [file] = places.filter((place) => fs.existsSync(place))
    if (file === undefined) throw new Error(`${name} is in none of ${places.join(", ")}`)
    return file
  }
  for (const name of needed) copy(found(name), path.join(folder, libraries, name), 0o644)
  // By the path compiled into programs, and beside the libraries.
  const start = path.basename(loader)
  for (const to of [loader, path.join(libraries, start)]) copy(found(start), path.join(folder, to), 0o755)
  copy(path.join(prefix, "bin/node"), path.join(folder, "usr/local/bin/node"), 0o755)
  const licences = new Set()
  for (const { name } of debian) {
    const file = path.join("usr/share/doc", name, "copyright")
    copy(path.join(base, file), path.join(folder, file), 0o644)
    const text = fs.readFileSync(path.join(base, file), "utf8")
    for (const [at] of text.matchAll(/usr\/share\/common-licenses\/[A-Za-z]+(?:-\d(?:\.\d)?)?/g)) licences.add(at)
  }
  for (const file of licences) copy(path.join(base, file), path.join(folder, file), 0o644)
  fs.mkdirSync(path.join(folder, "etc"))
  const put = (/** @type {string} */ file, /** @type {string} */ text) =>
    fs.writeFileSync(path.join(folder, "etc", file), text)
  put("passwd", "root:x:0:0:root:/:/nonexistent\nampoule:x:10001:10001::/data:/nonexistent\n")
  put("group", "root:x:0:\nampoule:x:10001:\n")
  put("nsswitch.conf", "hosts: files dns\n")
}

/**
 * Adds the build, the packages that it needs, and all licences, which `ampoule licences` shows.
 * @param {string} folder @param {string} dist @param {string} prefix has the `LICENSE` of Node
 */
export const program = (folder, dist, prefix) => {
  const run = (/** @type {ReadonlyArray<string>} */ words) => execFileSync(process.execPath, words, { stdio: "pipe" })
  run([path.join(root, "deploy/licences.mjs"), dist, path.join(prefix, "LICENSE")])
  run([path.join(root, "deploy/collect.mjs"), path.join(folder, "app"), dist])
  // For `docker compose exec api-1 ampoule …`. The program's own first line uses /usr/bin/env, which the image lacks.
  const command = path.join(folder, "usr/local/bin/ampoule")
  fs.mkdirSync(path.dirname(command), { recursive: true })
  fs.writeFileSync(command, `#!/usr/local/bin/node\nrequire("/app/dist/ampoule.cjs")\n`)
  fs.chmodSync(command, 0o755)
}

/** Folders that belong to the user: a volume in place of one takes its owner and mode. @param {string} folder */
export const own = (folder) => {
  for (const [name, mode] of /** @type {const} */ ([
    ["data", 0o700],
    ["run", 0o755],
    ["run/ampoule", 0o700],
    ["tmp", 0o1777]
  ])) {
    fs.mkdirSync(path.join(folder, name), { recursive: true })
    fs.chmodSync(path.join(folder, name), mode)
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , folder, prefix, dist = path.join(root, "dist")] = process.argv
  if (folder === undefined || prefix === undefined) throw new Error("rootfs.mjs needs a folder, and where Node is")
  system(path.join(folder, "system"), "/", prefix)
  program(path.join(folder, "program"), path.resolve(dist), prefix)
  own(path.join(folder, "own"))
}

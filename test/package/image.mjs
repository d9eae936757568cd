// @ts-check
/**
 * `npm run test:image`: makes the image twice and compares the bytes, looks at it with skopeo, unpacks its layers with
 * umoci, and runs it from there as the user that it names, with nothing of this machine in sight: command, server,
 * health check. Needs Debian, root (chroot), skopeo and umoci. Writes test/records/image.json.
 */
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { commitOf } from "../../src/commit.mjs"
import { nodePackage } from "../../deploy/executable.mjs"
import * as Rootfs from "../../deploy/rootfs.mjs"

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..")
const work = fs.mkdtempSync(path.join(tmpdir(), "ampoule-image-test-"))
const check = (/** @type {boolean} */ holds, /** @type {string} */ otherwise) => {
  if (!holds) throw new Error(otherwise)
}
const said = (/** @type {string} */ command, /** @type {ReadonlyArray<string>} */ args) =>
  execFileSync(command, args, { cwd: work, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] })

for (const program of ["skopeo", "umoci"]) {
  check(spawnSync(program, ["--version"]).error === undefined, `needs ${program} (Debian: apt-get install ${program})`)
}

try {
  const printed = ["one.tar", "two.tar"].map((name) =>
    said(process.execPath, [path.join(root, "deploy/image.mjs"), name])
  )
  const [digest, again] = printed.map((line) => line.split(" ")[0])
  check(digest === again, `two images are ${digest} and ${again}`)
  const bytes = ["one.tar", "two.tar"].map((name) => fs.readFileSync(path.join(work, name)))
  check(bytes[0]?.equals(bytes[1] ?? Buffer.alloc(0)) === true, "two files of one image differ")
  process.stdout.write(`two images, one digest: ${digest}\n`)

  const { Architecture, Layers } = JSON.parse(said("skopeo", ["inspect", "oci-archive:one.tar"]))
  const { config } = JSON.parse(said("skopeo", ["inspect", "--config", "--raw", "docker-archive:one.tar"]))
  check(Architecture === "amd64", Architecture)
  check(config.User === "10001:10001", `user ${config.User}`)
  check(config.Healthcheck.Test[0] === "CMD", "no health check")
  said("skopeo", ["copy", "--quiet", "oci-archive:one.tar", "oci:layout:it"])
  said("umoci", ["unpack", "--image", "layout:it", "bundle"])
  const rootfs = path.join(work, "bundle/rootfs")
  const files = fs.readdirSync(rootfs, { recursive: true, encoding: "utf8" })
  const isProgram = (/** @type {string} */ file) => {
    const stat = fs.lstatSync(path.join(rootfs, file))
    return stat.isFile() && (stat.mode & 0o111) !== 0
  }
  const programs = files.filter(isProgram).filter((file) => !file.startsWith("app/"))
  const own = [
    "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
    "lib64/ld-linux-x86-64.so.2",
    "usr/local/bin/ampoule",
    "usr/local/bin/node"
  ]
  check(programs.sort().join() === own.join(), `programs: ${programs.join(", ")}`)
  const foreign = files.filter((file) => /(?:^|\/)(?:npm|npx|yarn|corepack|apt|dpkg|sh|bash)$/.test(file))
  check(foreign.length === 0, `a shell or package manager: ${foreign.join(", ")}`)
  for (const file of files) {
    const { mode, uid } = fs.lstatSync(path.join(rootfs, file))
    check((mode & 0o6000) === 0, `${file} changes whom it runs as`)
    const ofUser = ["data", "run/ampoule", "run", "tmp"].includes(file)
    check(ofUser || uid === 0, `${file} is not root's`)
    check(
      ofUser || (mode & 0o022) === 0 || fs.lstatSync(path.join(rootfs, file)).isSymbolicLink(),
      `${file} is writable`
    )
  }

  const env = Object.fromEntries(config.Env.map((/** @type {string} */ one) => one.split(/=(.*)/s).slice(0, 2)))
  const inside = (/** @type {ReadonlyArray<string>} */ words) => ["--userspec=10001:10001", rootfs, ...words]
  /** @param {ReadonlyArray<string>} words @param {Record<string, string>} more */
  const run = (words, more = {}) =>
    spawnSync("/usr/sbin/chroot", inside(words), { env: { ...env, ...more }, encoding: "utf8", timeout: 20_000 })
  const { version } = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"))
  const commit = commitOf(root)
  const versionLine = commit === undefined ? `${version}\n` : `${version} (${commit})\n`
  const start = run([...config.Entrypoint, "--version"])
  check(start.stdout === versionLine, start.stderr)
  // As `docker compose exec api-1 ampoule …` has it.
  check(run(["/usr/local/bin/ampoule", "--version"]).stdout === versionLine, "the command by its name")
  const licences = run(["/usr/local/bin/ampoule", "licences"]).stdout
  for (const text of ["Node.js is licensed for use as follows", "effect 3.", "oidc-provider ", "Apache License"]) {
    check(licences.includes(text), `no licence: ${text}`)
  }
  for (const { name } of Rootfs.debian) check(files.includes(`usr/share/doc/${name}/copyright`), `licence of ${name}`)
  for (const name of ["LGPL-2.1", "GPL-3"]) check(files.includes(`usr/share/common-licenses/${name}`), name)

  // Files that the Dockerfile copies into its last stage, made from this machine: the same files, and it starts.
  said(process.execPath, [path.join(root, "src/build.mjs"), path.join(work, "dist")])
  said(process.execPath, [path.join(root, "deploy/rootfs.mjs"), "stages", nodePackage(), path.join(work, "dist")])
  fs.mkdirSync(path.join(work, "copied"))
  for (const name of ["system", "program", "own"]) said("cp", ["--archive", `stages/${name}/.`, "copied"])
  const copied = path.join(work, "copied")
  const names = fs.readdirSync(copied, { recursive: true, encoding: "utf8" })
  check(names.sort().join("\n") === files.toSorted().join("\n"), "the Dockerfile copies other files")
  const words = ["--userspec=10001:10001", copied, "/usr/local/bin/ampoule", "--version"]
  check(spawnSync("/usr/sbin/chroot", words, { env, encoding: "utf8" }).stdout === versionLine, "the Dockerfile's")

  const probe = createServer().listen(0, "127.0.0.1")
  await once(probe, "listening")
  const address = probe.address()
  const port = address === null || typeof address === "string" ? "" : String(address.port)
  probe.close()
  const settings = { AMPOULE_PORT: port, AMPOULE_BASE_URL: `http://127.0.0.1:${port}`, AMPOULE_HOST: "127.0.0.1" }
  const server = spawn("/usr/sbin/chroot", inside([...config.Entrypoint, ...config.Cmd]), {
    env: { ...env, ...settings },
    stdio: ["ignore", "pipe", "pipe"]
  })
  let output = ""
  await new Promise((resolve, reject) => {
    const read = (/** @type {unknown} */ chunk) => {
      output += String(chunk)
      if (output.includes("listens on")) resolve(undefined)
    }
    server.stdout.on("data", read)
    server.stderr.on("data", read)
    server.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${output}`)))
  })
  const health = config.Healthcheck.Test.slice(1)
  check(run(health, settings).status === 0, "the health check of a server that serves")
  server.kill(config.StopSignal)
  const [code] = await once(server, "exit")
  check(code === 0, `${config.StopSignal} ended it with ${code}`)
  check(run(health, settings).status === 1, "the health check of a server that is gone")

  const record = {
    what: "The image of a release, looked at with skopeo and umoci and run from its layers with chroot, without an engine. npm run test:image",
    date: new Date().toISOString().slice(0, 10),
    commit: execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: root, encoding: "utf8" }).trim(),
    digest,
    equal: true,
    layers: Layers.length,
    files: files.length,
    megabytes: { packed: Math.round((bytes[0]?.length ?? 0) / 1e6) },
    programs,
    user: config.User
  }
  const file = path.join(root, "test/records/image.json")
  fs.writeFileSync(file, JSON.stringify(record))
  execFileSync(path.join(root, "node_modules/.bin/oxfmt"), [file])
  process.stdout.write("it runs from its layers, as its user\n")
} finally {
  fs.rmSync(work, { recursive: true, force: true })
}

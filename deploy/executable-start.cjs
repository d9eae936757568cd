/**
 * First program of an executable (`npm run build:executable`): it unpacks the embedded program once, and starts it.
 * Native add-ons and WebAssembly must be files, and compiled code is cached only for files.
 */
"use strict"
const fs = require("node:fs")
const { createRequire } = require("node:module")
const os = require("node:os")
const path = require("node:path")
const sea = require("node:sea")
const { gunzipSync } = require("node:zlib")

const id = sea.getAsset("id", "utf8")

/** True when only this user and root could have put a file there. @param {string} folder */
const isPrivate = (folder) => {
  if (process.getuid === undefined) return true
  for (let at = fs.realpathSync(folder); ; at = path.dirname(at)) {
    const { gid, mode, uid } = fs.statSync(at)
    if (uid !== process.getuid() && uid !== 0) return false
    const byOthers = (mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && gid !== process.getgid() && gid !== 0)
    const isSticky = (mode & 0o1000) !== 0
    if (byOthers && !isSticky) return false
    if (at === path.dirname(at)) return true
  }
}

/** @param {string} folder */
const unpack = (folder) => {
  const bytes = gunzipSync(Buffer.from(sea.getRawAsset("program")))
  let at = 4 + bytes.readUInt32BE(0)
  for (const [name, size] of JSON.parse(bytes.toString("utf8", 4, at))) {
    const file = path.join(folder, name)
    fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 })
    fs.writeFileSync(file, bytes.subarray(at, (at += size)), { mode: 0o600 })
  }
}

/** Undefined when this folder cannot be used. @param {string} folder */
const unpacked = (folder) => {
  try {
    if (!fs.existsSync(folder)) {
      fs.mkdirSync(path.dirname(folder), { recursive: true, mode: 0o700 })
      // Written under a temporary name, because another start may do the same.
      const unfinished = fs.mkdtempSync(`${folder}.`)
      unpack(unfinished)
      try {
        fs.renameSync(unfinished, folder)
      } catch {
        fs.rmSync(unfinished, { recursive: true, force: true })
      }
    }
    return isPrivate(folder) ? folder : undefined
  } catch {
    return undefined
  }
}

const cache = [process.env.XDG_CACHE_HOME, process.env.HOME && path.join(process.env.HOME, ".cache")].find(
  (one) => one !== undefined && path.isAbsolute(one)
)
const name = `program-${id}`
const folder =
  (cache && unpacked(path.join(cache, "ampoule", name))) ??
  unpacked(path.join(os.tmpdir(), `ampoule-${process.getuid?.() ?? os.userInfo().username}`, name))
if (folder === undefined) {
  process.stderr.write("ampoule: there is no folder to unpack the program to. Set XDG_CACHE_HOME to one of your own.\n")
  process.exit(1)
}
// A process that the server starts gets the program's name as a word, as a script has one.
if (process.argv[2] === process.execPath) process.argv.splice(2, 1)
const start = path.join(folder, "start.cjs")
createRequire(start)(start)

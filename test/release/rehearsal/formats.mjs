// @ts-check
/** Executables that cannot run on this machine: what their files say, and the pages that their signature covers. */
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { check } from "../../package/newcomer.mjs"

/** Processors in the headers of Mach-O and PE. */
const machO = { "darwin-arm64": 0x0100000c, "darwin-x64": 0x01000007 }
const windows = 0x8664
const signatureCommand = 0x1d
const directoryMagic = 0xfade0c02

/** The code directory of an embedded signature, which names the hash of each page. @param {Buffer} bytes */
const codeDirectory = (bytes) => {
  const commands = bytes.readUInt32LE(16)
  let at = 32
  for (let i = 0; i < commands; i++) {
    if (bytes.readUInt32LE(at) === signatureCommand) {
      const blob = bytes.subarray(bytes.readUInt32LE(at + 8))
      for (let slot = 0; slot < blob.readUInt32BE(8); slot++) {
        const one = blob.subarray(blob.readUInt32BE(12 + 8 * slot + 4))
        if (one.readUInt32BE(0) === directoryMagic) return one
      }
    }
    at += bytes.readUInt32LE(at + 4)
  }
  throw new Error("it has no signature, and macOS on ARM does not start it")
}

/** macOS starts a program of ARM only with a signature that covers each page; an ad-hoc one is enough. @param {Buffer} bytes */
const checkSignature = (bytes) => {
  const directory = codeDirectory(bytes)
  const hashes = directory.readUInt32BE(16)
  const slots = directory.readUInt32BE(28)
  const limit = directory.readUInt32BE(32)
  const [size, type, , pageBits] = directory.subarray(36, 40)
  check(size === 32 && type === 2, "its hashes are not SHA-256")
  const page = 2 ** (pageBits ?? 0)
  check(slots === Math.ceil(limit / page), `${slots} pages of ${page} bytes do not cover ${limit}`)
  for (let slot = 0; slot < slots; slot++) {
    const content = bytes.subarray(slot * page, Math.min((slot + 1) * page, limit))
    const digest = createHash("sha256").update(content).digest()
    const signed = directory.subarray(hashes + 32 * slot, hashes + 32 * (slot + 1))
    check(digest.equals(signed), `page ${slot} is not the one that was signed`)
  }
}

/** @param {string} file @param {"darwin-arm64" | "darwin-x64"} platform */
export const checkMachO = (file, platform) => {
  const bytes = fs.readFileSync(file)
  check(bytes.readUInt32LE(0) === 0xfeedfacf, "it is no program of macOS")
  check(bytes.readUInt32LE(4) === machO[platform], "it is for another processor")
  checkSignature(bytes)
}

/** @param {string} file */
export const checkWindows = (file) => {
  const bytes = fs.readFileSync(file)
  const header = bytes.readUInt32LE(0x3c)
  check(bytes.toString("latin1", header, header + 4) === "PE\0\0", "it is no program of Windows")
  check(bytes.readUInt16LE(header + 4) === windows, "it is for another processor")
}

// @ts-check
/**
 * Ad-hoc signature of a program of macOS, as a linker makes one. The compiler leaves the signature of Bun's authors in a
 * program for Intel, which does not cover the program in it; macOS ends such a process.
 */
import { createHash } from "node:crypto"

const page = 4096
const hashSize = 32
const command = { segment: 0x19, signature: 0x1d }
const flags = { adHoc: 0x2, linkerSigned: 0x20000 }
const mainBinary = 1

/** Offsets of the load commands. @param {Buffer} bytes */
const commandsOf = (bytes) => {
  const found = []
  let at = 32
  for (let i = 0; i < bytes.readUInt32LE(16); i++) {
    found.push({ at, type: bytes.readUInt32LE(at) })
    at += bytes.readUInt32LE(at + 4)
  }
  return found
}

/** @param {Buffer} bytes @param {string} name */
const segment = (bytes, name) => {
  const text = (/** @type {number} */ at) => bytes.toString("latin1", at + 8, at + 24).replaceAll("\0", "")
  const found = commandsOf(bytes).find(({ at, type }) => type === command.segment && text(at) === name)
  if (found === undefined) throw new Error(`the program has no segment ${name}`)
  return found.at
}

/** CodeDirectory of version 0x20400 in a superblob, for `limit` bytes. @param {Buffer} bytes @param {number} limit @param {string} identifier */
const signatureOf = (bytes, limit, identifier) => {
  const header = 88
  const name = Buffer.from(`${identifier}\0`)
  const slots = Math.ceil(limit / page)
  const directory = Buffer.alloc(header + name.length + slots * hashSize)
  const text = segment(bytes, "__TEXT")
  const words = [
    0xfade0c02,
    directory.length,
    0x20400,
    flags.adHoc | flags.linkerSigned,
    header + name.length,
    header,
    0,
    slots,
    limit
  ]
  for (const [i, word] of words.entries()) directory.writeUInt32BE(word, 4 * i)
  // Size and kind of a hash (SHA-256), platform, and the size of a page as a power of two.
  directory.set([hashSize, 2, 0, Math.log2(page)], 36)
  directory.writeBigUInt64BE(bytes.readBigUInt64LE(text + 40), 64)
  directory.writeBigUInt64BE(bytes.readBigUInt64LE(text + 48), 72)
  directory.writeBigUInt64BE(BigInt(mainBinary), 80)
  name.copy(directory, header)
  for (let slot = 0; slot < slots; slot++) {
    const content = bytes.subarray(slot * page, Math.min((slot + 1) * page, limit))
    createHash("sha256")
      .update(content)
      .digest()
      .copy(directory, header + name.length + slot * hashSize)
  }
  const blob = Buffer.alloc(20)
  for (const [i, word] of [0xfade0cc0, 20 + directory.length, 1, 0, 20].entries()) blob.writeUInt32BE(word, 4 * i)
  return Buffer.concat([blob, directory])
}

/** The program with a signature of its own in place of the former one. @param {Buffer} program @param {string} identifier */
export const sign = (program, identifier) => {
  const bytes = Buffer.from(program)
  const signature = commandsOf(bytes).find(({ type }) => type === command.signature)
  if (signature === undefined) throw new Error("the program has no place for a signature")
  const limit = bytes.readUInt32LE(signature.at + 8)
  const size = 20 + 88 + identifier.length + 1 + Math.ceil(limit / page) * hashSize
  const linkEdit = segment(bytes, "__LINKEDIT")
  const fileSize = limit + size - Number(bytes.readBigUInt64LE(linkEdit + 40))
  bytes.writeUInt32LE(size, signature.at + 12)
  bytes.writeBigUInt64LE(BigInt(fileSize), linkEdit + 48)
  // The size in memory is in whole pages, of 16 KiB as Bun has them.
  bytes.writeBigUInt64LE(BigInt(Math.ceil(fileSize / 16384) * 16384), linkEdit + 32)
  // The header is final now, and its page can be hashed.
  return Buffer.concat([bytes.subarray(0, limit), signatureOf(bytes, limit, identifier)])
}

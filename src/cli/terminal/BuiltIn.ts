/**
 * Modules of Node without an import: an import reads all that a module exports, and behind some of these names stands
 * more than this program. `node:http` has another client of HTTP (Node 22 and later), `node:crypto` Web Crypto, `node:fs`
 * its promises. Where a command needs them anyway, it imports them.
 */
export const crypto = () => process.getBuiltinModule("node:crypto")
export const fs = () => process.getBuiltinModule("node:fs")
export const http = () => process.getBuiltinModule("node:http")
export const https = () => process.getBuiltinModule("node:https")

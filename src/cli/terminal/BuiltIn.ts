/**
 * Modules of Node without an import, which would read everything that they export. Some exports load far more than this
 * program needs: `node:http` a second HTTP client (Node 22 and later), `node:crypto` Web Crypto, `node:fs` its
 * promises. Commands that need those import the module.
 */
export const crypto = () => process.getBuiltinModule("node:crypto")
export const fs = () => process.getBuiltinModule("node:fs")
export const http = () => process.getBuiltinModule("node:http")
export const https = () => process.getBuiltinModule("node:https")

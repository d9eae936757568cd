// @ts-check
/** Upgrades from the release before, with the programs of both as npm installs them. */
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { serve, start } from "../../clients/server.mjs"
import { check, installServer } from "../../package/newcomer.mjs"

const target = ["--project", "shop", "--env", "development"]
/** @typedef {{ command: ReadonlyArray<string>, env: Record<string, string> }} Program */

/**
 * Values of the world of `test/clients/server.mjs`, as `ampoule run` hands them over.
 * @param {Program} program @param {string} url @param {string} token @param {string} home
 */
export const reads = ({ command, env }, url, token, home) => {
  const words = [...command.slice(1), "run", ...target, "--", "/usr/bin/env"]
  const { status, stderr, stdout } = spawnSync(command[0] ?? "", words, {
    cwd: home,
    env: { HOME: home, ...env, AMPOULE_URL: url, AMPOULE_API_TOKEN: token },
    encoding: "utf8"
  })
  check(status === 0 && stdout.includes("DATABASE_URL=postgres://db\n"), `run ended with ${status}: ${stderr}${stdout}`)
}

/**
 * The former release as npm installs it, with what it keeps in the embedded database.
 * @param {ReturnType<typeof import("../../package/newcomer.mjs").newcomer>} account @param {string} version
 */
export const former = async (account, version) => {
  account.npm("npm", ["install", "--global", `ampoule@${version}`])
  const program = path.join(account.home, "global/lib/node_modules/ampoule/dist/ampoule.mjs")
  const data = path.join(account.home, "data")
  const running = await start(program, data, { HOME: account.home }, [account.node, program])
  try {
    return { data, program, read: await running.token("read"), write: await running.token("write") }
  } finally {
    await running.stop()
  }
}

/**
 * The same account with the new release, over the data of the former one.
 * @param {ReturnType<typeof import("../../package/newcomer.mjs").newcomer>} account @param {string} version
 * @param {Awaited<ReturnType<typeof former>>} before @param {Program} formerClient
 */
export const upgradeEmbedded = async (account, version, before, formerClient) => {
  installServer(account, version)
  const ours = { command: [account.node, account.program], env: {} }
  const server = await serve(ours.command, before.data, { HOME: account.home })
  try {
    reads(ours, server.url, before.read, account.home)
    reads(formerClient, server.url, before.read, account.home)
    const words = ["secrets", "set", "SINCE_UPGRADE", "--project", "shop", "--env", "development"]
    const { status, stderr } = spawnSync(account.node, [account.program, ...words], {
      cwd: account.home,
      env: { HOME: account.home, AMPOULE_URL: server.url, AMPOULE_API_TOKEN: before.write },
      input: "1",
      encoding: "utf8"
    })
    check(status === 0, `a write after the upgrade ended with ${status}: ${stderr}`)
  } finally {
    await server.stop()
  }
  const verified = spawnSync(account.node, [account.program, "audit", "verify", "--values"], {
    env: { HOME: account.home, AMPOULE_DATA_DIR: before.data },
    encoding: "utf8"
  })
  check(verified.status === 0, `audit verify ended with ${verified.status}: ${verified.stdout}${verified.stderr}`)
}

/** Another form of the new release, over the same data. @param {Program} program @param {string} home @param {Awaited<ReturnType<typeof former>>} before */
export const takeOver = async (program, home, before) => {
  const server = await serve(program.command, before.data, { HOME: home, ...program.env })
  try {
    reads(program, server.url, before.read, home)
  } finally {
    await server.stop()
  }
}

/**
 * On Postgres both releases serve at once, then the new one seals the rows (docs/runbooks/upgrade.md).
 * @param {Program} old @param {Program} ours @param {string} database @param {string} home
 */
export const upgradePostgres = async (old, ours, database, home) => {
  const data = path.join(home, "postgres-data")
  fs.mkdirSync(data, { mode: 0o700 })
  const settings = { HOME: home, AMPOULE_DATABASE_URL: database }
  const first = await start("", data, settings, old.command)
  const running = [first]
  try {
    const token = await first.token("read")
    const refused = await serve(ours.command, data, settings).then(
      (server) => server.stop().then(() => "it started"),
      (/** @type {Error} */ error) => error.message
    )
    check(refused.includes("AMPOULE_SEAL_ROWS"), `without the setting: ${refused}`)
    const beside = await serve(ours.command, data, { ...settings, AMPOULE_SEAL_ROWS: "later" })
    running.push({ ...first, ...beside })
    for (const { url } of [first, beside]) for (const program of [old, ours]) reads(program, url, token, home)
    await first.stop()
    running.splice(0, 1)
    const sealed = await serve(ours.command, data, { ...settings, AMPOULE_SEAL_ROWS: "once" })
    running.push({ ...first, ...sealed })
    for (const { url } of [beside, sealed]) for (const program of [old, ours]) reads(program, url, token, home)
    const last = await serve(ours.command, data, settings)
    running.push({ ...first, ...last })
    reads(ours, last.url, token, home)
  } finally {
    for (const { stop } of running) await stop()
  }
}

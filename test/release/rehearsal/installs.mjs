// @ts-check
/** A published release as people install it: by npm on each Node, as an executable, as an image. */
import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { start } from "../../clients/server.mjs"
import { check, installServer, newcomer } from "../../package/newcomer.mjs"
import { reads } from "./upgrades.mjs"

/** `ampoule --version` of a release. @param {string} version @param {string} commit */
export const versionLine = (version, commit) => `${version} (${commit.slice(0, 12)})\n`

/**
 * @param {ReadonlyArray<string>} command @param {NodeJS.ProcessEnv} env @param {string} line
 */
const names = (command, env, line) => {
  const { error, stderr, stdout } = spawnSync(command[0] ?? "", [...command.slice(1), "--version"], {
    env,
    encoding: "utf8"
  })
  check(stdout === line, `--version: ${error?.message ?? ""}${stdout}${stderr}`)
}

/**
 * Server, command and library by npm, in an empty home.
 * @param {string} work @param {string} major @param {{ port: number, url: string }} from
 * @param {string} version @param {string} line
 */
export const byNpm = async (work, major, from, version, line) => {
  const operator = newcomer(work, major, from)
  installServer(operator, version)
  names([operator.node, operator.program], { HOME: operator.home }, line)
  const data = path.join(operator.home, "data")
  const server = await start("", data, { HOME: operator.home }, [operator.node, operator.program])
  try {
    const token = await server.token("read")
    const ada = newcomer(work, major, from)
    const words = ["run", "--project", "shop", "--env", "development", "--", "env"]
    const credentials = { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: token }
    const said = ada.npm("npx", ["--yes", `ampoule@${version}`, ...words], ada.home, credentials)
    check(said.includes("DATABASE_URL=postgres://db\n"), `npx ampoule run: ${said}`)
    ada.npm("npm", ["install", `ampoule@${version}`])
    const program = path.join(ada.home, "load.mjs")
    fs.writeFileSync(
      program,
      `import * as client from "ampoule/client/promise"\nconsole.log(Object.keys(client).length > 0)\n`
    )
    check(ada.run([program]).stdout === "true\n", "the library does not load")
  } finally {
    await server.stop()
  }
}

/** An executable in an empty home, without Node or any other program. @param {string} file @param {string} home @param {string} line */
export const executable = async (file, home, line) => {
  fs.chmodSync(file, 0o755)
  const program = { command: [file], env: { PATH: "/nonexistent" } }
  names(program.command, { ...program.env, HOME: home }, line)
  const server = await start(file, path.join(home, "data"), { HOME: home, PATH: "/nonexistent" }, [file])
  try {
    reads(program, server.url, await server.token("read"), home)
  } finally {
    await server.stop()
  }
  return program
}

/**
 * An executable of a client, in an empty home without Node or any other program, against a server.
 * @param {ReadonlyArray<string>} command @param {string} home @param {string} line
 * @param {{ url: string, token: string }} server
 */
export const client = (command, home, line, { token, url }) => {
  const program = { command, env: { PATH: "/nonexistent" } }
  names(command, { ...program.env, HOME: home }, line)
  reads(program, url, token, home)
  const refused = spawnSync(command[0] ?? "", [...command.slice(1), "server"], {
    env: { ...program.env, HOME: home },
    encoding: "utf8"
  })
  check(
    refused.status === 1 && refused.stderr.includes("this one needs Node"),
    `server: ${refused.status} ${refused.stderr}`
  )
}

/** Words before a program of ARM on this machine, which Debian's cross libraries and qemu can run. */
export const emulator = ["/usr/bin/qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]

/**
 * An image of the registry, unpacked and run from its layers as its user.
 * @param {string} work @param {string} image @param {string} line
 */
export const fromImage = (work, image, line) => {
  const quiet = { cwd: work, stdio: /** @type {const} */ ("pipe") }
  execFileSync("skopeo", ["copy", "--quiet", "--src-tls-verify=false", `docker://${image}`, "oci:layout:it"], quiet)
  execFileSync("umoci", ["unpack", "--image", "layout:it", "bundle"], quiet)
  const { config } = JSON.parse(
    execFileSync("skopeo", ["inspect", "--config", "--raw", "oci:layout:it"], { cwd: work, encoding: "utf8" })
  )
  const rootfs = path.join(work, "bundle/rootfs")
  const env = Object.fromEntries(config.Env.map((/** @type {string} */ one) => one.split(/=(.*)/s).slice(0, 2)))
  const command = ["/usr/sbin/chroot", `--userspec=${config.User}`, rootfs, ...config.Entrypoint]
  names(command, env, line)
  return { command, env, rootfs, user: Number(config.User.split(":")[0]) }
}

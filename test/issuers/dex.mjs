// @ts-check
/**
 * Dex, built from its module as the Go proxy has it. Its gRPC management API is left out: the proxy has no generated code
 * of it for this commit, and no person signs in by it.
 */
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { freePort } from "../clients/server.mjs"
import { run, serve } from "./processes.mjs"

/** The first one with groups of people in its own list (2.45) has no tag that the proxy takes. */
export const version = "v0.0.0-20260806151424-ab64ed778070"

/** "password", as Dex's own example has it. */
const hash = "$2a$10$2b2cU8CPhOTaGrs1HRQuAueS7JTT5ZHsHSzYiFPm1leZck7Mc8T4W"
const password = "password"

/** @param {string} folder */
const build = async (folder) => {
  const program = path.join(folder, `dex-${version}`)
  if (fs.existsSync(program)) return program
  fs.mkdirSync(folder, { recursive: true })
  // SQLite is one file of C, which is compiled in seconds like this.
  const env = { GOFLAGS: "-mod=mod -buildvcs=false", CGO_ENABLED: "1", CGO_CFLAGS: "-O0" }
  const module = JSON.parse(
    await run("go", ["mod", "download", "-json", `github.com/dexidp/dex@${version}`], { cwd: folder, env })
  )
  const source = path.join(folder, "dex-source")
  fs.rmSync(source, { recursive: true, force: true })
  fs.cpSync(module.Dir, source, { recursive: true })
  await run("chmod", ["-R", "u+w", source], { cwd: folder })
  fs.rmSync(path.join(source, "server/apiserver"), { recursive: true })
  const file = path.join(source, "cmd/dex/serve.go")
  const text = fs.readFileSync(file, "utf8")
  const lines = text
    .split("\n")
    .filter((line) => !/dex\/api\/v2"|dex\/server\/apiserver"|api\.RegisterDexServer\(/.test(line))
  fs.writeFileSync(file, lines.join("\n"))
  await run("go", ["mod", "edit", "-dropreplace=github.com/dexidp/dex/api/v2"], { cwd: source, env })
  await run("go", ["build", "-o", program, "./cmd/dex"], { cwd: source, env })
  return program
}

/** @param {string} folder @param {string} base address of our server */
export const start = async (folder, base) => {
  const program = await build(folder)
  const data = fs.mkdtempSync(path.join(folder, "dex-data-"))
  const url = `http://127.0.0.1:${await freePort()}/dex`
  /** @type {ReadonlyArray<import("./journey.mjs").PersonThere>} */
  let people = []

  const configuration = () => ({
    issuer: url,
    storage: { type: "sqlite3", config: { file: path.join(data, "dex.db") } },
    web: { http: new URL(url).host },
    frontend: { dir: path.join(folder, "dex-source/web") },
    oauth2: { skipApprovalScreen: true },
    sessions: {},
    staticClients: [
      {
        id: "ampoule",
        name: "Ampoule",
        secret: "a-secret-of-the-client",
        redirectURIs: [`${base}/app/sign-in/with/dex/callback`],
        backchannelLogoutURI: `${base}/app/sign-in/with/dex/logout`
      }
    ],
    enablePasswordDB: true,
    staticPasswords: people.map(({ email, groups, name, verified }) => ({
      email,
      hash,
      username: name.toLowerCase(),
      name,
      groups,
      emailVerified: verified,
      userID: createHash("sha256").update(email).digest("hex").slice(0, 32)
    }))
  })

  /** @type {Awaited<ReturnType<typeof serve>> | undefined} */
  let running
  const stop = async () => {
    await running?.stop()
    running = undefined
  }
  /** Its keys are in its database, and stay. @param {ReadonlyArray<import("./journey.mjs").PersonThere>} now */
  const setPeople = async (now) => {
    people = now
    await stop()
    const file = path.join(data, "dex.json")
    fs.writeFileSync(file, JSON.stringify(configuration()))
    running = await serve(program, ["serve", file], {
      cwd: data,
      env: { DEX_SESSIONS_ENABLED: "true" },
      ready: `${url}/.well-known/openid-configuration`
    })
  }

  return {
    key: "dex",
    name: "Dex",
    url,
    settings: [
      {
        key: "dex",
        name: "Dex",
        issuer: url,
        clientId: "ampoule",
        clientSecret: "a-secret-of-the-client",
        scopes: "openid email profile groups"
      }
    ],
    setPeople,
    /** @param {import("playwright-core").Page} page @param {import("./journey.mjs").PersonThere} person */
    signInAt: async (page, { email }) => {
      await page.locator("#login").fill(email)
      await page.locator("#password").fill(password)
      await page.locator("#submit-login").click()
    },
    /** @param {import("playwright-core").Page} page */
    signOutAt: async (page) => {
      await page.goto(`${url}/logout`)
      await page.getByRole("button", { name: "Log Out" }).click()
      await page.getByText("You have been successfully logged out.").waitFor()
    },
    output: () => running?.output() ?? "",
    stop: async () => {
      await stop()
      fs.rmSync(data, { recursive: true, force: true })
    }
  }
}

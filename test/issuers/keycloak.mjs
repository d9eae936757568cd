// @ts-check
/** Keycloak as Maven Central has it, in its development mode; it needs a Java of 17 or later. */
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { freePort } from "../clients/server.mjs"
import { run, serve } from "./processes.mjs"

export const version = "26.7.3"
const sha256 = "27a6535553c3cdcd083872ba40629efafb3475e3b758e0c6f691395561dd0f1f"
const central = "https://repo1.maven.org/maven2"

const password = "six red kites"
const admin = { username: "admin", password: "seven-red-kites" }
const realm = "acme"

/** @param {string} folder */
const install = async (folder) => {
  const at = path.join(folder, `keycloak-${version}`)
  if (fs.existsSync(at)) return at
  fs.mkdirSync(folder, { recursive: true })
  const file = path.join(folder, "keycloak.zip")
  if (!fs.existsSync(file)) {
    const answer = await fetch(
      `${central}/org/keycloak/keycloak-quarkus-dist/${version}/keycloak-quarkus-dist-${version}.zip`
    )
    if (!answer.ok) throw new Error(`Maven Central answers ${answer.status}`)
    fs.writeFileSync(file, Buffer.from(await answer.arrayBuffer()))
  }
  const digest = createHash("sha256").update(fs.readFileSync(file)).digest("hex")
  if (digest !== sha256) throw new Error(`keycloak.zip has the hash ${digest}`)
  await run("python3", ["-m", "zipfile", "-e", file, folder], { cwd: folder })
  return at
}

/** Groups in the ID token, or at UserInfo alone. @param {string} base @param {string} key @param {boolean} inToken */
const client = (base, key, inToken) => ({
  clientId: key,
  protocol: "openid-connect",
  publicClient: false,
  secret: `a-secret-of-${key}`,
  standardFlowEnabled: true,
  directAccessGrantsEnabled: false,
  redirectUris: [`${base}/app/sign-in/with/${key}/callback`],
  attributes: {
    "pkce.code.challenge.method": "S256",
    "backchannel.logout.url": `${base}/app/sign-in/with/${key}/logout`,
    "backchannel.logout.session.required": "true"
  },
  protocolMappers: [
    {
      name: "groups",
      protocol: "openid-connect",
      protocolMapper: "oidc-group-membership-mapper",
      config: {
        "claim.name": "groups",
        "full.path": "false",
        "id.token.claim": String(inToken),
        "access.token.claim": "false",
        "userinfo.token.claim": "true"
      }
    }
  ]
})

/** @param {string} folder @param {string} base address of our server */
export const start = async (folder, base) => {
  const home = await install(folder)
  const port = await freePort()
  const origin = `http://127.0.0.1:${port}`
  const keys = ["keycloak", "keycloak-userinfo"]
  const running = await serve(
    "bash",
    [path.join(home, "bin/kc.sh"), "start-dev", "--http-host=127.0.0.1", `--http-port=${port}`, "--db=dev-mem"],
    {
      cwd: home,
      env: {
        KC_BOOTSTRAP_ADMIN_USERNAME: admin.username,
        KC_BOOTSTRAP_ADMIN_PASSWORD: admin.password,
        JAVA_OPTS_KC_HEAP: "-Xms64m -Xmx700m"
      },
      ready: `${origin}/realms/master/.well-known/openid-configuration`
    }
  )

  const adminToken = async () => {
    const answer = await fetch(`${origin}/realms/master/protocol/openid-connect/token`, {
      method: "POST",
      body: new URLSearchParams({ grant_type: "password", client_id: "admin-cli", ...admin })
    })
    return (await answer.json()).access_token
  }
  /** @param {string} method @param {string} at @param {object} [body] */
  const ask = async (method, at, body) => {
    const answer = await fetch(`${origin}/admin/realms${at}`, {
      method,
      headers: { authorization: `Bearer ${await adminToken()}`, "content-type": "application/json" },
      ...(body && { body: JSON.stringify(body) })
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${at}: ${answer.status} ${text}`)
    return text === "" ? undefined : JSON.parse(text)
  }

  const groups = ["platform", "admins"]
  const make = async () =>
    ask("POST", "", {
      realm,
      enabled: true,
      sslRequired: "none",
      groups: groups.map((name) => ({ name })),
      clients: [client(base, "keycloak", true), client(base, "keycloak-userinfo", false)]
    })
  const userOf = async (/** @type {string} */ email) =>
    (await ask("GET", `/${realm}/users?exact=true&email=${encodeURIComponent(email)}`))[0]
  let isMade = false
  /** @param {ReadonlyArray<import("./journey.mjs").PersonThere>} now */
  const setPeople = async (now) => {
    if (!isMade) await make()
    isMade = true
    const existing = await ask("GET", `/${realm}/groups`)
    for (const { email, groups: wanted, name, verified } of now) {
      if ((await userOf(email)) === undefined) {
        await ask("POST", `/${realm}/users`, {
          username: name.toLowerCase(),
          email,
          emailVerified: verified,
          firstName: name,
          lastName: "Example",
          enabled: true,
          credentials: [{ type: "password", value: password, temporary: false }]
        })
      }
      const { id } = await userOf(email)
      for (const group of existing) {
        const method = wanted.includes(group.name) ? "PUT" : "DELETE"
        await ask(method, `/${realm}/users/${id}/groups/${group.id}`)
      }
    }
  }

  return {
    key: "keycloak",
    name: "Keycloak",
    /** The same people by another client, whose ID token has no groups. */
    userInfo: { key: "keycloak-userinfo", name: "Keycloak by UserInfo" },
    url: `${origin}/realms/${realm}`,
    settings: keys.map((key) => ({
      key,
      name: key === "keycloak" ? "Keycloak" : "Keycloak by UserInfo",
      issuer: `${origin}/realms/${realm}`,
      clientId: key,
      clientSecret: `a-secret-of-${key}`,
      scopes: "openid email profile"
    })),
    setPeople,
    /** @param {import("playwright-core").Page} page @param {import("./journey.mjs").PersonThere} person */
    signInAt: async (page, { name }) => {
      // Where it asks again, it knows the name already.
      const username = page.locator("#username")
      if (await username.isEditable().catch(() => false)) await username.fill(name.toLowerCase())
      await page.locator("#password").fill(password)
      await page.locator("#kc-login").click()
    },
    /** @param {import("playwright-core").Page} page */
    signOutAt: async (page) => {
      await page.goto(`${origin}/realms/${realm}/protocol/openid-connect/logout`)
      await page.locator("#kc-logout").click()
      await page.getByRole("heading", { name: "You are logged out" }).waitFor()
    },
    output: () => running.output(),
    stop: running.stop
  }
}

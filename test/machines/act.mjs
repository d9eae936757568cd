// @ts-check
/**
 * `npm run test:action`: the GitHub Action in a workflow that nektos/act runs on this machine (host mode, no container):
 * against the built server, with an issuer of this machine in the place of GitHub's. Needs Go and the registries of Go
 * and npm; tools stay in AMPOULE_ACTION_DIR. Writes test/records/action.json.
 */
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import * as Jose from "jose"
import { start, values } from "../clients/server.mjs"

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..")
const folder = process.env["AMPOULE_ACTION_DIR"] ?? path.join(tmpdir(), "ampoule-action")
const versions = { act: "v0.2.89", node: "24.21.0" }
const check = (/** @type {boolean} */ holds, /** @type {string} */ otherwise) => {
  if (!holds) throw new Error(otherwise)
}

fs.mkdirSync(folder, { recursive: true })
const act = path.join(folder, `act-${versions.act}`)
if (!fs.existsSync(act)) {
  const to = path.join(folder, "go")
  const env = { ...process.env, GOBIN: to }
  execFileSync("go", ["install", `github.com/nektos/act@${versions.act}`], {
    env,
    stdio: ["ignore", "pipe", "inherit"]
  })
  fs.renameSync(path.join(to, "act"), act)
}
// The Node that the action names.
fs.writeFileSync(path.join(folder, "package.json"), JSON.stringify({ private: true }))
execFileSync("npm", ["install", "--no-audit", "--no-fund", `node@${versions.node}`], { cwd: folder, stdio: "pipe" })

const work = fs.mkdtempSync(path.join(tmpdir(), "ampoule-act-"))
const cache = path.join(root, "node_modules/.cache/ampoule")
fs.mkdirSync(cache, { recursive: true })
const release = fs.mkdtempSync(path.join(cache, "act-"))
execFileSync(process.execPath, ["src/build.mjs", path.join(release, "dist")], { cwd: root, stdio: "pipe" })
const server = await start(path.join(release, "dist/ampoule.cjs"), path.join(work, "data"), {
  AMPOULE_RATE_LIMITS: "off"
})

/** Discovery, keys, and what a runner asks for the identity of its job. */
const { privateKey, publicKey } = await Jose.generateKeyPair("RS256", { extractable: true })
const keys = [{ ...(await Jose.exportJWK(publicKey)), kid: "k1", alg: "RS256", use: "sig" }]
const counts = { identity: 0 }
const issuer = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? "/", address)
  const answer = (/** @type {object} */ json, status = 200) =>
    void response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(json))
  if (pathname === "/.well-known/openid-configuration") return answer({ issuer: address, jwks_uri: `${address}/jwks` })
  if (pathname === "/jwks") return answer({ keys })
  if (pathname !== "/request" || request.headers.authorization !== "Bearer runner") return answer({}, 403)
  counts.identity += 1
  const now = Math.floor(Date.now() / 1000)
  const claims = { repository: "acme/shop", ref: "refs/heads/main", jti: crypto.randomUUID() }
  new Jose.SignJWT({
    ...claims,
    iss: address,
    aud: searchParams.get("audience") ?? "",
    sub: "repo:acme/shop:ref:refs/heads/main"
  })
    .setProtectedHeader({ alg: "RS256", kid: "k1" })
    .setIssuedAt(now)
    .setNotBefore(now - 60)
    .setExpirationTime(now + 300)
    .sign(privateKey)
    .then((value) => answer({ value }))
})
issuer.listen(0, "127.0.0.1")
await once(issuer, "listening")
const bound = issuer.address()
const address = `http://127.0.0.1:${typeof bound === "object" && bound !== null ? bound.port : 0}`

const rule = async () => {
  const answer = await fetch(`${server.url}/teams/${server.teamId}/machine-rules`, {
    method: "POST",
    headers: { cookie: server.session(), origin: server.url, "content-type": "application/json" },
    body: JSON.stringify({
      name: "shop deploys",
      issuer: address,
      audience: server.url,
      claims: { repository: "acme/shop", ref: "refs/heads/main" },
      projects: [server.projectId],
      environments: ["development"]
    })
  })
  const text = await answer.text()
  check(answer.status === 201, text)
  return JSON.parse(text).id
}

/** A repository whose workflow uses the action, as far as the action needs ours. @param {string} id of the rule */
const repository = (id) => {
  const repo = path.join(work, "repo")
  const names = ["src/ClientTarget.ts", "src/formats/DangerousNames.ts", "src/formats/DangerousNameLists.ts"]
  for (const file of ["deploy/action/action.yml", "deploy/action/main.mjs", ...names]) {
    fs.mkdirSync(path.dirname(path.join(repo, "ampoule", file)), { recursive: true })
    fs.copyFileSync(path.join(root, file), path.join(repo, "ampoule", file))
  }
  const uses = `uses: ./ampoule/deploy/action
        with: { url: "${server.url}", rule: "${id}"`
  const workflow = `on: push
jobs:
  deploy:
    runs-on: ubuntu-latest
    permissions: { id-token: write }
    steps:
      - uses: actions/checkout@v5
      - name: one command
        ${uses}, command: "test \\"$DATABASE_URL\\" = postgres://db && echo command saw $DATABASE_URL" }
      - name: nothing is left of it
        run: test -z "$DATABASE_URL"
      - name: the steps that follow
        ${uses} }
      - name: a later step
        run: test "$DATABASE_URL" = postgres://db && echo "step saw $DATABASE_URL"
`
  fs.mkdirSync(path.join(repo, ".github/workflows"), { recursive: true })
  fs.writeFileSync(path.join(repo, ".github/workflows/deploy.yml"), workflow)
  const git = (/** @type {Array<string>} */ ...args) =>
    execFileSync("git", ["-c", "user.name=act", "-c", "user.email=act@example.com", ...args], {
      cwd: repo,
      stdio: "pipe"
    })
  git("init", "--initial-branch", "main")
  git("add", "--all")
  git("commit", "--message", "A workflow")
  git("remote", "add", "origin", "https://github.com/acme/shop.git")
  return repo
}

try {
  const repo = repository(await rule())
  const child = spawn(
    act,
    [
      ["push", "--platform", "ubuntu-latest=-self-hosted", "--pull=false"],
      ["--env", `ACTIONS_ID_TOKEN_REQUEST_URL=${address}/request?api-version=2`],
      ["--env", "ACTIONS_ID_TOKEN_REQUEST_TOKEN=runner"],
      ["--actor", "ada", "--defaultbranch", "main"]
    ].flat(),
    {
      cwd: repo,
      env: {
        PATH: `${path.join(folder, "node_modules/node/bin")}:${process.env["PATH"]}`,
        HOME: work,
        XDG_CACHE_HOME: path.join(work, "cache"),
        NO_PROXY: "*"
      },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 300_000
    }
  )
  let log = ""
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (log += String(chunk)))
  const [code] = await once(child, "close")
  check(code === 0, log)
  check(/command saw \*\*\*/.test(log) && /step saw \*\*\*/.test(log), `what the steps saw is not in the log:\n${log}`)
  for (const value of Object.values(values).filter((one) => one.length > 3))
    check(!log.includes(value), "a value is in the log")
  check(counts.identity === 2, `the identity was asked for ${counts.identity} times`)
  const record = {
    what: "The GitHub Action in a workflow, run by nektos/act on the machine itself against the built server. npm run test:action",
    date: new Date().toISOString().slice(0, 10),
    commit: execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: root, encoding: "utf8" }).trim(),
    versions,
    steps: [
      "a command alone gets the values",
      "no variable is left of it",
      "later steps get them",
      "each is masked in the log"
    ]
  }
  const file = path.join(root, "test/records/action.json")
  fs.writeFileSync(file, JSON.stringify(record))
  execFileSync(path.join(root, "node_modules/.bin/oxfmt"), [file])
  process.stdout.write(`${record.steps.length} passed, 0 failed\n`)
} finally {
  await server.stop()
  issuer.close()
  issuer.closeAllConnections()
  for (const one of [work, release]) fs.rmSync(one, { recursive: true, force: true })
}

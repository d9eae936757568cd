// @ts-check
/**
 * Counterpart of the journeys of generated clients: the built server with one environment, and in front of it a server
 * "of a later release", which adds what a later release may add (docs/contract/README.md).
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createServer } from "node:http"

/** The values that every journey finds, and how many pages of two they make. */
export const values = { A: "1", B: "2", C: "3", DATABASE_URL: "postgres://db", HOST: "db" }

/** @param {import("node:http").Server} server */
const listen = async (server) => {
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("no port")
  return address.port
}

export const freePort = async () => {
  const probe = createServer()
  const port = await listen(probe)
  probe.close()
  await once(probe, "close")
  return port
}

/**
 * `ampoule server` over a data folder; stopped by `stop`.
 * @param {ReadonlyArray<string>} command the program, and its words before `server`
 * @param {string} folder for its data
 * @param {Record<string, string>} settings
 */
export const serve = async (command, folder, settings = {}) => {
  const port = Number(settings["AMPOULE_PORT"] ?? (await freePort()))
  const url = `http://127.0.0.1:${port}`
  const child = spawn(command[0] ?? "", [...command.slice(1), "server"], {
    env: {
      PATH: process.env["PATH"],
      AMPOULE_PORT: String(port),
      AMPOULE_DATA_DIR: folder,
      AMPOULE_SETUP_CODE: setupCode,
      ...settings
    },
    stdio: ["ignore", "pipe", "pipe"]
  })
  let output = ""
  await new Promise((resolve, reject) => {
    const read = (/** @type {unknown} */ chunk) => {
      output += String(chunk)
      if (output.includes("listens on")) resolve(undefined)
    }
    child.stdout.on("data", read)
    child.stderr.on("data", read)
    child.once("exit", (code) => reject(new Error(`the server stopped with ${code}: ${output}`)))
  })
  const stop = async () => {
    child.kill("SIGTERM")
    await once(child, "exit")
  }
  return { url, pid: child.pid, stop }
}

/**
 * `ampoule server` with an empty data folder, and a world in it.
 * @param {string} program the built `ampoule.mjs`, or an executable
 * @param {string} folder for its data
 * @param {Record<string, string>} settings
 * @param {ReadonlyArray<string>} command what runs it; by default this Node and the program
 */
export const start = async (program, folder, settings = {}, command = [process.execPath, program]) => {
  const { pid, stop, url } = await serve(command, folder, settings)
  try {
    return { url, pid, stop, ...(await world(url)) }
  } catch (error) {
    await stop()
    throw error
  }
}

const setupCode = "a code for journeys"
/** The person who sets the server up. */
export const owner = {
  email: "ada@example.com",
  name: "Ada",
  password: "seven green lamps over a quiet harbour",
  teamName: "Platform"
}

/** @param {string} url */
const world = async (url) => {
  let cookie = ""
  /** @type {(method: string, path: string, body?: object, bearer?: string) => Promise<any>} */
  const call = async (method, path, body, bearer) => {
    const headers = {
      origin: url,
      ...(bearer === undefined ? { cookie } : { authorization: `Bearer ${bearer}` }),
      ...(body === undefined ? {} : { "content-type": "application/json" })
    }
    const response = await fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    const [given] = response.headers.getSetCookie()
    if (given !== undefined) cookie = given.split(";")[0] ?? ""
    return JSON.parse(text)
  }
  const { team } = await call("POST", "/setup", { setupCode, ...owner })
  const project = await call("POST", `/teams/${team.id}/projects`, { name: "Shop" })
  let count = 0
  const token = async (/** @type {"read" | "write"} */ accessLevel, more = {}) => {
    const body = { name: `journey ${++count}`, accessLevel, lifetime: "1d", ...more }
    return (await call("POST", `/teams/${team.id}/api-tokens`, body)).value
  }
  const secrets = Object.entries(values).map(([key, value]) => ({ key, value }))
  await call(
    "POST",
    "/secrets/bulk",
    { projectId: project.id, environment: "development", secrets },
    await token("write")
  )
  return { projectId: project.id, teamId: team.id, token, call, session: () => cookie }
}

/** Answers of a later release in the place of today's values. */
const laterValues = new Map(
  Object.entries({
    kind: "later-kind",
    representation: "later",
    code: "LATER_CODE",
    plan: "later-plan",
    role: "later-role",
    accessLevel: "later-level"
  })
)

/** @type {(json: any, name?: string) => any} */
const later = (json, name = "") => {
  if (Array.isArray(json)) {
    const items = json.map((one) => later(one))
    return /scopes$/i.test(name) && json.every((one) => typeof one === "string") ? [...items, "later:scope"] : items
  }
  if (typeof json !== "object" || json === null) return laterValues.get(name) ?? json
  // Values by key are the user's own.
  if (name === "values") return json
  const members = Object.entries(json).map(([member, value]) => [member, later(value, member)])
  return { ...Object.fromEntries(members), addedLater: { nested: [1, "two", null] } }
}

/**
 * The server of a later release.
 * @param {string} url of today's
 */
export const startLater = async (url) => {
  const server = createServer(async (request, response) => {
    const chunks = []
    for await (const chunk of request) chunks.push(chunk)
    const { host: _, connection: __, ...headers } = request.headers
    const answer = await fetch(url + (request.url ?? ""), {
      method: request.method ?? "GET",
      headers: /** @type {Record<string, string>} */ (headers),
      ...(chunks.length > 0 && { body: Buffer.concat(chunks) })
    })
    response.writeHead(answer.status, { "content-type": "application/json" })
    response.end(JSON.stringify(later(await answer.json())))
  })
  const port = await listen(server)
  return { url: `http://127.0.0.1:${port}`, stop: () => new Promise((resolve) => void server.close(resolve)) }
}

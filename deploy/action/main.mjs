// @ts-check
/**
 * The GitHub Action (`action.yml`). It exchanges the job's identity for a token (docs/recipes/ci-identities.md), reads an
 * environment and masks every value first. Then it runs a command with the values, or sets them for the following
 * steps. It needs no package: a runner's Node 24 loads it unchanged.
 */
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import * as fs from "node:fs"
import { constants } from "node:os"
import { fromCaller, isComplete, withCredential } from "../../src/ClientTarget.ts"
import { isDangerous } from "../../src/formats/DangerousNames.ts"

/** Sentence for the log, never with a value. */
class Refused extends Error {}

/** Input of the action, in the runner's form. @param {string} name */
const optional = (name) => (process.env[`INPUT_${name.toUpperCase()}`] ?? "").trim()
/** @param {string} name */
const input = (name) => {
  const value = optional(name)
  if (value === "") throw new Refused(`The input ${name} is missing.`)
  return value
}

/** Escapes the data of a workflow command, which must be one line. @param {string} text */
const escaped = (text) => text.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A")

/** Masks each value, and each line of a value, since logs are line by line. @param {ReadonlyArray<string>} values */
const mask = (values) => {
  const texts = values.flatMap((value) => [value, ...value.split(/\r\n|\r|\n/)]).filter((text) => text.trim() !== "")
  // Written synchronously, because later output may include a value.
  fs.writeSync(1, [...new Set(texts)].map((text) => `::add-mask::${escaped(text)}\n`).join(""))
}

/** @param {string} what @param {string} url @param {RequestInit} [options] @returns {Promise<any>} */
const ask = async (what, url, options) => {
  // Redirects are not followed, so that no other server receives the credential.
  const response = await fetch(url, { redirect: "error", signal: AbortSignal.timeout(30_000), ...options }).catch(
    () => {
      throw new Refused(`${what}: ${new URL(url).host} does not answer.`)
    }
  )
  const body = await response.json().catch(() => ({}))
  if (response.ok) return body
  const reason = body.error_description ?? body.error?.message ?? body.message ?? ""
  throw new Refused(`${what}: ${response.status}${typeof reason === "string" && reason !== "" ? ` (${reason})` : ""}.`)
}

const identity = async () => {
  const { ACTIONS_ID_TOKEN_REQUEST_TOKEN: token, ACTIONS_ID_TOKEN_REQUEST_URL: url } = process.env
  if (token === undefined || url === undefined) {
    throw new Refused("The job has no identity: give it `permissions: id-token: write`.")
  }
  const audience = encodeURIComponent(optional("audience") || server)
  const { value } = await ask("The job's identity", `${url}&audience=${audience}`, {
    headers: { authorization: `Bearer ${token}` }
  })
  mask([value])
  return value
}

/** @param {string} jwt */
const exchange = async (jwt) => {
  const form = new URLSearchParams({
    grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
    subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    subject_token: jwt,
    audience: input("rule")
  })
  const { access_token: token } = await ask("The exchange", `${server}/auth/token-exchange`, {
    method: "POST",
    body: form
  })
  mask([token])
  return token
}

/** Inputs, then variables of the job, then the only environment that the rule reaches. @param {{ authorization: string }} headers */
const target = async (headers) => {
  const own = fromCaller({ project: optional("project"), environment: optional("environment") }, process.env)
  const only = isComplete(own) ? null : (await ask("The token", `${server}/me/verify`, { headers })).only
  const { environment, project } = withCredential(own, only ?? null)
  const reach = "the rule does not reach exactly one environment"
  if (project === undefined)
    throw new Refused(`Which project? Give the input project or set AMPOULE_PROJECT: ${reach}.`)
  if (environment === undefined) {
    throw new Refused(`Which environment? Give the input environment or set AMPOULE_ENVIRONMENT: ${reach}.`)
  }
  const id = project.id ?? (await projectId(headers, project.name))
  return new URLSearchParams({ projectId: id, environment: environment.name })
}

/** @param {{ authorization: string }} headers @param {string} name */
const projectId = async (headers, name) => {
  if (/^[0-9a-f]{8}-[0-9a-f-]{27}$/i.test(name)) return name
  const { items } = await ask("The project", `${server}/projects`, { headers })
  const found = items.filter((/** @type {{ slug: string }} */ project) => project.slug === name)
  if (found.length === 1) return found[0].id
  throw new Refused(
    found.length === 0 ? "The rule reaches no project of this name." : "Several teams have it: say which by its id."
  )
}

/** @param {Record<string, string>} values */
const setForLaterSteps = (values) => {
  const file = process.env["GITHUB_ENV"]
  if (file === undefined) throw new Refused("GITHUB_ENV is not set: this runs in a job of GitHub Actions.")
  // The random delimiter cannot occur in a value.
  const end = `ampoule_${randomUUID()}`
  const text = Object.entries(values).map(([name, value]) => `${name}<<${end}\n${value}\n${end}\n`)
  fs.appendFileSync(file, text.join(""))
}

/** Ends like the command. @param {string} command @param {Record<string, string>} values */
const run = (command, values) =>
  new Promise((resolve, reject) => {
    const child = spawn("bash", ["--noprofile", "--norc", "-e", "-o", "pipefail", "-c", command], {
      env: { ...process.env, ...values },
      stdio: "inherit"
    })
    child.once("error", () => reject(new Refused("bash cannot be started.")))
    child.once("exit", (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])))
    for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM"])) process.on(signal, () => child.kill(signal))
  })

const address = () => {
  const url = URL.canParse(input("url")) ? new URL(input("url")) : undefined
  const loopback = url !== undefined && ["127.0.0.1", "[::1]", "localhost"].includes(url.hostname)
  if (url?.protocol !== "https:" && !loopback) throw new Refused("The input url must be an https address.")
  return url.origin
}

let server = ""
const main = async () => {
  server = address()
  const headers = { authorization: `Bearer ${await exchange(await identity())}` }
  try {
    /** @type {{ values: Record<string, string> }} */
    const { values } = await ask("The environment", `${server}/secrets/inject?${await target(headers)}`, { headers })
    mask(Object.values(values))
    const allowed = optional("allow").split(/\s+/)
    // The runner itself refuses the last two.
    const refused = Object.keys(values).filter(
      (name) => !allowed.includes(name) && (isDangerous(name) || /^(GITHUB|RUNNER)_/i.test(name))
    )
    if (refused.length > 0) {
      throw new Refused(`${refused.join(", ")} would change which code runs: name what is meant to in \`allow\`.`)
    }
    return values
  } finally {
    // Revoked early; it would expire anyway.
    await ask("The token", `${server}/me/token`, { method: "DELETE", headers }).catch(() => {})
  }
}

try {
  const values = await main()
  const command = optional("command")
  if (command === "") setForLaterSteps(values)
  else process.exitCode = Number(await run(command, values))
} catch (error) {
  // Messages of other errors may quote values.
  const sentence = error instanceof Refused ? error.message : "Ampoule: the action failed."
  fs.writeSync(1, `::error::${escaped(sentence)}\n`)
  process.exitCode = 1
}

/** `ampoule doctor`: checks each part that the others depend on, one line each. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Capabilities from "#src/cli/connection/Capabilities.ts"
import * as Choice from "#src/cli/connection/Choice.ts"
import { CredentialStores } from "#src/cli/connection/CredentialStore.ts"
import { type CliError, describe } from "#src/cli/terminal/Failure.ts"
import { isInTheClear, link, type Link } from "#src/cli/connection/Link.ts"
import * as Logins from "#src/cli/connection/Logins.ts"
import { exitWith, facts, json, plain } from "#src/cli/terminal/Output.ts"
import * as ProjectFile from "#src/cli/connection/ProjectFile.ts"
import * as Target from "#src/cli/connection/Target.ts"
import * as TargetWords from "#src/cli/connection/TargetWords.ts"
import * as Proxy from "#src/cli/connection/Proxy.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"
import { verify } from "#src/cli/connection/Verified.ts"
import { named, release, version } from "#src/Release.ts"

interface Finding {
  readonly check: string
  readonly state: "ok" | "warning" | "failed"
  readonly text: string
}

const ok = (check: string, text: string): Finding => ({ check, state: "ok", text })
const warning = (check: string, text: string): Finding => ({ check, state: "warning", text })
const failed = (check: string, text: string): Finding => ({ check, state: "failed", text })

const sentence = (error: CliError): string => {
  const { hint, message } = describe(error)
  return hint === undefined ? message : `${message} ${hint.replaceAll(/\n\s*/g, " ")}`
}

export const Readiness = Shape.struct({ checks: Shape.record(Shape.struct({ status: Shape.string })) })

const proxy = (url: string): Finding => {
  const route = Proxy.routeOf(new URL(url))
  switch (route._tag) {
    case "Proxied":
      return ok("proxy", `${Proxy.nameOf(route.proxy)} (${route.proxy.variable})`)
    case "Direct":
      return ok("proxy", route.why === undefined ? "none" : `none for this address (${route.why})`)
    case "Unusable":
      return failed("proxy", `${route.variable} cannot be used: ${route.reason}`)
  }
}

/** Milliseconds. A larger difference makes expiry times and the age of offline copies misleading. */
const maximumSkew = 60_000

const serverFindings = Effect.fnUntraced(function* (server: Link) {
  const sent = yield* Clock.currentTimeMillis
  const live = yield* Effect.either(server.ask({ path: "/health/live" }))
  if (live._tag === "Left") return [failed("server", sentence(live.left))]
  const received = yield* Clock.currentTimeMillis
  const findings = [ok("server", `answers in ${received - sent} ms`)]
  const date = Date.parse(live.right.headers["date"] ?? "")
  if (Number.isFinite(date)) {
    // The header has whole seconds, so add half a second. The clock is read at half the round trip.
    const skew = Math.round((sent + received) / 2 - (date + 500))
    const seconds = Math.abs(Math.round(skew / 1_000))
    const text =
      seconds === 0
        ? "this clock agrees with the server's"
        : `this clock is ${seconds} s ${skew > 0 ? "ahead of" : "behind"} the server's`
    findings.push(Math.abs(skew) > maximumSkew ? warning("clock", text) : ok("clock", text))
  }
  return findings
})

/** Readiness answers 503 without the error envelope, so its status is checked here. */
const readiness = Effect.fnUntraced(function* (url: string) {
  const server = yield* link({ url })
  const ready = yield* Effect.either(server.ask({ path: "/health/ready" }))
  if (ready._tag === "Left") {
    return ready.left._tag === "UnexpectedAnswer" && ready.left.status === 503
      ? failed("readiness", "a part that the server needs is missing; see its log and /health/ready")
      : failed("readiness", sentence(ready.left))
  }
  const checks = Shape.json(Readiness)(ready.right.text)
  return ok(
    "readiness",
    Option.match(checks, {
      onNone: () => "ready",
      onSome: ({ checks }) =>
        Object.entries(checks)
          .map(([name, { status }]) => `${plain(name)} ${plain(status)}`)
          .join(", ")
    })
  )
})

const keychain = (url: string, login: Option.Option<Logins.Login>) =>
  Effect.gen(function* () {
    const stores = yield* CredentialStores
    const protection = Option.getOrUndefined(login)?.protection
    const answer = yield* Effect.either(stores.os_keychain.read(url))
    if (answer._tag === "Right") return ok("keychain", "answers")
    return protection === "os_keychain"
      ? failed("keychain", sentence(answer.left))
      : warning("keychain", "none available: `ampoule login` needs --plaintext-local")
  })

const credentialFindings = Effect.fnUntraced(function* (options: Choice.ConnectionOptions) {
  const chosen = yield* Effect.either(Choice.choose(options))
  if (chosen._tag === "Left") return [failed("credential", sentence(chosen.left))]
  if (Option.isNone(chosen.right)) {
    return [failed("credential", "none: run `ampoule login`, or set AMPOULE_API_TOKEN")]
  }
  const { credential, url, why } = chosen.right.value
  const connection = yield* link({ url, credential })
  const findings = [ok("credential", why)]
  const verified = yield* Effect.either(verify(connection))
  findings.push(
    verified._tag === "Left"
      ? failed("permission", sentence(verified.left))
      : ok(
          "permission",
          `${verified.right.accessLevel ?? verified.right.scopes?.flatMap(({ scopes }) => scopes).join(" ") ?? "session"}, until ${verified.right.credential.expiresAt ?? "revoked"}`
        )
  )
  const only = verified._tag === "Right" ? (verified.right.only ?? null) : null
  const overview = yield* Effect.either(Target.overview(Target.noOptions, only))
  findings.push(
    overview._tag === "Left"
      ? failed("target", sentence(overview.left))
      : ok("target", TargetWords.overview(overview.right.parts))
  )
  const capabilities = yield* Effect.either(Capabilities.read(connection))
  if (capabilities._tag === "Right" && Option.isSome(capabilities.right)) {
    const { clientAddress, commit, version: serverVersion = "unknown" } = capabilities.right.value
    if (clientAddress === "unreadable") {
      findings.push(
        warning(
          "client",
          "a proxy reports this address in a form that the server cannot read; see its log for the proxy"
        )
      )
    }
    const text = `server ${plain(named(serverVersion, commit))}, this command ${release}`
    findings.push(
      serverVersion.split(".")[0] === version.split(".")[0] ? ok("version", text) : warning("version", text)
    )
  }
  return findings
})

const folderFinding = Effect.gen(function* () {
  const file = yield* Effect.either(ProjectFile.find({ foreign: false }))
  if (file._tag === "Left") return failed("folder", sentence(file.left))
  if (Option.isNone(file.right)) return ok("folder", "no .ampoule.json here or above")
  const { digest, path } = file.right.value
  const text = `${plain(path)}: ${ProjectFile.description(file.right.value)}`
  return (yield* ProjectFile.isTrusted(digest))
    ? ok("folder", text)
    : warning("folder", `${text}, not trusted yet: \`ampoule trust\``)
})

const states = {
  ok: ["ok     ", "green"],
  warning: ["warning", "yellow"],
  failed: ["FAILED ", "red"]
} as const

interface DoctorOptions extends Choice.ConnectionOptions {
  readonly json: boolean
}

export const checkEverything = Effect.fnUntraced(function* (options: DoctorOptions) {
  const logins = yield* Logins.read
  const address = yield* Effect.either(
    Choice.chooseAddress(options.url, Option.contains(options.credential, "env") ? Option.none() : logins)
  )
  const findings: Array<Finding> = []
  if (address._tag === "Left") findings.push(failed("address", sentence(address.left)))
  else {
    const { url, urlFrom } = address.right
    findings.push(
      isInTheClear(url)
        ? warning("address", `${url} (${urlFrom}): not https, so others on the network can read it`)
        : ok("address", `${url} (${urlFrom})`)
    )
    findings.push(proxy(url))
    const server = yield* serverFindings(yield* link({ url }))
    findings.push(...server)
    if (server.every(({ state }) => state !== "failed")) {
      findings.push(yield* readiness(url), ...(yield* credentialFindings(options)))
    }
    findings.push(yield* keychain(url, Logins.find(logins, url)))
  }
  findings.push(yield* folderFinding)
  if (findings.some(({ state }) => state === "failed")) yield* exitWith(1)
  if (options.json) return yield* json(findings)
  yield* facts(
    findings.map(({ check, state, text }) => {
      const [word, colour] = states[state]
      return { name: `${word}  ${check.padEnd(11)} `, text, colour }
    })
  )
})

/**
 * The proxy of a network between the command line and the server: it is used, or not, and never gets a
 * credential.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { type Route, routeOf } from "#src/cli/connection/Proxy.ts"
import { authority } from "#test/support/Certificates.ts"
import { Ampoule } from "./Ampoule.ts"
import * as FakeServer from "./FakeServer.ts"
import * as ForwardProxy from "./ForwardProxy.ts"

const nameOf = (route: Route): string =>
  route._tag === "Proxied"
    ? `${route.proxy.host}:${route.proxy.port} ${route.proxy.variable}`
    : route._tag === "Direct"
      ? `direct${route.why === undefined ? "" : ` ${route.why}`}`
      : `unusable ${route.variable}`

describe("which way a request goes", () => {
  const table: ReadonlyArray<readonly [url: string, env: Readonly<Record<string, string>>, way: string]> = [
    ["https://a.example", {}, "direct"],
    ["https://a.example", { HTTPS_PROXY: "http://p:3128" }, "p:3128 HTTPS_PROXY"],
    ["https://a.example", { https_proxy: "http://low:1", HTTPS_PROXY: "http://up:2" }, "low:1 https_proxy"],
    ["https://a.example", { HTTPS_PROXY: "p:3128" }, "p:3128 HTTPS_PROXY"],
    ["https://a.example", { HTTPS_PROXY: "https://p" }, "p:443 HTTPS_PROXY"],
    ["https://a.example", { HTTPS_PROXY: "http://u:w@[::1]:8" }, "::1:8 HTTPS_PROXY"],
    ["https://a.example", { HTTP_PROXY: "http://p:3128" }, "direct"],
    ["http://a.example", { HTTP_PROXY: "http://p:3128" }, "p:3128 HTTP_PROXY"],
    ["http://a.example", { HTTP_PROXY: "http://p:3128", REQUEST_METHOD: "GET" }, "direct"],
    ["http://a.example", { http_proxy: "http://p:3128", REQUEST_METHOD: "GET" }, "p:3128 http_proxy"],
    ["https://a.example", { ALL_PROXY: "http://p:1" }, "p:1 ALL_PROXY"],
    ["https://a.example", { HTTPS_PROXY: "" }, "direct"],
    ["https://a.example", { HTTPS_PROXY: "socks5://p:1080" }, "unusable HTTPS_PROXY"],
    ["https://a.example", { HTTPS_PROXY: "http://" }, "unusable HTTPS_PROXY"],
    ["https://a.example", { HTTPS_PROXY: "http://u:50%off@p:1" }, "unusable HTTPS_PROXY"],
    ["https://a.example", { AMPOULE_PROXY: "off", HTTPS_PROXY: "http://p:1" }, "direct AMPOULE_PROXY"],
    ["https://a.example", { AMPOULE_PROXY: "http://own:1", NO_PROXY: "*" }, "own:1 AMPOULE_PROXY"],
    ["http://127.0.0.1:4400", { HTTP_PROXY: "http://p:1", NO_PROXY: "" }, "direct a loopback address"],
    ["https://localhost:4400", { HTTPS_PROXY: "http://p:1" }, "direct a loopback address"],
    ["https://[::1]:4400", { ALL_PROXY: "http://p:1" }, "direct a loopback address"],
    ["http://127.0.0.1:4400", { AMPOULE_PROXY: "http://p:1" }, "p:1 AMPOULE_PROXY"]
  ]
  it.each(table)("%s with %o: %s", (url, env, way) => {
    assert.strictEqual(nameOf(routeOf(new URL(url), env)), way)
  })

  const exempt: ReadonlyArray<readonly [url: string, list: string, is: boolean]> = [
    ["https://a.example.com", "*", true],
    ["https://a.example.com", "a.example.com", true],
    ["https://a.example.com", "example.com", true],
    ["https://a.example.com", ".example.com", true],
    ["https://a.example.com", "*.example.com", true],
    ["https://A.Example.com", "other, EXAMPLE.com", true],
    ["https://a.example.com", "other example.com", true],
    ["https://notexample.com", "example.com", false],
    ["https://a.example.com", "example.com.evil", false],
    ["https://a.example.com", "a.example.com:443", true],
    ["https://a.example.com", "a.example.com:8443", false],
    ["https://a.example.com:8443", "a.example.com:8443", true],
    ["https://10.1.2.3", "10.0.0.0/8", true],
    ["https://11.1.2.3", "10.0.0.0/8", false],
    ["https://10.1.2.3", "10.1.2.3", true],
    ["https://10.1.2.3", "2.3", false],
    ["https://10.1.2.3", "10.0.0.0/99", false],
    ["https://[fd00::5]", "fd00::/8", true],
    ["https://[fd00::5]:8443", "[fd00::5]:8443", true],
    ["https://[fd00::5]", "10.0.0.0/8", false]
  ]
  it.each(exempt)("%s is exempt by NO_PROXY=%s: %s", (url, list, is) => {
    const env = { HTTPS_PROXY: "http://p:1", NO_PROXY: list }
    assert.strictEqual(routeOf(new URL(url), env)._tag, is ? "Direct" : "Proxied")
  })
})

const token = "amp_at_0123456789abcdef_secretpart"
const target = ["-p", "demo", "-e", "development"]
/** A name that only the proxy finds. */
const hidden = "ampoule.internal.test"

const setUp = Effect.gen(function* () {
  const ampoule = yield* Ampoule
  const folder = yield* ampoule.home
  const name = Buffer.concat([Buffer.of(0x82, hidden.length), Buffer.from(hidden)])
  const { ca, cert, key } = authority(folder)("server", [name])
  const server = yield* FakeServer.make(
    FakeServer.environment(() => ({ KEY: "value" })),
    { cert: fs.readFileSync(cert, "utf8"), key: fs.readFileSync(key, "utf8") }
  )
  const env = { AMPOULE_URL: `https://${hidden}`, AMPOULE_API_TOKEN: token, NODE_EXTRA_CA_CERTS: ca }
  return { ampoule, env, folder, server }
})

const basic = (pair: string) => `Basic ${Buffer.from(pair).toString("base64")}`

layer(Ampoule.Default, { excludeTestServices: true })("a proxy on the way", (it) => {
  it.scoped("carries a tunnel to https, sees the host name, and none of what is said", () =>
    Effect.gen(function* () {
      const { ampoule, env, server } = yield* setUp
      const proxy = yield* ForwardProxy.make(server.url, { authorization: basic("ada:p@ss wörd") })
      const address = `http://ada:p%40ss%20w%C3%B6rd@127.0.0.1:${proxy.port}`
      const ended = yield* ampoule.run(["run", ...target, "--", "sh", "-c", 'echo "$KEY"'], {
        env: { ...env, HTTPS_PROXY: address }
      })
      assert.deepStrictEqual([ended.code, ended.stdout, ended.stderr], [0, "value\n", ""])
      assert.isAbove(proxy.asked.length, 0)
      for (const { headers, method, target } of proxy.asked) {
        assert.deepStrictEqual([method, target], ["CONNECT", `${hidden}:443`])
        assert.isUndefined(headers.authorization)
      }
      assert.include(proxy.tunnelled(), hidden)
      for (const part of ["secretpart", "inject", "value"]) assert.notInclude(proxy.tunnelled(), part)
      for (const { headers } of server.asked) {
        assert.strictEqual(headers.authorization, `Bearer ${token}`)
        assert.isUndefined(headers["proxy-authorization"])
      }
    })
  )

  it.scoped("carries plain http in absolute form, with its credentials apart from ours", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const server = yield* FakeServer.make(FakeServer.environment(() => ({ KEY: "value" })))
      const proxy = yield* ForwardProxy.make(server.url, { authorization: basic("ada:pw") })
      const env = { AMPOULE_URL: `http://${hidden}:8080/base`, AMPOULE_API_TOKEN: token }
      const ended = yield* ampoule.run(["secrets", "get", "KEY", "-p", FakeServer.projectId, "-e", "development"], {
        env: { ...env, http_proxy: `ada:pw@127.0.0.1:${proxy.port}` }
      })
      assert.strictEqual(ended.code, 1)
      assert.include(ended.stderr, "ROUTE_NOT_FOUND")
      assert.match(proxy.asked[0]?.target ?? "", /^http:\/\/ampoule\.internal\.test:8080\/base\/secrets\//)
      assert.strictEqual(proxy.asked[0]?.headers["host"], `${hidden}:8080`)
      assert.strictEqual(server.asked[0]?.headers.authorization, `Bearer ${token}`)
    })
  )

  it.scoped("carries the event stream of a login, which tells of the approval before a poll would", () =>
    Effect.gen(function* () {
      const { ampoule, env } = yield* setUp
      let streams = 0
      const started = {
        deviceCode: "amp_dc_code",
        userCode: "BCDF-GHJK",
        verificationUri: `https://${hidden}/device`,
        verificationUriComplete: `https://${hidden}/device?code=BCDF-GHJK`,
        expiresInSeconds: 600,
        // A poll alone would come after the time that a test has.
        pollIntervalSeconds: 300
      }
      const granted = {
        status: "granted",
        credential: "amp_cg_credential",
        grantId: FakeServer.projectId,
        expiresAt: "2027-01-01T00:00:00.000Z",
        user: { id: FakeServer.teamId, email: "ada@example.com" },
        teams: [],
        restrictions: { projectIds: null, environmentIds: null }
      }
      const folder = path.dirname(env.NODE_EXTRA_CA_CERTS)
      const server = yield* FakeServer.make(
        ({ path }) => {
          if (path === "/auth/cli/device") return { status: 201, body: started }
          if (path === "/auth/cli/device/token") return { status: 201, body: granted }
          if (path !== "/auth/cli/device/events") return undefined
          streams++
          return { headers: { "content-type": "text/event-stream" }, body: 'data: {"event":"approved"}\n\n' }
        },
        {
          cert: fs.readFileSync(path.join(folder, "server.pem"), "utf8"),
          key: fs.readFileSync(path.join(folder, "server.key"), "utf8")
        }
      )
      const proxy = yield* ForwardProxy.make(server.url)
      const ended = yield* ampoule.run(["login", "--plaintext-local", "--no-browser"], {
        env: { ...env, AMPOULE_API_TOKEN: "", HTTPS_PROXY: `http://127.0.0.1:${proxy.port}` }
      })
      assert.strictEqual(ended.code, 0, ended.stderr)
      assert.strictEqual(streams, 1)
      assert.notInclude(proxy.tunnelled(), "amp_")
    })
  )

  it.scoped("is named when it fails, without the user and password of its address", () =>
    Effect.gen(function* () {
      const { ampoule, env, server } = yield* setUp
      const wanting = yield* ForwardProxy.make(server.url, { authorization: basic("ada:right") })
      const refusing = yield* ForwardProxy.make(server.url, { refuse: 403 })
      const closed = yield* Effect.scoped(ForwardProxy.make(server.url))
      const cases: ReadonlyArray<readonly [address: string, told: RegExp]> = [
        [
          `http://127.0.0.1:${wanting.port}`,
          /127\.0\.0\.1:\d+ \(HTTPS_PROXY\) refused: it requires a user and password/
        ],
        [`http://ada:sesame@127.0.0.1:${wanting.port}`, /refused: it rejects the user and password/],
        [
          `http://ada:sesame@127.0.0.1:${refusing.port}`,
          /refused: it does not allow connections to this server \(status 403\)/
        ],
        [`http://ada:sesame@127.0.0.1:${closed.port}`, /cannot be reached: nothing listens there/],
        ["http://ada:sesame@[::1", /HTTPS_PROXY cannot be used: it is not the address of a proxy/],
        ["socks5://ada:sesame@127.0.0.1:1", /HTTPS_PROXY cannot be used: SOCKS/]
      ]
      for (const [address, told] of cases) {
        for (const args of [["secrets", "list", ...target], ["doctor"]]) {
          const ended = yield* ampoule.run(args, { env: { ...env, HTTPS_PROXY: address } })
          assert.strictEqual(ended.code, 1, address)
          assert.match(ended.stdout + ended.stderr, told)
          assert.notMatch(ended.stdout + ended.stderr, /sesame|ada/)
        }
      }
      assert.deepStrictEqual(server.asked, [])
    })
  )

  it.scoped("is left aside for a loopback address, unless AMPOULE_PROXY names it; `doctor` says which", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const server = yield* FakeServer.make(FakeServer.environment(() => ({ KEY: "value" })))
      const proxy = yield* ForwardProxy.make(server.url)
      const env = { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: token }
      const address = `http://ada:sesame@127.0.0.1:${proxy.port}`
      const line = Effect.fnUntraced(function* (more: Readonly<Record<string, string>>) {
        const { stdout } = yield* ampoule.run(["doctor"], { env: { ...env, ...more } })
        assert.notInclude(stdout, "sesame")
        return stdout.split("\n").find((line) => / proxy /.test(line)) ?? ""
      })
      assert.match(yield* line({ HTTP_PROXY: address }), /none for this address \(a loopback address\)/)
      assert.strictEqual(proxy.asked.length, 0)
      assert.match(yield* line({ AMPOULE_PROXY: address }), /127\.0\.0\.1:\d+ \(AMPOULE_PROXY\)$/)
      assert.isAbove(proxy.asked.length, 0)
      assert.match(yield* line({}), /none$/)
    })
  )

  it.scoped(
    "a certificate of an unknown authority is refused through it, and the command names the way to add one",
    () =>
      Effect.gen(function* () {
        const { ampoule, env, server } = yield* setUp
        const proxy = yield* ForwardProxy.make(server.url)
        const ended = yield* ampoule.run(["secrets", "list", ...target], {
          env: { ...env, NODE_EXTRA_CA_CERTS: "", HTTPS_PROXY: `http://127.0.0.1:${proxy.port}` }
        })
        assert.strictEqual(ended.code, 1)
        assert.include(ended.stderr, "NODE_EXTRA_CA_CERTS")
        assert.deepStrictEqual(server.asked, [])
      })
  )
})

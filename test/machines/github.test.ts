/** The steps of the README, as a job of GitHub Actions runs them: a shell, curl, and an address that hands out JWTs. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn, spawnSync } from "node:child_process"
import { Listening } from "#src/http/engine/Server.ts"
import { parsed } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as LocalIssuer from "./LocalIssuer.ts"

const hasCurl = spawnSync("curl", ["--version"]).status === 0

const script = `
set -eu
jwt=$(curl -fsS -H "Authorization: Bearer $ACTIONS_ID_TOKEN_REQUEST_TOKEN" \
  "$ACTIONS_ID_TOKEN_REQUEST_URL&audience=$AUDIENCE" | node -pe 'JSON.parse(require("fs").readFileSync(0)).value')
printf %s "$jwt" | curl -fsS "$AMPOULE_URL/auth/token-exchange" \
  -d grant_type=urn:ietf:params:oauth:grant-type:token-exchange \
  -d subject_token_type=urn:ietf:params:oauth:token-type:jwt \
  -d audience="$RULE" --data-urlencode subject_token@-
`

const run = (env: Record<string, string>) =>
  Effect.async<{ readonly code: number | null; readonly out: string }>((resume) => {
    const child = spawn("sh", ["-c", script], { env: { PATH: process.env["PATH"] ?? "", NO_PROXY: "*", ...env } })
    let out = ""
    child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()))
    child.on("close", (code) => resume(Effect.succeed({ code, out })))
  })

layer(TestApp.shared, { excludeTestServices: true })("a job of GitHub Actions", (it) => {
  it.scoped.skipIf(!hasCurl)("exchanges its JWT with curl, and reads secrets", () =>
    Effect.gen(function* () {
      const issuer = yield* LocalIssuer.make()
      const project = yield* World.project()
      const { text: session } = yield* World.session(project.team.owner)
      const rule = yield* TestApp.post(`/teams/${project.team.id}/machine-rules`, {
        session,
        json: { name: "shop", issuer: issuer.url, claims: { repository: "acme/shop", ref: "refs/heads/main" } }
      })
      const jwts = [yield* issuer.sign()]
      const { url } = yield* LocalIssuer.serve((request, response) => {
        const allowed =
          request.headers.authorization === "Bearer runner" &&
          new URL(request.url ?? "", "http://x").searchParams.get("audience") === TestApp.baseUrl
        response.writeHead(allowed ? 200 : 403).end(JSON.stringify({ value: jwts.pop() }))
      })
      const { port } = yield* Listening
      const { code, out } = yield* run({
        ACTIONS_ID_TOKEN_REQUEST_URL: `${url}/request?api-version=2`,
        ACTIONS_ID_TOKEN_REQUEST_TOKEN: "runner",
        AUDIENCE: TestApp.baseUrl,
        AMPOULE_URL: `http://127.0.0.1:${port}`,
        RULE: rule.json.id
      })
      assert.strictEqual(code, 0)
      const { access_token: bearer } = parsed(LocalIssuer.IssuedToken)(out)
      const answer = yield* TestApp.get(`/secrets/inject?projectId=${project.id}&environment=development`, { bearer })
      assert.strictEqual(answer.status, 200)
    })
  )
})

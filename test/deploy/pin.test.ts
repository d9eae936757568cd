/** Images by digest, in the repository and in a release. */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { parse } from "yaml"
import { byDigest, digestOf, digestsIn, files, moved, named, pack, pinned, write } from "../../deploy/pin.mjs"
import type { Document } from "./Documents.ts"

const digest = `sha256:${"0123456789abcdef".repeat(4)}`

/** A registry as the OCI distribution specification has it, with one image, behind its challenge for a token. */
const withRegistry = async <A>(use: (address: string) => Promise<A>): Promise<A> => {
  const server = createServer(({ headers, method, url = "" }, response) => {
    const place = new URL(url, `http://${headers.host}`)
    if (place.pathname === "/token") {
      assert.strictEqual(place.searchParams.get("scope"), "repository:library/node:pull")
      return void response.end(JSON.stringify({ token: "pull" }))
    }
    if (headers.authorization !== "Bearer pull") {
      const realm = `http://${headers.host}/token`
      response.setHeader("www-authenticate", `Bearer realm="${realm}",scope="repository:library/node:pull"`)
      return void response.writeHead(401).end()
    }
    const isListed = method === "HEAD" && place.pathname === "/v2/library/node/manifests/24.21.0-bookworm-slim"
    assert.include(headers.accept, "application/vnd.oci.image.index.v1+json")
    response.writeHead(isListed ? 200 : 404, isListed ? { "docker-content-digest": digest } : {}).end()
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  try {
    return await use(`http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`)
  } finally {
    server.close().closeAllConnections()
  }
}

describe("images of a release", () => {
  it("are looked up where they are, and an unknown one is an error and no digest", async () => {
    await withRegistry(async (registry) => {
      assert.strictEqual(await digestOf("node:24.21.0-bookworm-slim", registry), digest)
      const error: unknown = await digestOf("node:1.0.0", registry).catch((failure: unknown) => failure)
      assert.include(String(error), "node:1.0.0: the registry answered 404")
    })
  })

  it("are by tag and digest in every line that names one, but for the one that the release makes", () => {
    for (const file of files) {
      const text = fs.readFileSync(file, "utf8")
      const images = named(text)
      assert.isAtLeast(images.length, 1, file)
      assert.isFalse(images.some((name) => name.startsWith("ampoule:")))
      assert.deepStrictEqual([...digestsIn(text).keys()], images)
      // An update changes the digests and nothing else.
      const updated = pinned(text, new Map(images.map((name) => [name, digest])))
      assert.deepStrictEqual(
        [...digestsIn(updated)],
        images.map((name) => [name, digest])
      )
      assert.strictEqual(pinned(updated, digestsIn(text)), text)
      assert.strictEqual(pinned(updated.replaceAll(`@${digest}`, ""), digestsIn(text)), text)
    }
    // No other file of the repository starts an image of others by its tag.
    const recipe = fs.readFileSync("docs/recipes/dockerfile.md", "utf8")
    const dockerfile = fs.readFileSync("deploy/Dockerfile", "utf8")
    assert.deepStrictEqual([...digestsIn(recipe)], [...digestsIn(dockerfile)])
  })

  it("are compared with the registries: a moved tag is named", () => {
    const present = new Map(files.flatMap((file) => [...digestsIn(fs.readFileSync(file, "utf8"))]))
    assert.deepStrictEqual(moved(present), [])
    assert.deepStrictEqual(moved(new Map([...present, ["postgres:17.6-bookworm", digest]])), ["postgres:17.6-bookworm"])
  })

  it("are by digest in the Kubernetes files of a release", () => {
    assert.include(
      byDigest(fs.readFileSync("deploy/kubernetes/kustomization.yaml", "utf8"), digest),
      `digest: ${digest}`
    )
  })

  it("come with all that starts them: what Compose mounts, what makes its secrets, units and manifests", () => {
    const folder = fs.mkdtempSync(path.join(tmpdir(), "ampoule-release-"))
    try {
      const [from, at] = [path.join(folder, "from"), path.join(folder, "at")]
      write(from, digest)
      pack(path.join(folder, "ampoule-deploy.tar"), from)
      fs.mkdirSync(at)
      execFileSync("tar", ["-xf", "../ampoule-deploy.tar"], { cwd: at })
      const read = (file: string) => fs.readFileSync(path.join(at, file), "utf8")
      // As the page says, in a folder with nothing else in it.
      execFileSync("deploy/make-secrets.sh", { cwd: at, stdio: "pipe" })
      const text = read("docker-compose.yml")
      const compose: Document = parse(text, { merge: true })
      const ours = []
      for (const [name, service] of Object.entries<Document>(compose.services)) {
        assert.isUndefined(service.build, `${name}: there is no source`)
        if (service.image.startsWith("ampoule:")) ours.push(service.pull_policy)
        for (const volume of service.volumes ?? []) {
          const [mounted] = volume.split(":")
          if (mounted.startsWith(".")) assert.isTrue(fs.existsSync(path.join(at, mounted)), `${name}: ${mounted}`)
        }
      }
      assert.deepStrictEqual(ours, ["never", "never", "never"])
      assert.match(compose.services.postgres.image, /^postgres:[\w.-]+@sha256:[0-9a-f]{64}$/)
      assert.isAbove(Object.keys(compose.secrets).length, 3)
      for (const { file } of Object.values<{ file: string }>(compose.secrets)) {
        assert.isTrue(fs.existsSync(path.join(at, file)), file)
      }
      // Every file that its own lines name is in it.
      assert.notInclude(text, "--build")
      for (const [file] of text.matchAll(/deploy\/[\w.-]*\w/g)) assert.isTrue(fs.existsSync(path.join(at, file)), file)
      assert.include(read("deploy/kubernetes/kustomization.yaml"), `digest: ${digest}`)
      assert.sameMembers(fs.readdirSync(path.join(at, "deploy/systemd")), fs.readdirSync("deploy/systemd"))
    } finally {
      fs.rmSync(folder, { recursive: true })
    }
  })
})

// @ts-check
/**
 * `npm run release:rehearse`: publishes the last commit as a release to registries of this machine, as docs/releasing.md
 * says it, installs it from them, and upgrades the release before. Two clones have to make the same bytes. Needs Debian
 * 12, root (chroot), Go and the programs that it names, and some ten minutes. Talks to 127.0.0.1 and to the registries
 * of packages alone. Writes test/records/rehearsal.json; the last line is `N passed, N failed`.
 */
import { execFileSync, spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { freePort, serve, start } from "../clients/server.mjs"
import * as Newcomer from "../package/newcomer.mjs"
import * as Builds from "./rehearsal/builds.mjs"
import * as Formats from "./rehearsal/formats.mjs"
import * as Installs from "./rehearsal/installs.mjs"
import { verifier } from "./rehearsal/signatures.mjs"
import { Steps } from "./rehearsal/steps.mjs"
import * as Tools from "./rehearsal/tools.mjs"
import * as Upgrades from "./rehearsal/upgrades.mjs"

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..")
const work = fs.mkdtempSync(path.join(tmpdir(), "ampoule-rehearsal-"))
const { check } = Newcomer
const { version } = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"))
const changed = execFileSync("git", ["status", "--porcelain"], { cwd: root, encoding: "utf8" })
check(changed === "", `Some changes are not committed:\n${changed}`)
const commit = execFileSync("git", ["rev-parse", "HEAD"], { cwd: root, encoding: "utf8" }).trim()
const line = Installs.versionLine(version, commit)
const before = Builds.releaseBefore(root)
const database = process.env["AMPOULE_TEST_DATABASE_URL"]

const steps = new Steps()
const clone = path.join(work, "clone")
const published = path.join(work, "published")
/** Once more after a failure: the registry closes connections that wait through a build. @param {string} url */
const ask = (url) => fetch(url).catch(() => fetch(url))
const folder = (/** @type {string} */ name) => {
  const at = path.join(work, name)
  fs.mkdirSync(at, { recursive: true })
  return at
}

/** Two clones make the same bytes. */
const build = async () => {
  const here = await steps.step("a clone makes the release", () =>
    Builds.makeRelease(root, commit, clone, { umask: "022", zone: "UTC", language: "C.UTF-8" })
  )
  const there = await steps.step("another clone makes it, with other rights, time zone and language", () =>
    Builds.makeRelease(root, commit, path.join(work, "elsewhere/another-clone"), {
      umask: "077",
      zone: "Pacific/Auckland",
      language: "C"
    })
  )
  const names = here === undefined ? ["the release"] : [...Builds.sumsOf(here).keys()]
  for (const name of names) {
    await steps.step(`both clones have the same bytes: ${name}`, () => {
      const [one, other] = [here, there].map((out) => Builds.sumsOf(Steps.of(out, "a clone makes it")).get(name))
      check(one === other, `${one} and ${other}`)
    })
  }
  return here
}

/** @param {NodeJS.ProcessEnv} env @param {string} npmUrl @param {string} images @param {string} key */
const publish = async (env, npmUrl, images, key) => {
  const settings = {
    ...env,
    AMPOULE_RELEASE_IMAGE: `${images}/ampoule`,
    AMPOULE_RELEASE_KEY: key,
    AMPOULE_RELEASE_TRANSPARENCY: "off"
  }
  const run = (/** @type {NodeJS.ProcessEnv} */ more = {}) => {
    const words = ["run", "--silent", "release:publish"]
    const all = { ...settings, ...more }
    const { status, stderr, stdout } = spawnSync("npm", words, { cwd: clone, env: all, encoding: "utf8" })
    return { status, said: `${stdout}${stderr}` }
  }
  const isThere = async () => (await ask(`${npmUrl}/ampoule/${version}`)).ok
  await steps.step("a commit without the tag of its version is not published", async () => {
    const { said, status } = run()
    check(status === 1 && said.includes(`has no tag v${version}`), `${status}: ${said}`)
    check(!(await isThere()), "it was published")
  })
  execFileSync("git", ["tag", `v${version}`], { cwd: clone })
  await steps.step("a registry that does not answer stops the publication", async () => {
    const { said, status } = run({ AMPOULE_RELEASE_IMAGE: "127.0.0.1:1/ampoule" })
    check(status === 1 && said.includes("gets no answer from the registry"), `${status}: ${said}`)
    check(!(await isThere()), "it was published")
  })
  await steps.step("package, image and executables are signed and published", async () => {
    const { said, status } = run()
    check(status === 0, said)
    check(await isThere(), "npm's registry has no such version")
    process.stdout.write(said)
  })
  await steps.step("a second run sends nothing again", () => {
    const { said, status } = run()
    check(status === 0 && said.match(/ existed/g)?.length === 3, said)
  })
  await steps.step("other bytes under the same version are refused", () => {
    const out = path.join(clone, ".artifacts/release")
    const kept = folder("kept")
    fs.cpSync(out, kept, { recursive: true })
    fs.appendFileSync(path.join(out, "licences.json"), "\n")
    const text = [...Builds.sumsOf(out).keys()].map((name) => {
      const digest = createHash("sha256")
        .update(fs.readFileSync(path.join(out, name)))
        .digest("hex")
      return `${digest}  ${name}\n`
    })
    fs.writeFileSync(path.join(out, "SHA256SUMS"), text.join(""))
    const { said, status } = run()
    fs.rmSync(out, { recursive: true })
    fs.renameSync(kept, out)
    check(status === 1 && said.includes("is published with other bytes") && said.includes("Nothing was sent"), said)
  })
}

/** @param {ReturnType<typeof verifier>} verify @param {string} images @param {string} npmUrl @param {string} key */
const verification = async (verify, images, npmUrl, key) => {
  await steps.step("the files come from the registry, with the checksums that were signed", () => {
    verify.must("oras", [
      "pull",
      "--plain-http",
      "--output",
      folder("published"),
      `${images}/ampoule-release:${version}`
    ])
    check(verify.sums(published, key).status === 0, "cosign refuses SHA256SUMS")
    verify.must("sha256sum", ["--check", "--quiet", "--ignore-missing", "SHA256SUMS"], published)
  })
  await steps.step("openssl verifies the same signature, without cosign", () => verify.openssl(published, key))
  const pulled = fs.existsSync(published) ? fs.readdirSync(published) : []
  for (const file of pulled.filter((name) => Builds.sumsOf(published).has(name))) {
    await steps.step(`provenance and bill of materials are those of ${file}`, () => {
      for (const about of /** @type {const} */ (["provenance", "ampoule.cdx"])) {
        const { status, stderr } = verify.attestation(published, key, about, file)
        check(status === 0, stderr)
      }
    })
  }
  await steps.step("the provenance names the commit, and the bill of materials the packages", () => {
    const { predicate, predicateType } = verify.statement(published, "provenance")
    const source = predicate.buildDefinition.resolvedDependencies.find(
      (/** @type {any} */ one) => one.name === "source"
    )
    check(source.digest.gitCommit === commit, `the commit is ${source.digest.gitCommit}`)
    check(predicateType === "https://slsa.dev/provenance/v1", predicateType)
    const bom = verify.statement(published, "ampoule.cdx").predicate
    check(bom.bomFormat === "CycloneDX" && bom.components.length > 50, "the bill of materials is short")
  })
  await steps.step("the image has its signature, provenance and bill of materials in the registry", () =>
    verify.image(`${images}/ampoule:${version}`, key)
  )
  await steps.step("npm's registry has the signed package", async () => {
    const { dist } = await (await ask(`${npmUrl}/ampoule/${version}`)).json()
    const bytes = Buffer.from(await (await ask(dist.tarball)).arrayBuffer())
    const digest = createHash("sha256").update(bytes).digest("hex")
    check(digest === Builds.sumsOf(published).get(`ampoule-${version}.tgz`), `it has ${digest}`)
  })
  await steps.step("an altered file and another key are refused", () => {
    const altered = folder("altered")
    fs.cpSync(published, altered, { recursive: true })
    for (const name of ["SHA256SUMS", "ampoule-linux-x64"]) fs.appendFileSync(path.join(altered, name), "\n")
    check(verify.sums(altered, key).status !== 0, "altered checksums are accepted")
    check(verify.attestation(altered, key, "provenance", "ampoule-linux-x64").status !== 0, "an altered executable")
    const other = path.join(work, "other/cosign.pub")
    check(verify.sums(published, other).status !== 0, "another key verifies the checksums")
    check(verify.attestation(published, other, "provenance", "licences.json").status !== 0, "another key verifies")
  })
}

/** Executables without a machine here, and the reason. */
const untried = {
  "ampoule-darwin-arm64": "no macOS here: format, processor and signature are checked",
  "ampoule-darwin-x64": "no macOS here: format, processor and signature are checked",
  "ampoule-windows-x64.exe":
    "no Windows here, and Wine 8 of Debian 12 lacks bcryptprimitives.dll: format and processor are checked"
}

/** Those of a client: run where a machine of the kind, or an emulator, exists. @param {Awaited<ReturnType<typeof Installs.executable>> | undefined} executable */
const executables = async (executable) => {
  const data = path.join(folder("home-clients"), "data")
  const server = await steps.step("a server for the executables of a client starts", async () => {
    const { command, env } = Steps.of(executable, "the executable of a server")
    const running = await start("", data, { ...env, HOME: folder("home-clients") }, command)
    return { ...running, access: { url: running.url, token: await running.token("read") } }
  })
  for (const [file, before] of /** @type {const} */ ([
    ["ampoule-linux-x64", []],
    ["ampoule-linux-arm64", Installs.emulator]
  ])) {
    const how = before.length > 0 ? ", under qemu" : ""
    await steps.step(`${file} runs without Node in an empty home, and says where a server comes from${how}`, () => {
      const program = path.join(published, file)
      fs.chmodSync(program, 0o755)
      Installs.client([...before, program], folder(`home-${file}`), line, Steps.of(server, "a server").access)
    })
  }
  await server?.stop()
  for (const platform of /** @type {const} */ (["darwin-arm64", "darwin-x64"])) {
    await steps.step(`ampoule-${platform} is a signed program of macOS (not run)`, () =>
      Formats.checkMachO(path.join(published, `ampoule-${platform}`), platform)
    )
  }
  await steps.step("ampoule-windows-x64.exe is a program of Windows (not run)", () =>
    Formats.checkWindows(path.join(published, "ampoule-windows-x64.exe"))
  )
}

/** @param {{ port: number, url: string }} npm @param {string} images */
const installs = async (npm, images) => {
  for (const major of Object.keys(Newcomer.nodes)) {
    await steps.step(`npm installs command, server and library in an empty home on Node ${major}`, () =>
      Installs.byNpm(work, major, npm, version, line)
    )
  }
  const executable = await steps.step("the executable of a server serves and runs without Node", () =>
    Installs.executable(path.join(published, "ampoule-server-linux-x64"), folder("home-server"), line)
  )
  await executables(executable)
  const image = await steps.step("the image of the registry starts from its layers, as its user", () =>
    Installs.fromImage(folder("image"), `${images}/ampoule:${version}`, line)
  )
  return { executable, image }
}

/** @param {{ port: number, url: string }} npm @param {Awaited<ReturnType<typeof installs>>} forms */
const upgrades = async (npm, { executable, image }) => {
  const account = Newcomer.newcomer(work, "20", npm)
  const stays = Newcomer.newcomer(work, "20", npm)
  const name = `release ${before.version}`
  const former = await steps.step(`npm installs ${name}, which keeps values`, () =>
    Upgrades.former(account, before.version)
  )
  const client = await steps.step(`a client of ${name} stays on another machine`, async () => {
    stays.npm("npm", ["install", "--global", `ampoule@${before.version}`])
    return { command: [stays.node, stays.program.replace(/cjs$/, "mjs")], env: {} }
  })
  await steps.step(`npm upgrades ${name}: values, tokens, trail and its clients are as before`, () =>
    Upgrades.upgradeEmbedded(account, version, Steps.of(former, name), Steps.of(client, "a client"))
  )
  await steps.step("the executable takes over the upgraded data", () =>
    Upgrades.takeOver(Steps.of(executable, "the executable of a server"), account.home, Steps.of(former, name))
  )
  await steps.step("the image takes over the upgraded data", async () => {
    const { command, env, rootfs, user } = Steps.of(image, "the image starts")
    const { data, read } = Steps.of(former, name)
    fs.cpSync(data, path.join(rootfs, "data"), { recursive: true })
    execFileSync("chown", ["-R", `${user}:${user}`, path.join(rootfs, "data")])
    const port = String(await freePort())
    const address = { AMPOULE_PORT: port, AMPOULE_HOST: "127.0.0.1", AMPOULE_BASE_URL: `http://127.0.0.1:${port}` }
    const server = await serve(command, "/data", { ...env, ...address })
    try {
      Upgrades.reads({ command: [account.node, account.program], env: {} }, server.url, read, account.home)
    } finally {
      await server.stop()
    }
  })
  await steps.step(`on Postgres, ${name} serves beside the new one until the rows are sealed`, () => {
    if (database === undefined) throw new Error("no Postgres: run npm run release:rehearse")
    const ours = { command: [account.node, account.program], env: {} }
    return Upgrades.upgradePostgres(Steps.of(client, "a client"), ours, database, stays.home)
  })
}

const rehearse = async () => {
  const bin = Tools.install()
  Newcomer.install()
  const npm = await Newcomer.registry(work)
  const images = await Tools.imageRegistry(work)
  try {
    const env = { PATH: `${bin}:${process.env["PATH"]}`, HOME: folder("home"), COSIGN_PASSWORD: "of a rehearsal" }
    // A shell passes on no variable with such a name.
    const settings = Object.entries(Newcomer.npmSettings(npm)).map(([key, value]) => `${key.slice(11)}=${value}\n`)
    fs.writeFileSync(path.join(env.HOME, ".npmrc"), settings.join(""))
    const key = Tools.makeKey(bin, path.join(work, "key"), env)
    Tools.makeKey(bin, path.join(work, "other"), env)
    await build()
    await steps.step(`release ${before.version} is in npm's registry`, () => {
      const tarball = Builds.packFormer(root, before.commit, path.join(work, "former"))
      execFileSync("npm", ["publish", tarball], { cwd: work, env, stdio: "pipe" })
    })
    await publish(env, npm.url, images.host, key)
    await verification(verifier(work, env), images.host, npm.url, key.replace(/key$/, "pub"))
    await upgrades(npm, await installs(npm, images.host))
  } finally {
    await npm.stop()
    await images.stop()
  }
}

try {
  await rehearse()
  const { failed, passed } = steps.counts()
  const record = {
    what: "A release, rehearsed with registries of this machine (verdaccio, docker-registry) and signatures by a key of cosign. npm run release:rehearse",
    date: new Date().toISOString().slice(0, 10),
    commit: commit.slice(0, 8),
    version,
    before,
    tools: { ...Newcomer.versions, ...Tools.modules, nodes: Newcomer.nodes },
    passed,
    failed,
    untried,
    files: fs.existsSync(published) ? Object.fromEntries(Builds.sumsOf(published)) : {},
    steps: steps.results
  }
  const file = path.join(root, "test/records/rehearsal.json")
  fs.writeFileSync(file, JSON.stringify(record))
  execFileSync(path.join(root, "node_modules/.bin/oxfmt"), [file])
  process.stdout.write(`\n${passed} passed, ${failed} failed\n`)
  process.exitCode = failed === 0 ? 0 : 1
} finally {
  fs.rmSync(work, { recursive: true, force: true })
}

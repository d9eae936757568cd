// @ts-check
/**
 * `npm run build:executables [FOLDER]`: the commands of a client as one file for each platform, compiled by Bun, which
 * starts like a native program. Servers need a cipher that Bun lacks: their executable is `npm run build:executable`.
 * The build is reproducible: Bun and the libraries of keychains come from the npm registry by version and digest.
 * AMPOULE_EXECUTABLES names some platforms alone, as in `linux-x64,darwin-arm64`.
 */
import { build as esbuild } from "esbuild"
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { bundle, smallPrograms } from "../src/bundle.mjs"
import { sign } from "./adHocSignature.mjs"
import { filesOf } from "./packages.mjs"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const bun = "1.4.5"
const keyring = "2.1.2"

/**
 * Bun without AVX2 on x64, for processors of before 2013.
 * @param {string} platform as in the name of the file @param {string} program @param {string} integrity of Bun
 * @param {string} library platform in the names of the keychain's library @param {string} libraryIntegrity
 */
const target = (platform, program, integrity, library, libraryIntegrity) => ({
  platform,
  file: `ampoule-${platform}${platform.startsWith("windows") ? ".exe" : ""}`,
  program: platform.startsWith("windows") ? "bin/bun.exe" : "bin/bun",
  native: `keyring.${library}.node`,
  bun: { name: `@oven/bun-${program}`, version: bun, integrity },
  keyring: { name: `@napi-rs/keyring-${library}`, version: keyring, integrity: libraryIntegrity }
})

export const targets = [
  target(
    "linux-x64",
    "linux-x64-baseline",
    "sha512-s8yMwYcFnnrA178gji0gZbkE2WVDej/Ti1x770oPfihxyRxSMNhGhiAQNXV53aDeraZxksdvKV/RAdQBCd0qPA==",
    "linux-x64-gnu",
    "sha512-Fj5TmTnl2oriuCT5DDEYlhgxYes20uGfgOg10LK9PyPVsI8/PQ1m8I4rq/4A5hkrMtY7wvFb70YmX/yPHDYWvQ=="
  ),
  target(
    "linux-arm64",
    "linux-aarch64",
    "sha512-4BXmsSKnjOrlGWqZV4x/oWa7AVoR+B6lCXddMzOAXBIm3t50eslg9wb66gmtW1AamEQ1l1CDvmmruysEhqOWMg==",
    "linux-arm64-gnu",
    "sha512-PM+SAcl/yGzgGbeeCsKrnlG4T5DBIDjmDqtKm5an1bJz0o0gwSzR3BMiXf04JenkcqascZpdcIReoEvLj0cvCw=="
  ),
  target(
    "darwin-x64",
    "darwin-x64-baseline",
    "sha512-zqfLA5A4B+hYMh5WYzYSot3uZ06FzhdP0OEwQisEzdirYtXGj5cQFlfy31BGfNsAsk1Gd/w/OxJ/jqqJ3cMclw==",
    "darwin-x64",
    "sha512-wQihYroaQ3r++R6u5c9Gj0TCw1l1F53LCb5aLOXfVvT4DsnDnpe7p7VGYo4/33bLe0iqVevtAj+ET3yKCtOlJQ=="
  ),
  target(
    "darwin-arm64",
    "darwin-aarch64",
    "sha512-4MIFXHmctH2EhAxLXm2/qxNtv17dFtLJylvaOCsrgq6KSqHTs6eW5YSrJjRbJxYUJaR901fsN8JfZOa+CsWpWQ==",
    "darwin-arm64",
    "sha512-vsInUWUzWS6/WzR/TFNwmdtmwKWjnnR8TOpvZ/pjjxDAkJB/waz37PWzp2b8AFcw1aCcq2aQ7k2vvbLQy8pTrw=="
  ),
  target(
    "windows-x64",
    "windows-x64-baseline",
    "sha512-/U3Dc74uGqE6EUqef7mPtg9KwJs7iJH4JHRMfIZIn18MrJh6Xz4gVvWDXRvzCL2j8wPlTnJVyrO4n7Qq4uM7TQ==",
    "win32-x64-msvc",
    "sha512-yQtFdfuwqM0ezKlYO6r2n44in2LGzd4MC679Ddhvojip3t1hn+q/4I+gJU+cIJQVd5FAZSKNrK4tGfew3UTpAQ=="
  )
]

/**
 * Modules of the program that read files beside it, or start a server, for a program in one file.
 * @type {import("esbuild").Plugin}
 */
const embedded = {
  name: "embedded",
  setup: (plugin) => {
    const programs = smallPrograms.map((name) => `${name}: () => require("./${name}.cjs")`).join()
    const inside = new Map([
      [
        "src/cli/CompiledCode.ts",
        `const programs = { ${programs} }
        export const folder = () => ""
        export const compile = (name) => programs[name]()
        export const load = (name) => ({ exports: compile(name), keep: () => {} })`
      ],
      ["src/cli/help/ManualText.ts", `export const manualText = () => globalThis.ampouleFiles.manual()`],
      ["src/cli/help/LicencesText.ts", `export const licencesText = () => globalThis.ampouleFiles.licences()`],
      ["layers/CliServerSide.ts", `export { serverSide } from "./NoServerSide.ts"`]
    ])
    plugin.onLoad({ filter: /\.ts$/ }, ({ path: file }) => {
      const contents = inside.get(path.relative(root, file))
      return contents === undefined ? undefined : { contents, loader: "ts", resolveDir: path.dirname(file) }
    })
    plugin.onResolve({ filter: /^\.\/\w+\.cjs$/ }, ({ path: file }) => ({
      path: file,
      external: true
    }))
    plugin.onResolve({ filter: /^@napi-rs\/keyring$/ }, () => ({
      path: path.join(root, "layers/ExecutableKeyring.ts")
    }))
  }
}

/** The bundle of a client, with the texts that it shows. @param {string} dist */
const bundleClient = async (dist) => {
  const { inputs } = await bundle(dist, {
    minify: true,
    plugins: [embedded],
    alias: { undici: path.join(root, "src/no-undici.mjs") },
    logOverride: { "import-is-undefined": "silent" },
    external: ["@parcel/watcher", "bufferutil", "msgpackr-extract", "utf-8-validate"]
  })
  const folders = Object.keys(inputs).flatMap((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? [])
  fs.writeFileSync(path.join(dist, "packages.json"), JSON.stringify({ bundled: [...new Set(folders)].sort() }))
  const licences = ["deploy/licences.mjs", dist, "deploy/bun-licence.txt", "Bun, and what is in it"]
  execFileSync(process.execPath, licences, { cwd: root, stdio: "pipe" })
  fs.renameSync(path.join(dist, "manual.json"), path.join(dist, "manual.txt"))
  // Bun finds the files by its calls of `require`, which an ES module has not.
  await esbuild({
    absWorkingDir: root,
    entryPoints: { start: "layers/ExecutableStart.ts" },
    outdir: dist,
    outExtension: { ".js": ".cjs" },
    bundle: true,
    minify: true,
    platform: "node",
    format: "cjs",
    external: ["./ampoule.cjs", "./manual.txt", "./licences.txt", "./keyring.library"]
  })
  // Bun writes the address of each module for it, and with it the folder of the build.
  for (const name of fs.readdirSync(dist).filter((one) => one.endsWith(".mjs"))) {
    const file = path.join(dist, name)
    fs.writeFileSync(file, fs.readFileSync(file, "utf8").replace("(import.meta.url)", `("file:///")`))
    if (fs.readFileSync(file, "utf8").includes("import.meta")) throw new Error(`${name} names the folder of the build`)
  }
}

/** Bun for this machine. */
const compiler = () => {
  const here = targets.find(({ platform }) => platform === `${process.platform}-${process.arch}`)
  if (here === undefined) throw new Error(`no Bun is known for ${process.platform} on ${process.arch}`)
  return path.join(filesOf(here.bun, [here.program]), here.program)
}

const compile = (/** @type {string} */ work, /** @type {(typeof targets)[number]} */ one, /** @type {string} */ to) => {
  const library = filesOf(one.keyring, [one.native])
  fs.copyFileSync(path.join(library, one.native), path.join(work, "dist/keyring.library"))
  const runtime = path.join(filesOf(one.bun, [one.program]), one.program)
  const words = [
    "build",
    "--compile",
    "--bytecode",
    "--format=cjs",
    `--target=bun-${one.platform}`,
    `--compile-executable-path=${runtime}`,
    "--loader=.library:file",
    // Files of the working folder choose neither variables nor code.
    "--no-compile-autoload-dotenv",
    "--no-compile-autoload-bunfig",
    ...["@parcel/watcher", "bufferutil", "msgpackr-extract", "utf-8-validate"].map((name) => `--external=${name}`),
    "dist/start.cjs",
    `--outfile=out/${one.file}`
  ]
  execFileSync(compiler(), words, {
    cwd: work,
    stdio: ["ignore", "pipe", "pipe"],
    env: { HOME: work, PATH: "/usr/bin:/bin" }
  })
  const program = fs.readFileSync(path.join(work, "out", one.file))
  fs.writeFileSync(to, one.platform.startsWith("darwin") ? sign(program, "ampoule") : program)
  fs.chmodSync(to, 0o755)
}

/** Makes the executables of these platforms. @param {string} to @param {ReadonlyArray<string>} platforms */
export const build = async (to, platforms) => {
  const work = fs.mkdtempSync(path.join(tmpdir(), "ampoule-executables-"))
  fs.mkdirSync(to, { recursive: true })
  try {
    await bundleClient(path.join(work, "dist"))
    for (const one of targets.filter(({ platform }) => platforms.includes(platform))) {
      compile(work, one, path.join(to, one.file))
    }
  } finally {
    fs.rmSync(work, { recursive: true, force: true })
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const to = path.resolve(process.argv[2] ?? path.join(root, ".artifacts"))
  const all = targets.map(({ platform }) => platform)
  const platforms = process.env["AMPOULE_EXECUTABLES"]?.split(",") ?? all
  const unknown = platforms.filter((one) => !all.includes(one))
  if (unknown.length > 0) throw new Error(`AMPOULE_EXECUTABLES: ${unknown.join()} is none of ${all.join()}`)
  await build(to, platforms)
  for (const { file } of targets.filter(({ platform }) => platforms.includes(platform))) {
    const bytes = fs.readFileSync(path.join(to, file))
    const digest = createHash("sha256").update(bytes).digest("hex")
    process.stdout.write(
      `${digest}  ${path.relative(process.cwd(), path.join(to, file))} (${(bytes.length / 1e6).toFixed(0)} MB)\n`
    )
  }
}

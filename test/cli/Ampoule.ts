/**
 * The command line as a real process, as it is released; each run in a home of its own unless one is given.
 */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type ChildProcess, execFileSync, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import * as Release from "#test/support/Release.ts"
import { complaintsAbout } from "./Mentions.ts"

interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

interface Running {
  readonly child: ChildProcess
  readonly output: { readonly stdout: string; readonly stderr: string }
  readonly ended: Effect.Effect<Ended>
  /** Waits until standard output or error shows this. */
  readonly shows: (text: string) => Effect.Effect<void>
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  /** Text for standard input; absent = nothing comes. */
  readonly stdin?: string
  readonly home?: string
  /** Of a session of its own: signals sent to the test do not reach it, and it has no terminal. */
  readonly detached?: boolean
}

const temporaryFolder = (name: string) =>
  Effect.acquireRelease(
    Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), `ampoule-${name}-`))),
    (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
  )

/** The Node that runs the command line: this one, or another release (`.ci/run` has one that can become its child). */
const node = process.env["AMPOULE_TEST_NODE"] ?? process.execPath
/** An executable without Node to run in its place (`npm run test:executables`). */
const executable = process.env["AMPOULE_TEST_EXECUTABLE"]
/** True where no file of the program is read, and no compiled code is kept. */
export const isExecutable = executable !== undefined

export class Ampoule extends Effect.Service<Ampoule>()("test/cli/Ampoule", {
  scoped: Effect.gen(function* () {
    const program = path.join(yield* Release.dist, "ampoule.cjs")
    /** The words of the program, for every way to start it. */
    const command: readonly [string, ...ReadonlyArray<string>] =
      executable === undefined ? [node, program] : [executable]
    const root = yield* temporaryFolder("cli")
    let homes = 0

    const home = Effect.sync(() => {
      const folder = path.join(root, `home-${homes++}`)
      fs.mkdirSync(folder)
      return folder
    })

    /** Nothing of the environment of the test run but what finds programs. */
    const environment = (folder: string, env: Readonly<Record<string, string>> = {}) => ({
      PATH: process.env["PATH"] ?? "",
      HOME: folder,
      XDG_CONFIG_HOME: path.join(folder, "config"),
      XDG_CACHE_HOME: path.join(folder, "cache"),
      ...env
    })

    const start = Effect.fnUntraced(function* (
      [command, ...args]: readonly [string, ...ReadonlyArray<string>],
      options: RunOptions
    ) {
      const folder = options.home ?? (yield* home)
      const child = yield* Effect.acquireRelease(
        Effect.sync(() =>
          spawn(command, args, {
            env: environment(folder, options.env),
            cwd: options.cwd ?? folder,
            stdio: "pipe",
            detached: options.detached ?? false
          })
        ),
        (child) => Effect.sync(() => child.kill("SIGKILL"))
      )
      const output = { stdout: "", stderr: "" }
      child.stdout.setEncoding("utf8").on("data", (text: string) => (output.stdout += text))
      child.stderr.setEncoding("utf8").on("data", (text: string) => (output.stderr += text))
      child.stdin.on("error", () => {})
      if (options.stdin !== undefined) child.stdin.end(options.stdin)
      const ended = new Promise<Ended>((resolve) => {
        child.once("close", (code, signal) => resolve({ code, signal, ...output }))
      })
      const shows = (text: string) =>
        Effect.async<void>((resume) => {
          const look = () => {
            if (!output.stdout.includes(text) && !output.stderr.includes(text)) return
            clearInterval(timer)
            resume(Effect.void)
          }
          const timer = setInterval(look, 10)
          return Effect.sync(() => clearInterval(timer))
        })
      return { child, output, ended: Effect.promise(() => ended), shows } satisfies Running
    })

    const ampoule = (args: ReadonlyArray<string>, options: RunOptions = {}) => start([...command, ...args], options)
    /** The program of all commands, for lines that have a small program too. */
    const large = `import(${JSON.stringify(path.join(path.dirname(program), "cli.mjs"))}).then(({ start }) => start(process.argv.slice(1)))`
    const runLarge = (args: ReadonlyArray<string>, options: RunOptions = {}) =>
      Effect.scoped(
        Effect.flatMap(start([node, "-e", large, "--", ...args], { stdin: "", ...options }), ({ ended }) => ended)
      )
    const run = (args: ReadonlyArray<string>, options: RunOptions = {}) =>
      Effect.scoped(Effect.flatMap(ampoule(args, { stdin: "", ...options }), ({ ended }) => ended)).pipe(
        // Each next step of each failure of each test can be taken.
        Effect.tap(({ code, stderr }) => {
          if (code === 1 || code === 2 || code === 125)
            assert.deepStrictEqual(complaintsAbout(args, stderr), [], stderr)
          return Effect.void
        })
      )
    /** Under a terminal of its own, as a person has it: what is typed goes to its standard input. */
    const terminal = (args: ReadonlyArray<string>, options: RunOptions = {}) => {
      return inTerminal(`stty -echo; exec ${line(args)}`, options)
    }
    /** A line for a shell under a terminal of its own; `line` makes one of arguments. */
    const inTerminal = (command: string, options: RunOptions = {}) =>
      start(["script", "-qec", command, "/dev/null"], {
        ...options,
        env: { SHELL: "/bin/sh", TERM: "dumb", ...options.env }
      })
    const line = (args: ReadonlyArray<string>): string =>
      [...command, ...args].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ")
    const shell = (command: string, options: RunOptions = {}) => start(["bash", "-c", command], options)
    /** A folder for PATH with the command `ampoule`. */
    const bin = Effect.sync(() => {
      const folder = path.join(root, "bin")
      fs.mkdirSync(folder, { recursive: true })
      fs.writeFileSync(path.join(folder, "ampoule"), `#!/bin/sh\nexec ${line([])} "$@"\n`, { mode: 0o755 })
      return folder
    })
    // Bun can become its child, as Node 26 can.
    const version =
      executable === undefined ? execFileSync(node, ["-p", "process.version"], { encoding: "utf8" }) : "v26.0.0"
    const nodeVersion = version.slice(1).split(".").map(Number)
    return {
      bin,
      node,
      program,
      home,
      start: ampoule,
      run,
      runLarge,
      terminal,
      inTerminal,
      shell,
      line,
      nodeVersion,
      root
    }
  })
}) {}

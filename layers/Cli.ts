/** The command line on Node: its layers, how it starts and how it ends. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as NodePath from "@effect/platform-node/NodePath"
import * as NodeTerminal from "@effect/platform-node/NodeTerminal"
import * as Cause from "effect/Cause"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Cli from "#src/cli/Cli.ts"
import { CredentialStores } from "#src/cli/CredentialStore.ts"
import { type CliError, CliFailure, describe, print } from "#src/cli/Failure.ts"
import { wantsColour, withoutColour } from "#src/cli/Output.ts"
import { agents } from "#src/cli/Proxy.ts"
import { ChildCommand } from "#src/cli/Run.ts"
import { ServerSide } from "#src/cli/ServerSide.ts"
import * as Signals from "#src/cli/Signals.ts"
import * as CredentialFile from "./CredentialFile.ts"
import { keychain } from "./CredentialKeychain.ts"

const stores = Layer.effect(
  CredentialStores,
  Effect.map(CredentialFile.make, (file) => ({ os_keychain: keychain, plaintext_local: file }))
)

/** The chunk of the server names its packages in its imports: without them it would not load. */
const withPackages = Effect.flatMap(
  Effect.promise(() => import("./ServerPackages.ts")),
  ({ missing }) => {
    const message = missing("@node-rs/argon2")
    return message === undefined ? Effect.void : new CliFailure({ message })
  }
)

const serverSide = Layer.succeed(ServerSide, {
  server: Effect.zipRight(
    withPackages,
    Effect.promise(() => import("./ServerPrograms.ts"))
  ),
  vault: Effect.promise(() => import("./VaultPrograms.ts")),
  maintenance: Effect.promise(() => import("./MaintenancePrograms.ts")),
  admin: Effect.promise(() => import("./AdminPrograms.ts"))
})

/** What the parser prints by itself: completions and the wizard. Its errors are told by us. */
const output = Console.consoleWith((original) =>
  Effect.succeed<Console.Console>({
    ...original,
    log: (...args) =>
      Effect.sync(() => {
        process.stdout.write(`${wantsColour() ? args.join(" ") : withoutColour(args.join(" "))}\n`)
      }),
    error: () => Effect.void
  })
)

const httpClient = NodeHttpClient.layerWithoutAgent.pipe(
  Layer.provide(
    Layer.sync(NodeHttpClient.HttpAgent, () =>
      NodeHttpClient.HttpAgent.of({ [NodeHttpClient.HttpAgentTypeId]: NodeHttpClient.HttpAgentTypeId, ...agents() })
    )
  )
)

const layer = Layer.mergeAll(stores, serverSide, NodeTerminal.layer, httpClient, Cli.config).pipe(
  Layer.provideMerge(Layer.merge(NodeFileSystem.layer, NodePath.layer))
)

const report = (error: CliError, json: boolean) =>
  Effect.sync(() => {
    process.stderr.write(print(error, json))
    process.exitCode ??= describe(error).exitCode
  })

/** All after the first `--` belongs to the child, whatever it looks like: it is not for the parser. */
const splitCommand = (argv: ReadonlyArray<string>) => {
  const at = argv.indexOf("--")
  return at < 0 || argv[2] !== "run"
    ? { own: argv, child: Option.none<ReadonlyArray<string>>() }
    : { own: argv.slice(0, at), child: Option.some(argv.slice(at + 1)) }
}

const program = (argv: ReadonlyArray<string>) => {
  const { child, own } = splitCommand(argv)
  const json = own.includes("--json")
  return Effect.gen(function* () {
    const console = yield* output
    return yield* Effect.withConsole(Cli.execute(own), console)
  }).pipe(
    Effect.catchAll((error) => report(error, json)),
    Effect.provideService(ChildCommand, child),
    Effect.provide(layer),
    Effect.provide(Logger.remove(Logger.defaultLogger))
  )
}

/** A fault of ours: where it happened, never what was at hand. An error's message may quote a value. */
const bug = (defect: unknown): string => {
  const name = defect instanceof Error ? defect.name : "unknown"
  const frames = defect instanceof Error ? (defect.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line)) : []
  return [`ampoule: internal error (${name}). Please report it.`, ...frames.slice(0, 5), ""].join("\n")
}

const finish = (code: number, signal?: NodeJS.Signals) => {
  process.exitCode = code
  const last = () => {
    if (signal !== undefined) Signals.dieBy(signal)
    process.exit()
  }
  // A turn later: only then is it told that an earlier write has failed.
  process.stdout.write("", () => process.stderr.write("", () => setImmediate(last)))
}

const end = (exit: Exit.Exit<void>) => {
  if (Exit.isSuccess(exit)) return finish(Number(process.exitCode ?? 0), Signals.childEndedBy())
  const signal = Signals.endedBy()
  if (Cause.isInterruptedOnly(exit.cause) && signal !== undefined) return finish(Signals.exitCodeOf(signal), signal)
  process.stderr.write(bug(Cause.squash(exit.cause)))
  finish(70)
}

export const launch = (argv: ReadonlyArray<string>): void => {
  const fault = (error: unknown) => {
    process.stderr.write(bug(error))
    process.exit(70)
  }
  process.on("uncaughtException", fault)
  process.on("unhandledRejection", fault)
  // The reader has gone (`| head`): nobody is left to tell. A full disk is another matter: what is missing may be a
  // backup.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EPIPE") process.exit()
      if (stream === process.stdout) {
        process.stderr.write(`ampoule: standard output cannot be written (${error.code ?? "unknown"}).\n`)
      }
      process.exit(1)
    })
  }
  let fiber: Fiber.RuntimeFiber<void> | undefined
  Signals.install(() => fiber?.unsafeInterruptAsFork(fiber.id()))
  fiber = Effect.runFork(program(argv))
  // Nothing is left that could go on, and the command has not ended: that must not look like success.
  const stuck = () => fault(new Error())
  process.once("beforeExit", stuck)
  fiber.addObserver((exit) => {
    process.off("beforeExit", stuck)
    end(exit)
  })
}

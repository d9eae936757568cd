/** The command line on Node: all commands, with their layers. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as NodePath from "@effect/platform-node/NodePath"
import * as NodeTerminal from "@effect/platform-node/NodeTerminal"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Cli from "#src/cli/Cli.ts"
import { split } from "#src/cli/help/Manual.ts"
import { wantsColour, withoutColour } from "#src/cli/terminal/Output.ts"
import { agents } from "#src/cli/connection/ProxyAgents.ts"
import * as Descriptors from "#src/cli/run/Descriptors.ts"
import { ChildCommand } from "#src/cli/run/Run.ts"
import { launch } from "./CliProcess.ts"
import { atServers } from "./CliServers.ts"
import { serverSide } from "./CliServerSide.ts"

/** HTTP client of the typed groups, through the network's proxy. */
const httpClient = NodeHttpClient.layerWithoutAgent.pipe(
  Layer.provide(
    Layer.sync(NodeHttpClient.HttpAgent, () =>
      NodeHttpClient.HttpAgent.of({ [NodeHttpClient.HttpAgentTypeId]: NodeHttpClient.HttpAgentTypeId, ...agents() })
    )
  )
)

/** Output of the parser itself: completions and the wizard. Its errors are printed by our own code. */
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

const layer = Layer.mergeAll(httpClient, serverSide, NodeTerminal.layer, Cli.config).pipe(
  Layer.provideMerge(Layer.merge(NodeFileSystem.layer, NodePath.layer))
)

/** `words`: the words after the program's name. */
export const start = (words: ReadonlyArray<string>): void => {
  const { child, own } = split(words)
  if (own[0] === "run") Descriptors.inherited()
  // Loaded in parallel with the start: loading it later, during a run, costs more.
  if (own[0] !== "run") void import("#src/cli/Commands.ts")
  const command = Effect.gen(function* () {
    return yield* Effect.withConsole(Cli.execute(own), yield* output)
  }).pipe(
    Effect.provideService(ChildCommand, Option.fromNullable(child)),
    atServers,
    Effect.provide(layer),
    Effect.provide(Logger.remove(Logger.defaultLogger))
  )
  launch(command, { json: own.some((word) => word === "--json" || word === "--json=true") })
}

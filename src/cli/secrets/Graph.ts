/** `ampoule graph`: the references between secrets. */
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import { call } from "#src/cli/connection/Client.ts"
import * as GraphPicture from "./GraphPicture.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note, out, plain } from "#src/cli/terminal/Output.ts"
import { onEnvironment } from "#src/cli/connection/Reach.ts"
import { secrets } from "#src/cli/connection/Routes.ts"

export const graph = Help.command(
  "graph",
  {
    says: "Show which secrets refer to which others; keys only.",
    examples: ["ampoule graph", "ampoule graph --format svg > composition.svg", "ampoule graph --format mermaid"]
  },
  {
    ...Shared.inEnvironment,
    json: Shared.json,
    format: Options.choice("format", ["text", "mermaid", "svg"]).pipe(
      Options.withDefault("text" as const),
      Options.withDescription("Format of the graph on standard output")
    )
  },
  onEnvironment(
    Effect.fnUntraced(function* ({ session, ...place }, options) {
      const client = yield* secrets(session)
      const composition = yield* call(session, client.composition({ urlParams: place }))
      if (options.json) return yield* json(composition)
      // Names from the server are cleaned, so that a terminal or a browser finds no instruction in them.
      const graph = {
        nodes: composition.nodes.map(({ key, kind }) => ({ key: plain(key), kind })),
        edges: composition.edges.map(({ from, to }) => ({ from: plain(from), to: plain(to) }))
      }
      if (graph.edges.length === 0) return yield* note("No secret refers to another.")
      yield* out(GraphPicture[options.format](graph))
      const alone = graph.nodes.length - new Set(graph.edges.flatMap(({ from, to }) => [from, to])).size
      if (options.format === "text" && alone > 0) yield* note(`${alone} other keys have no reference.`)
    })
  )
)

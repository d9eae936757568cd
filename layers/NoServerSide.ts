/** Commands that need the server's modules, in an executable of a client (`deploy/executables.mjs`). */
import * as Layer from "effect/Layer"
import { ServerSide } from "#src/cli/operator/ServerSide.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"

/** Bun has no cipher for the values of a server (ChaCha20-Poly1305), so that these commands need Node. */
const needsNode = new CliFailure({
  message:
    "This executable has the commands of a client; this one needs Node, as in `npm install --global ampoule`, or the executable of a server."
})

export const serverSide = Layer.succeed(ServerSide, {
  server: needsNode,
  vault: needsNode,
  maintenance: needsNode,
  admin: needsNode
})

/** Data folder of one server or vault: private to its user, and used by one process at a time. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as net from "node:net"
import * as path from "node:path"
import { StartRefused } from "#src/AppConfig.ts"

const reason = (error: unknown) =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? ` (${error.code})` : ""

/** Creates the folder if it is missing, makes it private (mode 0700), and returns its real path. */
export const ensure = (folder: string): Effect.Effect<string, StartRefused> =>
  Effect.try({
    try: () => {
      fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
      const real = fs.realpathSync(folder)
      if ((fs.statSync(real).mode & 0o077) !== 0) fs.chmodSync(real, 0o700)
      return real
    },
    catch: (error) =>
      new StartRefused({
        message: `The data folder ${folder} cannot be used${reason(error)}. Give this user a folder of its own, or set AMPOULE_DATA_DIR to another one.`
      })
  })

/**
 * For a server on Postgres, which can run without a private folder: it stores the setup link, checkpoints and perhaps a
 * root key there. A mounted volume may belong to another user, and only that user can make it private.
 */
export const keepPrivate = (folder: string): Effect.Effect<void> =>
  Effect.catchAll(ensure(folder), () =>
    Effect.logWarning(
      `The data folder ${folder} could not be made private (mode 0700): other users of this machine may be able to read it. Give the server a folder of its own (AMPOULE_DATA_DIR).`
    )
  )

const listen = (address: string) =>
  Effect.async<net.Server, NodeJS.ErrnoException>((resume) => {
    const server = net.createServer((socket) => socket.destroy())
    server.once("error", (error) => resume(Effect.fail(error)))
    // Without `exclusive`, a cluster worker would share the listener of its siblings.
    server.listen({ path: address, exclusive: true }, () => resume(Effect.succeed(server.unref())))
  })

const hold = (address: string) =>
  Effect.acquireRelease(listen(address), (server) => Effect.sync(() => void server.close()))

const isAnswered = (address: string) =>
  Effect.async<boolean>((resume) => {
    const socket = net.connect(address)
    socket.once("connect", () => {
      socket.destroy()
      resume(Effect.succeed(true))
    })
    socket.once("error", () => resume(Effect.succeed(false)))
  })

/**
 * Locks the folder until the scope closes or the process ends, in any way. The first lock is a name that the kernel
 * releases (an abstract socket, or a named pipe). The second is a socket in the folder, visible to other containers on
 * the same volume.
 */
export const lock = (real: string): Effect.Effect<void, StartRefused, Scope.Scope> =>
  Effect.gen(function* () {
    const digest = createHash("sha256").update(real).digest("hex")
    if (process.platform === "linux") yield* hold(`\0ampoule-${digest}`)
    if (process.platform === "win32") return yield* hold(`\\\\.\\pipe\\ampoule-${digest}`)
    const file = path.join(real, "lock.sock")
    yield* Effect.catchIf(hold(file), isTaken, (error) =>
      Effect.flatMap(isAnswered(file), (answered) =>
        answered
          ? Effect.fail(error)
          : // Left behind by a killed process.
            Effect.zipRight(
              Effect.sync(() => fs.rmSync(file, { force: true })),
              hold(file)
            )
      )
    )
  }).pipe(
    // A folder without support for sockets (path too long, or its file system) has only the first lock.
    Effect.catchAll((error) => (isTaken(error) ? inUse(real) : Effect.void)),
    Effect.asVoid
  )

const isTaken = (error: NodeJS.ErrnoException) => error.code === "EADDRINUSE"

const inUse = (real: string) =>
  new StartRefused({
    message: `The data folder ${real} is in use by another Ampoule server or vault. Stop that one, or set AMPOULE_DATA_DIR to a folder of its own.`
  })

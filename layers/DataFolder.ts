/** The data folder of one server or vault: private to its user, and held by one process at a time. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as net from "node:net"
import * as path from "node:path"
import { StartRefused } from "#src/AppConfig.ts"

const reason = (error: unknown) =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? ` (${error.code})` : ""

/** Makes the folder when it is not there, takes it from other users (mode 0700), and answers its real path. */
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
 * For a server on Postgres, which keeps the setup link, checkpoints and perhaps a root key there, and can do without: a
 * mounted volume may belong to another user, who alone can make it private.
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
    // `exclusive`: a cluster worker would else share the listener of its siblings.
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
 * Holds the folder until the scope closes or the process ends, however it ends. Two locks: a name that the kernel
 * itself frees (an abstract socket, or a named pipe), and a socket in the folder, which other containers on the same
 * volume see.
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
          : // Left by a process that was killed.
            Effect.zipRight(
              Effect.sync(() => fs.rmSync(file, { force: true })),
              hold(file)
            )
      )
    )
  }).pipe(
    // A folder that cannot hold a socket (its path is too long, its file system has none) has the first lock only.
    Effect.catchAll((error) => (isTaken(error) ? inUse(real) : Effect.void)),
    Effect.asVoid
  )

const isTaken = (error: NodeJS.ErrnoException) => error.code === "EADDRINUSE"

const inUse = (real: string) =>
  new StartRefused({
    message: `The data folder ${real} is in use by another Ampoule server or vault. Stop that one, or set AMPOULE_DATA_DIR to a folder of its own.`
  })

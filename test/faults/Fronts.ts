/** How a server reaches the primary of a pair: by the names of both, through HAProxy, through pgbouncer. */
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import { type ChildProcess, execFileSync, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as http from "node:http"
import * as net from "node:net"
import * as path from "node:path"
import * as PostgresServer from "#test/deploy/PostgresServer.ts"
import { freePort } from "#test/support/FreePort.ts"
import * as Replication from "./Replication.ts"

export interface Front {
  /** `AMPOULE_DATABASE_URL`. */
  readonly url: string
  /** Step of the promoting operator, after the promotion. */
  readonly promoted: Effect.Effect<void>
}

const accepts = (port: number) =>
  Effect.async<boolean>((resume) => {
    const socket = net.connect(port, "127.0.0.1")
    const answer = (is: boolean) => () => {
      socket.destroy()
      resume(Effect.succeed(is))
    }
    socket.once("connect", answer(true)).once("error", answer(false))
  })

/** A program that listens on `port`, killed with the scope. */
const program = (port: number, folder: string, command: string, ...args: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const log = fs.openSync(path.join(folder, "program.log"), "a", 0o666)
    const child = yield* Effect.acquireRelease(
      Effect.sync((): ChildProcess => spawn(command, args, { cwd: folder, stdio: ["ignore", log, log] })),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    yield* Effect.repeat(Effect.delay(accepts(port), "50 millis"), { until: (is) => is, times: 200 })
    return child
  })

const urlTo = (...ports: ReadonlyArray<number>) =>
  `postgres://postgres@${ports.map((port) => `127.0.0.1:${port}`).join(",")}/postgres`

/** Both hosts, and nothing in between. */
export const direct = ({ nodes }: Replication.Pair) =>
  Effect.succeed<Front>({
    url: `${urlTo(...nodes.map(({ port }) => port))}?target_session_attrs=read-write`,
    promoted: Effect.void
  })

/**
 * Answers 200 while the node is the primary, as Patroni does at `/primary`: who was promoted last holds the lock, whatever
 * another one takes itself for.
 */
const healthOf = (pair: Replication.Pair, node: Replication.Node) =>
  Effect.gen(function* () {
    const port = yield* freePort
    const run = Runtime.runPromise(yield* Effect.runtime())
    yield* Effect.acquireRelease(
      Effect.sync(() =>
        http
          .createServer((_, response) => {
            const answers = Effect.timeoutTo(Replication.isPrimary(node), {
              duration: "1 seconds",
              onTimeout: () => false,
              onSuccess: (is) => is && pair.primary() === node
            })
            void run(answers).then((is) => response.writeHead(is ? 200 : 503).end())
          })
          .listen(port, "127.0.0.1")
      ),
      (server) => Effect.sync(() => server.close())
    )
    return port
  })

/** As Patroni's documentation sets it up. */
export const haproxy = (pair: Replication.Pair) =>
  Effect.gen(function* () {
    const [port, folder] = [yield* freePort, yield* PostgresServer.folder]
    const servers: Array<string> = []
    for (const node of pair.nodes) {
      const health = yield* healthOf(pair, node)
      servers.push(`  server pg${node.port} 127.0.0.1:${node.port} maxconn 100 check port ${health}`)
    }
    const file = path.join(folder, "haproxy.cfg")
    fs.writeFileSync(
      file,
      `global
  maxconn 300
defaults
  mode tcp
  retries 2
  timeout client 30m
  timeout connect 4s
  timeout server 30m
  timeout check 5s
listen postgres
  bind 127.0.0.1:${port}
  option httpchk GET /primary
  http-check expect status 200
  default-server inter 500ms fall 1 rise 1 on-marked-down shutdown-sessions
${servers.join("\n")}
`
    )
    yield* program(port, folder, "haproxy", "-db", "-f", file)
    const front: Front = { url: urlTo(port), promoted: Effect.void }
    return front
  })

/** One address, which is moved after the promotion. */
export const pgbouncer =
  (mode: "session" | "transaction") =>
  ({ primary }: { readonly primary: () => { readonly port: number } }) =>
    Effect.gen(function* () {
      const [port, folder] = [yield* freePort, yield* PostgresServer.folder]
      const file = path.join(folder, "pgbouncer.ini")
      const users = path.join(folder, "users")
      fs.writeFileSync(users, '"postgres" ""\n')
      const point = () =>
        fs.writeFileSync(
          file,
          `[databases]
postgres = host=127.0.0.1 port=${primary().port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${users}
pool_mode = ${mode}
default_pool_size = 40
server_login_retry = 1
`
        )
      point()
      if (PostgresServer.owner.length > 0) execFileSync("chown", ["postgres", file, users])
      // It refuses to run as root, and gives that up by itself.
      const user = PostgresServer.owner.length > 0 ? ["-u", "postgres"] : []
      const child = yield* program(port, folder, "pgbouncer", ...user, file)
      const front: Front = {
        url: urlTo(port),
        promoted: Effect.sync(() => {
          point()
          child.kill("SIGHUP")
        })
      }
      return front
    })

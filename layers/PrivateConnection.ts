/**
 * Checks that the network cannot read or change the connection to Postgres or Redis. That holds on this machine, with
 * TLS that verifies the server, or on a network that the operator declared private (`AMPOULE_PLAINTEXT_HOSTS`).
 */
import * as Effect from "effect/Effect"
import { StartRefused } from "#src/AppConfig.ts"
import { isLoopbackHost } from "#src/net/Loopback.ts"

/** Target of a driver, parsed from its URL in the driver's own way. */
export interface Endpoint {
  /** Host name, address, or path of a socket. */
  readonly host: string
  /** True when the driver checks the server's certificate. */
  readonly verified: boolean
}

interface Server {
  readonly name: string
  readonly setting: string
  readonly remedy: string
}

const servers = {
  postgres: { name: "Postgres", setting: "AMPOULE_DATABASE_URL", remedy: "append ?sslmode=verify-full to it" },
  redis: { name: "Redis", setting: "AMPOULE_REDIS_URL", remedy: "start it with rediss://" }
} satisfies Record<string, Server>

const isPrivate = ({ host, verified }: Endpoint, plaintextHosts: ReadonlyArray<string>) =>
  verified || host.startsWith("/") || isLoopbackHost(host) || plaintextHosts.includes(host)

/** Fails for an unprotected connection. `read` may throw, because a URL can name missing files. */
export const required = (
  kind: keyof typeof servers,
  read: () => Endpoint | ReadonlyArray<Endpoint>,
  plaintextHosts: ReadonlyArray<string> = []
): Effect.Effect<void, StartRefused> => {
  const { name, remedy, setting } = servers[kind]
  return Effect.try({
    try: read,
    catch: () => new StartRefused({ message: `${setting} cannot be used: a file that it names cannot be read.` })
  }).pipe(
    Effect.filterOrFail(
      (endpoints) => [endpoints].flat().every((endpoint) => isPrivate(endpoint, plaintextHosts)),
      () =>
        new StartRefused({
          message: `${setting} leads to another machine without verified TLS: ${remedy}, or name its host in AMPOULE_PLAINTEXT_HOSTS if nothing else can read the network to ${name}.`
        })
    ),
    Effect.asVoid
  )
}

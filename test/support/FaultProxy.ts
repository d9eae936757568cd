/**
 * Misbehaves on demand in front of a server of 127.0.0.1. No byte is lost or swapped while a connection lives, as in
 * TCP.
 */
import * as Effect from "effect/Effect"
import * as net from "node:net"

export type Mode =
  | "pass"
  /** New and old connections stay open, nothing moves any more; what was sent arrives late, when it passes again. */
  | "blackhole"
  /** Every connection is cut with RST, new ones at once. */
  | "reset"
  /** Nobody listens; old connections are cut. */
  | "refuse"
  /** Everything takes so long, each way. */
  | { readonly delayMillis: number }
  /** The server's end of every connection, new ones too, is gone; ours hears of it so much later, and may send meanwhile. */
  | { readonly closesAfterMillis: number }

/** One way of a connection: what comes in goes out in order, when its time has come. */
const way = (from: net.Socket, to: net.Socket, mode: () => Mode) => {
  const waiting: Array<{ readonly at: number; readonly go: () => void }> = []
  let timer: NodeJS.Timeout | undefined
  let [stopped, ended] = [false, false]
  const flush = () => {
    clearTimeout(timer)
    if (stopped || mode() === "blackhole") return
    const now = performance.now()
    while (waiting[0] !== undefined && waiting[0].at <= now) waiting.shift()?.go()
    if (waiting[0] !== undefined) timer = setTimeout(flush, waiting[0].at - now)
  }
  const later = (go: () => void) => {
    if (stopped) return
    const current = mode()
    const delay = typeof current === "object" && "delayMillis" in current ? current.delayMillis : 0
    waiting.push({ at: Math.max(performance.now() + delay, waiting.at(-1)?.at ?? 0), go })
    flush()
  }
  const end = () => {
    if (!ended) later(() => void to.destroySoon())
    ended = true
  }
  from.on("data", (chunk) => later(() => void to.write(chunk)))
  from.on("error", () => {})
  from.on("end", end).on("close", end)
  return { flush, stop: () => void (stopped = true) }
}

const pairOf = (client: net.Socket, upstream: net.Socket, mode: () => Mode) => {
  const ways = [way(client, upstream, mode), way(upstream, client, mode)]
  let timer: NodeJS.Timeout | undefined
  client.once("close", () => clearTimeout(timer))
  return {
    /** Waiting bytes may go, if the mode lets them. */
    flush: () => ways.forEach(({ flush }) => flush()),
    cut: () => {
      ways.forEach(({ stop }) => stop())
      client.resetAndDestroy()
      upstream.resetAndDestroy()
    },
    /** The server's end is gone; the client hears of it later. */
    linger: (millis: number) => {
      ways.forEach(({ stop }) => stop())
      upstream.destroy()
      timer ??= setTimeout(() => client.end(), millis)
    }
  }
}

export const make = (target: { readonly host: string; readonly port: number }) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      let mode: Mode = "pass"
      const pairs = new Set<ReturnType<typeof pairOf>>()
      const cut = () => pairs.forEach((pair) => pair.cut())
      const apply = () => {
        if (typeof mode === "object" && "closesAfterMillis" in mode) {
          for (const pair of pairs) pair.linger(mode.closesAfterMillis)
        } else if (mode === "reset" || mode === "refuse") cut()
        else for (const pair of pairs) pair.flush()
      }
      const server = net.createServer((client) => {
        const upstream = net.connect(target)
        const pair = pairOf(client, upstream, () => mode)
        pairs.add(pair)
        const gone = () => {
          if (client.destroyed && upstream.destroyed) pairs.delete(pair)
        }
        client.once("close", gone)
        upstream.once("close", gone)
        apply()
      })
      const listen = (port: number) =>
        new Promise<number>((resolve) => {
          server.listen(port, "127.0.0.1", () => resolve((server.address() as net.AddressInfo).port))
        })
      const port = await listen(0)
      return {
        port,
        set: (next: Mode) =>
          Effect.promise(async () => {
            const listening = server.listening
            mode = next
            apply()
            if (next === "refuse" && listening) server.close()
            if (next !== "refuse" && !listening) await listen(port)
          }),
        close: () => {
          cut()
          server.close()
        }
      }
    }),
    ({ close }) => Effect.sync(close)
  )

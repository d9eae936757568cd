/** Stands before a server of 127.0.0.1 and misbehaves on demand. */
import * as Effect from "effect/Effect"
import * as net from "node:net"

export type Mode =
  | "pass"
  /** New and old connections stay open, nothing moves any more. */
  | "blackhole"
  /** Every connection is cut with RST, new ones at once. */
  | "reset"
  /** Nobody listens; old connections are cut. */
  | "refuse"

export const make = (target: { readonly host: string; readonly port: number }) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      let mode: Mode = "pass"
      const pairs = new Set<readonly [net.Socket, net.Socket]>()
      const cut = () => pairs.forEach((pair) => pair.forEach((socket) => socket.resetAndDestroy()))
      const server = net.createServer((client) => {
        const upstream = net.connect(target)
        const pair = [client, upstream] as const
        pairs.add(pair)
        for (const [from, to] of [pair, [upstream, client]] as const) {
          from.on("data", (chunk) => void (mode === "blackhole" ? undefined : to.write(chunk)))
          from.on("error", () => {})
          from.on("close", () => {
            // In a blackhole not even the news of an end arrives.
            if (mode !== "blackhole") to.destroy()
            pairs.delete(pair)
          })
        }
        if (mode === "reset") client.resetAndDestroy()
      })
      const listen = (port: number) =>
        new Promise<number>((resolve) => {
          server.listen(port, "127.0.0.1", () => resolve((server.address() as net.AddressInfo).port))
        })
      const port = await listen(0)
      return {
        port,
        connections: () => pairs.size,
        set: (next: Mode) =>
          Effect.promise(async () => {
            const listening = server.listening
            mode = next
            if (next === "reset" || next === "refuse") cut()
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

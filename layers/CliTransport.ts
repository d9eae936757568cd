/** Requests of the command line with Node's own client, since loading a library costs more than the request. */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Http from "node:http"
import { http, https } from "#src/cli/terminal/BuiltIn.ts"
import { type Response, NotDelivered, type Request, TooLong, type Transport } from "#src/cli/connection/Transport.ts"
import { routeOf } from "#src/cli/connection/Proxy.ts"

const clientFor = (target: URL): Pick<typeof Http, "request"> => (target.protocol === "https:" ? https() : http())

const headersOf = ({ headers }: Http.IncomingMessage): Response["headers"] =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value[0] : value]))

/** Without a proxy: a connection for this request, closed after the response. */
const agentFor = async (target: URL): Promise<Http.Agent | false> => {
  if (routeOf(target)._tag === "Direct") return false
  const { agents } = await import("#src/cli/connection/ProxyAgents.ts")
  return target.protocol === "https:" ? agents().https : agents().http
}

const send = ({ body, headers, longest, method, silence, url }: Request): Effect.Effect<Response, NotDelivered> =>
  Effect.async((resume) => {
    let answered = false
    const fail = (cause: unknown) => {
      clearTimeout(timer)
      clearTimeout(quiet)
      resume(new NotDelivered({ cause, answered }))
    }
    const receive = (message: Http.IncomingMessage) => {
      answered = true
      quiet?.refresh()
      const chunks: Array<Uint8Array> = []
      message.on("data", (chunk: Uint8Array) => {
        quiet?.refresh()
        chunks.push(chunk)
      })
      message.once("error", fail)
      message.once("end", () => {
        const text = Buffer.concat(chunks).toString("utf8")
        clearTimeout(timer)
        clearTimeout(quiet)
        resume(Effect.succeed({ status: message.statusCode ?? 0, headers: headersOf(message), text }))
      })
    }
    const target = new URL(url)
    let request: Http.ClientRequest | undefined
    // For the whole exchange: a timer of Node costs less than a racing fiber.
    const after = (millis: number) =>
      setTimeout(() => {
        fail(new TooLong(millis))
        request?.destroy()
      }, millis)
    const timer = after(longest)
    const quiet = silence === undefined ? undefined : after(silence)
    const begin = async () => {
      const options = { method, headers, agent: await agentFor(target) }
      request = clientFor(target).request(target, options, receive)
      request.once("error", fail)
      request.end(body)
    }
    begin().catch(fail)
    return Effect.sync(() => {
      clearTimeout(timer)
      clearTimeout(quiet)
      request?.destroy()
    })
  })

export const transport: Context.Tag.Service<Transport> = { send }

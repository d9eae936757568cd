/** Adapts a request of `node:http` to the platform's type, with bounded bodies (`RequestBody.ts`). */
import * as Cookies from "@effect/platform/Cookies"
import type * as Headers from "@effect/platform/Headers"
import * as HttpIncomingMessage from "@effect/platform/HttpIncomingMessage"
import type { HttpMethod } from "@effect/platform/HttpMethod"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as Inspectable from "effect/Inspectable"
import * as Option from "effect/Option"
import type { IncomingMessage } from "node:http"
import * as RequestBody from "./RequestBody.ts"

class NodeRequest extends Inspectable.Class {
  readonly [HttpServerRequest.TypeId] = HttpServerRequest.TypeId
  readonly [HttpIncomingMessage.TypeId] = HttpIncomingMessage.TypeId
  readonly method: HttpMethod
  readonly url: string
  readonly originalUrl: string
  #cookies: Readonly<Record<string, string>> | undefined
  #body: ReturnType<typeof RequestBody.readersOf> | undefined
  constructor(
    readonly source: IncomingMessage,
    readonly path: string
  ) {
    super()
    // Node's parser accepts methods in capitals alone; the router refuses those without a route.
    this.method = source.method as HttpMethod
    this.url = source.url ?? ""
    this.originalUrl = this.url
  }
  get headers(): Headers.Headers {
    // Node gives names in lower case, as the platform expects.
    return this.source.headers as Headers.Headers
  }
  get cookies() {
    return (this.#cookies ??= Cookies.parseHeader(this.headers["cookie"] ?? ""))
  }
  get remoteAddress() {
    return Option.fromNullable(this.source.socket.remoteAddress)
  }
  get #readers() {
    return (this.#body ??= RequestBody.readersOf(this.source, this.path))
  }
  get json() {
    return this.#readers.json
  }
  get text() {
    return this.#readers.text
  }
  get arrayBuffer() {
    return this.#readers.arrayBuffer
  }
  get urlParamsBody() {
    return this.#readers.urlParamsBody
  }
  /** No route takes files, so a multipart body fails as a body that is not JSON. */
  get multipart() {
    return this.#readers.json
  }
  override toJSON() {
    return { _id: "@effect/platform/HttpServerRequest", method: this.method, path: this.path }
  }
}

/**
 * Needs the cast for two reasons. Faults of a body are errors of the contract here, where the platform has one error.
 * And the members for streams and upgrades are missing, because no route uses them.
 */
export const make = (source: IncomingMessage, path: string): HttpServerRequest.HttpServerRequest =>
  new NodeRequest(source, path) as unknown as HttpServerRequest.HttpServerRequest

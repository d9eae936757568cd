/** A request of `node:http` as the platform's handlers know one, with bodies that are bounded (`RequestBody.ts`). */
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
    // Node's parser knows methods in capitals alone; the router refuses those without a route.
    this.method = source.method as HttpMethod
    this.url = source.url ?? ""
    this.originalUrl = this.url
  }
  get headers(): Headers.Headers {
    // As the platform takes them: names in lower case.
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
  /** No route takes files: such a body is refused as what it is not. */
  get multipart() {
    return this.#readers.json
  }
  override toJSON() {
    return { _id: "@effect/platform/HttpServerRequest", method: this.method, path: this.path }
  }
}

/**
 * The cast: what can be wrong with a body is an error of the contract here, where the platform knows one error of its
 * own; and no route reads a body as a stream or changes the protocol, so that those members are not there.
 */
export const make = (source: IncomingMessage, path: string): HttpServerRequest.HttpServerRequest =>
  new NodeRequest(source, path) as unknown as HttpServerRequest.HttpServerRequest

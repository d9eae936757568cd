/**
 * Turns each failure of each route into `{statusCode, code, message, field?, …}` (docs/contract/errors.md). No text of
 * a request passes through here: the kind of a decoding issue selects the sentence, and the input is never repeated.
 */
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import { type AnyApiError, bodyOf, isApiError, statusOf } from "#schema/ApiError.ts"
import { DependencyUnavailable, InternalError, ServerBusy, ValidationFailed } from "#schema/Errors.ts"
import { DependencyDown, isBusy, isDatabaseUnavailable } from "#src/database/Dependency.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"
import { causeText } from "#src/telemetry/CauseText.ts"
import type { Exchange } from "./RequestContext.ts"

/** `Retry-After` in seconds when a dependency is down or the server is busy: recovery takes seconds. */
const dependencyRetrySeconds = 2

interface Issue {
  readonly _tag: string
  readonly path: ReadonlyArray<PropertyKey>
  readonly message: string
}

/**
 * Sentences of our own filters all start like this. The library's start with `Expected`, `Unable`, `is missing`, `is
 * unexpected` … and quote the input. The alphabet is limited too, so that a wrongly built sentence could leak little.
 */
const ownSentence = /^(?:must |is too |is not accepted: )[\w .,:;()$+{}-]{1,160}$/

const sentenceOf = (issue: Issue): string => {
  switch (issue._tag) {
    case "Missing":
      return "is required"
    case "Unexpected":
      return "is not accepted here"
    default:
      return ownSentence.test(issue.message) ? issue.message : "is not valid"
  }
}

const maxField = 300

/** Reports the issue with the longest path: a union reports each branch, and the deepest issue helps most. */
export const validationFailed = (issues: ReadonlyArray<Issue>): ValidationFailed => {
  let deepest = issues[0]
  for (const issue of issues) if (issue.path.length > deepest.path.length) deepest = issue
  if (deepest === undefined) return new ValidationFailed()
  const sentence = sentenceOf(deepest)
  const field = deepest.path.map(String).join(".")
  if (field === "") return new ValidationFailed({ message: `The request ${sentence}.` })
  return new ValidationFailed({ field: field.slice(0, maxField), message: `This member ${sentence}.` })
}

/** A handler returned a value that its endpoint does not declare. The error carries no part of that value. */
export class UnencodableAnswer extends Data.TaggedError("UnencodableAnswer") {}

type Verdict =
  | { readonly answer: AnyApiError; readonly log?: "error" | "warning" }
  | { readonly response: HttpServerResponse.HttpServerResponse }

const verdictOf = (cause: Cause.Cause<unknown>, exchange: Exchange): Verdict => {
  const error = Cause.squash(cause)
  if (isApiError(error)) return { answer: error }
  if (HttpServerResponse.isServerResponse(error)) return { response: error }
  if (isBusy(cause) && !exchange.committed) {
    Metrics.rateLimited("busy:")
    return { answer: new ServerBusy() }
  }
  if (
    error instanceof DependencyDown ||
    isBusy(cause) ||
    Predicate.isTagged(error, "VaultUnavailable") ||
    isDatabaseUnavailable(cause)
  ) {
    return { answer: new DependencyUnavailable(), log: "warning" }
  }
  return { answer: new InternalError(), log: "error" }
}

/** Page that explains the code (`src/docs`), as RFC 8288 names it. */
export const helpOf = ({ _tag }: AnyApiError): string => `</docs/errors#${_tag}>; rel="help"`

const ownHeaders = (error: AnyApiError): Record<string, string> => {
  if (statusOf(error) === 401) return { "www-authenticate": "Bearer" }
  if ("retryAfterSeconds" in error) return { "retry-after": String(error.retryAfterSeconds) }
  return error._tag === "DEPENDENCY_UNAVAILABLE" || error._tag === "SERVER_BUSY"
    ? { "retry-after": String(dependencyRetrySeconds) }
    : {}
}

export const respond = (error: AnyApiError): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.unsafeJson(bodyOf(error), {
    status: statusOf(error),
    headers: { ...ownHeaders(error), link: helpOf(error) }
  })

/** Path for the log, without segments that identify anything. */
const shapeOf = (path: string): string =>
  path
    .split("/")
    .map((segment) => (/^[a-z][a-z.-]{0,40}$/.test(segment) || segment === "" ? segment : ":"))
    .join("/")

/** Decides the response to a failure, and logs the cause, which the response leaves out. */
export const judge = (
  cause: Cause.Cause<unknown>,
  exchange: Exchange,
  method: string,
  path: string
): Effect.Effect<AnyApiError | HttpServerResponse.HttpServerResponse> => {
  // The client went away, or the server is stopping.
  if (Cause.isInterruptedOnly(cause)) return Effect.failCause(Cause.stripFailures(cause))
  const verdict = verdictOf(cause, exchange)
  if ("response" in verdict) return Effect.succeed(verdict.response)
  if (verdict.log === undefined) return Effect.succeed(verdict.answer)
  if (verdict.log === "warning") exchange.databaseFailed ||= isDatabaseUnavailable(cause)
  const log = verdict.log === "error" ? Effect.logError("request failed") : Effect.logWarning("dependency unavailable")
  return Effect.as(
    Effect.annotateLogs(log, { requestId: exchange.id, method, path: shapeOf(path), cause: causeText(cause) }),
    verdict.answer
  )
}

/** The response to a failed request. */
export const answer = (cause: Cause.Cause<unknown>, exchange: Exchange, method: string, path: string) =>
  Effect.map(judge(cause, exchange, method, path), (decision) => (isApiError(decision) ? respond(decision) : decision))

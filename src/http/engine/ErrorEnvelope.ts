/**
 * Each failure of each route becomes `{statusCode, code, message, field?, …}` (docs/contract/errors.md). No text of a
 * request can pass through here: what decoding says about an input is looked up by the kind of issue, never repeated.
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

/** What an answer recommends when a dependency is down or too much is to be done: recovery takes seconds. */
const dependencyRetrySeconds = 2

interface Issue {
  readonly _tag: string
  readonly path: ReadonlyArray<PropertyKey>
  readonly message: string
}

/**
 * The sentences of our own filters all start like this; the library's start with `Expected`, `Unable`, `is missing`,
 * `is unexpected` … and quote the input. The alphabet is that of our sentences, so that even a sentence that was built
 * wrongly could not carry much.
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

/** Of several issues (a union reports each branch) the one that points deepest is the one that helps. */
export const validationFailed = (issues: ReadonlyArray<Issue>): ValidationFailed => {
  let deepest = issues[0]
  for (const issue of issues) if (issue.path.length > deepest.path.length) deepest = issue
  if (deepest === undefined) return new ValidationFailed()
  const sentence = sentenceOf(deepest)
  const field = deepest.path.map(String).join(".")
  if (field === "") return new ValidationFailed({ message: `The request ${sentence}.` })
  return new ValidationFailed({ field: field.slice(0, maxField), message: `This member ${sentence}.` })
}

/** A handler returned what its endpoint does not declare: the fault is ours, and the value stays here. */
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

const headersOf = (error: AnyApiError): Record<string, string> => {
  if (statusOf(error) === 401) return { "www-authenticate": "Bearer" }
  if ("retryAfterSeconds" in error) return { "retry-after": String(error.retryAfterSeconds) }
  return error._tag === "DEPENDENCY_UNAVAILABLE" || error._tag === "SERVER_BUSY"
    ? { "retry-after": String(dependencyRetrySeconds) }
    : {}
}

export const respond = (error: AnyApiError): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.unsafeJson(bodyOf(error), { status: statusOf(error), headers: headersOf(error) })

/** A path without what identifies anything, for the log. */
const shapeOf = (path: string): string =>
  path
    .split("/")
    .map((segment) => (/^[a-z][a-z.-]{0,40}$/.test(segment) || segment === "" ? segment : ":"))
    .join("/")

/** What the answer says of a failure; the log gets what the answer does not say. */
export const judge = (
  cause: Cause.Cause<unknown>,
  exchange: Exchange,
  method: string,
  path: string
): Effect.Effect<AnyApiError | HttpServerResponse.HttpServerResponse> => {
  // The client is gone, or the server had to stop.
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

/** The answer to a request that failed. */
export const answer = (cause: Cause.Cause<unknown>, exchange: Exchange, method: string, path: string) =>
  Effect.map(judge(cause, exchange, method, path), (judged) => (isApiError(judged) ? respond(judged) : judged))

/** Sent forms, decoded with the schemas of the API, so that pages and API check the same. */
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as Effect from "effect/Effect"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"
import { ValidationFailed } from "#schema/Errors.ts"
import { validationFailed } from "#src/http/engine/ErrorEnvelope.ts"

export class Form {
  constructor(readonly entries: ReadonlyArray<readonly [string, string]>) {}

  /** Empty if the field is missing. Restores line breaks, which forms send as CR LF (HTML, 4.10.22.7). */
  text(name: string): string {
    return (this.entries.find(([key]) => key === name)?.[1] ?? "").replaceAll("\r\n", "\n")
  }
  /** Undefined for an empty field. */
  filled(name: string): string | undefined {
    const text = this.text(name)
    return text.trim() === "" ? undefined : text
  }
  all(name: string): ReadonlyArray<string> {
    return this.entries.filter(([key]) => key === name).map(([, value]) => value)
  }
  has(name: string): boolean {
    return this.entries.some(([key]) => key === name)
  }
}

export const read = Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
  Effect.map(request.urlParamsBody, (params) => new Form(params))
)

/** Items between commas, spaces or line breaks. */
export const listItems = (text: string): ReadonlyArray<string> => text.split(/[\s,]+/).filter((one) => one !== "")

/** Field in which a person types a name to confirm a permanent deletion. */
export const confirm = "confirm"

/** Refuses a permanent deletion unless its form repeats `name`. */
export const repeats = (form: Form, name: string) =>
  form.text(confirm).trim() === name
    ? Effect.void
    : Effect.fail(new ValidationFailed({ field: confirm, message: `Type ${name} to confirm.` }))

/** Fails with VALIDATION_FAILED, which names the field and repeats nothing. */
export const decode =
  <A, I>(schema: Schema.Schema<A, I>) =>
  (input: unknown) =>
    ParseResult.decodeUnknown(schema)(input).pipe(
      Effect.mapError((issue) => validationFailed(ParseResult.ArrayFormatter.formatIssueSync(issue)))
    )

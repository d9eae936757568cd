/**
 * Formats of request members. Every message is a fixed sentence: a refinement never repeats its input
 * (docs/architecture.md, S1).
 */
import * as DateTime from "effect/DateTime"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as AST from "effect/SchemaAST"
import * as Patterns from "./Patterns.ts"

/** Characters in the sense of OpenAPI and the contract: code points, not UTF-16 units (docs/contract/errors.md). */
export const codePoints = (s: string): number => {
  let n = 0
  for (let i = 0; i < s.length; i++) {
    const c = s.charCodeAt(i)
    if (c < 0xdc00 || c > 0xdfff) n++
  }
  return n
}

export const maxValueLength = 65_536

const text = (options: {
  readonly min?: number
  readonly max: number
  readonly pattern?: RegExp
  readonly message: string
  readonly description: string
}) =>
  Schema.String.pipe(
    Schema.filter(
      (s) => {
        if (s.length > options.max * 2 || !s.isWellFormed()) return options.message
        const n = codePoints(s)
        if (n < (options.min ?? 0) || n > options.max) return options.message
        return options.pattern === undefined || options.pattern.test(s) || options.message
      },
      {
        description: options.description,
        jsonSchema: {
          type: "string",
          ...(options.min === undefined ? {} : { minLength: options.min }),
          maxLength: options.max,
          ...(options.pattern === undefined ? {} : { pattern: options.pattern.source })
        }
      }
    )
  )

export const environmentSlugPattern = Patterns.environmentSlug
export const EnvironmentSlug = text({
  min: 1,
  max: Patterns.longestSlug,
  pattern: environmentSlugPattern,
  message: "must be an environment slug: 1 to 50 of a-z, 0-9 and -, starting with a letter or digit",
  description: "Environment slug."
}).pipe(Schema.brand("EnvironmentSlug"))
export type EnvironmentSlug = typeof EnvironmentSlug.Type

export const ProjectSlug = text({
  min: 1,
  max: 50,
  pattern: environmentSlugPattern,
  message: "must be a slug: 1 to 50 of a-z, 0-9 and -, starting with a letter or digit",
  description: "Project slug."
}).pipe(Schema.brand("ProjectSlug"))
export type ProjectSlug = typeof ProjectSlug.Type

export const secretKeyPattern = Patterns.secretKey
export const SecretKey = text({
  min: 1,
  max: Patterns.longestKey,
  pattern: secretKeyPattern,
  message: "must be a secret key: 1 to 255 of A-Z, 0-9 and _, starting with a letter",
  description: "Secret key."
}).pipe(Schema.brand("SecretKey"))
export type SecretKey = typeof SecretKey.Type

/** Word that groups secrets across environments and projects. Readable by everyone who can read names. */
export const SecretTag = text({
  min: 1,
  max: 40,
  pattern: /^[a-z0-9][a-z0-9._:/-]*$/,
  message: "must be a tag: 1 to 40 of a-z, 0-9, dot, colon, slash, - and _, starting with a letter or digit",
  description: "Tag: 1 to 40 of a-z, 0-9 and . _ : / -, starting with a letter or digit."
}).pipe(Schema.brand("SecretTag"))
export type SecretTag = typeof SecretTag.Type

export const sealingKeyIdPattern = /^ek_[0-9a-f]{8}$/
export const SealingKeyId = text({
  max: 11,
  pattern: sealingKeyIdPattern,
  message: "must be a sealing key id: ek_ and 8 hex digits",
  description: "Sealing key id."
}).pipe(Schema.brand("SealingKeyId"))
export type SealingKeyId = typeof SealingKeyId.Type

/**
 * Incoming value or template source. The check is outside the Redacted, so that a refusal cannot print the text
 * (docs/architecture.md). U+0000 is allowed, since values are stored as ciphertext.
 */
export const SecretText = Schema.Redacted(Schema.String)
  .pipe(
    Schema.filter(
      (redacted) => {
        const s = Redacted.value(redacted)
        return (
          (s.length <= maxValueLength * 2 && s.isWellFormed() && codePoints(s) <= maxValueLength) ||
          "must be well-formed text of at most 65536 characters"
        )
      },
      { jsonSchema: { type: "string", maxLength: maxValueLength } }
    )
  )
  .annotations({
    jsonSchema: { type: "string", maxLength: maxValueLength },
    description: "Text of a secret, at most 65536 characters."
  })
export type SecretText = typeof SecretText.Type

/**
 * Control, bidi and zero-width characters, refused in every name that a person or a model reads
 * (docs/contract/errors.md). Tags and the variation selectors beside them (U+E0000 on) spell text that only a model
 * sees. Those of emoji (U+FE0F) stay.
 */
const invisible =
  // eslint-disable-next-line no-control-regex
  /[\u034f\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]/
const tags = /[\u{e0000}-\u{e0fff}]/u
export const isPlainName = (s: string): boolean =>
  s.isWellFormed() && !invisible.test(s) && !tags.test(s) && s.trim().length > 0

/**
 * `isPlainName` for the document, without the tags: no regular expression for a range beyond U+FFFF works in every
 * engine.
 */
const invisibleSet = invisible.source.slice(1, -1)
export const plainNamePattern = `^[^${invisibleSet}]*[^\\s${invisibleSet}][^${invisibleSet}]*$`

export const name = (max: number, description: string) =>
  text({ min: 1, max, message: `must be 1 to ${max} characters`, description })
    .pipe(
      Schema.filter((s) => isPlainName(s) || "must not be blank nor contain control, bidi or zero-width characters")
    )
    .annotations({
      jsonSchema: { type: "string", minLength: 1, maxLength: max, pattern: plainNamePattern },
      description
    })

/** Host name or operating system as claimed by a client: may be empty, at most 256 characters. */
export const HostText = text({
  max: 256,
  message: "must be at most 256 characters",
  description: "At most 256 characters."
})
  .pipe(
    Schema.filter(
      (s) => s === "" || isPlainName(s) || "must not be blank nor contain control, bidi or zero-width characters"
    )
  )
  .annotations({
    jsonSchema: { type: "string", maxLength: 256, pattern: `^$|${plainNamePattern}` },
    description: "At most 256 characters."
  })

/**
 * User code as typed by a person: case, dashes and spaces do not count (docs/contract/device-authorization.md). An
 * unknown one is a 404.
 */
export const UserCode = Schema.transform(
  Schema.String.pipe(
    Schema.filter((s) => (s.isWellFormed() ? codePoints(s) <= 64 || "is too long" : "must be well-formed text"))
  ),
  Schema.String,
  { strict: true, decode: (s) => s.replace(/[\s-]/g, "").toUpperCase(), encode: (s) => s }
).annotations({ jsonSchema: { type: "string", maxLength: 64 }, description: "User code, as XXXX-XXXX." })

const moment = /^([12]\d{3}-\d\d-\d\dT\d\d:\d\d)(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)$/

/**
 * True when the calendar has the minute. Date parsing is lenient: it reads the 30th of February as the 2nd of March.
 */
const isMinute = (minute: string): boolean =>
  Option.exists(DateTime.make(`${minute}Z`), (read) => DateTime.formatIso(read).startsWith(minute))

/** Moment in a query, ISO 8601 with a zone, decoded to UTC. */
export const Instant = Schema.transformOrFail(
  Schema.String.pipe(
    Schema.filter((s) => {
      const minute = moment.exec(s)?.[1]
      return (minute !== undefined && isMinute(minute)) || "must be an ISO 8601 time"
    })
  ),
  Schema.String,
  {
    strict: true,
    decode: (s, _, ast) =>
      Option.match(DateTime.make(s), {
        onNone: () => ParseResult.fail(new ParseResult.Type(ast, s, "must be an ISO 8601 time")),
        onSome: (moment) => ParseResult.succeed(DateTime.formatIso(moment))
      }),
    encode: (s) => ParseResult.succeed(s)
  }
).annotations({ jsonSchema: { type: "string", format: "date-time", pattern: moment.source } })

const day = /^([12]\d{3})-\d\d-\d\d$/

/** Day of the calendar, without a zone. */
export const CalendarDay = Schema.String.pipe(
  Schema.filter((s) => (day.test(s) && isMinute(`${s}T00:00`)) || "must be a day of the calendar, like 2027-01-31", {
    jsonSchema: { type: "string", format: "date", pattern: day.source }
  })
)

/** Id of an actor in the audit trail: a uuid, or a word such as `system`. */
export const ActorId = text({
  min: 1,
  max: 200,
  pattern: /^[\x21-\x7e]+$/,
  message: "must be the id of an actor",
  description: "Id of an actor."
})

/** Opaque; only `nextCursor` of an earlier response is valid. */
export const AuditCursor = text({
  min: 1,
  max: 200,
  pattern: /^[A-Za-z0-9_-]+$/,
  message: "must be the nextCursor of an earlier response",
  description: "nextCursor of an earlier response."
})

/** 1 to 100 characters. */
export const Name = name(100, "Name, 1 to 100 characters.")

/** Reason for a request or a grant, kept in the trail. */
export const Reason = name(500, "Reason, 1 to 500 characters.")

export const ExpectedVersion = Schema.Number.pipe(
  Schema.filter((n) => (Number.isSafeInteger(n) && n >= 0) || "must be an integer from 0 to 9007199254740991")
).annotations({ jsonSchema: { type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER } })

/** Version that exists or may have existed: 1, 2, … */
export const VersionNumber = Schema.Number.pipe(
  Schema.filter((n) => (Number.isSafeInteger(n) && n >= 1) || "must be an integer from 1 to 9007199254740991")
).annotations({ jsonSchema: { type: "integer", minimum: 1, maximum: Number.MAX_SAFE_INTEGER } })

/**
 * Header of the three POSTs that can be repeated safely (docs/contract/secrets.md). Spaces around a header's value do
 * not belong to it (RFC 9110 5.5).
 */
export const IdempotencyKey = text({
  min: 1,
  max: 255,
  pattern: /^[!-~]([ -~]*[!-~])?$/,
  message: "must be 1 to 255 ASCII characters",
  description:
    "Repeating key and body within 24 hours returns the stored response. The same key with another body is refused."
})

/** Whole number in a body. */
export const integer = (min: number, max: number, description: string) =>
  Schema.Number.pipe(
    Schema.filter(
      (n) => (Number.isSafeInteger(n) && n >= min && n <= max) || `must be an integer from ${min} to ${max}`
    )
  ).annotations({ jsonSchema: { type: "integer", minimum: min, maximum: max, description } })

/** Whole number in a query string: digits only (`1e2`, ` 5 `, `+7` are refused). */
export const queryInteger = (min: number, max: number, description: string) =>
  Schema.String.pipe(
    Schema.filter((s) => /^(0|[1-9][0-9]{0,15})$/.test(s) || `must be an integer from ${min} to ${max}`),
    Schema.transform(Schema.Number, { strict: true, decode: Number, encode: String }),
    Schema.filter((n) => (n >= min && n <= max) || `must be an integer from ${min} to ${max}`)
  ).annotations({ jsonSchema: { type: "integer", minimum: min, maximum: max }, description })

export const Page = queryInteger(1, 10_000, "Page, 1 to 10000; 1 by default.")
export const PageSize = queryInteger(1, 500, "Entries per page, 1 to 500; 100 by default.")

/**
 * Checks the size of an input before `schema` decodes any part of it, so that refusing a large one only costs counting.
 * `size` returns the error, and leaves inputs of other types to `schema`. The document shows `schema` with the members
 * of `shown`.
 */
export const sizedFirst = <A, I, R>(
  schema: Schema.Schema<A, I, R>,
  size: (input: unknown) => true | string,
  shown: object
): Schema.Schema<A, I, R> =>
  Schema.declare<A, I, readonly [Schema.Schema<A, I, R>]>(
    [schema],
    {
      decode: (inner) => {
        const decode = ParseResult.decodeUnknownEither(inner)
        return (input, options, ast) => {
          const verdict = size(input)
          return verdict === true ? decode(input, options) : ParseResult.fail(new ParseResult.Type(ast, input, verdict))
        }
      },
      encode: (inner) => {
        const encode = ParseResult.encodeUnknownEither(inner)
        return (value, options) => encode(value, options)
      }
    },
    { [AST.SurrogateAnnotationId]: schema.pipe(Schema.filter(() => true, { jsonSchema: shown })).ast }
  )

/** List with a bounded number of entries. */
export const boundedList = <S extends Schema.Schema.Any>(item: S, min: number, max: number) =>
  sizedFirst(
    Schema.Array(item),
    (list) =>
      !Array.isArray(list) || (list.length >= min && list.length <= max) || `must have ${min} to ${max} entries`,
    { minItems: min, maxItems: max }
  )

/** Address or CIDR block, checked by characters only; the use case parses it (`src/net/AddressRanges.ts`). */
export const AddressRange = Schema.String.pipe(
  Schema.filter((text) => /^[0-9A-Fa-f:.]{2,45}(?:\/[0-9]{1,3})?$/.test(text) || "must be an address or a CIDR block")
).annotations({
  jsonSchema: { type: "string", pattern: "^[0-9A-Fa-f:.]{2,45}(/[0-9]{1,3})?$" },
  identifier: "AddressRange",
  description: "An IPv4 or IPv6 address, or a CIDR block of either."
})

/** A key, a prefix with `*`, or `*` alone (`src/formats/AllowedKeys.ts`). */
export const AllowedKey = Schema.String.pipe(
  Schema.filter(
    (text) =>
      (text.length <= 256 && /^(?:\*|[A-Z][A-Z0-9_]*\*?)$/.test(text)) ||
      "must be a key such as DATABASE_URL, a prefix such as DATABASE_*, or * alone"
  )
).annotations({
  jsonSchema: { type: "string", maxLength: 256, pattern: "^([*]|[A-Z][A-Z0-9_]*[*]?)$" },
  identifier: "AllowedKey",
  description: "A key, a prefix with *, or * alone. A prefix covers no name that is known to run code."
})

/** Any text but the one name that a decoded object cannot hold as a member: it would be dropped silently. */
export const MemberName = Schema.String.pipe(
  Schema.filter((name) => name !== "__proto__" || "is not accepted: no such name")
)

export const Representation = Schema.Literal("materialized", "source").annotations({
  identifier: "Representation",
  message: () => "must be materialized or source",
  description: "materialized (default): references expanded; source: as written."
})
export type Representation = typeof Representation.Type

export const SecretKind = Schema.Literal("literal", "template").annotations({
  identifier: "SecretKind",
  message: () => "must be literal or template"
})
export type SecretKind = typeof SecretKind.Type

export const Disposition = Schema.Literal("flatten", "cascade").annotations({
  identifier: "Disposition",
  message: () => "must be flatten or cascade",
  description:
    "Effect on secrets that refer to the deleted one: flatten keeps their current text, cascade deletes them too."
})
export type Disposition = typeof Disposition.Type

/** E-mail address in its canonical form (lower case, NFC), before any look-up, rate limit or storage. */
export const Email = Schema.transform(
  text({
    min: 3,
    max: 254,
    pattern: /^[^\s@]+@[^\s@]+$/,
    message: "must be an e-mail address",
    description: "E-mail address."
  }).pipe(Schema.filter((s) => isPlainName(s) || "must be an e-mail address")),
  Schema.String,
  { strict: true, decode: (s) => s.normalize("NFC").toLowerCase(), encode: (s) => s }
).annotations({ jsonSchema: { type: "string", format: "email", maxLength: 254 } })

/**
 * The address of an account that is named by it, or by "address (by Team)" while the account is provisional and another
 * one has the address. An address contains no space.
 */
export const addressOf = (name: string): string => name.split(" ", 1)[0] ?? name

/** Address that a person takes newly: without the marks around and between addresses (RFC 5322, 3.4). */
export const NewEmail = Email.pipe(
  Schema.filter((email) => !/[<>()[\]\\,;:"]/.test(email) || "must be one e-mail address, without < > or a name")
).annotations({ jsonSchema: { type: "string", format: "email", maxLength: 254 } })

/** Number of characters; undefined if the text is not well-formed. */
const characters = (redacted: Redacted.Redacted): number | undefined => {
  const s = Redacted.value(redacted)
  return s.isWellFormed() ? codePoints(s) : undefined
}

/** New password: 12 to 256 characters, no composition rules. */
export const NewPassword = Schema.Redacted(Schema.String)
  .pipe(
    Schema.filter((redacted) => {
      const n = characters(redacted)
      return n === undefined ? "must be well-formed text" : (n >= 12 && n <= 256) || "must have 12 to 256 characters"
    })
  )
  .annotations({ jsonSchema: { type: "string", format: "password", minLength: 12, maxLength: 256 } })

/** Password to verify. */
export const Password = Schema.Redacted(Schema.String)
  .pipe(
    Schema.filter((redacted) => {
      const n = characters(redacted)
      return n === undefined ? "must be well-formed text" : n <= 1024 || "is too long"
    })
  )
  .annotations({ jsonSchema: { type: "string", format: "password", maxLength: 1024 } })

/** Bearer credential in a body (device code, invitation, reset, setup). */
export const CredentialText = Schema.Redacted(Schema.String)
  .pipe(
    Schema.filter((redacted) => {
      const n = characters(redacted)
      if (n === undefined) return "must be well-formed text"
      return n === 0 ? "must not be empty" : n <= 256 || "is too long"
    })
  )
  .annotations({ jsonSchema: { type: "string", minLength: 1, maxLength: 256 } })

/** ISO 8601 UTC in responses. */
export const Timestamp = Schema.String.annotations({ jsonSchema: { type: "string", format: "date-time" } })

/**
 * An event as a message that Slack's incoming webhooks accept, and those of services that copied them. Names alone, as in
 * the event; what Slack would read as a mention or a link is text.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

const Event = Schema.parseJson(
  Schema.Struct({
    type: Schema.String,
    environment: Schema.optional(Schema.String),
    keys: Schema.optionalWith(Schema.Array(Schema.String), { default: () => [] }),
    target: Schema.optional(Schema.Struct({ type: Schema.String, name: Schema.String })),
    actor: Schema.Struct({ type: Schema.String, name: Schema.NullOr(Schema.String) })
  })
)
const decode = Schema.decodeUnknownOption(Event)

/** Of a message; more are counted. */
const keysShown = 10

const plain = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
const code = (text: string) => `\`${plain(text).replaceAll("`", "'")}\``

const keysText = (keys: ReadonlyArray<string>) => {
  const more = keys.length > keysShown ? ` and ${keys.length - keysShown} more` : ""
  return keys.length === 0 ? "" : `: ${keys.slice(0, keysShown).map(code).join(", ")}${more}`
}

/** The body that is sent, for the body of an event as it was queued. */
export const slackBody = (body: string): string => {
  const event = Option.getOrUndefined(decode(body))
  if (event === undefined) return JSON.stringify({ text: "Ampoule: an event" })
  const { actor, environment, keys, target, type } = event
  const where = environment === undefined ? "" : ` in ${code(environment)}`
  const about = keys.length > 0 || target === undefined ? "" : ` (${plain(target.name)})`
  const who = actor.name === null || actor.name === "" ? actor.type : actor.name
  return JSON.stringify({ text: `*${plain(type)}*${keysText(keys)}${about}${where} by ${plain(who)}` })
}

/**
 * An event as a message for Slack's incoming webhooks, and compatible services. It has names only, like the event. Text
 * that Slack would read as a mention or link is escaped.
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

/** Keys that a message lists; the rest are counted. */
const maxKeys = 10

const plain = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
const code = (text: string) => `\`${plain(text).replaceAll("`", "'")}\``

const keysText = (keys: ReadonlyArray<string>) => {
  const more = keys.length > maxKeys ? ` and ${keys.length - maxKeys} more` : ""
  return keys.length === 0 ? "" : `: ${keys.slice(0, maxKeys).map(code).join(", ")}${more}`
}

/** The Slack body for the queued body of an event. `project` is the slug of the event's project, where it has one. */
export const slackBody = (body: string, project: string | null): string => {
  const event = Option.getOrUndefined(decode(body))
  if (event === undefined) return JSON.stringify({ text: "Ampoule: an event" })
  const { actor, environment, keys, target, type } = event
  const places = [project, environment].flatMap((name) => (typeof name === "string" ? [code(name)] : []))
  const where = places.length === 0 ? "" : ` in ${places.join(" / ")}`
  const about = keys.length > 0 || target === undefined ? "" : ` (${plain(target.name)})`
  const who = actor.name === null || actor.name === "" ? actor.type : actor.name
  return JSON.stringify({ text: `*${plain(type)}*${keysText(keys)}${about}${where} by ${plain(who)}` })
}

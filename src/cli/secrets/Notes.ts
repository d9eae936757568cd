/** `ampoule secrets note` and `notes`: owner, purpose, tags and rotation date of secrets. */
import * as Options from "@effect/cli/Options"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { DescribeSecret } from "#schema/SecretRequests.ts"
import { call } from "#src/cli/connection/Client.ts"
import { usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { exitWith, json, list, note as say, out, plain } from "#src/cli/terminal/Output.ts"
import { parseKey } from "#src/cli/terminal/Keys.ts"
import { findLive, idOf, listAll, onEnvironment } from "#src/cli/connection/Reach.ts"
import { secrets as secretsClient } from "#src/cli/connection/Routes.ts"

const decodeAbout = Schema.decodeUnknownOption(DescribeSecret)

/** Days begin in UTC, as in the server's reminder. */
const today = Effect.map(Clock.currentTimeMillis, (now) => new Date(now).toISOString().slice(0, 10))

/** Member of an option; an empty text clears it. */
const member = (name: string, option: Option.Option<string>) =>
  Option.match(option, { onNone: () => ({}), onSome: (text) => ({ [name]: text === "" ? null : text }) })

export const note = Help.command(
  "note",
  {
    says: "Show or edit a secret's owner, note, rotation date and tags.",
    more: [
      "Without an option it shows them. An empty text (--owner '') clears one.",
      "Everyone who can see the key can read these, and they are not sealed. Never write a value here."
    ],
    examples: [
      "ampoule secrets note DATABASE_URL",
      "ampoule secrets note STRIPE_KEY --owner 'payments team' --rotate-by 2027-01-31",
      "ampoule secrets note STRIPE_KEY --text 'Dashboard of Stripe, restricted key of the shop'"
    ]
  },
  {
    ...Shared.inEnvironment,
    json: Shared.json,
    owner: Options.optional(Shared.text("owner", "text", "Person or team responsible for the secret")),
    text: Options.optional(Shared.text("text", "text", "Purpose of the secret")),
    rotateBy: Options.optional(Shared.text("rotate-by", "day", "Day by which to replace the value, like 2027-01-31")),
    alias: Options.optional(
      Shared.text(
        "alias",
        "name",
        "Its name in another program, like ConnectionStrings__Default (see `run --names alias`)"
      )
    ),
    tags: Options.optional(Shared.text("tags", "list", "Words that group secrets, separated by commas")),
    key: Shared.keyArgument
  },
  onEnvironment(
    Effect.fnUntraced(function* ({ session, ...location }, options) {
      const key = yield* parseKey(options.key)
      const about = {
        ...member("owner", options.owner),
        ...member("note", options.text),
        ...member("rotateBy", options.rotateBy),
        ...member("alias", options.alias),
        ...Option.match(options.tags, {
          onNone: () => ({}),
          onSome: (text) => ({ tags: text.split(/[\s,]+/).filter((tag) => tag !== "") })
        })
      }
      const payload = decodeAbout(about)
      const isWrite = Object.keys(about).length > 0
      if (isWrite && Option.isNone(payload)) {
        return yield* usage(
          "An owner has at most 200 characters and a note 1000, on one line; --rotate-by is a day like 2027-01-31; a tag has 1 to 40 of a-z, 0-9 and . _ : / -, and a secret at most 10 of them."
        )
      }
      const client = yield* secretsClient(session)
      const live = yield* findLive(session, location, key)
      const path = { secretId: yield* idOf(session, live.id) }
      const metadata = Option.isSome(payload)
        ? yield* call(session, client.describe({ path, payload: payload.value }))
        : yield* call(session, client.described({ path }))
      if (options.json) return yield* json(metadata)
      if (isWrite) yield* say(`${key}: saved`)
      yield* out(
        `owner       ${plain(metadata.owner ?? "-")}\nreplace by  ${plain(metadata.rotateBy ?? "-")}\ntags        ${plain(metadata.tags.join(", ") || "-")}\nnote        ${plain(metadata.note ?? "-")}\n`
      )
    })
  )
)

export const notes = Help.command(
  "notes",
  {
    says: "List the secrets with their owner, rotation date, tags and note.",
    examples: ["ampoule secrets notes", "ampoule secrets notes --due --env production --exit-code"]
  },
  {
    ...Shared.inEnvironment,
    json: Shared.json,
    due: Shared.flag("due", "Only secrets whose rotation date has been reached"),
    exitCode: Shared.flag("exit-code", "Exit with 1 when a rotation date has been reached")
  },
  onEnvironment(
    Effect.fnUntraced(function* ({ session, ...location }, options) {
      const day = yield* today
      const items = yield* listAll(session, location)
      const isDue = ({ rotateBy }: (typeof items)[number]) => rotateBy !== null && rotateBy <= day
      if (options.exitCode && items.some(isDue)) yield* exitWith(1)
      yield* list(
        options,
        options.due
          ? items.filter(isDue)
          : items.filter((item) => (item.owner ?? item.note ?? item.rotateBy) !== null || item.tags.length > 0),
        options.due ? "No value is due for replacement." : "These secrets have no owner, note, rotation date or tags.",
        [
          ["KEY", (item) => item.key],
          ["OWNER", (item) => item.owner ?? "-"],
          ["REPLACE BY", (item) => (item.rotateBy === null ? "-" : `${item.rotateBy}${isDue(item) ? " (due)" : ""}`)],
          ["TAGS", (item) => item.tags.join(", ") || "-"],
          ["NOTE", (item) => item.note ?? "-"]
        ]
      )
    })
  )
)

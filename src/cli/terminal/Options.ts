/** Options that several commands share. */
import * as Args from "@effect/cli/Args"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { usage } from "./Failure.ts"
import { styleNames } from "./KeyNames.ts"
import { defaultTexts, parseDuration } from "./Times.ts"

/** Option with a text. `of`: its placeholder in the help. */
export const text = (name: string, of: string, description: string) =>
  Options.text(name).pipe(Options.withPseudoName(of), Options.withDescription(description))

export const flag = (name: string, description: string) =>
  Options.boolean(name).pipe(Options.withDescription(description))

export const argument = (name: string, description: string) =>
  Args.text({ name }).pipe(Args.withDescription(description))

const durationOf = (name: string) => (text: string) =>
  Effect.mapError(parseDuration(text), () =>
    ValidationError.invalidValue(HelpDoc.p(`--${name} takes a time like 30s, 15m, 24h or 7d`))
  )

export const duration = (name: string, fallback: string) =>
  Options.text(name).pipe(
    Options.withPseudoName("duration"),
    Options.withDefault(fallback),
    Options.mapEffect(durationOf(name))
  )

export const optionalDuration = (name: string) =>
  Options.text(name).pipe(Options.withPseudoName("duration"), Options.mapEffect(durationOf(name)), Options.optional)

export const watchInterval = duration("watch-interval", defaultTexts["watch-interval"]).pipe(
  Options.withDescription("Polling interval of --watch (15s)")
)

export const project = Options.text("project").pipe(
  Options.withAlias("p"),
  Options.withPseudoName("id-or-slug"),
  Options.withDescription(
    "Project (default: AMPOULE_PROJECT, then the credential's only environment, then .ampoule.json)"
  ),
  Options.optional
)

const environment = Options.text("env").pipe(
  Options.withAlias("e"),
  Options.withAlias("environment"),
  Options.withPseudoName("slug"),
  Options.withDescription(
    "Environment (default: AMPOULE_ENVIRONMENT, then the credential's only one, then .ampoule.json)"
  ),
  Options.optional
)

export const url = Options.optional(
  text("url", "address", "Server (default: AMPOULE_URL, then the server of the last login, then http://127.0.0.1:4400)")
)

const credential = Options.choice("credential", ["env", "stored"]).pipe(
  Options.withDescription("Which one to use if both a stored login and a variable exist (default: stored)"),
  Options.optional
)

export const json = flag("json", "Print JSON")

export const noBrowser = flag("no-browser", "Do not open a browser; only print the address")

export const allow = Options.repeated(
  text(
    "allow",
    "key",
    "Accept this key although it can change which code runs (PATH, NODE_OPTIONS, ...); * stands for any text; may be repeated"
  )
)

/** Selection of keys of an environment, and their names for the program. */
export const selection = {
  only: Options.repeated(text("only", "key", "Only this key; * stands for any text; may be repeated")),
  except: Options.repeated(text("except", "key", "Not this key; * stands for any text; may be repeated")),
  prefix: Options.optional(text("prefix", "text", "Only keys that begin with this text")),
  names: Options.choice("names", styleNames).pipe(
    Options.withDescription(
      "Rename the variables: DB_URL as dbUrl, DbUrl, db_url, db-url, TF_VAR_db_url, DbUrl; A__B_C as A:BC or A__BC; alias: the name of the secret in other programs (`secrets note --alias`)"
    ),
    Options.optional
  )
} as const

export const yes = Options.boolean("yes").pipe(Options.withAlias("y"), Options.withDescription("Do not ask"))

export const connection = { url, credential } as const
const target = { project, environment } as const
export const inEnvironment = { ...connection, ...target } as const

export const keyArgument = argument("KEY", "Key of the secret, like DATABASE_URL")

export const expectedVersion = Options.integer("expected-version").pipe(
  Options.withDescription("Refuse unless the secret is at this version; 0 = it must not exist"),
  Options.optional
)

/** Undefined without the option. */
export const checkedVersion = Effect.fnUntraced(function* (option: Option.Option<number>) {
  const version = Option.getOrUndefined(option)
  if (version !== undefined && (!Number.isSafeInteger(version) || version < 0)) {
    return yield* usage("--expected-version takes a whole number from 0.")
  }
  return version
})

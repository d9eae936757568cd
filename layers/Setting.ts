/**
 * Declaration and parsing of a setting: from a variable, or for a secret also from the file in `NAME_FILE`. No message
 * repeats a value.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { readFileSync } from "node:fs"
import { isIP } from "node:net"
import { StartRefused } from "#src/AppConfig.ts"
import type { SecretSetting } from "#src/cli/terminal/Environment.ts"
import { isLoopbackHost } from "#src/net/Loopback.ts"

export interface Setting<A> {
  readonly name: string
  /** In the form of the table of settings and `--help`. */
  readonly default: string
  readonly description: string
  /** True when the file in `NAME_FILE` is accepted too. */
  readonly secret: boolean
  readonly read: Effect.Effect<A, StartRefused>
}

export const refuse = (message: string) => new StartRefused({ message })

/** Blanks count as absent, because compose files pass empty variables. */
const text = (name: string): Effect.Effect<Option.Option<string>, StartRefused> =>
  Config.option(Config.string(name)).pipe(
    Effect.map(Option.filter((value) => value.trim() !== "")),
    Effect.mapError(() => refuse(`${name} cannot be read.`))
  )

const fileText = (name: string) =>
  Effect.flatMap(text(`${name}_FILE`), (path) =>
    Effect.transposeOption(
      Option.map(path, (path) =>
        Effect.try({
          try: () => readFileSync(path, "utf8").replace(/\r?\n$/, ""),
          catch: () => refuse(`The file that ${name}_FILE names cannot be read.`)
        }).pipe(
          Effect.filterOrFail(
            (value) => value.trim() !== "",
            () => refuse(`The file that ${name}_FILE names is empty.`)
          )
        )
      )
    )
  )

interface Shape<A> {
  readonly name: string
  readonly default: string
  readonly description: string
  /** End of the sentence "NAME must be …". */
  readonly format: string
  readonly parse: (value: string) => Option.Option<A>
}

const parsed = <A>(shape: Shape<A>, value: string): Effect.Effect<A, StartRefused> =>
  Effect.mapError(shape.parse(value), () => refuse(`${shape.name} must be ${shape.format}.`))

export const optional = <A>(shape: Shape<A>): Setting<Option.Option<A>> => ({
  ...shape,
  secret: false,
  read: Effect.flatMap(text(shape.name), (value) =>
    Effect.transposeOption(Option.map(value, (value) => parsed(shape, value.trim())))
  )
})

/** With a default that `parse` accepts. */
export const withDefault = <A>(shape: Shape<A>): Setting<A> => ({
  ...shape,
  secret: false,
  read: Effect.flatMap(text(shape.name), (value) => parsed(shape, Option.getOrElse(value, () => shape.default).trim()))
})

/** The command line removes these from child processes (`src/cli/terminal/Environment.ts`). */
export const secret = (
  shape: Omit<Shape<string>, "default"> & { readonly name: SecretSetting }
): Setting<Option.Option<Redacted.Redacted>> => ({
  ...shape,
  default: "",
  secret: true,
  read: Effect.all([text(shape.name), fileText(shape.name)]).pipe(
    Effect.flatMap(([direct, file]) => {
      if (Option.isSome(direct) && Option.isSome(file)) {
        return refuse(`${shape.name} and ${shape.name}_FILE are both set. Keep one of them.`)
      }
      return Effect.transposeOption(
        Option.map(
          Option.orElse(direct, () => file),
          (value) => Effect.map(parsed({ ...shape, default: "" }, value), (value) => Redacted.make(value))
        )
      )
    })
  )
})

type Values<Settings> = { readonly [Name in keyof Settings]: Settings[Name] extends Setting<infer A> ? A : never }

/** All settings by the record's names. The first invalid one is the failure. */
export const readAll = <Settings extends Readonly<Record<string, Setting<unknown>>>>(
  settings: Settings
): Effect.Effect<Values<Settings>, StartRefused> =>
  Effect.map(
    Effect.forEach(Object.entries(settings), ([name, { read }]) => Effect.map(read, (value) => [name, value] as const)),
    // `Object.fromEntries` loses the type of each name; the mapped type restores it.
    (entries) => Object.fromEntries(entries) as Values<Settings>
  )

// --- formats ---

export const integer = (from: number, to: number) => ({
  format: `a whole number from ${from} to ${to}`,
  parse: (value: string) =>
    /^[0-9]{1,9}$/.test(value) && Number(value) >= from && Number(value) <= to
      ? Option.some(Number(value))
      : Option.none()
})

export const oneOf = <A>(choices: Record<string, A>) => ({
  format: `one of ${Object.keys(choices).join(", ")}`,
  parse: (value: string) => (Object.hasOwn(choices, value) ? Option.fromNullable(choices[value]) : Option.none())
})

export const onOff = oneOf({ on: true, off: false })

export const url = (...protocols: ReadonlyArray<string>) => ({
  format: `an address that starts with ${protocols.map((protocol) => `${protocol}//`).join(" or ")}`,
  parse: (value: string) =>
    URL.canParse(value) && protocols.includes(new URL(value).protocol) ? Option.some(value) : Option.none()
})

/** Origin that credentials may travel to: https, or http on this machine. */
export const protectedOrigin = {
  format: "an https:// address without a path (http:// only for localhost and loopback addresses)",
  parse: (value: string): Option.Option<string> => {
    if (!URL.canParse(value)) return Option.none()
    const { hash, hostname, href, origin, password, pathname, protocol, search, username } = new URL(value)
    const bare =
      [hash, password, search, username].every((part) => part === "") && pathname === "/" && !/[?#]$/.test(href)
    if (!bare) return Option.none()
    return protocol === "https:" || (protocol === "http:" && isLoopbackHost(hostname))
      ? Option.some(origin)
      : Option.none()
  }
}

const isHostName = (value: string) => /^[0-9A-Za-z.:_-]+$/.test(value)

export const hostName = { format: "a host name or an IP address", parse: Option.liftPredicate(isHostName) }

const isAddressBlock = (value: string) => {
  const [address = "", bits, ...rest] = value.split("/")
  const version = isIP(address)
  if (version === 0 || rest.length > 0) return false
  return bits === undefined || (/^[0-9]{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128))
}

const listOf = (what: string, isItem: (item: string) => boolean) => ({
  format: `a list of ${what}, separated by commas`,
  parse: (value: string): Option.Option<ReadonlyArray<string>> => {
    const items = value === "" ? [] : value.split(",").map((item) => item.trim())
    return items.every(isItem) ? Option.some(items) : Option.none()
  }
})

export const addressBlocks = listOf("IP addresses or blocks", isAddressBlock)

export const hostNames = listOf("host names or IP addresses", isHostName)

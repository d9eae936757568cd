/** Selected keys of an environment, under the requested names. */
import type * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as ChildEnvironment from "#src/cli/terminal/ChildEnvironment.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { closest } from "#src/cli/terminal/Closest.ts"
import { rename } from "#src/cli/terminal/KeyNames.ts"
import type { selection } from "#src/cli/terminal/Options.ts"

export type SelectionOptions = Command.Command.ParseConfig<typeof selection> & {
  /** Names in other programs by key, for `--names alias`. */
  readonly aliases?: ReadonlyMap<string, string>
}

export const wantsAliases = ({ names }: Pick<SelectionOptions, "names">): boolean =>
  Option.getOrUndefined(names) === "alias"

/** `present`: the keys of the environment, as far as the caller knows them. */
export const missingFrom = (keys: ReadonlyArray<string>, present: ReadonlyArray<string> = []): CliFailure => {
  const meant = keys.flatMap((key) => closest(key, present) ?? [])
  return new CliFailure({
    message: `The environment has no ${keys.join(", ")} (--only).`,
    ...(meant.length === 0 ? {} : { hint: `Did you mean ${meant.join(", ")}?` })
  })
}

export const selectValues = (
  values: ChildEnvironment.Variables,
  options: SelectionOptions
): Effect.Effect<ChildEnvironment.Variables, CliFailure> => {
  const missing = ChildEnvironment.missing(values, options.only)
  if (missing.length > 0) {
    return Effect.fail(missingFrom(missing, Object.keys(values)))
  }
  const selected = ChildEnvironment.select(values, { ...options, prefix: Option.getOrUndefined(options.prefix) })
  if (Option.isNone(options.names)) return Effect.succeed(selected)
  const style = options.names.value
  return Effect.mapError(
    rename(selected, style, options.aliases ?? new Map()),
    ([one, other]) =>
      new CliFailure({
        message: `${one} and ${other} would have the same name with --names ${style}.`,
        hint: `Exclude one: --except ${other}.`
      })
  )
}

/** Key of each selected variable by its name: `--except` takes keys, whatever `--names` makes of them. */
export const keysByName = (keys: ReadonlyArray<string>, options: SelectionOptions) =>
  Effect.map(
    selectValues(Object.fromEntries(keys.map((key) => [key, key])), options),
    (selected): ReadonlyMap<string, string> => new Map(Object.entries(selected))
  )

/** The same of entries: each keeps what it is beside its name. */
export const selectEntries = <Entry extends { readonly key: string }>(
  entries: ReadonlyArray<Entry>,
  options: SelectionOptions
) =>
  Effect.map(
    keysByName(
      entries.map(({ key }) => key),
      options
    ),
    (names) => {
      const byKey = new Map(entries.map((entry) => [entry.key, entry]))
      return [...names].flatMap(([name, key]) => {
        const entry = byKey.get(key)
        return entry === undefined ? [] : [{ ...entry, key: name, secret: key }]
      })
    }
  )

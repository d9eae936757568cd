/** Times and durations as an option takes them, without the parser of all commands. */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { type CliFailure, usage } from "./Failure.ts"

const unitMillis = new Map([
  ["m", 60_000],
  ["h", 3_600_000],
  ["d", 86_400_000]
])

/** Parses an option's time: a day, a time, or the time elapsed since. */
export const instant = (name: string, text: string): Effect.Effect<Date, CliFailure> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => {
    const [, count, unit] = /^(\d{1,5})([mhd])$/.exec(text) ?? []
    if (count !== undefined) return Effect.succeed(new Date(now - Number(count) * (unitMillis.get(unit ?? "") ?? 0)))
    const shape = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/
    const at = Date.parse(text)
    return shape.test(text) && !Number.isNaN(at)
      ? Effect.succeed(new Date(at))
      : usage(`--${name} is a day (2026-11-21), a time (2026-11-21T08:00:00Z) or how long ago (30m, 2h, 7d).`)
  })

const secondsPerUnit = new Map([
  ["s", 1],
  ["m", 60],
  ["h", 3_600],
  ["d", 86_400]
])

/** `30s`, `15m`, `24h`, `7d`; a bare number is seconds. */
export const parseDuration = (text: string): Option.Option<Duration.Duration> => {
  const match = /^(\d{1,6})([smhd])?$/.exec(text)
  if (match === null) return Option.none()
  return Option.some(Duration.seconds(Number(match[1]) * (secondsPerUnit.get(match[2] ?? "s") ?? 1)))
}

/** Durations of options that are left out. */
export const defaultTexts = { "watch-interval": "15s", "offline-max-age": "24h" } as const

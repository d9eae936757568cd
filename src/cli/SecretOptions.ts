/** Options and arguments that commands on secrets share. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { usage } from "./Failure.ts"
import * as Shared from "./Options.ts"

export const options = { ...Shared.connection, ...Shared.target } as const

export const keyArgument = Args.text({ name: "KEY" }).pipe(Args.withDescription("Key of the secret, like DATABASE_URL"))

export const expectedVersion = Options.integer("expected-version").pipe(
  Options.withDescription("Refuse unless the secret is at this version; 0 = it must not be there"),
  Options.optional
)

/** Undefined when the option was not given. */
export const checkedVersion = Effect.fnUntraced(function* (option: Option.Option<number>) {
  const version = Option.getOrUndefined(option)
  if (version !== undefined && (!Number.isSafeInteger(version) || version < 0)) {
    return yield* usage("--expected-version takes a whole number from 0.")
  }
  return version
})

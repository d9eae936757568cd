/** What waits for a decision in the dashboard: requests for access, and changes. One way to find one, and to its page. */
import * as Effect from "effect/Effect"
import * as Browser from "#src/cli/terminal/Browser.ts"
import type { Connection } from "./Client.ts"
import * as Credential from "./Credential.ts"
import { type CliError, CliFailure } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note } from "#src/cli/terminal/Output.ts"

interface Item {
  readonly id: string
  readonly environment: string
  readonly projectId: string
  readonly mayDecide: boolean
}

/** Where they are decided about. */
export const pageOf = (url: string, { environment, projectId }: Pick<Item, "environment" | "projectId">) =>
  `${url}/app/projects/${projectId}/env/${environment}/access`

/** `what`: one of them in a sentence; `command`: the group of commands; `tell`: one of them in a line. */
interface Kind<A extends Item, Id, R> {
  readonly what: string
  readonly command: string
  /** The command that lists them. */
  readonly list: string
  readonly example: string
  readonly parseId: (text: string) => Effect.Effect<Id, CliFailure>
  readonly pending: (session: Connection) => Effect.Effect<ReadonlyArray<A>, CliError, R>
  readonly withdraw: (session: Connection, id: Id) => Effect.Effect<unknown, CliError, R>
  readonly tell: (item: A) => string
}

export const of = <A extends Item, Id extends string, R>(kind: Kind<A, Id, R>) => {
  const { command, example, list, parseId, pending, tell, what, withdraw } = kind
  const id = Shared.argument("ID", `Id of the ${what}; \`ampoule ${list}\` shows it`)

  const find = Effect.fnUntraced(function* (session: Connection, wanted: Id) {
    const found = (yield* pending(session)).find((one) => one.id === wanted)
    if (found !== undefined) return found
    return yield* new CliFailure({
      message: `No such ${what} waits.`,
      hint: `\`ampoule ${list}\` shows those that wait: your own, and those that you decide about.`
    })
  })

  const approveCommand = Help.command(
    "approve",
    {
      says: `Open the page where a ${what} is approved or denied.`,
      more: ["It needs you, signed in: a login of the command line manages nothing."],
      examples: [`ampoule ${command} approve ${example}`]
    },
    { ...Shared.connection, noBrowser: Shared.noBrowser, id },
    Effect.fnUntraced(function* (options) {
      const wanted = yield* parseId(options.id)
      const session = yield* Credential.open(options)
      const found = yield* find(session, wanted)
      if (!found.mayDecide) {
        return yield* new CliFailure({
          message: `You may not decide about this ${what}: another person than the one who made it does.`
        })
      }
      yield* note(tell(found))
      yield* note("Decide on this page, signed in (the command line cannot):")
      yield* Browser.offer(pageOf(session.url, found), options)
    })
  )

  const withdrawCommand = Help.command(
    "withdraw",
    { says: `Withdraw a ${what} of your own.`, examples: [`ampoule ${command} withdraw ${example}`] },
    { ...Shared.connection, json: Shared.json, id },
    Effect.fnUntraced(function* (options) {
      const wanted = yield* parseId(options.id)
      const session = yield* Credential.open(options)
      yield* withdraw(session, wanted)
      yield* options.json ? json({ id: wanted, state: "withdrawn" }) : note("Withdrawn.")
    })
  )

  return { id, find, approveCommand, withdrawCommand }
}

/**
 * Access requests and change requests that wait for a decision in the dashboard: one way to find them and their page.
 */
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

/** Page where the request is decided. */
export const pageOf = (url: string, { environment, projectId }: Pick<Item, "environment" | "projectId">) =>
  `${url}/app/projects/${projectId}/env/${environment}/access`

/** `what`: the noun for one request; `command`: the group of commands; `tell`: one request in a line. */
interface Kind<A extends Item, Id, R> {
  readonly what: string
  readonly command: string
  /** Command that lists the requests. */
  readonly list: string
  readonly example: string
  readonly parseId: (text: string) => Effect.Effect<Id, CliFailure>
  readonly pending: (session: Connection) => Effect.Effect<ReadonlyArray<A>, CliError, R>
  readonly withdraw: (session: Connection, id: Id) => Effect.Effect<unknown, CliError, R>
  readonly line: (item: A) => string
}

export const of = <A extends Item, Id extends string, R>(kind: Kind<A, Id, R>) => {
  const { command, example, list, parseId, pending, line: tell, what, withdraw } = kind
  const id = Shared.argument("ID", `Id of the ${what}; \`ampoule ${list}\` shows it`)

  const find = Effect.fnUntraced(function* (session: Connection, requestId: Id) {
    const request = (yield* pending(session)).find((one) => one.id === requestId)
    if (request !== undefined) return request
    return yield* new CliFailure({
      message: `No such ${what} is pending.`,
      hint: `\`ampoule ${list}\` shows the pending ones: your own, and those that you decide.`
    })
  })

  /** Names the page of the decision, for a person who may decide. */
  const openPage = Effect.fnUntraced(function* (
    session: Connection,
    request: A,
    browser: { readonly noBrowser: boolean }
  ) {
    if (!request.mayDecide) {
      return yield* new CliFailure({
        message: `You cannot decide this ${what}: only a person other than its author can.`
      })
    }
    yield* note(tell(request))
    yield* note("Decide on this page, signed in:")
    yield* Browser.offer(pageOf(session.url, request), browser)
  })

  const approveCommand = Help.command(
    "approve",
    {
      says: `Open the page where a ${what} is approved or denied.`,
      more: ["You decide in the browser, signed in: a command line login cannot approve."],
      examples: [`ampoule ${command} approve ${example}`]
    },
    { ...Shared.connection, noBrowser: Shared.noBrowser, id },
    Effect.fnUntraced(function* (options) {
      const requestId = yield* parseId(options.id)
      const session = yield* Credential.open(options)
      yield* openPage(session, yield* find(session, requestId), options)
    })
  )

  const withdrawCommand = Help.command(
    "withdraw",
    { says: `Withdraw a ${what} of your own.`, examples: [`ampoule ${command} withdraw ${example}`] },
    { ...Shared.connection, json: Shared.json, id },
    Effect.fnUntraced(function* (options) {
      const requestId = yield* parseId(options.id)
      const session = yield* Credential.open(options)
      yield* withdraw(session, requestId)
      yield* options.json ? json({ id: requestId, state: "withdrawn" }) : note("Withdrawn.")
    })
  )

  return { id, find, openPage, approveCommand, withdrawCommand }
}

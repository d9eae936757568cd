/**
 * The two shapes of a route. A page loads something and shows it. An action decodes a form, runs one use case and leads
 * on; when the form or the use case fails by a rule, the page is shown again with the problem and with what was typed.
 */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"
import type { VNode } from "preact"
import { type AnyApiError, isApiError } from "#schema/ApiError.ts"
import type { CallerTeam, CurrentCaller } from "#schema/Caller.ts"
import { RouteNotFound, TeamNotFound } from "#schema/Errors.ts"
import { TeamId } from "#schema/Ids.ts"
import * as Policy from "#src/access/Policy.ts"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import { withNotice } from "./Notices.ts"
import { Pages, pageWith, param, type Response, wantsJson } from "./Pages.ts"
import type { Services } from "./UseCases.ts"
import type { Visit, Visitor } from "./Visit.ts"

/** What a handler may use without a session, and with one. */
export type OpenNeeds = HttpRouter.HttpRouter.Provided | Pages | Services
type Needs = OpenNeeds | CurrentCaller

/** Lets a request through to its handler, with what it found out: who asks, and what the path names. */
export type Guard<At, R = Needs> = (
  handler: (at: At) => Effect.Effect<Response, unknown, R>
) => Effect.Effect<Response, unknown, OpenNeeds>

export const anyone: Guard<{ readonly who: Visitor }, OpenNeeds> = (handler) =>
  Effect.flatMap(Pages, (pages) => pages.anyone((who) => handler({ who })))

export interface AtPerson {
  readonly visit: Visit
}
export const person: Guard<AtPerson> = (handler) =>
  Effect.flatMap(Pages, (pages) => pages.person((visit) => handler({ visit })))

/** A guard that finds out more. */
export const within =
  <At, R, Found>(
    guard: Guard<At, R>,
    find: (at: At) => Effect.Effect<Found, unknown, NoInfer<R>>
  ): Guard<At & Found, R> =>
  (handler) =>
    guard((at) => Effect.flatMap(find(at), (found) => handler({ ...at, ...found })))

/** Ids in the path; a text that cannot be one is a page that does not exist. */
export const withIds = <At, R, Ids, I>(
  guard: Guard<At, R | HttpRouter.RouteContext>,
  ids: Schema.Schema<Ids, I>
): Guard<At & Ids, R | HttpRouter.RouteContext> =>
  within(guard, () =>
    Effect.flatMap(HttpRouter.params, (params) =>
      Effect.mapError(ParseResult.decodeUnknown(ids)(params), () => new RouteNotFound())
    )
  )

export interface TeamVisit extends Visit {
  readonly team: CallerTeam
}
export interface AtTeam {
  readonly visit: TeamVisit
  readonly teamId: TeamId
}
/** A page of the team that its path names. What the person may do there is for the use case to say. */
export const team: Guard<AtTeam> = within(person, ({ visit }) =>
  Effect.gen(function* () {
    const teamId = yield* param("teamId", TeamId)
    const found = Policy.teamOf(visit.caller, teamId)
    if (found === undefined) return yield* new TeamNotFound()
    return { visit: { ...visit, team: found }, teamId }
  })
)

/** What a person typed, and what was wrong with it. */
export interface Attempt {
  readonly form: Form.Form
  readonly problem: AnyApiError | undefined
}
export const untouched: Attempt = { form: new Form.Form([]), problem: undefined }

/** What a page shows first, and an action shows again. */
type Screen<At, R = Needs> = (at: At, attempt: Attempt) => Effect.Effect<VNode, unknown, R>

export const screen =
  <At, Loaded, R>(
    load: (at: At) => Effect.Effect<Loaded, unknown, R>,
    view: (shown: At & Loaded & Attempt) => VNode
  ): Screen<At, R> =>
  (at, attempt) =>
    Effect.map(load(at), (loaded) => view({ ...at, ...loaded, ...attempt }))

/** A screen that needs nothing beyond what the guard found out. */
export const plain =
  <At>(view: (shown: At & Attempt) => VNode): Screen<At, never> =>
  (at, attempt) =>
    Effect.succeed(view({ ...at, ...attempt }))

/** What a page answers, for handlers that sometimes redirect instead. */
export const show =
  <At, R>(first: Screen<At, R>) =>
  (at: At) =>
    Effect.map(first(at, untouched), (node) => Html.page(node))

export const page = <At, R>(guard: Guard<At, R>, first: Screen<At, NoInfer<R>>) => guard(show(first))

interface Button<At, Result, R> {
  readonly run: (at: At) => Effect.Effect<Result, unknown, R>
  readonly done: (result: Result, at: At) => Response
  /** Without it, each refusal is the problem page. */
  readonly again?: Screen<At, R>
}
interface Action<At, Input, Result, R> {
  /** Fails with VALIDATION_FAILED, which names the field. */
  readonly decode: (form: Form.Form, at: At) => Effect.Effect<Input, unknown, R>
  readonly run: (input: Input, at: At) => Effect.Effect<Result, unknown, R>
  readonly done: (result: Result, at: At, input: Input) => Response
  readonly again?: Screen<At, R>
}

/** What the person can mend in the form. A refused role is not, and loading the page again would record it twice. */
const isForForm = (error: unknown): error is AnyApiError =>
  isApiError(error) && error._tag !== "FORBIDDEN" && error._tag !== "STEP_UP_REQUIRED"

const orAgain = <At, R>(
  at: At,
  form: Form.Form,
  again: Screen<At, R> | undefined,
  work: Effect.Effect<Response, unknown, R>
) =>
  again === undefined
    ? work
    : Effect.catchAll(work, (error) =>
        isForForm(error)
          ? Effect.map(again(at, { form, problem: error }), (node) => pageWith(node, error))
          : Effect.fail(error)
      )

export const action = <At, R, Input, Result>(
  guard: Guard<At, R | HttpRouter.HttpRouter.Provided>,
  { again, decode, done, run }: Action<At, Input, Result, NoInfer<R> | HttpRouter.HttpRouter.Provided>
) =>
  guard((at) =>
    Effect.flatMap(Effect.zip(Form.read, wantsJson), ([form, asksJson]) =>
      orAgain(
        at,
        form,
        // A script shows the sentence on the page that it has.
        asksJson ? undefined : again,
        Effect.flatMap(decode(form, at), (input) => Effect.map(run(input, at), (result) => done(result, at, input)))
      )
    )
  )

/** An action without fields: the form is one button. */
export const button = <At, R, Result>(guard: Guard<At, R>, { again, done, run }: Button<At, Result, NoInfer<R>>) =>
  guard((at) =>
    orAgain(
      at,
      untouched.form,
      again,
      Effect.map(run(at), (result) => done(result, at))
    )
  )

/** After a change: to the next page, which says what was done. */
export const to = (...page: Parameters<typeof withNotice>): Response => Html.seeOther(withNotice(...page))

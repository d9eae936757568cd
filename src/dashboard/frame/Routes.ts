/**
 * The two shapes of a route. A page loads data and shows it. An action decodes a form, runs one use case and redirects.
 * After an error of the API, it shows the page again with the problem and the entered text.
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

/** Services of handlers, without and with a session. */
export type OpenNeeds = HttpRouter.HttpRouter.Provided | Pages | Services
type Needs = OpenNeeds | CurrentCaller

/** Admits a request to its handler, with the visitor and the objects that the path names. */
export type Guard<At, R = Needs> = (
  handler: (at: At) => Effect.Effect<Response, unknown, R>
) => Effect.Effect<Response, unknown, OpenNeeds>

export const anyone: Guard<{ readonly visitor: Visitor }, OpenNeeds> = (handler) =>
  Effect.flatMap(Pages, (pages) => pages.anyone((visitor) => handler({ visitor })))

export interface AtPerson {
  readonly visit: Visit
}
export const person: Guard<AtPerson> = (handler) =>
  Effect.flatMap(Pages, (pages) => pages.person((visit) => handler({ visit })))

/** Extends a guard with more loaded data. */
export const within =
  <At, R, More>(guard: Guard<At, R>, find: (at: At) => Effect.Effect<More, unknown, NoInfer<R>>): Guard<At & More, R> =>
  (handler) =>
    guard((at) => Effect.flatMap(find(at), (more) => handler({ ...at, ...more })))

/** Ids in the path. An invalid one means that the page does not exist. */
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
/** Guard for pages of the team that the path names. The use case checks the person's rights. */
export const team: Guard<AtTeam> = within(person, ({ visit }) =>
  Effect.gen(function* () {
    const teamId = yield* param("teamId", TeamId)
    const callerTeam = Policy.teamOf(visit.caller, teamId)
    if (callerTeam === undefined) return yield* new TeamNotFound()
    return { visit: { ...visit, team: callerTeam }, teamId }
  })
)

/** Sent form and its problem. */
export interface Attempt {
  readonly form: Form.Form
  readonly problem: AnyApiError | undefined
}
export const untouched: Attempt = { form: new Form.Form([]), problem: undefined }

/** View that a page shows first, and that an action shows again after an error. */
type Screen<At, R = Needs> = (at: At, attempt: Attempt) => Effect.Effect<VNode, unknown, R>

export const screen =
  <At, Loaded, R>(
    load: (at: At) => Effect.Effect<Loaded, unknown, R>,
    view: (props: At & Loaded & Attempt) => VNode
  ): Screen<At, R> =>
  (at, attempt) =>
    Effect.map(load(at), (loaded) => view({ ...at, ...loaded, ...attempt }))

/** Response with a screen, for handlers that sometimes redirect instead. */
export const show =
  <At, R>(first: Screen<At, R>) =>
  (at: At) =>
    Effect.map(first(at, untouched), (node) => Html.page(node))

export const page = <At, R>(guard: Guard<At, R>, first: Screen<At, NoInfer<R>>) => guard(show(first))

interface Button<At, Result, R> {
  readonly run: (at: At) => Effect.Effect<Result, unknown, R>
  readonly done: (result: Result, at: At) => Response
  /** Screen for refusals; without it, they become the problem page. */
  readonly again?: Screen<At, R>
}
interface Action<At, Input, Result, R> {
  /** Fails with VALIDATION_FAILED, which names the field. */
  readonly decode: (form: Form.Form, at: At) => Effect.Effect<Input, unknown, R>
  readonly run: (input: Input, at: At) => Effect.Effect<Result, unknown, R>
  readonly done: (result: Result, at: At, input: Input) => Response
  readonly again?: Screen<At, R>
}

/** True for errors that the person can fix in the form. A refused role is none: reloading would record it twice. */
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
        // A script shows the error on its current page.
        asksJson ? undefined : again,
        Effect.flatMap(decode(form, at), (input) => Effect.map(run(input, at), (result) => done(result, at, input)))
      )
    )
  )

/** An action without fields, whose form is one button. */
export const button = <At, R, Result>(guard: Guard<At, R>, { again, done, run }: Button<At, Result, NoInfer<R>>) =>
  guard((at) =>
    orAgain(
      at,
      untouched.form,
      again,
      Effect.map(run(at), (result) => done(result, at))
    )
  )

/** Redirects after a change, with a notice. */
export const to = (...page: Parameters<typeof withNotice>): Response => Html.seeOther(withNotice(...page))

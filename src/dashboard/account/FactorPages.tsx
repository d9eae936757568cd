/** A person's second factor: the second step of a sign-in, adding, removing, and confirming. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { ValidationFailed } from "#schema/Errors.ts"
import { CredentialText, Password } from "#schema/Values.ts"
import { cookie, sameSite } from "#src/dashboard/frame/Cookies.ts"
import * as Carried from "#src/dashboard/frame/Carried.ts"
import * as FactorViews from "./FactorViews.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { query } from "#src/dashboard/frame/Pages.ts"
import { linkedIssuers } from "./IssuerButtons.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { action, anyone, type AtPerson, button, page, person, screen, show, to } from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import type { Visitor } from "#src/dashboard/frame/Visit.ts"

const Code = Schema.Struct({ code: CredentialText })
const Proof = Schema.Union(Code, Schema.Struct({ password: Password }))

const ownPage = (next: string) => (Paths.isOwnPage(next) ? next : Paths.home)
const nextIn = Effect.map(query, (query) => ownPage(query.text("next")))
const presented = Effect.flatMap(cookie, ({ presented }) => presented)

// --- the second step of a sign-in ---

export const secondStep = screen(
  ({ visitor }: { readonly visitor: Visitor }) =>
    Effect.gen(function* () {
      return { visitor, inQuery: yield* nextIn, hasPasskey: yield* UseCases.passkeys.isOfStep(yield* presented) }
    }),
  ({ form, inQuery, ...props }) => (
    <FactorViews.SecondStepPage {...props} form={form} next={ownPage(form.filled("next") ?? inQuery)} />
  )
)
const secondStepPage = anyone((at) =>
  Effect.gen(function* () {
    const { step } = yield* presented
    if (!(yield* UseCases.sessions.isBegun(step))) return Html.seeOther(Paths.signIn)
    return yield* show(secondStep)(at)
  })
)
const finishSignIn = action(sameSite, {
  decode: (form) =>
    Effect.map(Form.decode(Code)({ code: form.text("code") }), ({ code }) => ({ code, next: form.text("next") })),
  run: ({ code }) =>
    Effect.gen(function* () {
      const { clearStep, presented, set } = yield* cookie
      const cookies = yield* presented
      yield* set((yield* UseCases.sessions.finish(cookies.step, code, cookies)).session)
      yield* clearStep
    }),
  done: (_, __, { next }) => Html.seeOther(ownPage(next)),
  again: secondStep
})

// --- confirmation ---

export const confirmForm = screen(
  ({ visit }: AtPerson) =>
    Effect.gen(function* () {
      const { allYoung, isOn } = yield* UseCases.secondFactor.status(visit.caller)
      const passkeys = yield* UseCases.passkeys.list(visit.caller)
      const issuers = isOn && !allYoung ? [] : yield* linkedIssuers(visit)
      const hasPasskey = passkeys.some(({ isYoung }) => !isYoung)
      return { isOn, asksPassword: allYoung, inQuery: yield* nextIn, hasPasskey, issuers }
    }),
  ({ form, inQuery, ...props }) => (
    <FactorViews.ConfirmPage
      {...props}
      form={form}
      next={ownPage(form.filled("next") ?? inQuery)}
      carried={form.text(Carried.field)}
    />
  )
)
/** A form that was refused for a missing confirmation arrives here as it was sent. */
const confirmBefore = person((at) =>
  Effect.gen(function* () {
    const sent = yield* query
    const carried = Carried.textOf(sent.text("to"), yield* Form.read)
    const form = new Form.Form([
      ["next", sent.text("next")],
      [Carried.field, carried]
    ])
    return Html.page(yield* confirmForm(at, { form, problem: undefined }))
  })
)
/** Response after the confirmation: the form that waits is sent, or the page is opened again. */
export const afterConfirm = (
  { visit }: AtPerson,
  { carried, next }: { readonly carried: string; readonly next: string }
) => {
  const waiting = Carried.parse(carried)
  return waiting === undefined
    ? Html.seeOther(ownPage(next))
    : Html.page(FactorViews.ContinuePage({ visit, carried: waiting }))
}
const confirm = action(person, {
  decode: (form) =>
    Effect.map(
      Form.decode(Proof)(form.has("code") ? { code: form.text("code") } : { password: form.text("password") }),
      (proof) => ({ proof, next: form.text("next"), carried: form.text(Carried.field) })
    ),
  run: ({ proof }, { visit }) =>
    Effect.gen(function* () {
      const { presented, set } = yield* cookie
      yield* set(yield* UseCases.secondFactor.confirm(visit.caller, proof, yield* presented))
    }),
  done: (_, at, sent) => afterConfirm(at, sent),
  again: confirmForm
})

// --- the authenticator app ---

export const factors = screen(
  ({ visit }: AtPerson) =>
    Effect.all({
      visit: Effect.succeed(visit),
      status: UseCases.secondFactor.status(visit.caller),
      passkeys: UseCases.passkeys.list(visit.caller),
      isAvailable: UseCases.passkeys.isAvailable()
    }),
  FactorViews.FactorsPage
)

const beginApp = button(person, {
  run: ({ visit }) => UseCases.secondFactor.beginApp(visit.caller),
  done: () => Html.seeOther(Paths.factorApp)
})

const newApp = screen(
  ({ visit }: AtPerson) =>
    Effect.gen(function* () {
      const app = yield* UseCases.secondFactor.waitingApp(visit.caller)
      if (app === undefined) return yield* new ValidationFailed({ message: "Start again with a new secret." })
      return { text: Redacted.value(app.text), uri: Redacted.value(app.uri) }
    }),
  FactorViews.NewAppPage
)
const newAppPage = person((at) =>
  Effect.flatMap(UseCases.secondFactor.waitingApp(at.visit.caller), (app) =>
    app === undefined ? Effect.succeed(Html.seeOther(Paths.factors)) : show(newApp)(at)
  )
)
const confirmApp = action(person, {
  decode: (form) => Form.decode(Code)({ code: form.text("code") }),
  run: ({ code }, { visit }) =>
    Effect.gen(function* () {
      const { presented, set } = yield* cookie
      const { codes, session } = yield* UseCases.secondFactor.confirmApp(visit.caller, code, yield* presented)
      yield* set(session)
      return codes
    }),
  // Only this response shows the codes: no address and no later page has them.
  done: (codes, { visit }) =>
    codes.length === 0
      ? to(Paths.factors, "factor-replaced")
      : Html.page(FactorViews.RecoveryCodesPage({ visit, codes })),
  again: newApp
})
const removeApp = button(person, {
  run: ({ visit }) =>
    Effect.gen(function* () {
      const { presented, set } = yield* cookie
      yield* set(yield* UseCases.secondFactor.removeApp(visit.caller, yield* presented))
    }),
  done: () => to(Paths.factors, "factor-removed")
})
const renewCodes = button(person, {
  run: ({ visit }) => UseCases.secondFactor.renewCodes(visit.caller),
  done: (codes, { visit }) => Html.page(FactorViews.RecoveryCodesPage({ visit, codes }))
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get(Paths.signInCode, secondStepPage),
  HttpRouter.post(Paths.signInCode, finishSignIn),
  HttpRouter.get(Paths.confirm, page(person, confirmForm)),
  HttpRouter.post(Paths.confirm, confirm),
  HttpRouter.post(Paths.confirmBefore, confirmBefore),
  HttpRouter.get(Paths.factors, page(person, factors)),
  HttpRouter.post(Paths.factorApp, beginApp),
  HttpRouter.get(Paths.factorApp, newAppPage),
  HttpRouter.post(`${Paths.factorApp}/confirm`, confirmApp),
  HttpRouter.post(`${Paths.factorApp}/remove`, removeApp),
  HttpRouter.post(Paths.recoveryCodes, renewCodes)
)

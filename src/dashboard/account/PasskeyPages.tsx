/** Passkeys: sign-in, confirmation, adding and removing. A script requests the challenges. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { uuidPattern } from "#schema/Ids.ts"
import { Name } from "#schema/Values.ts"
import { Assertion, Attestation } from "#src/credentials/PasskeyProof.ts"
import { continueAt, signInForm } from "./AuthPages.tsx"
import { cookie, sameSite } from "#src/dashboard/frame/Cookies.ts"
import { afterConfirm, confirmForm, factors, secondStep } from "./FactorPages.tsx"
import * as Carried from "#src/dashboard/frame/Carried.ts"
import * as FactorViews from "./FactorViews.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { action, button, person, to, withIds } from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

const presented = Effect.flatMap(cookie, ({ presented }) => presented)

/** Options that the script passes to the browser. The cookie links the browser's response to this challenge. */
const optionsResponse = ({ browser, options }: { readonly browser: Redacted.Redacted; readonly options: object }) =>
  Effect.map(
    Effect.flatMap(cookie, ({ setPasskey }) => setPasskey(browser)),
    () => HttpServerResponse.unsafeJson(options, { headers: Html.headers })
  )

const passkeyForm = <A, I>(answer: Schema.Schema<A, I>) => Schema.Struct({ passkey: Schema.parseJson(answer) })
const AssertionForm = passkeyForm(Assertion)
const AttestationForm = Schema.Struct({ ...passkeyForm(Attestation).fields, name: Name })
const decodeAssertion = (form: Form.Form) =>
  Effect.map(Form.decode(AssertionForm)({ passkey: form.text("passkey") }), ({ passkey }) => ({
    passkey,
    next: form.text("next"),
    carried: form.text(Carried.field)
  }))

// --- signing in ---

const beginSignIn = sameSite(() =>
  Effect.flatMap(Effect.flatMap(presented, UseCases.passkeys.beginSignIn), optionsResponse)
)
const signIn = action(sameSite, {
  decode: decodeAssertion,
  run: ({ passkey }) =>
    Effect.gen(function* () {
      const { clearStep, presented, set } = yield* cookie
      yield* set((yield* UseCases.passkeys.signIn(passkey, yield* presented)).session)
      yield* clearStep
    }),
  done: (_, __, { next }) => continueAt(next),
  again: signInForm
})

const beginStep = sameSite(() =>
  Effect.flatMap(Effect.flatMap(presented, UseCases.passkeys.beginStep), optionsResponse)
)
const finishStep = action(sameSite, {
  decode: decodeAssertion,
  run: ({ passkey }) =>
    Effect.gen(function* () {
      const { clearStep, presented, set } = yield* cookie
      yield* set((yield* UseCases.passkeys.finishStep(passkey, yield* presented)).session)
      yield* clearStep
    }),
  done: (_, __, { next }) => continueAt(next),
  again: secondStep
})

// --- confirmation ---

const beginConfirm = person(({ visit }) =>
  Effect.flatMap(
    Effect.flatMap(presented, (cookies) => UseCases.passkeys.beginConfirm(visit.caller, cookies)),
    optionsResponse
  )
)
const confirm = action(person, {
  decode: decodeAssertion,
  run: ({ passkey }, { visit }) =>
    Effect.gen(function* () {
      const { presented, set } = yield* cookie
      yield* set(yield* UseCases.passkeys.confirm(visit.caller, passkey, yield* presented))
    }),
  done: (_, at, sent) => afterConfirm(at, sent),
  again: confirmForm
})

// --- adding and removing ---

const beginAdd = person(({ visit }) =>
  Effect.flatMap(
    Effect.flatMap(presented, (cookies) => UseCases.passkeys.beginAdd(visit.caller, cookies)),
    optionsResponse
  )
)
const add = action(person, {
  decode: (form) => Form.decode(AttestationForm)({ passkey: form.text("passkey"), name: form.text("name") }),
  run: ({ name, passkey }, { visit }) =>
    Effect.gen(function* () {
      const { presented, set } = yield* cookie
      const cookies = yield* presented
      const { codes, session } = yield* UseCases.passkeys.add(visit.caller, { answer: passkey, name }, cookies)
      yield* set(session)
      return codes
    }),
  // Only this response shows the codes: no address and no later page has them.
  done: (codes, { visit }) =>
    codes.length === 0
      ? to(Paths.factors, "passkey-added")
      : Html.page(FactorViews.RecoveryCodesPage({ visit, codes })),
  again: factors
})

const PasskeyId = Schema.String.pipe(Schema.filter((id) => uuidPattern.test(id)))
const passkey = withIds(person, Schema.Struct({ passkeyId: PasskeyId }))
const rename = action(passkey, {
  decode: (form) => Form.decode(Schema.Struct({ name: Name }))({ name: form.text("name") }),
  run: ({ name }, { passkeyId, visit }) => UseCases.passkeys.rename(visit.caller, passkeyId, name),
  done: () => to(Paths.factors, "passkey-renamed"),
  again: factors
})
const remove = button(passkey, {
  run: ({ passkeyId, visit }) =>
    Effect.gen(function* () {
      const { presented, set } = yield* cookie
      yield* set(yield* UseCases.passkeys.remove(visit.caller, passkeyId, yield* presented))
    }),
  done: () => to(Paths.factors, "passkey-removed")
})

const decline = button(person, {
  run: ({ visit }) => UseCases.passkeys.declineProposal(visit.caller),
  done: () => Html.seeOther(Paths.home)
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.post(`${Paths.signInPasskey}/begin`, beginSignIn),
  HttpRouter.post(Paths.signInPasskey, signIn),
  HttpRouter.post(`${Paths.signInCode}/passkey/begin`, beginStep),
  HttpRouter.post(`${Paths.signInCode}/passkey`, finishStep),
  HttpRouter.post(`${Paths.confirm}/passkey/begin`, beginConfirm),
  HttpRouter.post(`${Paths.confirm}/passkey`, confirm),
  HttpRouter.post(`${Paths.passkeys}/begin`, beginAdd),
  HttpRouter.post(`${Paths.passkeys}/decline`, decline),
  HttpRouter.post(Paths.passkeys, add),
  HttpRouter.post(`${Paths.passkeys}/:passkeyId`, rename),
  HttpRouter.post(`${Paths.passkeys}/:passkeyId/remove`, remove)
)

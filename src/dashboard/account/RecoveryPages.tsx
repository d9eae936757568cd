/**
 * The first sign-in after a reset link, where the person confirms what comes back; and the list of what signs a person in,
 * after a change of the password.
 */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { uuidPattern } from "#schema/Ids.ts"
import type { MySignIn } from "#schema/SignInApi.ts"
import type { Item } from "#src/credentials/RecoveryRows.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { cookie, sameSite } from "#src/dashboard/frame/Cookies.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { Card, Layout } from "#src/dashboard/frame/Layout.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import {
  action,
  anyone,
  type AtPerson,
  type Attempt,
  button,
  page,
  person,
  screen,
  show,
  to,
  withIds
} from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import type { Visit, Visitor } from "#src/dashboard/frame/Visit.ts"

const kinds: Readonly<Record<Item["kind"], string>> = {
  passkey: "Passkey",
  app: "App",
  identity: "Linked sign-in"
}

const Decision = ({ form, of }: { readonly of: Item; readonly form: Attempt["form"] }) => {
  const chosen = form.text(`item-${of.id}`)
  return (
    <fieldset class="stack">
      <legend>
        {kinds[of.kind]}: <bdi>{of.name}</bdi>
      </legend>
      <p class="hint">
        Added on {of.createdAt.toISOString().slice(0, 10)},{" "}
        {of.lastUsedAt === null ? "never used" : `last used on ${of.lastUsedAt.toISOString().slice(0, 10)}`}
      </p>
      <label class="check">
        <input type="radio" name={`item-${of.id}`} value="keep" required checked={chosen === "keep"} /> It is mine: keep
        it
      </label>
      <label class="check">
        <input type="radio" name={`item-${of.id}`} value="remove" required checked={chosen === "remove"} /> Remove it
      </label>
    </fieldset>
  )
}

const RecoveryPage = ({
  form,
  items,
  next,
  problem,
  visitor
}: Attempt & { readonly visitor: Visitor; readonly items: ReadonlyArray<Item>; readonly next: string }) => (
  <Card
    visitor={visitor}
    title="What signs you in?"
    lead="Your password was set with a link, so everything else is out of use. Keep what is yours. Remove what you do not know: somebody else may have added it."
  >
    <form method="post" action={Paths.signInRecovery} class="stack">
      <Ui.ProblemNote problem={problem} />
      <input type="hidden" name="next" value={next} />
      {items.map((of) => (
        <Decision of={of} form={form} />
      ))}
      <Ui.Submit cancel={Paths.signIn}>Confirm</Ui.Submit>
    </form>
  </Card>
)

const ownPage = (next: string) => (Paths.isOwnPage(next) ? next : Paths.home)
const presented = Effect.flatMap(cookie, ({ presented }) => presented)

const recovery = screen(
  ({ visitor }: { readonly visitor: Visitor }) =>
    Effect.gen(function* () {
      return { visitor, items: yield* UseCases.recovery.list(yield* presented) }
    }),
  (shown) => <RecoveryPage {...shown} next={ownPage(shown.form.text("next"))} />
)
const recoveryPage = anyone((at) =>
  Effect.gen(function* () {
    const { step } = yield* presented
    if (!(yield* UseCases.recovery.isBegun(step))) return Html.seeOther(Paths.signIn)
    return yield* show(recovery)(at)
  })
)

const finish = action(sameSite, {
  decode: (form) =>
    Effect.gen(function* () {
      const items = yield* UseCases.recovery.list(yield* presented)
      const chosen = (decision: "keep" | "remove") =>
        items.map(({ id }) => id).filter((id) => form.text(`item-${id}`) === decision)
      return { keep: chosen("keep"), remove: chosen("remove"), next: form.text("next") }
    }),
  run: ({ keep, remove }) =>
    Effect.gen(function* () {
      const { clearStep, presented, set, setStep } = yield* cookie
      const result = yield* UseCases.recovery.finish({ keep, remove }, yield* presented)
      if ("step" in result) {
        yield* setStep(result.step)
        return Paths.signInCode
      }
      yield* set(result.session)
      yield* clearStep
      return null
    }),
  done: (step, _, { next }) =>
    Html.seeOther(step === null ? ownPage(next) : Paths.withQuery(step, { next: ownPage(next) })),
  again: recovery
})

// --- what stayed after a change of the password ---

interface Way {
  readonly kind: Item["kind"]
  readonly id: string
  readonly name: string
  readonly createdAt: string
  readonly remove: string
}

const WaysInPage = ({ visit, ways }: { readonly visit: Visit; readonly ways: ReadonlyArray<Way> }) => (
  <Layout
    visit={visit}
    section="account"
    title="What signs you in"
    lead="Besides your password. Remove what you do not know: somebody else may have added it."
    crumbs={[{ href: Paths.account, label: "Name, address and password" }]}
  >
    {ways.length === 0 ? (
      <Ui.Empty title="Your password alone">
        <p>No passkey, no authenticator app and no linked sign-in opens this account.</p>
      </Ui.Empty>
    ) : (
      <Ui.Table label="What signs you in" head={["What", "Name", "Added", ""]}>
        {ways.map((one) => (
          <tr>
            <th scope="row">{kinds[one.kind]}</th>
            <td data-label="Name">
              <bdi>{one.name}</bdi>
            </td>
            <td data-label="Added" class="hint">
              <Ui.Ago at={one.createdAt} now={visit.now} />
            </td>
            <td class="end">
              <Ui.Confirm action={one.remove} label="Remove" of={one.name} quiet verb="Remove it">
                <p>It no longer signs you in.</p>
              </Ui.Confirm>
            </td>
          </tr>
        ))}
      </Ui.Table>
    )}
  </Layout>
)

const identityWay = ({ createdAt, id, name, subject }: MySignIn): Way => ({
  kind: "identity",
  id,
  name: `${name} (${subject})`,
  createdAt,
  remove: `${Paths.signIns}/${id}/remove`
})

const waysIn = screen(
  ({ visit }: AtPerson) =>
    Effect.gen(function* () {
      const { app } = yield* UseCases.secondFactor.status(visit.caller)
      const passkeys = yield* UseCases.passkeys.list(visit.caller)
      const ways: ReadonlyArray<Way> = [
        ...passkeys.map(({ createdAt, id, name }): Way => ({
          kind: "passkey",
          id,
          name,
          createdAt: createdAt.toISOString(),
          remove: `${Paths.passkeys}/${id}/remove`
        })),
        ...(app === null
          ? []
          : [
              {
                kind: "app",
                id: app.id,
                name: "Authenticator app",
                createdAt: app.createdAt.toISOString(),
                remove: `${Paths.factorApp}/remove`
              } satisfies Way
            ]),
        ...(yield* UseCases.identities.list()).map(identityWay)
      ]
      return { visit, ways }
    }),
  WaysInPage
)

/** After an older authenticator proved the person in this session. */
const confirmYoung = (kind: "passkey" | "app") =>
  button(
    withIds(
      person,
      Schema.Struct({ authenticatorId: Schema.String.pipe(Schema.filter((id) => uuidPattern.test(id))) })
    ),
    {
      run: ({ authenticatorId, visit }) => UseCases.secondFactor.confirmYoung(visit.caller, kind, authenticatorId),
      done: () => to(Paths.factors, "factor-confirmed")
    }
  )

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get(Paths.signInRecovery, recoveryPage),
  HttpRouter.post(Paths.signInRecovery, finish),
  HttpRouter.get(Paths.waysIn, page(person, waysIn)),
  HttpRouter.post(`${Paths.passkeys}/:authenticatorId/confirm`, confirmYoung("passkey")),
  HttpRouter.post(`${Paths.factorApp}/:authenticatorId/confirm`, confirmYoung("app"))
)

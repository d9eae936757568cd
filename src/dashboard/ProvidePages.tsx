/** The one-time page where a person types a value that an agent requested: its page and its forms. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { SecretText } from "#schema/Values.ts"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import { DonePage, ProvidePage } from "./ProvideViews.tsx"
import { action, type AtPerson, button, page, person, screen, withIds } from "./Routes.ts"
import * as UseCases from "./UseCases.ts"

const Code = Schema.String.pipe(Schema.pattern(/^[0-9A-Za-z]{24}$/))
interface AtRequest extends AtPerson {
  readonly code: string
}
const request = withIds(person, Schema.Struct({ code: Code }))

const details = screen(
  ({ code }: AtRequest) => Effect.map(UseCases.valueRequests.show(code), (request) => ({ request })),
  ProvidePage
)

/** A request that ended meanwhile has no page to show again: its error becomes the problem page. */
const store = action(request, {
  decode: (form) => Form.decode(SecretText)(form.text("value")),
  run: (value, { code }) => UseCases.valueRequests.provide(code, value),
  done: (_, { visit }) => Html.page(<DonePage visit={visit} stored />),
  again: details
})

const decline = button(request, {
  run: ({ code }) => UseCases.valueRequests.decline(code),
  done: (_, { visit }) => Html.page(<DonePage visit={visit} stored={false} />)
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/provide/:code", page(request, details)),
  HttpRouter.post("/app/provide/:code/store", store),
  HttpRouter.post("/app/provide/:code/decline", decline)
)

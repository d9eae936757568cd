/** The one-time page on which a person enters a value that an agent or another person requested. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { SecretText } from "#schema/Values.ts"
import type { ValueRequests } from "#src/secrets/ValueRequests.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { Card } from "#src/dashboard/frame/Layout.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import {
  action,
  type AtPerson,
  type Attempt,
  button,
  page,
  person,
  screen,
  withIds
} from "#src/dashboard/frame/Routes.ts"
import { DangerousNames } from "./Forms.tsx"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import type { Visit } from "#src/dashboard/frame/Visit.ts"

type ValueRequest = Effect.Effect.Success<ReturnType<ValueRequests["show"]>>

/** True if a person asks: people use a session, programs use other credentials. */
const isPerson = ({ askedBy }: ValueRequest) => askedBy.kind === "session"

const ProvidePage = ({
  problem,
  request,
  visit
}: Attempt & {
  readonly visit: Visit
  readonly request: ValueRequest
}) => (
  <Card visitor={visit} title={request.replace ? "Replace a value?" : "Provide a value?"} wide>
    <Ui.ProblemNote problem={problem} />
    <p class="lead">
      {isPerson(request) ? "A person of your team asks" : "An agent asks"} for a value that{" "}
      {isPerson(request) ? "they" : "it"} will not see. Ampoule stores the value and sends it nowhere else.
    </p>
    <dl class="facts section-small">
      <Ui.Fact name="Key">
        <code>{request.key}</code>{" "}
        {request.replace ? <Ui.Badge tone="amber">replaces the current value</Ui.Badge> : null}
      </Ui.Fact>
      <Ui.Fact name="Where">
        {request.projectName} / {request.environment}
      </Ui.Fact>
      <Ui.Fact name="Requested by">
        {request.askedBy.name ?? "an agent"}{" "}
        {isPerson(request) ? null : <Ui.Badge tone="amber">name not verified</Ui.Badge>}
      </Ui.Fact>
      {request.note === null ? null : <Ui.Fact name="Its reason" is={request.note} />}
      <Ui.Fact name="Requested">
        <Ui.Ago at={request.createdAt.toISOString()} now={visit.now} />, expires{" "}
        <Ui.Until at={request.expiresAt.toISOString()} now={visit.now} />
      </Ui.Fact>
    </dl>
    <DangerousNames keys={[request.key]} />
    <Ui.Callout tone="warning">
      <p>
        {isPerson(request)
          ? "Continue only if you manage this key at its vendor and know why it is replaced."
          : "Continue only if you are working with this agent right now and know why it needs the value."}
      </p>
    </Ui.Callout>
    <form method="post" action={`${Paths.provide(request.code)}/store`}>
      <Ui.TextArea name="value" label="Value" rows={4} focus problem={problem} hint="Stored exactly as typed." />
      <div class="buttons">
        <button class="button button-primary" data-decides>
          Store the value
        </button>
        <button
          class="button button-danger-quiet"
          formaction={`${Paths.provide(request.code)}/decline`}
          formnovalidate
          data-decides
        >
          Decline
        </button>
      </div>
    </form>
  </Card>
)

const DonePage = ({ stored, visit }: { readonly visit: Visit; readonly stored: boolean }) => (
  <Card
    visitor={visit}
    title={stored ? "The value is stored" : "The request is declined"}
    lead={
      stored
        ? "You can close this page. If the agent does not continue, tell it that you are done."
        : "You can close this page. The agent learns that you declined."
    }
  >
    {null}
  </Card>
)

const Code = Schema.String.pipe(Schema.pattern(/^[0-9A-Za-z]{24}$/))
interface AtRequest extends AtPerson {
  readonly code: string
}
const request = withIds(person, Schema.Struct({ code: Code }))

const details = screen(
  ({ code }: AtRequest) => Effect.map(UseCases.valueRequests.show(code), (request) => ({ request })),
  ProvidePage
)

/** A request that ended meanwhile has no page, so its error becomes the problem page. */
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

/** The one-time page where a person types a value that an agent asked for. The agent never sees what is typed. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { AnyApiError } from "#schema/ApiError.ts"
import { SecretText } from "#schema/Values.ts"
import { gone, type Shown, ValueRequests } from "#src/secrets/ValueRequests.ts"
import { Ago, Badge, Callout, ProblemNote, TextArea, Until } from "./Components.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import { Card } from "./Layout.tsx"
import { attempt, type Pages, param, shown } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import type { Visit } from "./Visit.ts"

const Code = Schema.String.pipe(Schema.pattern(/^[0-9A-Za-z]{24}$/))

const ProvidePage = ({
  problem,
  request,
  visit
}: {
  readonly visit: Visit
  readonly request: Shown
  readonly problem?: AnyApiError | undefined
}) => (
  <Card who={visit} title={request.replace ? "Replace a value?" : "Provide a value?"} wide>
    <ProblemNote problem={problem} />
    <p class="lead">
      An agent asks for a value that it does not get to see: what you type here is stored in Ampoule and goes nowhere
      else.
    </p>
    <dl class="facts section-small">
      <dt>Key</dt>
      <dd>
        <code>{request.key}</code> {request.replace ? <Badge tone="amber">replaces the current value</Badge> : null}
      </dd>
      <dt>Where</dt>
      <dd>
        {request.projectName} / {request.environment}
      </dd>
      <dt>Asked by</dt>
      <dd>
        {request.askedBy.name ?? "an agent"} <Badge tone="amber">calls itself so</Badge>
      </dd>
      {request.note === null ? null : (
        <>
          <dt>It says</dt>
          <dd>{request.note}</dd>
        </>
      )}
      <dt>Asked</dt>
      <dd>
        <Ago at={request.createdAt.toISOString()} now={visit.now} />, expires{" "}
        <Until at={request.expiresAt.toISOString()} now={visit.now} />
      </dd>
    </dl>
    <Callout tone="warning">
      <p>Go on only if you are working with this agent right now and know why it needs the value.</p>
    </Callout>
    <form method="post" action={`${Paths.provide(request.code)}/store`}>
      <TextArea name="value" label="Value" rows={4} focus problem={problem} hint="Stored exactly as typed." />
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
    who={visit}
    title={stored ? "The value is stored" : "Nothing was stored"}
    lead={
      stored
        ? "You can close this page. An agent that does not go on by itself waits for your word."
        : "You can close this page. The agent is told that you declined."
    }
  >
    {null}
  </Card>
)

export const routes = (pages: Pages["Type"]) =>
  Effect.gen(function* () {
    const requests = yield* ValueRequests

    const view = pages.person((visit) =>
      Effect.gen(function* () {
        const request = yield* requests.show(yield* param("code", Code))
        return Html.page(<ProvidePage visit={visit} request={request} />)
      })
    )

    const store = pages.person((visit) =>
      Effect.gen(function* () {
        const code = yield* param("code", Code)
        const form = yield* Form.read
        const done = yield* attempt(
          Effect.flatMap(Form.decode(SecretText)(form.text("value")), (value) => requests.provide(code, value))
        )
        if (Either.isRight(done)) return Html.page(<DonePage visit={visit} stored={true} />)
        if (gone(done.left)) return yield* Effect.fail(done.left)
        const request = yield* requests.show(code)
        return shown(<ProvidePage visit={visit} request={request} problem={done.left} />, done.left)
      })
    )

    const decline = pages.person((visit) =>
      Effect.gen(function* () {
        yield* requests.decline(yield* param("code", Code))
        return Html.page(<DonePage visit={visit} stored={false} />)
      })
    )

    return HttpRouter.empty.pipe(
      HttpRouter.get("/app/provide/:code", view),
      HttpRouter.post("/app/provide/:code/store", store),
      HttpRouter.post("/app/provide/:code/decline", decline)
    )
  })

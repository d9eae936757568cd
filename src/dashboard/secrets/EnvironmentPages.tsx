/** Secrets of an environment: find, reveal, add and import. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { VNode } from "preact"
import type { AnyApiError } from "#schema/ApiError.ts"
import { ValidationFailed } from "#schema/Errors.ts"
import { ChangeSecrets } from "#schema/ProjectChangesApi.ts"
import { CreateSecret, ImportSecrets, ValueQuery } from "#schema/SecretRequests.ts"
import type { SecretListItem } from "#schema/SecretResponses.ts"
import { isDangerous } from "#src/formats/DangerousNames.ts"
import * as EnvFile from "#src/formats/EnvFile.ts"
import { notesByKey, refusal, remarks } from "#src/formats/ImportPlan.ts"
import { type Meaning, meaningOf } from "#src/formats/Meaning.ts"
import * as Preview from "#src/formats/Preview.ts"
import { type AtEnvironment, environment, type Location } from "#src/dashboard/frame/EnvironmentFrame.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { matchesWords } from "./Matrix.ts"
import { attempt, pageNumber, pageWith, query, wantsJson } from "#src/dashboard/frame/Pages.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { action, page, screen, to } from "#src/dashboard/frame/Routes.ts"
import { AddSecret, anyway, PasteSecrets } from "./Forms.tsx"
import { pageSize, type SecretList, SecretsPage } from "./ListViews.tsx"
import type { RevealedValue } from "./Value.tsx"
import * as LineBreaks from "./LineBreaks.ts"
import { Proposed } from "#src/secrets/SecretStore.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import { may } from "#src/dashboard/frame/Visit.ts"

const apiPage = 500

/**
 * One page of the list, with the last read of each secret if the person may see it. Falls back to the plain list if the
 * trail was altered or its index is incomplete.
 */
const pageOf = (location: Location, page: number, pageSize: number) => {
  const query = { ...location.query, page, pageSize }
  const plain = () => UseCases.secretReads.list(query)
  return may(location.visit, "audit:read")
    ? Effect.catchTags(UseCases.secretReads.list({ ...query, lastRead: "true" }), {
        INTEGRITY_FAILURE: plain,
        SERVER_BUSY: plain
      })
    : plain()
}

const allSecrets = Effect.fnUntraced(function* (location: Location) {
  const items: Array<SecretListItem> = []
  for (let page = 1; ; page++) {
    const answer = yield* pageOf(location, page, apiPage)
    items.push(...answer.items)
    if (!answer.hasMore) return items
  }
})

/** Counts of the holders of current values. Empty if the person may not see them, or the trail cannot give them now. */
const holdersOf = (location: Location, items: ReadonlyArray<SecretListItem>) => {
  const nothing = () => Effect.succeed<SecretList["holders"]>(new Map())
  return may(location.visit, "audit:read") && items.length > 0
    ? Effect.catchTags(UseCases.exposure.holders(location.query, items), {
        INTEGRITY_FAILURE: nothing,
        SERVER_BUSY: nothing
      })
    : nothing()
}

const listOf = Effect.fnUntraced(function* (location: Location) {
  const params = yield* query
  const words = params.text("q").trim()
  const page = pageNumber(params)
  const due = yield* UseCases.secretReads.due(location.query)
  if (words !== "") {
    const all = yield* allSecrets(location)
    const items = all.filter(({ key, tags }) => matchesWords(key, tags, words))
    const onPage = items.slice((page - 1) * pageSize, page * pageSize)
    const holders = yield* holdersOf(location, onPage)
    const list: SecretList = { items, page, total: all.length, words, due, holders }
    return list
  }
  const { items, total } = yield* pageOf(location, page, pageSize)
  const holders = yield* holdersOf(location, items)
  const list: SecretList = { items, page, total, words, due, holders }
  return list
})

const view = page(
  environment,
  screen(
    ({ location }: AtEnvironment) =>
      Effect.all({
        list: listOf(location),
        panel: Effect.map(query, (query) => query.text("panel")),
        // A link to the form can preset the key.
        preset: Effect.map(query, (query) => new Form.Form([["key", query.text("key")]]))
      }),
    ({ list, location, panel, preset }) => (
      <SecretsPage
        location={location}
        list={list}
        panel={
          panel === "add" && location.writes ? (
            <AddSecret location={location} problem={undefined} form={preset} />
          ) : panel === "paste" && location.writes ? (
            <PasteSecrets location={location} />
          ) : undefined
        }
      />
    )
  )
)

/** The value that a form requests. The use case records the read. */
export const reveal = Effect.fnUntraced(function* (at: Location["query"], form: Form.Form) {
  const input = yield* Form.decode(ValueQuery)({
    ...at,
    key: form.text("key"),
    representation: form.filled("representation") ?? "materialized"
  })
  const secret = (yield* UseCases.secretReads.value(input)).value()
  const revealed: RevealedValue = {
    key: input.key,
    text: secret.value,
    representation: input.representation ?? "materialized"
  }
  return revealed
})

export const asJson = ({ key, text }: RevealedValue) =>
  HttpServerResponse.unsafeJson({ key, value: text, lineBreaks: LineBreaks.of(text) }, { headers: Html.headers })

const revealOne = environment(({ location }) =>
  Effect.gen(function* () {
    const revealed = yield* reveal(location.query, yield* Form.read)
    return (yield* wantsJson)
      ? asJson(revealed)
      : Html.page(<SecretsPage location={location} list={yield* listOf(location)} revealed={revealed} />)
  })
)

const decodeAdd = Effect.fnUntraced(function* (form: Form.Form, { location }: AtEnvironment) {
  const kind = form.filled("kind")
  const input = yield* Form.decode(CreateSecret)({
    ...location.query,
    // Keys are in capitals, as the page shows them during typing.
    key: form.text("key").trim().toUpperCase(),
    value: form.text("value"),
    ...(kind === undefined ? {} : { kind })
  })
  // Without the right to write, the use case refuses first.
  if (location.writes && isDangerous(input.key) && form.text(anyway) !== input.key) {
    return yield* new ValidationFailed({ field: anyway, message: "A secret of this name is dangerous" })
  }
  return input
})

const add = action(environment, {
  decode: decodeAdd,
  run: (input) => UseCases.secretWrites.create(input),
  done: (_, { location }) => to(Paths.environment(location.path), "secret-created"),
  again: screen(
    ({ location }: AtEnvironment) => Effect.map(listOf(location), (list) => ({ list })),
    ({ list, ...attempt }) => <SecretsPage location={attempt.location} list={list} panel={<AddSecret {...attempt} />} />
  )
})

const withPaste = (location: Location, panel: VNode, problem: AnyApiError | undefined) =>
  Effect.map(listOf(location), (list) =>
    pageWith(<SecretsPage location={location} list={list} panel={panel} />, problem)
  )

/** One transaction. Text that looks like a template is sent with its kind, which bulk cannot say. */
const writeAll = (location: Location, meanings: ReadonlyArray<Meaning>) =>
  Effect.gen(function* () {
    const { environment, projectId } = location.query
    if (meanings.every(({ kind }) => kind === undefined)) {
      const input = { ...location.query, secrets: meanings.map(({ key, value }) => ({ key, value })) }
      return yield* UseCases.secretWrites.createBulk(yield* Form.decode(ImportSecrets)(input))
    }
    const entries = meanings.map(({ key, kind, value }) => ({
      environment,
      key,
      op: "set" as const,
      value,
      ...(kind === undefined ? {} : { kind })
    }))
    const { environments } = yield* UseCases.secretWrites.change(
      projectId,
      yield* Form.decode(ChangeSecrets)({ entries })
    )
    for (const { request } of environments) if (request !== null) return yield* new Proposed({ request })
    const items = environments.flatMap(({ items }) => items)
    const count = (outcome: string) => items.filter((item) => item.outcome === outcome).length
    return { created: count("created"), updated: count("updated"), unchanged: count("unchanged") }
  })

const paste = environment(({ location }) =>
  Effect.gen(function* () {
    const form = yield* Form.read
    const text = form.text("text")
    const format = EnvFile.detect("", text)
    const parsed = EnvFile.parse(format, text)
    if (Either.isLeft(parsed)) {
      const failure = `line ${parsed.left.line}, ${parsed.left.reason.replace(/\.$/, "")}`
      return yield* withPaste(location, <PasteSecrets location={location} failure={failure} />, new ValidationFailed())
    }
    const meanings = parsed.right.map((entry) => meaningOf(entry, { format }))
    if (form.text("step") === "apply") {
      const result = yield* attempt(writeAll(location, meanings))
      return Either.isRight(result)
        ? to(
            Paths.environment(location.path),
            "imported",
            `${result.right.created}.${result.right.updated}.${result.right.unchanged}`
          )
        : yield* withPaste(location, <PasteSecrets location={location} problem={result.left} />, result.left)
    }
    const existing = yield* allSecrets(location)
    const preview = {
      ...Preview.preview(parsed.right, new Set(existing.map((item) => item.key))),
      remarks: remarks(meanings, "page"),
      notes: notesByKey(meanings),
      refused: refusal(meanings, existing, location.query.environment, "page")
    }
    return yield* withPaste(location, <PasteSecrets location={location} preview={preview} />, undefined)
  })
)

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/projects/:projectId/env/:slug", view),
  HttpRouter.post("/app/projects/:projectId/env/:slug/reveal", revealOne),
  HttpRouter.post("/app/projects/:projectId/env/:slug/add", add),
  HttpRouter.post("/app/projects/:projectId/env/:slug/paste", paste)
)

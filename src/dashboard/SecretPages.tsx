/** One secret, and the deleted ones of an environment: pages and forms. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { SecretNotFound, ValidationFailed } from "#schema/Errors.ts"
import { SecretId } from "#schema/Ids.ts"
import { RollbackSecret, UpdateSecret } from "#schema/SecretRequests.ts"
import { Disposition } from "#schema/Values.ts"
import { type AtEnvironment, environment } from "./EnvironmentFrame.tsx"
import { asJson, reveal } from "./EnvironmentPages.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import { wantsJson } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import { action, button, page, screen, to, untouched, withIds } from "./Routes.ts"
import { DeletedPage, type Editing, SecretPage } from "./SecretViews.tsx"
import * as UseCases from "./UseCases.ts"

interface AtSecret extends AtEnvironment {
  readonly secretId: SecretId
}
const secret = withIds(environment, Schema.Struct({ secretId: SecretId }))

/** The environment in the path and the secret must belong together. */
const load = Effect.fnUntraced(function* ({ location, secretId }: AtSecret) {
  const graph = yield* UseCases.secretReads.composition(location.query)
  const node = graph.nodes.find(({ id }) => id === secretId)
  if (node === undefined) return yield* new SecretNotFound()
  const { items } = yield* UseCases.secretReads.versions(secretId)
  const [current] = items
  if (current === undefined) return yield* new SecretNotFound()
  return { location, node, graph, versions: items, currentVersion: current.version }
})

const details = (editing?: Editing) =>
  screen(load, ({ form, problem, ...shown }) => <SecretPage {...shown} attempt={{ form, problem }} editing={editing} />)

const revealOne = secret((at) =>
  Effect.gen(function* () {
    const revealed = yield* reveal(at.location, yield* Form.read)
    return (yield* wantsJson)
      ? asJson(revealed)
      : Html.page(<SecretPage {...yield* load(at)} attempt={untouched} revealed={revealed} />)
  })
)

const decodeEdit = Effect.fnUntraced(function* (form: Form.Form) {
  const kind = form.filled("kind")
  const value = form.text("value")
  // A field that is left empty by mistake must not empty the secret; with a kind, the current text is kept.
  const written = value !== "" || form.has("empty")
  if (!written && kind === undefined) {
    return yield* new ValidationFailed({
      field: "value",
      message: "Enter a text, or choose to save an empty text"
    })
  }
  return yield* Form.decode(UpdateSecret)({
    ...(written ? { value } : {}),
    ...(kind === undefined ? {} : { kind }),
    expectedVersion: Number(form.text("expectedVersion"))
  })
})

const edit = action(secret, {
  decode: decodeEdit,
  run: (input, { secretId }) => UseCases.secretWrites.update(secretId, input),
  done: (_, { location, secretId }) => to(Paths.secret(location.path, secretId), "secret-changed"),
  again: details("edit")
})

const rollback = action(secret, {
  decode: (form) =>
    Form.decode(RollbackSecret)({
      version: Number(form.text("version")),
      expectedVersion: Number(form.text("expectedVersion"))
    }),
  run: (input, { secretId }) => UseCases.secretWrites.rollback(secretId, input),
  done: (_, { location, secretId }) => to(Paths.secret(location.path, secretId), "secret-rolled-back"),
  again: details("rollback")
})

const remove = action(secret, {
  decode: (form) => Form.decode(Schema.UndefinedOr(Disposition))(form.filled("disposition")),
  run: (disposition, { secretId }) => UseCases.secretWrites.remove(secretId, disposition),
  done: (_, { location }) => to(Paths.environment(location.path), "secret-deleted"),
  again: details("delete")
})

const deleted = screen(({ location }: AtEnvironment) => UseCases.secretReads.deleted(location.query), DeletedPage)

const restore = button(secret, {
  run: ({ secretId }) => UseCases.secretWrites.restore(secretId),
  done: (_, { location, secretId }) => to(Paths.secret(location.path, secretId), "secret-restored"),
  again: deleted
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/projects/:projectId/env/:slug/secrets/:secretId", page(secret, details())),
  HttpRouter.post("/app/projects/:projectId/env/:slug/secrets/:secretId/reveal", revealOne),
  HttpRouter.post("/app/projects/:projectId/env/:slug/secrets/:secretId/edit", edit),
  HttpRouter.post("/app/projects/:projectId/env/:slug/secrets/:secretId/rollback", rollback),
  HttpRouter.post("/app/projects/:projectId/env/:slug/secrets/:secretId/delete", remove),
  HttpRouter.get("/app/projects/:projectId/env/:slug/deleted", page(environment, deleted)),
  HttpRouter.post("/app/projects/:projectId/env/:slug/deleted/:secretId/restore", restore)
)

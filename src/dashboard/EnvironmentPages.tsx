/** Secrets of an environment: find, reveal one, copy, add, paste many. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { ComponentChildren, VNode } from "preact"
import type { AnyApiError } from "#schema/ApiError.ts"
import { ValidationFailed } from "#schema/Errors.ts"
import {
  CreateSecret,
  CreateSecretsBulk,
  type SecretListItem,
  SecretWithValue,
  ValueQuery
} from "#schema/SecretsApi.ts"
import type { ParsedEntry } from "#src/formats/Entry.ts"
import * as EnvFile from "#src/formats/EnvFile.ts"
import * as Preview from "#src/formats/Preview.ts"
import { Secrets } from "#src/secrets/Secrets.ts"
import {
  Ago,
  Badge,
  Callout,
  Command,
  Empty,
  KeyName,
  Pager,
  ProblemNote,
  Select,
  Table,
  TextArea,
  TextField
} from "./Components.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import * as Icons from "./Icons.tsx"
import { withNotice } from "./Notices.ts"
import { attempt, type Pages, query, shown, wantsJson } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import { make as makePlace, type Place, PlacePage } from "./Place.tsx"
import { type Revealed, SecretValue } from "./SecretValue.tsx"

const pageSize = 250
const apiPage = 500

export const kinds = [
  { value: "", label: "Automatic: ${KEY} makes a reference" },
  { value: "literal", label: "Plain text, always" },
  { value: "template", label: "Template" }
]

const enterAgain = "What was typed is not sent back to the page. Please enter it again."

const AddSecret = ({
  kind = "",
  place,
  problem,
  secretKey = ""
}: {
  readonly place: Place
  readonly secretKey?: string
  readonly kind?: string
  readonly problem?: AnyApiError | undefined
}) => {
  const here = Paths.environment(place.at)
  const atField = problem?.field === "key" || problem?.field === "value" || problem?.field === "kind"
  return (
    <form method="post" action={`${here}/add`} class="panel" id="add">
      <h2>Add a secret</h2>
      {atField ? null : <ProblemNote problem={problem} />}
      <div class="fields">
        <TextField
          name="key"
          label="Key"
          mono
          value={secretKey}
          focus={problem === undefined || problem.field === "key"}
          hint="A–Z, 0–9 and _, starting with a letter"
          problem={problem}
        />
        <Select name="kind" label="Kind" choices={kinds} value={kind} problem={problem} />
      </div>
      <TextArea
        name="value"
        label="Value"
        rows={3}
        optional
        focus={problem !== undefined && problem.field !== "key"}
        hint={problem === undefined ? "Use other secrets of this environment as ${KEY}." : enterAgain}
        problem={problem}
      />
      <div class="buttons">
        <button class="button button-primary">Add</button>
        <a class="button button-plain" href={here}>
          Cancel
        </a>
      </div>
    </form>
  )
}

const Keys = ({
  keys,
  title,
  tone
}: {
  readonly title: string
  readonly keys: ReadonlyArray<string>
  readonly tone: "ok" | "accent"
}) =>
  keys.length === 0 ? null : (
    <div>
      <h3>
        {title} <Badge tone={tone}>{keys.length}</Badge>
      </h3>
      <ul class="keys">
        {keys.map((key) => (
          <li>
            <code>{key}</code>
          </li>
        ))}
      </ul>
    </div>
  )

/**
 * Two steps: what would change, then the change. What was pasted is never sent back to the page: the script keeps it in
 * its field while the preview is fetched; without script it is pasted once more.
 */
const PasteSecrets = ({
  failure,
  place,
  preview,
  problem
}: {
  readonly place: Place
  readonly preview?: Preview.Preview | undefined
  readonly failure?: string | undefined
  readonly problem?: AnyApiError | undefined
}) => {
  const here = Paths.environment(place.at)
  const count = preview === undefined ? 0 : preview.create.length + preview.update.length
  const applies = preview !== undefined && preview.invalidKeys.length === 0 && count > 0 && count <= 100
  return (
    <form method="post" action={`${here}/paste`} class="panel" id="paste" data-swap="preview">
      <h2>Paste a .env file</h2>
      <TextArea
        name="text"
        label="Text"
        rows={8}
        focus
        placeholder={"DATABASE_URL=postgres://…\nAPI_KEY='…'"}
        hint="Lines of KEY=value, with quotes and comments as in .env files. Up to 100 secrets at once."
      />
      <div id="preview">
        <div class="stack section-small" role="status">
          <ProblemNote problem={problem} />
          {failure === undefined ? null : <Callout tone="danger" title={`The text cannot be read: ${failure}.`} />}
          {preview === undefined ? null : (
            <>
              <Keys title="Will be created" keys={preview.create} tone="ok" />
              <Keys title="Exist already, will be updated when they differ" keys={preview.update} tone="accent" />
              {preview.invalidKeys.length === 0 ? null : (
                <Callout tone="danger" title="These names cannot be keys of secrets">
                  <ul>
                    {preview.invalidKeys.map(({ line, name }) => (
                      <li>
                        Line {line}: <code>{name}</code>
                      </li>
                    ))}
                  </ul>
                  <p>Keys are A–Z, 0–9 and _, and start with a letter. Change or remove these lines.</p>
                </Callout>
              )}
              {count > 100 ? (
                <Callout tone="danger" title={`${count} secrets at once are too many: paste up to 100.`} />
              ) : null}
              {count === 0 && preview.invalidKeys.length === 0 ? (
                <Callout tone="warning" title="There is nothing in this text." />
              ) : null}
            </>
          )}
          {preview === undefined && failure === undefined && problem === undefined ? null : (
            <p class="without-script">{enterAgain}</p>
          )}
        </div>
        <div class="buttons">
          {applies ? (
            <button class="button button-primary" name="step" value="apply">
              Save {count} {count === 1 ? "secret" : "secrets"}
            </button>
          ) : null}
          <button class={`button ${applies ? "button-plain" : "button-primary"}`} name="step" value="preview">
            {preview === undefined ? "Show what would change" : "Show again"}
          </button>
          <a class="button button-plain" href={here}>
            Cancel
          </a>
        </div>
      </div>
    </form>
  )
}

interface Listed {
  readonly items: ReadonlyArray<SecretListItem>
  readonly page: number
  readonly total: number
  readonly words: string
}

const SecretRow = ({
  item,
  place,
  revealed
}: {
  readonly place: Place
  readonly item: SecretListItem
  readonly revealed: Revealed | undefined
}) => {
  const href = Paths.secret(place.at, item.id)
  return (
    <tr data-secret data-filter-row={item.key}>
      <th scope="row">
        <a class="key" href={href}>
          <KeyName name={item.key} />
        </a>
        {item.references.length === 0 ? null : (
          <span class="refs hint">
            uses{" "}
            {item.references.map((key, i) => (
              <>
                {i === 0 ? "" : ", "}
                <code>{key}</code>
              </>
            ))}
          </span>
        )}
      </th>
      <td>
        {place.readsValues ? (
          <SecretValue action={`${Paths.environment(place.at)}/reveal`} secretKey={item.key} revealed={revealed} />
        ) : (
          <span class="hint">not readable in your role</span>
        )}
      </td>
      <td class="tight hint" data-label="Version">
        v{item.version}
      </td>
      <td class="tight hint" data-label="Changed">
        <Ago at={item.updatedAt} now={place.visit.now} />{" "}
        <span class="by">by {item.updatedBy.name ?? item.updatedBy.type}</span>
      </td>
    </tr>
  )
}

const SecretsPage = ({
  listed,
  panel,
  place,
  revealed
}: {
  readonly place: Place
  readonly listed: Listed
  readonly panel?: ComponentChildren
  readonly revealed?: Revealed | undefined
}) => {
  const here = Paths.environment(place.at)
  const { items, page, total, words } = listed
  const matching = words === "" ? total : items.length
  const partial = total > pageSize
  const from = (page - 1) * pageSize
  const onPage = words === "" ? items : items.slice(from, from + pageSize)
  const pageLink = (n: number) => `${here}?page=${n}${words === "" ? "" : `&q=${encodeURIComponent(words)}`}`
  return (
    <PlacePage
      place={place}
      view="secrets"
      title="Secrets"
      actions={
        place.writes && panel === undefined && total > 0 ? (
          <>
            <a class="button button-plain" href={`${here}?panel=paste`}>
              <Icons.Paste /> Paste .env
            </a>
            <a class="button button-primary" href={`${here}?panel=add`}>
              <Icons.Plus /> Add secret
            </a>
          </>
        ) : undefined
      }
    >
      {panel}
      {place.writes || panel !== undefined ? null : (
        <p class="hint">
          {place.environment.protected
            ? "This environment is protected: owners and admins change its secrets."
            : "Your role in this team reads names only."}
        </p>
      )}
      <section class={panel === undefined ? undefined : "section"} aria-label="Secrets">
        {total === 0 ? (
          panel === undefined ? (
            <Empty title="No secrets here yet">
              <p>Add them one by one, or paste the .env file that you have.</p>
              {place.writes ? (
                <div class="buttons">
                  <a class="button button-primary" href={`${here}?panel=add`}>
                    <Icons.Plus /> Add secret
                  </a>
                  <a class="button button-plain" href={`${here}?panel=paste`}>
                    <Icons.Paste /> Paste .env
                  </a>
                </div>
              ) : null}
            </Empty>
          ) : null
        ) : (
          <>
            <form class="toolbar" method="get" action={here}>
              <div class="search">
                <Icons.Search />
                <input
                  type="search"
                  name="q"
                  value={words}
                  aria-label="Filter by key"
                  placeholder="Filter by key"
                  autocomplete="off"
                  spellcheck={false}
                  data-filter
                  data-filter-partial={partial ? "" : undefined}
                />
              </div>
              <span
                class="hint"
                data-filter-count
                data-all={`${total} ${total === 1 ? "secret" : "secrets"}`}
                role="status"
              >
                {words === "" ? `${total} ${total === 1 ? "secret" : "secrets"}` : `${matching} of ${total}`}
              </span>
              <button class="button button-plain without-script">Filter</button>
            </form>
            {onPage.length === 0 ? (
              <Empty title="No key matches" />
            ) : (
              <Table label="Secrets" kind="secrets" head={["Key", "Value", "Version", "Changed"]}>
                {onPage.map((item) => (
                  <SecretRow place={place} item={item} revealed={revealed} />
                ))}
              </Table>
            )}
            {page === 1 && place.readsValues ? (
              <div class="section-small run">
                <p class="hint">Run a program with them:</p>
                <Command>{`ampoule run --project ${place.project.slug} --env ${place.environment.slug} -- npm start`}</Command>
              </div>
            ) : null}
            <Pager page={page} size={pageSize} total={matching} link={pageLink} />
          </>
        )}
      </section>
    </PlacePage>
  )
}

const decodeValue = Schema.decodeUnknown(Schema.parseJson(SecretWithValue))
const utf8 = new TextDecoder()

/** The value that a form asks for, read through the use case that records it. */
export const revealed = (secrets: Secrets, place: Place, form: Form.Form) =>
  Effect.gen(function* () {
    const asked = yield* Form.decode(ValueQuery)({
      ...place.query,
      key: form.text("key"),
      representation: form.filled("representation") ?? "materialized"
    })
    const body = yield* Effect.orDie(decodeValue(utf8.decode(yield* secrets.readValue(asked))))
    const answer: Revealed = {
      key: asked.key,
      text: body.value,
      representation: asked.representation ?? "materialized"
    }
    return answer
  })

export const asJson = ({ key, text }: Revealed) =>
  HttpServerResponse.unsafeJson({ key, value: text }, { headers: Html.headers })

export const routes = (pages: Pages["Type"]) =>
  Effect.gen(function* () {
    const secrets = yield* Secrets
    const placeOf = yield* makePlace(pages)

    const all = Effect.fnUntraced(function* (place: Place) {
      const items: Array<SecretListItem> = []
      for (let page = 1; ; page++) {
        const answer = yield* secrets.list({ ...place.query, page, pageSize: apiPage })
        items.push(...answer.items)
        if (!answer.hasMore) return items
      }
    })

    const list = Effect.fnUntraced(function* (place: Place) {
      const asked = yield* query
      const words = asked.text("q").trim().toUpperCase()
      const page = Math.min(Math.max(1, Number.parseInt(asked.text("page"), 10) || 1), 1_000)
      if (words !== "") {
        const items = yield* all(place)
        const listed: Listed = {
          items: items.filter((item) => item.key.includes(words)),
          page,
          total: items.length,
          words
        }
        return listed
      }
      const answer = yield* secrets.list({ ...place.query, page, pageSize })
      const listed: Listed = { items: answer.items, page, total: answer.total, words }
      return listed
    })

    const view = pages.person((visit) =>
      Effect.gen(function* () {
        const place = yield* placeOf(visit)
        const panel = (yield* query).text("panel")
        return Html.page(
          <SecretsPage
            place={place}
            listed={yield* list(place)}
            panel={
              panel === "add" && place.writes ? (
                <AddSecret place={place} />
              ) : panel === "paste" && place.writes ? (
                <PasteSecrets place={place} />
              ) : undefined
            }
          />
        )
      })
    )

    const reveal = pages.person((visit) =>
      Effect.gen(function* () {
        const place = yield* placeOf(visit)
        const answer = yield* revealed(secrets, place, yield* Form.read)
        return (yield* wantsJson)
          ? asJson(answer)
          : Html.page(<SecretsPage place={place} listed={yield* list(place)} revealed={answer} />)
      })
    )

    const add = pages.person((visit) =>
      Effect.gen(function* () {
        const place = yield* placeOf(visit)
        const form = yield* Form.read
        const kind = form.filled("kind")
        const made = yield* attempt(
          Form.decode(CreateSecret)({
            ...place.query,
            key: form.text("key").trim(),
            value: form.text("value"),
            ...(kind === undefined ? {} : { kind })
          }).pipe(Effect.flatMap((body) => secrets.create(body)))
        )
        return Either.isRight(made)
          ? Html.seeOther(withNotice(Paths.environment(place.at), "secret-created"))
          : shown(
              <SecretsPage
                place={place}
                listed={yield* list(place)}
                panel={
                  <AddSecret place={place} secretKey={form.text("key")} kind={form.text("kind")} problem={made.left} />
                }
              />,
              made.left
            )
      })
    )

    const withPaste = (place: Place, panel: VNode, problem: AnyApiError | undefined) =>
      Effect.map(list(place), (listed) => shown(<SecretsPage place={place} listed={listed} panel={panel} />, problem))

    const write = (place: Place, entries: ReadonlyArray<ParsedEntry>) =>
      Form.decode(CreateSecretsBulk)({
        ...place.query,
        secrets: entries.map(({ key, value }) => ({ key, value }))
      }).pipe(Effect.flatMap((body) => secrets.createBulk(body)))

    const paste = pages.person((visit) =>
      Effect.gen(function* () {
        const place = yield* placeOf(visit)
        const form = yield* Form.read
        const text = form.text("text")
        const parsed = EnvFile.parse("dotenv", text)
        if (Either.isLeft(parsed)) {
          const failure = `line ${parsed.left.line}, ${parsed.left.reason.replace(/\.$/, "")}`
          return yield* withPaste(place, <PasteSecrets place={place} failure={failure} />, new ValidationFailed())
        }
        if (form.text("step") === "apply") {
          const done = yield* attempt(write(place, parsed.right))
          return Either.isRight(done)
            ? Html.seeOther(withNotice(Paths.environment(place.at), "imported"))
            : yield* withPaste(place, <PasteSecrets place={place} problem={done.left} />, done.left)
        }
        const existing = new Set((yield* all(place)).map((item) => item.key))
        const preview = Preview.preview(parsed.right, existing)
        return yield* withPaste(place, <PasteSecrets place={place} preview={preview} />, undefined)
      })
    )

    return HttpRouter.empty.pipe(
      HttpRouter.get("/app/projects/:projectId/env/:slug", view),
      HttpRouter.post("/app/projects/:projectId/env/:slug/reveal", reveal),
      HttpRouter.post("/app/projects/:projectId/env/:slug/add", add),
      HttpRouter.post("/app/projects/:projectId/env/:slug/paste", paste)
    )
  })

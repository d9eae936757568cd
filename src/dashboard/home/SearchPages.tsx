/** Search over everything that a person can see: a page with a form, and data for the palette. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import { query, wantsJson } from "#src/dashboard/frame/Pages.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { person } from "#src/dashboard/frame/Routes.ts"
import { SearchField } from "#src/dashboard/frame/SearchField.tsx"
import { type SearchResults, type Item, itemsOf, type Kind, kinds } from "./SearchItems.ts"
import * as Theme from "#src/dashboard/frame/Theme.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import type { Visit } from "#src/dashboard/frame/Visit.ts"

const titles: Readonly<Record<Kind, string>> = {
  key: "Secrets",
  project: "Projects",
  environment: "Environments",
  person: "People",
  token: "API tokens",
  page: "Pages"
}

const Results = ({ items }: { readonly items: ReadonlyArray<Item> }) => (
  <>
    {kinds.map((kind) => {
      const ofKind = items.filter((one) => one.kind === kind)
      return ofKind.length === 0 ? null : (
        <section class="section-small" aria-label={titles[kind]}>
          <h2>{titles[kind]}</h2>
          <ul class="found">
            {ofKind.map(({ about, href, title }) => (
              <li>
                <a href={href} class={kind === "key" ? "key" : undefined}>
                  <bdi>{title}</bdi>
                </a>{" "}
                <span class="hint">
                  <bdi>{about}</bdi>
                </span>
              </li>
            ))}
          </ul>
        </section>
      )
    })}
  </>
)

const SearchPage = ({
  items,
  visit,
  words
}: {
  readonly visit: Visit
  readonly words: string
  readonly items: ReadonlyArray<Item>
}) => (
  <Layout
    visit={visit}
    section="none"
    title="Search"
    lead="Names of secrets, projects, environments, people and tokens."
  >
    <form class="toolbar" method="get" action={Paths.search}>
      <SearchField label="Search" placeholder="A key, a project, a person …" value={words} autofocus />
      <button class="button button-primary">Search</button>
    </form>
    {items.length === 0 ? (
      <Ui.Empty title="No results">
        <p>Words can come from a key, its project and its environment together: data shop prod.</p>
      </Ui.Empty>
    ) : (
      <Results items={items} />
    )}
  </Layout>
)

const view = person(({ visit }) =>
  Effect.gen(function* () {
    const words = (yield* query).text("q")
    const items = itemsOf(visit, yield* UseCases.search.find(words), words)
    const answer: SearchResults = { items }
    return (yield* wantsJson)
      ? HttpServerResponse.unsafeJson(answer, { headers: Html.headers })
      : Html.page(<SearchPage visit={visit} words={words} items={items} />)
  })
)

/** Stores the theme, and returns to the page of the form. */
const chooseTheme = person(() =>
  Effect.gen(function* () {
    const theme = Theme.themeOf((yield* Form.read).text("theme"))
    const before = yield* Theme.pageBefore
    return yield* Theme.remember(Html.seeOther(Paths.isOwnPage(before) ? before : Paths.home), theme)
  })
)

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get(Paths.search, view),
  HttpRouter.post(Paths.theme, chooseTheme)
)

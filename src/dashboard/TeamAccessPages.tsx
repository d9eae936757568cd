/** Everything that gets into a team now, in one list: tokens, CI identities, agents, logins and browsers. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import type { PersonAccess } from "#src/projects/PersonAccess.ts"
import * as Ui from "./Components.tsx"
import * as Icons from "./Icons.tsx"
import { Layout } from "./Layout.tsx"
import { pageNumber, query } from "./Pages.ts"
import { Pager } from "./Pager.tsx"
import * as Paths from "./Paths.ts"
import { type AtTeam, page, screen, team, type TeamVisit } from "./Routes.ts"
import * as UseCases from "./UseCases.ts"

const pageSize = 100

type Credential = Effect.Effect.Success<ReturnType<PersonAccess["everything"]>>[number]
type Kind = Credential["type"]

const kinds: Readonly<Record<Kind, readonly [one: string, several: string]>> = {
  api_token: ["API token", "API tokens"],
  machine_rule: ["CI identity", "CI identities"],
  oauth_grant: ["connected agent", "Agents"],
  cli_grant: ["login of the command line", "CLI logins"],
  session: ["browser", "Browsers"]
}
const isKind = (text: string): text is Kind => Object.hasOwn(kinds, text)

interface Shown {
  readonly visit: TeamVisit
  readonly items: ReadonlyArray<Credential>
  readonly words: string
  readonly kind: Kind | undefined
  readonly page: number
}

/** Where it is ended: a token and a rule on their own pages, the rest on the page of its person. */
const pageOf = ({ visit }: Shown, { id, type, userId }: Credential, tokens: ReadonlyMap<string, string>) =>
  tokens.get(`${type} ${id}`) ?? Paths.member(visit.team.id, userId)

const Row = ({ of, shown, tokens }: { of: Credential; shown: Shown; tokens: ReadonlyMap<string, string> }) => (
  <tr>
    <th scope="row">
      <a href={pageOf(shown, of, tokens)}>
        <bdi>{of.name === "" ? kinds[of.type][0] : of.name}</bdi>
      </a>
    </th>
    <td data-label="What">{kinds[of.type][0]}</td>
    <td data-label="Of">
      <a href={Paths.member(shown.visit.team.id, of.userId)}>{of.email}</a>
    </td>
    <td data-label="Until" class="hint">
      {of.expiresAt === null ? "somebody ends it" : <Ui.Until at={of.expiresAt} now={shown.visit.now} />}
    </td>
    <td data-label="Last use" class="hint">
      {of.lastUsedAt === null ? "never" : <Ui.Ago at={of.lastUsedAt} now={shown.visit.now} />}
    </td>
  </tr>
)

const Kinds = ({ here, shown }: { readonly here: string; readonly shown: Shown }) => {
  const link = (kind: string) =>
    Paths.withQuery(here, {
      ...(shown.words === "" ? {} : { q: shown.words }),
      ...(kind === "" ? {} : { kind })
    })
  const count = (kind: Kind) => shown.items.filter(({ type }) => type === kind).length
  return (
    <nav class="segments" aria-label="Which kind">
      <a href={link("")} aria-current={shown.kind === undefined ? "page" : undefined}>{`All ${shown.items.length}`}</a>
      {Object.entries(kinds).map(([kind, [, title]]) =>
        isKind(kind) ? (
          <a href={link(kind)} aria-current={shown.kind === kind ? "page" : undefined}>{`${title} ${count(kind)}`}</a>
        ) : null
      )}
    </nav>
  )
}

const TeamAccessPage = (shown: Shown) => {
  const { items, kind, page, visit, words } = shown
  const here = Paths.teamAccess(visit.team.id)
  const fits = ({ email, name }: Credential) => `${name} ${email}`.toLowerCase().includes(words.toLowerCase())
  const matching = items.filter((one) => (kind === undefined || one.type === kind) && fits(one))
  const onPage = matching.slice((page - 1) * pageSize, page * pageSize)
  const tokens = new Map(
    items.flatMap(({ id, type }): ReadonlyArray<readonly [string, string]> =>
      type === "api_token"
        ? [[`${type} ${id}`, `${Paths.tokens(visit.team.id)}/${id}`]]
        : type === "machine_rule"
          ? [[`${type} ${id}`, `${Paths.rules(visit.team.id)}/${id}`]]
          : []
    )
  )
  return (
    <Layout
      visit={visit}
      section="access"
      title="Access"
      lead="Everything that gets into the team now: what people made, what they connected, and where they are signed in."
      actions={<Ui.LinkButton href={`${Paths.tokens(visit.team.id)}/new`}>New API token</Ui.LinkButton>}
    >
      <form class="toolbar" method="get" action={here}>
        <div class="search">
          <Icons.Search />
          <input type="search" name="q" value={words} aria-label="Filter by name or person" placeholder="Filter" />
        </div>
        {kind === undefined ? null : <input type="hidden" name="kind" value={kind} />}
        <Kinds here={here} shown={shown} />
      </form>
      {onPage.length === 0 ? (
        <Ui.Empty title="Nothing fits" />
      ) : (
        <Ui.Table label="What gets into the team" head={["Name", "What", "Of", "Until", "Last use"]}>
          {onPage.map((one) => (
            <Row of={one} shown={shown} tokens={tokens} />
          ))}
        </Ui.Table>
      )}
      <Pager
        page={page}
        size={pageSize}
        total={matching.length}
        link={(n) => Paths.withQuery(here, { q: words, ...(kind === undefined ? {} : { kind }), page: String(n) })}
      />
    </Layout>
  )
}

const view = screen(
  ({ teamId }: AtTeam) =>
    Effect.gen(function* () {
      const params = yield* query
      const kind = params.text("kind")
      return {
        items: yield* UseCases.personAccess.everything(teamId),
        words: params.text("q").trim(),
        kind: isKind(kind) ? kind : undefined,
        page: pageNumber(params)
      }
    }),
  TeamAccessPage
)

export const routes = HttpRouter.empty.pipe(HttpRouter.get("/app/teams/:teamId/access", page(team, view)))

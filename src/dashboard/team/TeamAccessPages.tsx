/** Everything that gets into a team now, in one list: tokens, CI identities, agents, logins and browsers. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import { AccessFrame, type Credential, fits, isKind, type Kind, kinds } from "#src/dashboard/frame/AccessFrame.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { pageNumber, query } from "#src/dashboard/frame/Pages.ts"
import { Pager } from "#src/dashboard/frame/Pager.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { type AtTeam, page, screen, team, type TeamVisit } from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

const pageSize = 100

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

const TeamAccessPage = (shown: Shown) => {
  const { items, kind, page, visit, words } = shown
  const here = Paths.teamAccess(visit.team.id)
  const matching = items.filter((one) => (kind === undefined || one.type === kind) && fits(words, one.name, one.email))
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
    <AccessFrame
      visit={visit}
      kind={kind}
      words={words}
      lead="Everything that gets into the team now: what people made, what they connected, and where they are signed in."
    >
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
    </AccessFrame>
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

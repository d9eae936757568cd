/** List of all credentials with access to a team: tokens, CI identities, agents, logins and browsers. */
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

interface AccessProps {
  readonly visit: TeamVisit
  readonly items: ReadonlyArray<Credential>
  readonly words: string
  readonly kind: Kind | undefined
  readonly page: number
}

/** Page on which a credential can be ended: its own for a token or a rule, else that of its person. */
const pageOf = ({ visit }: AccessProps, { id, type, userId }: Credential, tokens: ReadonlyMap<string, string>) =>
  tokens.get(`${type} ${id}`) ?? Paths.member(visit.team.id, userId)

const Row = ({ of, props, tokens }: { of: Credential; props: AccessProps; tokens: ReadonlyMap<string, string> }) => (
  <tr>
    <th scope="row">
      <a href={pageOf(props, of, tokens)}>
        <bdi>{of.name === "" ? kinds[of.type][0] : of.name}</bdi>
      </a>
    </th>
    <td data-label="Kind">{kinds[of.type][0]}</td>
    <td data-label="Person">
      <a href={Paths.member(props.visit.team.id, of.userId)}>{of.email}</a>
    </td>
    <td data-label="Until" class="hint">
      {of.expiresAt === null ? "no end" : <Ui.Until at={of.expiresAt} now={props.visit.now} />}
    </td>
    <td data-label="Last use" class="hint">
      {of.lastUsedAt === null ? "never" : <Ui.Ago at={of.lastUsedAt} now={props.visit.now} />}
    </td>
  </tr>
)

const TeamAccessPage = (props: AccessProps) => {
  const { items, kind, page, visit, words } = props
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
      lead="Everything with access to the team: tokens, CI identities, connected agents, CLI logins and browsers."
    >
      {onPage.length === 0 ? (
        <Ui.Empty title="No matches" />
      ) : (
        <Ui.Table label="Credentials of the team" head={["Name", "Kind", "Person", "Until", "Last use"]}>
          {onPage.map((one) => (
            <Row of={one} props={props} tokens={tokens} />
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

/** A new token, shown once, with ready-to-run commands. */
import * as Effect from "effect/Effect"
import type { ApiTokenWithValue } from "#schema/ApiTokensApi.ts"
import { crumbsOf } from "#src/dashboard/frame/AccessFrame.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as CopyText from "#src/dashboard/frame/CopyText.tsx"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import type { TeamVisit } from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

/** Slugs of a project and an environment that the token reaches. */
interface Place {
  readonly project: string
  readonly environment: string
}
interface NewToken {
  readonly token: ApiTokenWithValue
  /** Undefined if the token reaches no environment yet. */
  readonly place: Place | undefined
}

/** The first environment of the token's reach. */
export const withPlace = Effect.fnUntraced(function* (token: ApiTokenWithValue) {
  const { environments: allowed, projects } = token
  const all = yield* UseCases.environments.byProject(token.teamId)
  const places = (yield* UseCases.projects.list())
    .filter(({ id, teamId }) => teamId === token.teamId && (projects === null || projects.some((one) => one.id === id)))
    .flatMap((project) =>
      (all.get(project.id) ?? [])
        .filter(({ id }) => allowed === null || allowed.some((one) => one.id === id))
        .map((environment): Place => ({ project: project.slug, environment: environment.slug }))
    )
  const created: NewToken = { token, place: places.at(0) }
  return created
})

const commands = ({ place, token }: NewToken & { readonly place: Place }, baseUrl: string) =>
  [
    `export AMPOULE_URL=${baseUrl}`,
    `export AMPOULE_API_TOKEN=${token.value}`,
    `ampoule run --project ${place.project} --env ${place.environment} -- npm start`
  ].join("\n")

export const TokenOnce = ({
  place,
  replaced,
  token,
  visit
}: NewToken & { readonly visit: TeamVisit; readonly replaced: boolean }) => (
  <Layout
    visit={visit}
    section="access"
    title={replaced ? `${token.name} is replaced` : `${token.name} is created`}
    crumbs={crumbsOf(token.teamId, "api_token")}
  >
    <div class="narrow stack">
      {replaced ? <p>The old token no longer works. Use the new one instead.</p> : null}
      <CopyText.Once label="The token, which is shown only once" text={token.value} />
      {token.mcpOnly || place === undefined ? null : (
        <>
          <p>To run a program with the secrets of its environment, in a shell:</p>
          <CopyText.Command block>{commands({ token, place }, visit.ui.baseUrl)}</CopyText.Command>
          <p class="hint">
            In CI, set <code>AMPOULE_URL</code> and <code>AMPOULE_API_TOKEN</code> as protected variables. A shell keeps
            typed commands in its history.
          </p>
        </>
      )}
      <p>
        <Ui.LinkButton href={Paths.tokens(token.teamId)}>I have saved it</Ui.LinkButton>
      </p>
    </div>
  </Layout>
)

/** Receivers of values by version: of one secret, or of a project, filtered by a person or a token. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { type Exposed, type ExposurePage, ExposureQuery, type SecretExposure } from "#schema/ExposureApi.ts"
import { ProjectId, type SecretId } from "#schema/Ids.ts"
import type { Project } from "#schema/ProjectsApi.ts"
import type { Exposure } from "#src/trail-use/Exposure.ts"
import { countsText, versionsText, versionText, wayText } from "#src/formats/ExposureText.ts"
import { secret, type SecretDetails } from "./AtSecret.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import type { Location } from "#src/dashboard/frame/EnvironmentFrame.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import { attempt, inTeam, pageNumber, query } from "#src/dashboard/frame/Pages.ts"
import { Pager } from "#src/dashboard/frame/Pager.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { page, person, screen, withIds } from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import { may, type Visit } from "#src/dashboard/frame/Visit.ts"

const viaWords: ReadonlyMap<string, string> = new Map([
  ["rest", "over REST"],
  ["mcp", "over MCP"],
  ["dashboard", "in the dashboard"],
  ["cli", "on the command line"]
])

const pageSize = 100

const readText = ({ lastRead, notReadFor90Days }: Effect.Effect.Success<ReturnType<Exposure["summary"]>>) => {
  const last =
    lastRead === null
      ? "never read"
      : `last read ${Ui.exact(lastRead.at)} by ${lastRead.holder.name || "an unknown reader"}`
  return `${last}${notReadFor90Days ? ", not in the last 90 days" : ""}`
}

/** Sentence for the page of a secret; undefined if the person may not see it. */
export const sentenceOf = Effect.fnUntraced(function* ({ currentVersion, location, node }: SecretDetails) {
  if (!may(location.visit, "audit:read")) return undefined
  const summary = yield* attempt(UseCases.exposure.summary(node.id))
  return Either.match(summary, {
    onLeft: ({ message }) => message,
    onRight: (report) => `${versionsText(report.versions, currentVersion)}; ${readText(report)}`
  })
})

export const ExposurePanel = ({ href, sentence }: { readonly href: string; readonly sentence: string | undefined }) =>
  sentence === undefined ? null : (
    <section class="panel" aria-labelledby="exposure">
      <h2 id="exposure">Who has it</h2>
      <p>{sentence}.</p>
      <Ui.LinkButton href={href}>Show who and when</Ui.LinkButton>
    </section>
  )

const filteredBy = (id: ProjectId, { holder }: Exposed): string | undefined => {
  const of = (name: "by" | "token", text: string) => Paths.withQuery(Paths.exposure(id), { [name]: text })
  if (holder.type === "api_token" || holder.type === "machine_rule") return of("token", holder.id)
  const someone = holder.person ?? (holder.type === "user" || holder.type === "cli_grant" ? holder.name : "")
  return someone === "" ? undefined : of("by", someone)
}

const holderKinds: ReadonlyMap<string, string> = new Map([
  ["api_token", "API token"],
  ["oauth_client", "connected agent"],
  ["machine_rule", "CI rule"],
  ["backup", "recipients of a backup"]
])

const Who = ({ item, projectId }: { readonly item: Exposed; readonly projectId: ProjectId }) => {
  const { name, person, type } = item.holder
  const href = filteredBy(projectId, item)
  const label = name === "" ? "a backup without recipients" : name
  const kind = holderKinds.get(type)
  return (
    <>
      {href === undefined ? label : <a href={href}>{label}</a>}
      {kind === undefined ? null : (
        <span class="refs hint">
          {kind}
          {person === null ? "" : ` of ${person}`}
        </span>
      )}
    </>
  )
}

const Items = ({
  of,
  projectId,
  visit
}: {
  readonly of: ExposurePage
  readonly projectId: ProjectId
  readonly visit: Visit
}) => (
  <section class="section" aria-label="Who has which value">
    {of.items.length === 0 ? (
      <Ui.Empty title="The audit trail records no reads" />
    ) : (
      <Ui.Table label="Who has which value" kind="handed" head={["Secret", "Who", "How", "Times", "First", "Last"]}>
        {of.items.map((item) => (
          <tr>
            <th scope="row">
              <span class="key">
                <Ui.KeyName name={item.key} />
              </span>{" "}
              <span class="hint">{versionText(item.version)}</span>
              <span class="refs hint">{item.environment}</span>
            </th>
            <td data-label="Who">
              <Who item={item} projectId={projectId} />
            </td>
            <td data-label="How">
              {wayText(item.way)}
              <span class="refs hint">{viaWords.get(item.via) ?? item.via}</span>
            </td>
            <td data-label="Times">{item.count}</td>
            <td data-label="First" class="hint">
              <Ui.Ago at={item.firstAt} now={visit.now} />
            </td>
            <td data-label="Last" class="hint">
              <Ui.Ago at={item.lastAt} now={visit.now} />
              <span class="refs">{item.lastIp}</span>
            </td>
          </tr>
        ))}
      </Ui.Table>
    )}
    <p class="hint section-small">
      As of {Ui.exact(of.upTo)}.{" "}
      {typeof of.leftOutBefore === "string"
        ? `The list leaves out reads before ${Ui.exact(of.leftOutBefore)}. Choose a person or a token to see them. `
        : null}
      {of.unknownBefore === null ? null : `The versions of reads before ${Ui.exact(of.unknownBefore)} are unknown.`}
    </p>
  </section>
)

const Versions = ({ of }: { readonly of: SecretExposure }) => (
  <Ui.Table label="By version" head={["Version", "Received by", "Has only this version"]}>
    {of.versions.map(({ handedTo, heldBy, version }) => (
      <tr>
        <th scope="row">{versionText(version)}</th>
        <td data-label="Received by">{countsText(handedTo)}</td>
        <td data-label="Has only this version">{countsText(heldBy)}</td>
      </tr>
    ))}
  </Ui.Table>
)

interface OfSecret {
  readonly location: Location
  readonly secretId: SecretId
  readonly exposure: SecretExposure
}
const SecretExposurePage = ({ exposure, location, secretId }: OfSecret) => {
  const { path, project, visit } = location
  const here = `${Paths.secret(path, secretId)}/exposure`
  return (
    <Layout
      visit={visit}
      section="projects"
      title={`Who has ${exposure.key}`}
      inProject={{ id: project.id, name: project.name, view: "secrets" }}
      lead="People, tokens, agents, CI jobs and backups, according to the audit trail."
      crumbs={[
        { href: Paths.home, label: "Projects" },
        { href: Paths.environment(path), label: `${project.name} / ${location.environment.name}` },
        { href: Paths.secret(path, secretId), label: exposure.key }
      ]}
      actions={<Ui.LinkButton href={Paths.exposure(project.id)}>The whole project</Ui.LinkButton>}
    >
      {exposure.versions.length === 0 ? null : <Versions of={exposure} />}
      <Items of={exposure} projectId={project.id} visit={visit} />
      <Pager
        page={exposure.page}
        size={exposure.pageSize}
        total={exposure.total}
        link={(number) => Paths.withQuery(here, { page: String(number) })}
      />
    </Layout>
  )
}

const ofSecret = screen(
  ({ secretId }: Omit<OfSecret, "exposure">) =>
    Effect.gen(function* () {
      const number = pageNumber(yield* query)
      return { exposure: yield* UseCases.exposure.ofSecret(secretId, { page: number, pageSize }) }
    }),
  SecretExposurePage
)

const names = ["by", "token"] as const

interface OfProject {
  readonly visit: Visit
  readonly project: Project
  readonly filters: Readonly<Record<string, string>>
  readonly exposure: ExposurePage
}
const ProjectExposurePage = ({ filters, exposure, project, visit }: OfProject) => {
  const here = Paths.exposure(project.id)
  const holder = filters["by"] ?? filters["token"]
  return (
    <Layout
      visit={inTeam(visit, project.teamId)}
      section="projects"
      title={holder === undefined ? `Who has the secrets of ${project.name}` : "Who has which value"}
      inProject={{ id: project.id, name: project.name, view: "exposure" }}
      lead={holder === undefined ? undefined : `In ${project.name}: ${exposure.items[0]?.holder.name ?? holder}`}
      crumbs={[
        { href: Paths.home, label: "Projects" },
        { href: Paths.project(project.id), label: project.name }
      ]}
    >
      <form method="get" action={here} class="panel panel-slim">
        <div class="fields">
          <Ui.TextField name="by" label="Person" optional value={filters["by"] ?? ""} hint="E-mail address" />
          <Ui.TextField
            name="token"
            label="API token or CI rule"
            optional
            value={filters["token"] ?? ""}
            hint="Name or id"
          />
        </div>
        <div class="buttons">
          <button class="button button-primary">Filter</button>
          {holder === undefined ? null : <Ui.LinkButton href={here}>Clear the filter</Ui.LinkButton>}
        </div>
      </form>
      <Items of={exposure} projectId={project.id} visit={visit} />
      <Pager
        page={exposure.page}
        size={exposure.pageSize}
        total={exposure.total}
        link={(number) => Paths.withQuery(here, { ...filters, page: String(number) })}
      />
    </Layout>
  )
}

const ofProject = screen(
  ({ projectId }: { readonly visit: Visit; readonly projectId: ProjectId }) =>
    Effect.gen(function* () {
      const form = yield* query
      const filters = Object.fromEntries(
        names.flatMap((name) => {
          const text = form.filled(name)?.trim()
          return text === undefined ? [] : [[name, text]]
        })
      )
      const input = yield* Form.decode(ExposureQuery)(filters)
      const project = yield* UseCases.projects.get(projectId)
      const exposure = yield* UseCases.exposure.ofProject(projectId, { ...input, page: pageNumber(form), pageSize })
      return { project, filters, exposure }
    }),
  ProjectExposurePage
)

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/projects/:projectId/env/:slug/secrets/:secretId/exposure", page(secret, ofSecret)),
  HttpRouter.get(
    "/app/projects/:projectId/exposure",
    page(withIds(person, Schema.Struct({ projectId: ProjectId })), ofProject)
  )
)

/** One entry of the trail, and its proof. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { AuditEntry } from "#schema/Audit.ts"
import type { Project } from "#schema/ProjectsApi.ts"
import type { Proof, ProvedEntry } from "#src/trail-use/TrailEntry.ts"
import { comparedWith, wordsOf } from "#src/formats/AuditWords.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as CopyText from "#src/dashboard/frame/CopyText.tsx"
import * as Html from "#src/dashboard/frame/Html.ts"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import { param } from "#src/dashboard/frame/Pages.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { page, screen, team, type TeamVisit, within } from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

interface EntryProps {
  readonly visit: TeamVisit
  readonly proved: ProvedEntry
  readonly projects: ReadonlyArray<Project>
}

const KeyList = ({ entry, project }: { readonly entry: AuditEntry; readonly project: Project | undefined }) => (
  <ul class="keys">
    {entry.keys.map((key, i) => {
      const version = entry.versions?.[i]
      const text = <code>{key}</code>
      return (
        <li>
          {project === undefined || entry.environment === undefined ? (
            text
          ) : (
            <a href={Paths.key({ projectId: project.id, slug: entry.environment }, key)}>{text}</a>
          )}
          {version === undefined || version === 0 ? null : <span class="hint"> v{version}</span>}
        </li>
      )
    })}
  </ul>
)

const Facts = ({ proved: { entry }, projects, visit }: EntryProps) => {
  const project = projects.find(({ id }) => id === entry.project)
  const here = Paths.audit(visit.team.id)
  return (
    <dl class="facts">
      <Ui.Fact name="When" is={<time dateTime={entry.at}>{entry.at.replace("T", " ").replace("Z", " UTC")}</time>} />
      <Ui.Fact name="Who">
        <a href={Paths.withQuery(here, { actor: entry.actor.id })}>
          <bdi>{entry.actor.name ?? entry.actor.id}</bdi>
        </a>{" "}
        <span class="hint">{entry.actor.type.replace("_", " ")}</span>
      </Ui.Fact>
      <Ui.Fact name="What">
        {wordsOf(entry.action)} <code class="hint">{entry.action}</code>{" "}
        {entry.outcome === "denied" ? <Ui.Badge tone="danger">denied</Ui.Badge> : null}
      </Ui.Fact>
      {entry.reason === undefined ? null : <Ui.Fact name="Why" is={<bdi>{entry.reason}</bdi>} />}
      {entry.project === undefined ? null : (
        <Ui.Fact name="Where">
          {project === undefined ? (
            "a deleted project"
          ) : (
            <a href={Paths.project(project.id)}>
              <bdi>{project.name}</bdi>
            </a>
          )}
          {entry.environment === undefined ? null : ` / ${entry.environment}`}
          {entry.revision === undefined ? null : <span class="hint"> at revision {entry.revision}</span>}
        </Ui.Fact>
      )}
      {entry.keys.length === 0 ? null : <Ui.Fact name="Keys" is={<KeyList entry={entry} project={project} />} />}
      {entry.digest === undefined ? null : (
        <Ui.Fact name="Content">
          <code>{entry.digest}</code> <span class="hint">digest of the change that was revealed or approved</span>
        </Ui.Fact>
      )}
      {entry.compared === undefined || entry.compared.length === 0 ? null : (
        <Ui.Fact name="Compared with">
          <bdi>{comparedWith(entry.compared)}</bdi>
        </Ui.Fact>
      )}
      {entry.target === undefined ? null : (
        <Ui.Fact name="About">
          <bdi>{entry.target.name}</bdi> <span class="hint">{entry.target.type.replaceAll("_", " ")}</span>
        </Ui.Fact>
      )}
      <Ui.Fact name="From">
        {entry.ip ?? "no address"} <span class="hint">by {entry.via}</span>
      </Ui.Fact>
      {entry.userAgent === null ? null : <Ui.Fact name="Program" is={<bdi>{entry.userAgent}</bdi>} />}
      <Ui.Fact name="Request" is={<code>{entry.requestId}</code>} />
    </dl>
  )
}

const sentences: Readonly<Record<Proof, readonly [tone: "ok" | "info" | "danger", title: string]>> = {
  sealed: ["ok", "Every link from this entry to the sealed head of its stream holds."],
  waits: ["info", "Its own link holds. The vault seals the head of a stream every few seconds: reload the page then."],
  far: ["info", "Its links hold as far as this page follows them. The sealed head is later: verify the whole trail."],
  broken: ["danger", "A link does not hold: the trail was altered. Run ampoule audit verify."]
}

const ProofPanel = ({ proved, visit }: EntryProps) => {
  const { body, hash, previous, proof, seal, seq, stream } = proved
  const [tone, title] = sentences[proof]
  const file = `${Paths.auditEntry(visit.team.id, proved.entry.id)}/proof.jsonl`
  return (
    <section class="panel" aria-labelledby="proof">
      <h2 id="proof">Proof</h2>
      <Ui.Callout tone={tone} title={title} />
      <dl class="facts">
        <Ui.Fact name="Stream" is={<code>{stream}</code>} />
        <Ui.Fact name="Number" is={String(seq)} />
        <Ui.Fact name="Entry before" is={<code class="hash">{previous}</code>} />
        <Ui.Fact name="This entry" is={<code class="hash">{hash}</code>} />
        <Ui.Fact name="Sealed head">
          {seal === null ? (
            <span class="hint">none yet</span>
          ) : (
            <>
              number {seal.seq}, <time dateTime={seal.at}>{Ui.exact(seal.at)}</time>
              <br />
              <code class="hash">{seal.hash}</code>
            </>
          )}
        </Ui.Fact>
      </dl>
      <p class="hint">
        A hash is the SHA-256 of the previous hash and the text below. The vault seals the last hash of a stream, and
        signs checkpoints over it.
      </p>
      <div class="section-small">
        <CopyText.Command block>{body}</CopyText.Command>
      </div>
      <div class="buttons">
        <a class="button button-plain" href={file} download>
          Download the proof
        </a>
      </div>
      <p class="hint section-small">
        <code>ampoule audit verify proof.jsonl</code> checks the file, and with <code>--checkpoints</code> also the
        signed checkpoints. The file holds the entries up to the sealed head if all of them belong to this team.
      </p>
    </section>
  )
}

const EntryPage = (props: EntryProps) => {
  const { proved, visit } = props
  return (
    <Layout
      visit={visit}
      section="audit"
      title="Entry of the trail"
      lead={
        <>
          <bdi>{proved.entry.actor.name ?? proved.entry.actor.id}</bdi> {wordsOf(proved.entry.action)},{" "}
          <Ui.Ago at={proved.entry.at} now={visit.now} />.
        </>
      }
      crumbs={[{ href: Paths.audit(visit.team.id), label: "Audit trail" }]}
    >
      <div class="columns columns-even">
        <section class="panel" aria-label="The entry">
          <Facts {...props} />
        </section>
        <ProofPanel {...props} />
      </div>
    </Layout>
  )
}

const proved = within(team, ({ teamId }) =>
  Effect.gen(function* () {
    const id = yield* param("entry", Schema.UUID)
    return { proved: yield* UseCases.auditTrail.entry(teamId, id) }
  })
)

const view = screen(
  ({ proved, visit }: { readonly visit: TeamVisit; readonly proved: ProvedEntry }) =>
    Effect.map(UseCases.projects.list(), (projects) => ({ proved, visit, projects })),
  EntryPage
)

const download = proved(({ proved }) =>
  Effect.succeed(
    HttpServerResponse.text(proved.file, {
      contentType: "application/jsonl; charset=utf-8",
      headers: { ...Html.headers, "content-disposition": `attachment; filename="proof-${proved.entry.id}.jsonl"` }
    })
  )
)

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/teams/:teamId/audit/:entry", page(proved, view)),
  HttpRouter.get("/app/teams/:teamId/audit/:entry/proof.jsonl", download)
)

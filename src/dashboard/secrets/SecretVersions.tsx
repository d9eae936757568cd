/** The history of a secret, an earlier version beside the current one, and the way back to it. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import { SecretVersionNotFound } from "#schema/Errors.ts"
import { RollbackSecret } from "#schema/SecretRequests.ts"
import { VersionNumber } from "#schema/Values.ts"
import { type AtSecret, here, load, secret, type SecretDetails, usedBy, versionBefore } from "./AtSecret.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { asJson } from "./EnvironmentPages.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import { wantsJson } from "#src/dashboard/frame/Pages.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { action, type Attempt, page, screen, to, within } from "#src/dashboard/frame/Routes.ts"
import { type RevealedValue, SecretValue } from "./SecretValue.tsx"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import { may } from "#src/dashboard/frame/Visit.ts"

type Version = SecretDetails["versions"][number]

const Author = ({ shown, version }: { readonly shown: SecretDetails; readonly version: Version }) => (
  <span class="refs hint">
    <Ui.Ago at={version.createdAt} now={shown.location.visit.now} /> by{" "}
    {version.createdBy.name ?? version.createdBy.type}
  </span>
)

export const HistoryPanel = (shown: SecretDetails) => {
  const { currentVersion, location, node, versions } = shown
  return (
    <section class="panel" aria-labelledby="history">
      <h2 id="history">History</h2>
      <ol class="history">
        {versions.map((version) => (
          <li>
            <div>
              <strong>v{version.version}</strong>{" "}
              {version.version === currentVersion ? <Ui.Badge tone="ok">current</Ui.Badge> : null}{" "}
              {version.kind === "template" ? <Ui.Badge tone="accent">template</Ui.Badge> : null}{" "}
              {version.deleted ? <Ui.Badge tone="danger">deleted</Ui.Badge> : null}
              <Author shown={shown} version={version} />
            </div>
            {version.version === currentVersion || version.deleted ? null : (
              <a class="button button-quiet" href={`${here(shown)}/versions/${version.version}`}>
                Compare<span class="hidden"> version {version.version} with the current one</span>
              </a>
            )}
          </li>
        ))}
      </ol>
      {location.visit.team?.plan === "developer" ? (
        <p class="hint">The Developer plan keeps only the current version.</p>
      ) : null}
      {may(location.visit, "audit-trail:read") ? (
        <p class="section-small">
          <a
            href={`${Paths.audit(location.project.teamId)}?${new URLSearchParams({
              projectId: location.project.id,
              environment: location.environment.slug,
              key: node.key
            }).toString()}`}
          >
            Who read and changed it
          </a>
        </p>
      ) : null}
    </section>
  )
}

/** Takes the change back that led to the page, while the version before it is kept. */
export const Undo = (shown: SecretDetails) => {
  const { currentVersion, location, versions } = shown
  const before = versions.find(({ version }) => String(version) === location.visit.about)
  return before === undefined || before.version === currentVersion || !location.writes ? null : (
    <Ui.Act
      action={`${here(shown)}/rollback`}
      fields={{ version: String(before.version), expectedVersion: String(currentVersion) }}
      kind="quiet"
    >
      Undo<span class="hidden"> the change: back to version {before.version}</span>
    </Ui.Act>
  )
}

interface Compared extends SecretDetails, Partial<Attempt> {
  readonly earlier: Version
  /** Texts by version: without script, the page that answers the POST holds them. */
  readonly revealed?: ReadonlyMap<number, RevealedValue>
}

const Side = ({ shown, version }: { readonly shown: Compared; readonly version: Version }) => (
  <section class="panel" data-secret aria-label={`Version ${version.version}`}>
    <h2>
      Version {version.version}{" "}
      {version.version === shown.currentVersion ? <Ui.Badge tone="ok">current</Ui.Badge> : null}{" "}
      {version.kind === "template" ? <Ui.Badge tone="accent">template</Ui.Badge> : null}
    </h2>
    <p class="section-small">
      <Author shown={shown} version={version} />
    </p>
    {shown.location.readsValues ? (
      <SecretValue
        action={`${here(shown)}/versions/${shown.earlier.version}/reveal`}
        secretKey={shown.node.key}
        of={version.version}
        revealed={shown.revealed?.get(version.version)}
      />
    ) : (
      <p class="hint">You can read names here, but not values.</p>
    )}
  </section>
)

const Rollback = (shown: Compared) => {
  const { currentVersion, earlier } = shown
  const users = usedBy(shown).length
  return (
    <section class="section panel">
      <h2>Roll back to version {earlier.version}</h2>
      <Ui.ProblemNote problem={shown.problem} />
      <p>
        The text of version {earlier.version} is written as version {currentVersion + 1}.
        {users === 0
          ? ""
          : ` ${users === 1 ? "One secret uses" : `${users} secrets use`} this one and ${users === 1 ? "changes" : "change"} with it.`}{" "}
        Version {currentVersion} stays in the history.
      </p>
      <div class="buttons">
        <Ui.Act
          action={`${here(shown)}/rollback`}
          fields={{ version: String(earlier.version), expectedVersion: String(currentVersion) }}
        >
          Roll back to version {earlier.version}
        </Ui.Act>
        <Ui.LinkButton href={here(shown)}>Cancel</Ui.LinkButton>
      </div>
    </section>
  )
}

const VersionsPage = (shown: Compared) => {
  const { earlier, location, node, versions } = shown
  return (
    <Layout
      visit={location.visit}
      section="projects"
      title={`Versions of ${node.key}`}
      inProject={{ id: location.project.id, name: location.project.name, view: "secrets" }}
      heading={
        <span class="key">
          <Ui.KeyName name={node.key} />
        </span>
      }
      lead="Two versions as they were written. To see them, reveal one: both are shown, and the audit trail has both."
      crumbs={[
        { href: Paths.environment(location.path), label: `${location.project.name} / ${location.environment.name}` },
        { href: here(shown), label: node.key }
      ]}
    >
      <div class="columns columns-even" data-together>
        <Side shown={shown} version={earlier} />
        {versions.slice(0, 1).map((current) => (
          <Side shown={shown} version={current} />
        ))}
      </div>
      {location.writes ? <Rollback {...shown} /> : null}
    </Layout>
  )
}

/** An earlier version that is still kept. */
const version = within(secret, (at: AtSecret) =>
  Effect.gen(function* () {
    const params = yield* HttpRouter.params
    const number = yield* Form.decode(VersionNumber)(Number(params["version"]))
    const details = yield* load(at)
    const earlier = details.versions.find(
      (one) => one.version === number && one.version !== details.currentVersion && !one.deleted
    )
    if (earlier === undefined) return yield* new SecretVersionNotFound({ field: "version" })
    return { details, earlier }
  })
)

const compared = screen(
  (at: { readonly details: SecretDetails; readonly earlier: Version }) => Effect.succeed(at),
  ({ details, earlier }) => <VersionsPage {...details} earlier={earlier} />
)

/** `of`: which of the two the script asks for; a form without script gets both. */
const reveal = version(({ details, earlier }) =>
  Effect.gen(function* () {
    const read = (number: number) =>
      Effect.map(UseCases.secretReads.version(details.node.id, number), (found): RevealedValue => ({
        ...found,
        representation: "source"
      }))
    const of = (yield* Form.read).text("of")
    if (yield* wantsJson) {
      return asJson(yield* read(of === String(earlier.version) ? earlier.version : details.currentVersion))
    }
    const revealed = new Map<number, RevealedValue>()
    for (const number of [earlier.version, details.currentVersion]) revealed.set(number, yield* read(number))
    return Html.page(<VersionsPage {...details} earlier={earlier} revealed={revealed} />)
  })
)

const rollback = action(secret, {
  decode: (form) =>
    Form.decode(RollbackSecret)({
      version: Number(form.text("version")),
      expectedVersion: Number(form.text("expectedVersion"))
    }),
  run: (input, { secretId }) => UseCases.secretWrites.rollback(secretId, input),
  done: (written, { location, secretId }, { expectedVersion }) =>
    to(Paths.secret(location.path, secretId), "secret-rolled-back", versionBefore(written.version, expectedVersion)),
  again: (at, { form, problem }) =>
    Effect.gen(function* () {
      const details = yield* load(at)
      const earlier = details.versions.find((one) => String(one.version) === form.text("version"))
      if (earlier === undefined) return yield* new SecretVersionNotFound({ field: "version" })
      return <VersionsPage {...details} earlier={earlier} problem={problem} />
    })
})

const at = "/app/projects/:projectId/env/:slug/secrets/:secretId"
export const routes = HttpRouter.empty.pipe(
  HttpRouter.get(`${at}/versions/:version`, page(version, compared)),
  HttpRouter.post(`${at}/versions/:version/reveal`, reveal),
  HttpRouter.post(`${at}/rollback`, rollback)
)

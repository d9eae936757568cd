/** History of a secret, a comparison of an earlier version with the current one, and the rollback. */
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
import { type RevealedValue, SecretValue } from "./Value.tsx"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import { may } from "#src/dashboard/frame/Visit.ts"

type Version = SecretDetails["versions"][number]

const Author = ({ props, version }: { readonly props: SecretDetails; readonly version: Version }) => (
  <span class="refs hint">
    <Ui.Ago at={version.createdAt} now={props.location.visit.now} /> by{" "}
    {version.createdBy.name ?? version.createdBy.type}
  </span>
)

export const HistoryPanel = (props: SecretDetails) => {
  const { currentVersion, location, node, versions } = props
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
              <Author props={props} version={version} />
            </div>
            {version.version === currentVersion || version.deleted ? null : (
              <a class="button button-quiet" href={`${here(props)}/versions/${version.version}`}>
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

/** Undoes the change that led to the page, if the version before it still exists. */
export const Undo = (props: SecretDetails) => {
  const { currentVersion, location, versions } = props
  const before = versions.find(({ version }) => String(version) === location.visit.about)
  return before === undefined || before.version === currentVersion || !location.writes ? null : (
    <Ui.Act
      action={`${here(props)}/rollback`}
      fields={{ version: String(before.version), expectedVersion: String(currentVersion) }}
      kind="quiet"
    >
      Undo<span class="hidden"> the change: back to version {before.version}</span>
    </Ui.Act>
  )
}

interface ComparisonProps extends SecretDetails, Partial<Attempt> {
  readonly earlier: Version
  /** Texts by version, for a reveal without a script. */
  readonly revealed?: ReadonlyMap<number, RevealedValue>
}

const Side = ({ props, version }: { readonly props: ComparisonProps; readonly version: Version }) => (
  <section class="panel" data-secret aria-label={`Version ${version.version}`}>
    <h2>
      Version {version.version}{" "}
      {version.version === props.currentVersion ? <Ui.Badge tone="ok">current</Ui.Badge> : null}{" "}
      {version.kind === "template" ? <Ui.Badge tone="accent">template</Ui.Badge> : null}
    </h2>
    <p class="section-small">
      <Author props={props} version={version} />
    </p>
    {props.location.readsValues ? (
      <SecretValue
        action={`${here(props)}/versions/${props.earlier.version}/reveal`}
        secretKey={props.node.key}
        of={version.version}
        revealed={props.revealed?.get(version.version)}
      />
    ) : (
      <p class="hint">You can read names here, but not values.</p>
    )}
  </section>
)

const Rollback = (props: ComparisonProps) => {
  const { currentVersion, earlier } = props
  const users = usedBy(props).length
  return (
    <section class="section panel">
      <h2>Roll back to version {earlier.version}</h2>
      <Ui.ProblemNote problem={props.problem} />
      <p>
        This saves the text of version {earlier.version} as version {currentVersion + 1}.
        {users === 0
          ? ""
          : ` ${users === 1 ? "One secret uses" : `${users} secrets use`} this one and ${users === 1 ? "changes" : "change"} with it.`}{" "}
        Version {currentVersion} stays in the history.
      </p>
      <div class="buttons">
        <Ui.Act
          action={`${here(props)}/rollback`}
          fields={{ version: String(earlier.version), expectedVersion: String(currentVersion) }}
        >
          Roll back to version {earlier.version}
        </Ui.Act>
        <Ui.LinkButton href={here(props)}>Cancel</Ui.LinkButton>
      </div>
    </section>
  )
}

const VersionsPage = (props: ComparisonProps) => {
  const { earlier, location, node, versions } = props
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
      lead="Two versions as they were saved. Reveal one to see both. The audit trail records both reads."
      crumbs={[
        { href: Paths.environment(location.path), label: `${location.project.name} / ${location.environment.name}` },
        { href: here(props), label: node.key }
      ]}
    >
      <div class="columns columns-even" data-together>
        <Side props={props} version={earlier} />
        {versions.slice(0, 1).map((current) => (
          <Side props={props} version={current} />
        ))}
      </div>
      {location.writes ? <Rollback {...props} /> : null}
    </Layout>
  )
}

/** Guard for an earlier version that still exists. */
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

const comparison = screen(
  (at: { readonly details: SecretDetails; readonly earlier: Version }) => Effect.succeed(at),
  ({ details, earlier }) => <VersionsPage {...details} earlier={earlier} />
)

/** `of` is the version that the script requests; a plain form gets both versions. */
const reveal = version(({ details, earlier }) =>
  Effect.gen(function* () {
    const read = (number: number) =>
      Effect.map(UseCases.secretReads.version(details.node.id, number), (value): RevealedValue => ({
        ...value,
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
  done: ({ version }, { location, secretId }, { expectedVersion }) =>
    to(Paths.secret(location.path, secretId), "secret-rolled-back", versionBefore(version, expectedVersion)),
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
  HttpRouter.get(`${at}/versions/:version`, page(version, comparison)),
  HttpRouter.post(`${at}/versions/:version/reveal`, reveal),
  HttpRouter.post(`${at}/rollback`, rollback)
)

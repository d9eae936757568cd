/** Metadata of a secret: owner, note, tags, and the day by which its value should be replaced. */
import type { AnyApiError } from "#schema/ApiError.ts"
import { DescribeSecret } from "#schema/SecretRequests.ts"
import type { DescribedSecret } from "#schema/SecretResponses.ts"
import { here, type SecretDetails } from "./AtSecret.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import type { Attempt } from "#src/dashboard/frame/Routes.ts"

/** True from the day on, in UTC, like the reminder. */
export const isDue = (rotateBy: string | null, now: number): boolean =>
  rotateBy !== null && rotateBy <= new Date(now).toISOString().slice(0, 10)

interface AboutProps extends SecretDetails {
  readonly about: DescribedSecret
  readonly attempt: Attempt
}

/** Tags, each with a link to the project's keys that have it. */
export const Tags = ({ at, of }: { readonly of: ReadonlyArray<string>; readonly at: Paths.EnvironmentPath }) => (
  <span class="tags">
    {of.map((tag) => (
      <a class="tag" href={Paths.withQuery(Paths.project(at.projectId), { q: `#${tag}` })}>
        {tag}
      </a>
    ))}
  </span>
)

const Facts = ({ about, location }: AboutProps) => (
  <dl class="facts">
    <Ui.Fact name="Owner" is={about.owner ?? <span class="hint">none</span>} />
    <Ui.Fact name="Replace by">
      {about.rotateBy === null ? (
        <span class="hint">none</span>
      ) : (
        <>
          <time dateTime={about.rotateBy}>{about.rotateBy}</time>{" "}
          {isDue(about.rotateBy, location.visit.now) ? <Ui.Badge tone="amber">due</Ui.Badge> : null}
        </>
      )}
    </Ui.Fact>
    <Ui.Fact name="Note" is={about.note ?? <span class="hint">none</span>} />
    {about.alias === null ? null : <Ui.Fact name="Name in other programs" is={<code>{about.alias}</code>} />}
    <Ui.Fact
      name="Tags"
      is={about.tags.length === 0 ? <span class="hint">none</span> : <Tags of={about.tags} at={location.path} />}
    />
  </dl>
)

export const AboutPanel = (props: AboutProps & { readonly problem: AnyApiError | undefined }) => {
  const { about, attempt, location, problem } = props
  const tags = problem === undefined ? about.tags.join(" ") : attempt.form.text("tags")
  const valueOf = (name: "owner" | "note" | "rotateBy" | "alias") =>
    problem === undefined ? (about[name] ?? "") : attempt.form.text(name)
  return (
    <section class="panel" aria-labelledby="about">
      <h2 id="about">About</h2>
      <Facts {...props} />
      {location.writes ? (
        <details class="confirm" open={problem !== undefined}>
          <summary class="button button-plain">Change</summary>
          <form method="post" action={`${here(props)}/about`} class="confirm-panel confirm-plain">
            {problem?.field === undefined ? <Ui.ProblemNote problem={problem} /> : null}
            <Ui.TextField
              name="alias"
              label="Name in other programs"
              mono
              optional
              value={valueOf("alias")}
              hint="Like ConnectionStrings__Default. ampoule run --names alias uses it."
              problem={problem}
            />
            <Ui.TextField
              name="owner"
              label="Owner"
              optional
              value={valueOf("owner")}
              hint="A person or a team. This grants no access."
              problem={problem}
            />
            <Ui.TextField
              name="rotateBy"
              type="date"
              label="Replace the value by"
              optional
              value={valueOf("rotateBy")}
              hint="On this day, the team's webhooks get one event."
              problem={problem}
            />
            <Ui.TextField
              name="note"
              label="Note"
              optional
              value={valueOf("note")}
              hint="Everyone who can see the key can read the note. It is not encrypted, so never write a value here."
              problem={problem}
            />
            <Ui.TextField
              name="tags"
              label="Tags"
              optional
              value={tags}
              hint="Up to 10 words that group secrets, with spaces between them."
              problem={problem}
            />
            <Ui.Submit>Save</Ui.Submit>
          </form>
        </details>
      ) : null}
    </section>
  )
}

/** Decodes the form. An empty field clears its member. */
export const decodeAbout = (form: Form.Form) =>
  Form.decode(DescribeSecret)({
    owner: form.filled("owner") ?? null,
    note: form.filled("note") ?? null,
    rotateBy: form.filled("rotateBy") ?? null,
    alias: form.filled("alias") ?? null,
    tags: [...new Set(Form.listItems(form.text("tags").toLowerCase()))]
  })

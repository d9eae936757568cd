/** First steps from an empty team to a program that runs with its secrets. */
import type { ComponentChildren } from "preact"
import { Beside } from "#src/dashboard/frame/Beside.tsx"
import * as CopyText from "#src/dashboard/frame/CopyText.tsx"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import { Proposal } from "#src/dashboard/account/PasskeyViews.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { may, type Visit } from "#src/dashboard/frame/Visit.ts"

const Step = ({ children, title }: { readonly title: ComponentChildren; readonly children: ComponentChildren }) => (
  <li>
    <div>
      <h2>{title}</h2>
      {children}
    </div>
  </li>
)

const FirstSecrets = ({ slug }: { readonly slug: string | undefined }) => (
  <Step title="Add secrets to a project">
    <p>
      {slug === undefined ? (
        <>
          <a href={`${Paths.home}?panel=new`}>Create a project</a>, then add secrets to its development environment or
          paste your .env file.
        </>
      ) : (
        <>
          You have the project <strong>{slug}</strong>. <a href={Paths.home}>Open it</a> and add secrets or paste your
          .env file.
        </>
      )}
    </p>
  </Step>
)

const Deploy = ({ project, visit }: { readonly visit: Visit; readonly project: string }) => (
  <Step title="Deploy">
    <p>
      {visit.team !== null && may(visit, "tokens:manage") ? (
        <>
          <a href={`${Paths.tokens(visit.team.id)}/new`}>Create an API token</a> for your deployment
        </>
      ) : (
        <>Ask an owner or admin for an API token for your deployment</>
      )}
      , set it as <code>AMPOULE_API_TOKEN</code>, and run the same command.
    </p>
    <CopyText.Command>{`AMPOULE_URL=${visit.ui.baseUrl} ampoule run --project ${project} --env production -- node server.js`}</CopyText.Command>
  </Step>
)

const beside = (visit: Visit, project: string): ReadonlyArray<readonly [string, ComponentChildren]> => [
  [
    "An existing .env file",
    <>
      Drop it on the page of the project, or import it from the terminal:{" "}
      <code>{`ampoule secrets import .env --project ${project} --env development`}</code>
    </>
  ],
  [
    "An AI agent (MCP)",
    <>
      Agents connect to <code>{`${visit.ui.baseUrl}/mcp`}</code>. You choose what each one may do.
    </>
  ],
  ...(visit.caller.factorAt === null
    ? [
        [
          "A second factor",
          <>
            With one, a person who learns your password still cannot sign in.{" "}
            <a href={Paths.factors}>Set up an authenticator app</a>, now or later from your account menu.
          </>
        ] as const
      ]
    : [])
]

export const StartPage = ({
  proposes,
  slug,
  visit
}: {
  readonly visit: Visit
  readonly slug: string | undefined
  readonly proposes: boolean
}) => {
  const project = slug ?? "my-project"
  return (
    <Layout
      visit={visit}
      section="start"
      title="Getting started"
      lead="A few steps to a program that runs with its secrets."
    >
      {proposes ? <Proposal /> : null}
      <Beside words={beside(visit, project)}>
        <ol class="steps panel">
          <FirstSecrets slug={slug} />
          <Step title="Log in from your terminal">
            <p>The terminal shows a code. You approve it here.</p>
            <CopyText.Command>{`ampoule login --url ${visit.ui.baseUrl}`}</CopyText.Command>
          </Step>
          <Step title="Run your program">
            <p>The secrets exist only in the environment of that process, not on disk.</p>
            <CopyText.Command>{`ampoule run --project ${project} --env development -- npm start`}</CopyText.Command>
          </Step>
          <Deploy visit={visit} project={project} />
        </ol>
      </Beside>
    </Layout>
  )
}

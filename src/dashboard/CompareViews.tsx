/** How two environments of a project differ. */
import type { ProjectId } from "#schema/Ids.ts"
import type { SecretDiff } from "#schema/SecretResponses.ts"
import { Badge, Empty, KeyName, Select, Submit, Table } from "./Components.tsx"
import { EnvironmentTabs } from "./EnvironmentFrame.tsx"
import { Layout } from "./Layout.tsx"
import * as Paths from "./Paths.ts"
import { SecretValue } from "./SecretValue.tsx"
import { may, type Visit } from "./Visit.ts"

interface Comparison {
  readonly visit: Visit
  readonly project: { readonly id: ProjectId; readonly name: string }
  readonly environments: ReadonlyArray<{ readonly slug: string; readonly name: string }>
  readonly from: string
  readonly to: string
  readonly diff: SecretDiff | null
}

type Difference = "changed" | "removed" | "added"
const rowsOf = (diff: SecretDiff) =>
  [
    ...diff.changed.map(({ key }) => ({ key, difference: "changed" as const })),
    ...diff.removed.map(({ key }) => ({ key, difference: "removed" as const })),
    ...diff.added.map(({ key }) => ({ key, difference: "added" as const }))
  ].sort((a, b) => (a.key < b.key ? -1 : 1))

const DifferenceBadge = ({
  difference,
  from,
  to
}: { readonly difference: Difference } & Pick<Comparison, "from" | "to">) =>
  difference === "changed" ? (
    <Badge tone="amber">differs</Badge>
  ) : difference === "added" ? (
    <Badge tone="ok">only in {to}</Badge>
  ) : (
    <Badge tone="danger">only in {from}</Badge>
  )

const DifferenceTable = ({ diff, from, project, to, visit }: Comparison & { readonly diff: SecretDiff }) => {
  const value = (slug: string, key: string, exists: boolean) =>
    !exists ? (
      <span class="hint">missing</span>
    ) : may(visit, "secrets:read_values") ? (
      <SecretValue action={`${Paths.environment({ projectId: project.id, slug })}/reveal`} secretKey={key} />
    ) : (
      <span class="hint">exists</span>
    )
  return (
    <Table label="Differences" kind="compared" head={["Key", "Difference", from, to]}>
      {rowsOf(diff).map(({ difference, key }) => (
        <tr>
          <th scope="row">
            <span class="key">
              <KeyName name={key} />
            </span>
          </th>
          <td>
            <DifferenceBadge difference={difference} from={from} to={to} />
          </td>
          <td data-label={from} data-secret>
            {value(from, key, difference !== "added")}
          </td>
          <td data-label={to} data-secret>
            {value(to, key, difference !== "removed")}
          </td>
        </tr>
      ))}
    </Table>
  )
}

export const ComparePage = (comparison: Comparison) => {
  const { diff, environments, from, project, to, visit } = comparison
  const choices = environments.map(({ name, slug }) => ({
    value: slug,
    label: name === slug ? slug : `${name} (${slug})`
  }))
  return (
    <Layout
      visit={visit}
      section="projects"
      title={`Compare environments of ${project.name}`}
      lead="The server compares the values. This page shows which keys differ; to see how, reveal a value."
      crumbs={[
        { href: Paths.home, label: "Projects" },
        { href: Paths.environment({ projectId: project.id, slug: from }), label: project.name }
      ]}
    >
      {environments.some(({ slug }) => slug === from) ? (
        <EnvironmentTabs path={{ projectId: project.id, slug: from }} view="compare" />
      ) : null}
      <form method="get" action={Paths.compare(project.id)} class="inline panel">
        <Select name="from" label="From" choices={choices} value={from} />
        <Select name="to" label="To" choices={choices} value={to} />
        <Submit>Compare</Submit>
      </form>
      <section class="section" aria-label="Differences">
        {diff === null ? (
          <Empty title="Choose two environments and compare them" />
        ) : rowsOf(diff).length === 0 ? (
          <Empty title="No differences">
            <p>Both environments have the same keys with the same values.</p>
          </Empty>
        ) : (
          <DifferenceTable {...comparison} diff={diff} />
        )}
      </section>
    </Layout>
  )
}

/** The secrets of an environment as a list. */
import type { ComponentChildren } from "preact"
import { uuidPattern } from "#schema/Ids.ts"
import type { SecretListItem } from "#schema/SecretResponses.ts"
import type { Holders } from "#src/trail/Holders.ts"
import { countsText } from "#src/formats/ExposureText.ts"
import { AskForm } from "#src/dashboard/requests/AccessViews.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as CopyText from "#src/dashboard/frame/CopyText.tsx"
import { EnvironmentFrame, type Location } from "#src/dashboard/frame/EnvironmentFrame.tsx"
import * as Icons from "#src/dashboard/frame/Icons.tsx"
import { Pager } from "#src/dashboard/frame/Pager.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { SearchField } from "#src/dashboard/frame/SearchField.tsx"
import { isDue, Tags } from "./About.tsx"
import { type RevealedValue, SecretValue } from "./Value.tsx"

export const pageSize = 250

export interface SecretList {
  readonly items: ReadonlyArray<SecretListItem>
  readonly page: number
  readonly total: number
  /** Words of the filter. */
  readonly words: string
  /** Secrets whose values are due for replacement. */
  readonly due: { readonly total: number; readonly keys: ReadonlyArray<string> }
  /** Holders of the current versions, by key; empty if the person may not see them. */
  readonly holders: ReadonlyMap<string, Holders>
}

interface ListProps {
  readonly location: Location
  readonly list: SecretList
  readonly panel?: ComponentChildren
  readonly revealed?: RevealedValue | undefined
}

/** Short name of a person: the address without its domain. The title has the whole address. */
const shortName = ({ name, type }: { readonly name: string | null; readonly type: string }) =>
  name?.split("@")[0] ?? type

/** Time of the last read; renders nothing if the list does not have it. */
const Read = ({ item: { lastRead, notReadFor90Days }, now }: { readonly item: SecretListItem; readonly now: number }) =>
  lastRead === undefined ? null : (
    <span class="refs">
      {lastRead === null ? (
        <>never read</>
      ) : (
        <>
          read <Ui.Ago at={lastRead.at} now={now} />
          <span class="by" title={lastRead.holder.name}>
            {" "}
            · {shortName(lastRead.holder)}
          </span>
        </>
      )}{" "}
      {notReadFor90Days === true ? <Ui.Badge tone="amber">not read in the last 90 days</Ui.Badge> : null}
    </span>
  )

/** Counts of holders, such as "2 people, 1 token". */
const HolderCounts = ({ holders, item }: { readonly holders: Holders | undefined; readonly item: SecretListItem }) =>
  holders === undefined ? null : (
    <span class="refs" title={`Who has v${item.version}`}>
      {holders.all ? "" : "at least "}
      {countsText(holders.counts)}
    </span>
  )

const SecretRow = ({
  holders,
  item,
  location,
  revealed
}: {
  readonly holders: Holders | undefined
  readonly location: Location
  readonly item: SecretListItem
  readonly revealed: RevealedValue | undefined
}) => (
  <tr data-secret data-filter-row={[item.key, ...item.tags.map((tag) => `#${tag}`)].join(" ")}>
    <th scope="row">
      <a class="key" href={Paths.secret(location.path, item.id)}>
        <Ui.KeyName name={item.key} />
      </a>
      {isDue(item.rotateBy, location.visit.now) ? (
        <>
          {" "}
          <Ui.Badge tone="amber">replace</Ui.Badge>
        </>
      ) : null}
      {item.tags.length === 0 ? null : (
        <>
          {" "}
          <Tags of={item.tags} at={location.path} />
        </>
      )}
      {item.owner === null ? null : (
        <span class="uses hint" title={item.note ?? undefined}>
          owner {item.owner}
        </span>
      )}
      {item.references.length === 0 ? null : (
        <span class="uses hint" title={`uses ${item.references.join(", ")}`}>
          uses{" "}
          {item.references.map((key, i) => (
            <>
              {i === 0 ? "" : ", "}
              <code>{key}</code>
            </>
          ))}
        </span>
      )}
    </th>
    <td>
      {location.readsValues ? (
        <SecretValue action={`${Paths.environment(location.path)}/reveal`} secretKey={item.key} revealed={revealed} />
      ) : (
        <span class="value-mask">••••••••</span>
      )}
    </td>
    <td class="tight hint" data-label="Version">
      v{item.version}
      <HolderCounts holders={holders} item={item} />
    </td>
    <td class="tight hint" data-label="Changed">
      <Ui.Ago at={item.updatedAt} now={location.visit.now} />
      <span class="by" title={item.updatedBy.name ?? undefined}>
        {" "}
        · {shortName(item.updatedBy)}
      </span>
      <Read item={item} now={location.visit.now} />
    </td>
  </tr>
)

const AddButtons = ({ here }: { readonly here: string }) => (
  <>
    <a class="button button-plain" href={`${here}?panel=paste`}>
      <Icons.Paste /> Import
    </a>
    <Ui.AddButton href={`${here}?panel=add`}>Add secret</Ui.AddButton>
  </>
)

const NoSecrets = ({ here, writes }: { readonly here: string; readonly writes: boolean }) => (
  <Ui.Empty title="No secrets yet">
    {writes ? (
      <>
        <p>Add secrets one by one, or import your .env file.</p>
        <div class="buttons">
          <AddButtons here={here} />
        </div>
      </>
    ) : null}
  </Ui.Empty>
)

const FilterForm = ({ here, list: { items, total, words } }: { readonly here: string; readonly list: SecretList }) => {
  const all = `${total} ${total === 1 ? "secret" : "secrets"}`
  return (
    <form class="toolbar" method="get" action={here}>
      <SearchField
        label="Filter by key or tag"
        placeholder="Filter by key or #tag"
        value={words}
        filter={total > pageSize ? "partial" : "whole"}
      >
        <kbd class="needs-script">/</kbd>
      </SearchField>
      <span class="hint" data-filter-count data-all={all} role="status">
        {words === "" ? all : `${items.length} of ${total}`}
      </span>
      <button class="button button-plain without-script">Filter</button>
    </form>
  )
}

const SecretTable = ({ list, location, revealed }: ListProps) => {
  const here = Paths.environment(location.path)
  const { items, page, total, words } = list
  const from = (page - 1) * pageSize
  const onPage = words === "" ? items : items.slice(from, from + pageSize)
  const { environment, project, readsValues } = location
  return (
    <>
      <FilterForm here={here} list={list} />
      <div data-filter-list>
        {onPage.length === 0 ? (
          <Ui.Empty title="No key matches" />
        ) : (
          <Ui.Table
            label="Secrets"
            kind="secrets"
            head={["Key", "Value", list.holders.size === 0 ? "Version" : "Version, who has it", "Changed"]}
          >
            {onPage.map((item) => (
              <SecretRow holders={list.holders.get(item.key)} location={location} item={item} revealed={revealed} />
            ))}
          </Ui.Table>
        )}
        <Pager
          page={page}
          size={pageSize}
          total={words === "" ? total : items.length}
          link={(n) => `${here}?page=${n}${words === "" ? "" : `&q=${encodeURIComponent(words)}`}`}
        />
      </div>
      {page === 1 && readsValues ? (
        <div class="section-small run">
          <p class="hint">To run a program with these secrets:</p>
          <CopyText.Command>{`ampoule run --project ${project.slug} --env ${environment.slug} -- npm start`}</CopyText.Command>
        </div>
      ) : null}
    </>
  )
}

const counts = /^(\d{1,4})\.(\d{1,4})\.(\d{1,4})$/

/** Counts or an undo button for the change that led to this page. */
const AfterChange = ({ location }: { readonly location: Location }) => {
  const { about, notice } = location.visit
  const [, created, updated, unchanged] = counts.exec(about) ?? []
  if (notice === "imported" && created !== undefined) {
    return (
      <span>
        {created} added, {updated} changed, {unchanged} unchanged.
      </span>
    )
  }
  return notice === "secret-deleted" && uuidPattern.test(about) && location.writes ? (
    <Ui.Act action={`${Paths.environment(location.path)}/deleted/${about}/restore`} kind="quiet">
      Undo<span class="hidden"> the deletion</span>
    </Ui.Act>
  ) : null
}

/** Limits of the person's rights here. */
const Bounds = ({ location: { environment, lacksValues, writes } }: { readonly location: Location }) => {
  const bounds = [
    !writes && environment.protected
      ? "This environment is protected. Only owners and admins can change its secrets."
      : null,
    lacksValues ? "Only people with a grant can read values here. Ask for access below." : null,
    !writes && !environment.protected && !lacksValues ? "Your role in this team can read names, but not values." : null
  ].filter((bound) => bound !== null)
  return bounds.length === 0 ? null : <p class="hint">{bounds.join(" ")}</p>
}

/** Keys whose values are due for replacement. */
const Due = ({ list: { due }, location }: ListProps) =>
  due.total === 0 ? null : (
    <Ui.Callout
      tone="warning"
      title={
        due.total === 1
          ? "The value of one secret is due for replacement"
          : `The values of ${due.total} secrets are due for replacement`
      }
    >
      <ul class="keys">
        {due.keys.map((key) => (
          <li>
            <a href={`${Paths.environment(location.path)}?q=${encodeURIComponent(key)}`}>
              <code>{key}</code>
            </a>
          </li>
        ))}
      </ul>
      {due.total > due.keys.length ? <p>The first {due.keys.length} of them.</p> : null}
    </Ui.Callout>
  )

export const SecretsPage = (props: ListProps) => {
  const { list, location, panel } = props
  const { path, writes } = location
  const here = Paths.environment(path)
  return (
    <EnvironmentFrame
      location={location}
      view="secrets"
      title="Secrets"
      notice={<AfterChange location={location} />}
      actions={writes && panel === undefined && list.total > 0 ? <AddButtons here={here} /> : undefined}
    >
      {panel}
      {panel === undefined ? <Bounds location={location} /> : null}
      {panel === undefined ? <Due {...props} /> : null}
      <section class={panel === undefined ? undefined : "section"} aria-label="Secrets">
        {list.total > 0 ? (
          <SecretTable {...props} />
        ) : panel === undefined ? (
          <NoSecrets here={here} writes={writes} />
        ) : null}
      </section>
      {location.lacksValues ? (
        <section class="section">
          <AskForm location={location} />
        </section>
      ) : null}
    </EnvironmentFrame>
  )
}

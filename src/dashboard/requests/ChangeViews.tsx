/** Change requests of an environment: keys, author, and the decision. */
import type { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import type { Location } from "#src/dashboard/frame/EnvironmentFrame.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"

const words = new Map<string, string>([
  ["create", "add"],
  ["update", "change"],
  ["delete", "delete"],
  ["restore", "restore"]
])

/** Keys of a change request, with the action for each. */
export const ChangedKeys = ({ of }: { readonly of: ChangeRequest["changes"] }) => (
  <ul class="keys">
    {of.map(({ change, conflict, key }) => (
      <li>
        {words.get(change) ?? change} <code>{key}</code>{" "}
        {conflict ? <Ui.Badge tone="danger">changed since</Ui.Badge> : null}
      </li>
    ))}
  </ul>
)

const Decide = ({ item, location }: { readonly item: ChangeRequest; readonly location: Location }) => {
  const here = `${Paths.environment(location.path)}/access/changes/${item.id}`
  if (item.user.id === location.visit.user.id) {
    return (
      <Ui.Act action={`${here}/withdraw`} kind="quiet">
        Withdraw<span class="hidden"> your change</span>
      </Ui.Act>
    )
  }
  if (!item.mayDecide) return null
  return (
    <>
      <Ui.Act action={`${here}/approve`}>
        Approve<span class="hidden"> the change of {item.user.email}</span>
      </Ui.Act>{" "}
      <Ui.Act action={`${here}/deny`} kind="quiet">
        Deny<span class="hidden"> the change of {item.user.email}</span>
      </Ui.Act>
    </>
  )
}

export const WaitingChanges = ({
  changes,
  location
}: {
  readonly location: Location
  readonly changes: ReadonlyArray<ChangeRequest>
}) =>
  changes.length === 0 ? null : (
    <section class="section">
      <h2>
        Change requests <Ui.Badge tone="accent">{changes.length}</Ui.Badge>
      </h2>
      <Ui.Table label="Change requests" head={["Person", "Wants to", "Written", "Ends", ""]}>
        {changes.map((item) => (
          <tr>
            <th scope="row">{item.user.email}</th>
            <td data-label="Wants to">
              <ChangedKeys of={item.changes} />
            </td>
            <td data-label="Written" class="hint">
              <Ui.Ago at={item.createdAt} now={location.visit.now} />
            </td>
            <td data-label="Ends" class="hint">
              <Ui.Until at={item.expiresAt} now={location.visit.now} />
            </td>
            <td class="end">
              <Decide item={item} location={location} />
            </td>
          </tr>
        ))}
      </Ui.Table>
    </section>
  )

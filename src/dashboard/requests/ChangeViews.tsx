/** Change requests of an environment: keys, author, texts before and after, and the decision. */
import type { ChangeRequest, RevealedChanges } from "#schema/ChangeRequestsApi.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { EnvironmentFrame, type Location } from "#src/dashboard/frame/EnvironmentFrame.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"

const words = new Map<string, string>([
  ["create", "add"],
  ["update", "change"],
  ["delete", "delete"],
  ["restore", "restore"]
])

/** Dangerous names that a change sets, each with the reason. */
const Warnings = ({ of }: { readonly of: ReadonlyArray<string> }) => (
  <>
    {of.map((warning) => (
      <span class="refs">
        <Ui.Badge tone="danger">runs code</Ui.Badge> {warning}
      </span>
    ))}
  </>
)

const About = ({ of: { change, conflict, key, kind, references, warnings } }: { readonly of: Changed }) => (
  <>
    {words.get(change) ?? change} <code>{key}</code> {kind === "template" ? <Ui.Badge>template</Ui.Badge> : null}{" "}
    {conflict ? <Ui.Badge tone="danger">changed since</Ui.Badge> : null}
    {references.length === 0 ? null : <span class="refs hint">refers to {references.join(", ")}</span>}
    <Warnings of={warnings} />
  </>
)
type Changed = ChangeRequest["changes"][number]

/** Keys of a change request, with the action for each. */
export const ChangedKeys = ({
  of,
  reason
}: {
  readonly of: ChangeRequest["changes"]
  readonly reason: string | null
}) => (
  <>
    <ul class="keys">
      {of.map((one) => (
        <li>
          <About of={one} />
        </li>
      ))}
    </ul>
    {reason === null ? null : <span class="refs hint">{reason}</span>}
  </>
)

const pathOf = (location: Location, { id }: ChangeRequest) => `${Paths.environment(location.path)}/access/changes/${id}`

/** Buttons that decide. `digest`: of the texts that the page shows. */
const Decisions = ({
  digest,
  item,
  location
}: {
  readonly item: ChangeRequest
  readonly location: Location
  readonly digest?: string
}) => (
  <>
    <Ui.Act action={`${pathOf(location, item)}/approve`} fields={digest === undefined ? {} : { digest }}>
      Approve<span class="hidden"> the change of {item.user.email}</span>
    </Ui.Act>{" "}
    <Ui.Act action={`${pathOf(location, item)}/deny`} kind="quiet">
      Deny<span class="hidden"> the change of {item.user.email}</span>
    </Ui.Act>
  </>
)

/** Buttons of an author. The approval by an owner or admin is stored, and waits for a second person. */
export const OwnDecision = ({
  asksSecondPerson,
  noun,
  path
}: {
  readonly path: string
  readonly noun: "change" | "request"
  readonly asksSecondPerson: boolean
}) => (
  <>
    {asksSecondPerson ? (
      <>
        <Ui.Act action={`${path}/approve`}>
          Ask a second person<span class="hidden"> to approve your {noun}</span>
        </Ui.Act>{" "}
      </>
    ) : null}
    <Ui.Act action={`${path}/withdraw`} kind="quiet">
      Withdraw<span class="hidden"> your {noun}</span>
    </Ui.Act>
    {asksSecondPerson ? (
      <span class="refs hint">Without another owner or admin it happens at once, with an alarm.</span>
    ) : null}
  </>
)

const Decide = ({
  asksSecondPerson,
  item,
  location
}: {
  readonly item: ChangeRequest
  readonly location: Location
  readonly asksSecondPerson: boolean
}) => {
  if (item.user.id === location.visit.user.id) {
    return <OwnDecision path={pathOf(location, item)} noun="change" asksSecondPerson={asksSecondPerson} />
  }
  if (!item.mayDecide) return null
  return (
    <>
      <Ui.Act action={`${pathOf(location, item)}/reveal`}>
        Show values<span class="hidden"> of the change of {item.user.email}</span>
      </Ui.Act>{" "}
      <Decisions item={item} location={location} />
    </>
  )
}

/** Control, format and unassigned characters, separators, and what no program draws: fillers, selectors, tags. */
const invisible = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu
/** Invisible and direction characters become visible: none can hide a part of the text from its approver. */
export const visible = (text: string) =>
  text.replace(invisible, (character) =>
    character === "\n" || character === "\t"
      ? character
      : `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`
  )

const Text = ({ of, none }: { readonly of: string | null; readonly none: string }) =>
  of === null ? <span class="hint">{none}</span> : <span class="value-text">{of === "" ? "(empty)" : visible(of)}</span>

/** One change with its texts. The approval of this page carries their digest. */
export const RevealedPage = ({
  item,
  location,
  revealed
}: {
  readonly item: ChangeRequest
  readonly location: Location
  readonly revealed: RevealedChanges
}) => {
  const texts = new Map(revealed.changes.map((one) => [one.key, one]))
  return (
    <EnvironmentFrame location={location} view="access" title="Change request">
      <section class="section">
        <h2>The change of {item.user.email}</h2>
        {item.reason === null ? null : <p>Reason: {item.reason}</p>}
        <p class="hint">The audit trail records that you saw these values. An approval writes exactly these texts.</p>
        <Ui.Table label="Texts before and after" head={["Change", "Before", "After"]}>
          {item.changes.map((one) => (
            <tr>
              <th scope="row">
                <About of={one} />
              </th>
              <td data-label="Before">
                <Text of={texts.get(one.key)?.before ?? null} none="no such secret" />
              </td>
              <td data-label="After">
                <Text of={texts.get(one.key)?.after ?? null} none="deleted" />
              </td>
            </tr>
          ))}
        </Ui.Table>
        <div class="buttons">
          <Decisions item={item} location={location} digest={revealed.digest} />
          <Ui.LinkButton href={`${Paths.environment(location.path)}/access`}>Back</Ui.LinkButton>
        </div>
      </section>
    </EnvironmentFrame>
  )
}

export const WaitingChanges = ({
  asksSecondPerson,
  changes,
  location
}: {
  readonly location: Location
  readonly asksSecondPerson: boolean
  readonly changes: ReadonlyArray<ChangeRequest>
}) =>
  changes.length === 0 ? null : (
    <section class="section">
      <h2>
        Change requests <Ui.Badge tone="accent">{changes.length}</Ui.Badge>
      </h2>
      <p class="hint">
        A change stays open when its author's role or grant has ended since, or ended and came back. The approver
        answers for it.
      </p>
      <Ui.Table label="Change requests" head={["Person", "Wants to", "Written", "Ends", ""]}>
        {changes.map((item) => (
          <tr>
            <th scope="row">{item.user.email}</th>
            <td data-label="Wants to">
              <ChangedKeys of={item.changes} reason={item.reason} />
            </td>
            <td data-label="Written" class="hint">
              <Ui.Ago at={item.createdAt} now={location.visit.now} />
            </td>
            <td data-label="Ends" class="hint">
              <Ui.Until at={item.expiresAt} now={location.visit.now} />
            </td>
            <td class="end">
              <Decide item={item} location={location} asksSecondPerson={asksSecondPerson} />
            </td>
          </tr>
        ))}
      </Ui.Table>
    </section>
  )

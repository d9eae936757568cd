/** Requests of the matrix to the server, and sentences about their failures. */
import type { FirstSteps, MatrixData } from "#src/dashboard/secrets/Matrix.ts"
import { drop, idOf, type Pending, type Place, type State, type Store, untried, visibleLines } from "./State.ts"

/** Error body of the API. */
interface Refusal {
  readonly code?: string
  readonly message?: string
  readonly field?: string
  readonly retryAfterSeconds?: number
  readonly references?: ReadonlyArray<string>
  readonly dependents?: ReadonlyArray<string>
  readonly conflicts?: ReadonlyArray<{
    readonly environment: string
    readonly key: string
    readonly currentVersion: number
  }>
}

const stays = "Your changes stay here."
const unreachable = `The server does not answer. ${stays}`

const sentenceOf = (status: number, { dependents, message, references, retryAfterSeconds }: Refusal) => {
  if (status === 401) return `You are signed out. Sign in in another tab, then try again here. ${stays}`
  if (status === 429) return `Too many requests. Try again in ${retryAfterSeconds ?? 2} seconds. ${stays}`
  const keys = references ?? dependents ?? []
  return `${message ?? "The server refused this."}${keys.length === 0 ? "" : ` Keys: ${keys.join(", ")}.`}`
}

/** Body of our own server. Readers take it member by member, and leave missing ones out of sentences. */
const bodyOf = async (answer: Response) => (await answer.json().catch(() => ({}))) as unknown

const inColumn = ({ data }: State, { column }: Place) => `${data.here}/env/${data.columns[column].slug}`
export const pageOf = (state: State, at: Place) => `${inColumn(state, at)}/key/${at.key}`

/** A value, or a sentence about the failure. The trail records the read first. */
export const valueOf = async (
  state: State,
  at: Place,
  representation: "materialized" | "source" = "materialized"
): Promise<{ readonly text: string } | { readonly failure: string }> => {
  try {
    const answer = await fetch(`${inColumn(state, at)}/reveal`, {
      method: "POST",
      headers: { accept: "application/json" },
      body: new URLSearchParams({ key: at.key, representation }),
      cache: "no-store",
      redirect: "error"
    })
    const body = await bodyOf(answer)
    if (!answer.ok) return { failure: sentenceOf(answer.status, body as Refusal) }
    return { text: (body as { readonly value: string }).value }
  } catch {
    return { failure: unreachable }
  }
}

/** A file of values of one environment, or a sentence about the failure. */
export const fileOf = async ({ data }: State, slug: string, keys: ReadonlyArray<string>): Promise<Blob | string> => {
  try {
    const answer = await fetch(`${data.here}/export-keys`, {
      method: "POST",
      headers: { accept: "application/json" },
      body: new URLSearchParams([["from", slug], ...keys.map((key) => ["key", key])]),
      cache: "no-store",
      redirect: "error"
    })
    return answer.headers.get("content-type")?.startsWith("text/plain") === true
      ? await answer.blob()
      : sentenceOf(answer.status, (await bodyOf(answer)) as Refusal)
  } catch {
    return unreachable
  }
}

/** Adds or removes a tag; returns the new matrix, or a sentence about the failure. */
export const changeTag = async (
  { data }: State,
  keys: ReadonlyArray<string>,
  tag: string,
  op: "add" | "remove"
): Promise<MatrixData | string> => {
  try {
    // The response redirects to this page's data.
    const answer = await fetch(`${data.here}/tag-keys`, {
      method: "POST",
      headers: { accept: "application/json" },
      body: new URLSearchParams([["tag", tag], ["op", op], ...keys.map((key) => ["key", key])]),
      cache: "no-store"
    })
    const body = await bodyOf(answer)
    return answer.ok ? (body as MatrixData) : sentenceOf(answer.status, body as Refusal)
  } catch {
    return unreachable
  }
}

/** The current matrix; undefined after a failure. */
export const fetchMatrix = async ({ data }: State): Promise<MatrixData | undefined> => {
  try {
    const answer = await fetch(data.here, { headers: { accept: "application/json" }, cache: "no-store" })
    return answer.ok ? ((await bodyOf(answer)) as MatrixData) : undefined
  } catch {
    return undefined
  }
}

/** The person's progress with the first steps; undefined after a failure. */
export const stepsNow = async (href: string): Promise<Pick<FirstSteps, "saved" | "loggedIn" | "ran"> | undefined> => {
  try {
    const answer = await fetch(href, { headers: { accept: "application/json" }, cache: "no-store", redirect: "error" })
    return answer.ok ? ((await bodyOf(answer)) as Pick<FirstSteps, "saved" | "loggedIn" | "ran">) : undefined
  } catch {
    return undefined
  }
}

const entryOf = ({ data }: State, { column, copyFrom, key, kind, op, value, version }: Pending) => ({
  environment: data.columns[column].slug,
  key,
  op,
  expectedVersion: version,
  ...(op === "delete"
    ? {}
    : copyFrom === undefined
      ? { value, ...(kind === undefined ? {} : { kind }) }
      : { copyFrom: { environment: data.columns[copyFrom].slug, key } })
})

/** Marks the changes that a refusal concerns, and adds the sentence about all. */
const afterRefusal = (state: State, sent: ReadonlyArray<Pending>, status: number, refusal: Refusal): Partial<State> => {
  const pending = new Map([...state.pending].map(([id, one]) => [id, untried(one)]))
  const at = /^entries\.(\d+)/.exec(refusal.field ?? "")?.[1]
  const one = at === undefined ? undefined : sent[Number(at)]
  if (one !== undefined) pending.set(idOf(one), { ...one, problem: sentenceOf(status, refusal) })
  for (const { currentVersion, environment, key } of refusal.conflicts ?? []) {
    const column = state.data.columns.findIndex(({ slug }) => slug === environment)
    const mine = pending.get(idOf({ column, key }))
    if (mine !== undefined) pending.set(idOf(mine), { ...mine, theirs: currentVersion })
  }
  return { pending, failure: sentenceOf(status, refusal) }
}

interface ChangesResponse {
  readonly environments: ReadonlyArray<{
    readonly items: ReadonlyArray<{ readonly outcome: string }>
    readonly request: unknown
  }>
}

const savedSentence = ({ environments }: ChangesResponse) => {
  const saved = environments.flatMap(({ items }) => items).filter(({ outcome }) => outcome !== "unchanged").length
  const proposals = environments.filter(({ request }) => request !== null).length
  const words = `${saved} ${saved === 1 ? "change is" : "changes are"} saved.`
  return proposals === 0 ? words : `${words} The rest waits until another person approves it.`
}

/** Saves all pending changes in one transaction. Refused changes stay pending. */
export const save = async (store: Store, reason: string) => {
  const { get, set } = store
  const sent = [...get().pending.values()]
  set({ saving: true, failure: "" })
  try {
    const answer = await fetch(get().data.changes, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        entries: sent.map((one) => entryOf(get(), one)),
        ...(reason.trim() === "" ? {} : { reason: reason.trim() })
      }),
      cache: "no-store",
      redirect: "error"
    })
    const body = await bodyOf(answer)
    if (answer.ok) {
      drop(store, sent.map(idOf))
      set({ sheet: undefined, imported: [], ticked: new Set(), message: savedSentence(body as ChangesResponse) })
    } else set(afterRefusal(get(), sent, answer.status, body as Refusal))
    if (answer.ok || answer.status === 409) set({ data: (await fetchMatrix(get())) ?? get().data })
  } catch {
    set({ failure: unreachable })
  }
  const { at, show } = get()
  // Without changes, the view "Changed" would be empty.
  if (show === "changed" && get().pending.size === 0) set({ show: "all" })
  const isThere = at !== undefined && visibleLines(get()).some((line) => "row" in line && line.row[0] === at.key)
  set({ saving: false, ...(isThere ? {} : { at: undefined }) })
}

/** What the page asks of the server, and how it says what went wrong. */
import type { FirstSteps, MatrixData } from "#src/dashboard/secrets/Matrix.ts"
import { drop, idOf, type Pending, type Place, type State, type Store, untried, visibleLines } from "./State.ts"

/** A refusal, as the API tells it. */
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

const stays = "What you typed stays here."
export const unreachable = `The server does not answer. ${stays}`

export const sentenceOf = (status: number, { dependents, message, references, retryAfterSeconds }: Refusal) => {
  if (status === 401) return `You are signed out. Sign in in another tab, then try again here. ${stays}`
  if (status === 429) return `Too many requests. Try again in ${retryAfterSeconds ?? 2} seconds. ${stays}`
  const keys = references ?? dependents ?? []
  return `${message ?? "The server refused this."}${keys.length === 0 ? "" : ` Keys: ${keys.join(", ")}.`}`
}

/** Answers are ours: what a body says is read member by member, and whatever is missing is left out of a sentence. */
const bodyOf = async (answer: Response) => (await answer.json().catch(() => ({}))) as unknown

const inColumn = ({ data }: State, { column }: Place) => `${data.here}/env/${data.columns[column].slug}`
export const pageOf = (state: State, at: Place) => `${inColumn(state, at)}/key/${at.key}`

/** A value, by a read that the trail records first; a sentence when there is none. */
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

/** A file of values of one environment; a sentence when there is none. */
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

/** A tag to keys, or away from them: the keys as they are then, or a sentence. */
export const tagged = async (
  { data }: State,
  keys: ReadonlyArray<string>,
  tag: string,
  op: "add" | "remove"
): Promise<MatrixData | string> => {
  try {
    // Answered by where it leads to, which is this page.
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

/** The keys as they are now; undefined: not to be had. */
export const fetched = async ({ data }: State): Promise<MatrixData | undefined> => {
  try {
    const answer = await fetch(data.here, { headers: { accept: "application/json" }, cache: "no-store" })
    return answer.ok ? ((await bodyOf(answer)) as MatrixData) : undefined
  } catch {
    return undefined
  }
}

/** How far the person is with the first steps; undefined: not to be had. */
export const stepsNow = async (href: string): Promise<Pick<FirstSteps, "saved" | "loggedIn" | "ran"> | undefined> => {
  try {
    const answer = await fetch(href, { headers: { accept: "application/json" }, cache: "no-store", redirect: "error" })
    return answer.ok ? ((await bodyOf(answer)) as Pick<FirstSteps, "saved" | "loggedIn" | "ran">) : undefined
  } catch {
    return undefined
  }
}

const entryOf = ({ data }: State, { column, copyFrom, key, op, value, version }: Pending) => ({
  environment: data.columns[column].slug,
  key,
  op,
  expectedVersion: version,
  ...(op === "delete"
    ? {}
    : copyFrom === undefined
      ? { value }
      : { copyFrom: { environment: data.columns[copyFrom].slug, key } })
})

/** Which of the changes a refusal is about, beside the sentence about all. */
const refused = (state: State, sent: ReadonlyArray<Pending>, status: number, refusal: Refusal): Partial<State> => {
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

interface Written {
  readonly environments: ReadonlyArray<{
    readonly items: ReadonlyArray<{ readonly outcome: string }>
    readonly request: unknown
  }>
}

const done = ({ environments }: Written) => {
  const written = environments.flatMap(({ items }) => items).filter(({ outcome }) => outcome !== "unchanged").length
  const waiting = environments.filter(({ request }) => request !== null).length
  const words = `${written} ${written === 1 ? "change is" : "changes are"} saved.`
  return waiting === 0 ? words : `${words} The rest waits until another person approves it.`
}

/** All that is pending, in one transaction. What the server refuses stays as it was typed. */
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
      set({ sheet: undefined, imported: [], ticked: new Set(), message: done(body as Written) })
    } else set(refused(get(), sent, answer.status, body as Refusal))
    if (answer.ok || answer.status === 409) set({ data: (await fetched(get())) ?? get().data })
  } catch {
    set({ failure: unreachable })
  }
  const { at, show } = get()
  // Nothing is changed any more: the rows that are shown are all.
  if (show === "changed" && get().pending.size === 0) set({ show: "all" })
  const isThere = at !== undefined && visibleLines(get()).some((line) => "row" in line && line.row[0] === at.key)
  set({ saving: false, ...(isThere ? {} : { at: undefined }) })
}

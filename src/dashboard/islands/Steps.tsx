/** First steps of a project, ticked while they happen, such as a login in a terminal beside this page. */
import { useEffect } from "preact/hooks"
import { FirstSteps, isDone } from "#src/dashboard/secrets/FirstSteps.tsx"
import { fetchMatrix, stepsNow } from "./Server.ts"
import type { State, Store } from "./State.ts"

const every = 3_000
/** Half an hour of polls; later progress appears after a reload. */
const timesAtMost = 600

const news = (before: NonNullable<State["steps"]>, now: NonNullable<State["steps"]>): string =>
  isDone(now) && !isDone(before)
    ? "Your program has received its secrets."
    : now.loggedIn && !before.loggedIn
      ? "Your terminal is logged in."
      : ""

/** Fetches the progress, unless the page is hidden. */
const look = async ({ get, set }: Store) => {
  const { steps } = get()
  if (steps === undefined || isDone(steps) || document.hidden) return
  const now = await stepsNow(steps.href)
  if (now === undefined) return
  const next = { ...steps, ...now, saved: now.saved || steps.saved }
  const message = news(steps, next)
  set({ steps: next, ...(message === "" ? {} : { message }) })
  // The command line, for example, may have saved secrets meanwhile.
  if (now.saved && get().data.rows.length === 0) set({ data: (await fetchMatrix(get())) ?? get().data })
}

export const Steps = ({ state: { data, steps }, store }: { state: State; store: Store }) => {
  useEffect(() => {
    let times = 0
    const timer = setInterval(() => {
      times += document.hidden ? 0 : 1
      if (times > timesAtMost) clearInterval(timer)
      else void look(store)
    }, every)
    return () => clearInterval(timer)
  }, [])
  if (steps === undefined) return null
  return <FirstSteps of={{ ...steps, saved: steps.saved || data.rows.length > 0 }} />
}

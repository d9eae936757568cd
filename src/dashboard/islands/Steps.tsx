/** The first steps of a project, ticked while they happen: somebody logs in by a terminal beside this page. */
import { useEffect } from "preact/hooks"
import { FirstSteps, isDone } from "#src/dashboard/secrets/FirstSteps.tsx"
import { fetched, stepsNow } from "./Server.ts"
import type { State, Store } from "./State.ts"

const every = 3_000
/** Who has not come that far in half an hour sees it when they load the page again. */
const timesAtMost = 600

const news = (before: NonNullable<State["steps"]>, now: NonNullable<State["steps"]>): string =>
  isDone(now) && !isDone(before)
    ? "Your program was handed its secrets."
    : now.loggedIn && !before.loggedIn
      ? "Your terminal is logged in."
      : ""

/** Asks how far the person is, unless nobody looks at the page. */
const look = async ({ get, set }: Store) => {
  const { steps } = get()
  if (steps === undefined || isDone(steps) || document.hidden) return
  const now = await stepsNow(steps.href)
  if (now === undefined) return
  const next = { ...steps, ...now, saved: now.saved || steps.saved }
  const message = news(steps, next)
  set({ steps: next, ...(message === "" ? {} : { message }) })
  // Saved from elsewhere, by the command line perhaps.
  if (now.saved && get().data.rows.length === 0) set({ data: (await fetched(get())) ?? get().data })
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

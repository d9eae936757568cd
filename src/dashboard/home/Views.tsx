/** Parts above the projects: items that need attention, and the activity of the last 14 days. */
import { days } from "#src/Days.ts"
import type { AttentionItem } from "./Attention.ts"
import * as Icons from "#src/dashboard/frame/Icons.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import type { Visit } from "#src/dashboard/frame/Visit.ts"

/** Days of the chart, including today. */
const chartDays = 14

export interface Day {
  readonly day: string
  readonly reads: number
  readonly changes: number
}

/** Visible items; more would push the projects off the screen. */
const openAtMost = 6

const Items = ({ of }: { readonly of: ReadonlyArray<AttentionItem> }) => (
  <ul>
    {of.map(({ about, href, title, tone }) => (
      <li class={`attention-${tone}`}>
        {tone === "danger" ? <Icons.Warning /> : <Icons.Info />}
        <div>
          <a href={href}>
            <bdi>{title}</bdi>
          </a>{" "}
          <span class="hint">
            <bdi>{about}</bdi>
          </span>
        </div>
      </li>
    ))}
  </ul>
)

export const Attention = ({ items }: { readonly items: ReadonlyArray<AttentionItem> }) => {
  if (items.length === 0) return null
  // Hiding a single item would take a line too.
  const open = items.length === openAtMost + 1 ? items.length : openAtMost
  return (
    <section class="panel panel-slim attention" aria-labelledby="attention">
      <h2 id="attention">Needs attention</h2>
      <Items of={items.slice(0, open)} />
      {items.length > open ? (
        <details class="disclosure section-small">
          <summary>{items.length - open} more</summary>
          <Items of={items.slice(open)} />
        </details>
      ) : null}
    </section>
  )
}

/** Start of the chart's first day. */
export const daysSince = (now: number) => now - (now % days(1)) - days(chartDays - 1)

/** All days of the chart, including days without an entry. */
const everyDay = (activity: ReadonlyArray<Day>, now: number): ReadonlyArray<Day> => {
  const byDay = new Map(activity.map((one) => [one.day, one]))
  return Array.from({ length: chartDays }, (_, i) => {
    const day = new Date(daysSince(now) + days(i)).toISOString().slice(0, 10)
    return byDay.get(day) ?? { day, reads: 0, changes: 0 }
  })
}

const height = 56
const step = 20
const bar = 8

/** A chart, and its totals in words. Reads and changes each have their own scale. */
export const Activity = ({
  days: activity,
  visit
}: {
  readonly days: ReadonlyArray<Day> | undefined
  readonly visit: Visit
}) => {
  if (activity === undefined || visit.team === null) return null
  const each = everyDay(activity, visit.now)
  const most = { reads: Math.max(1, ...each.map((d) => d.reads)), changes: Math.max(1, ...each.map((d) => d.changes)) }
  const total = (of: "reads" | "changes") => {
    const sum = each.reduce((all, one) => all + one[of], 0)
    return sum === 1 ? "once" : `${sum} times`
  }
  const tall = (of: "reads" | "changes", one: Day) => (one[of] === 0 ? 0 : Math.max(2, (one[of] / most[of]) * height))
  return (
    <section class="panel panel-slim activity" aria-labelledby="activity">
      <h2 id="activity">Last 14 days</h2>
      <svg viewBox={`0 0 ${chartDays * step} ${height}`} aria-hidden="true" focusable="false">
        {each.map((one, i) => (
          <g>
            <title>{`${one.day}: ${one.reads} reads, ${one.changes} changes`}</title>
            {(["reads", "changes"] as const).map((of, k) => (
              <rect
                class={`bar-${of}`}
                x={i * step + k * (bar + 1)}
                y={height - tall(of, one)}
                width={bar}
                height={tall(of, one)}
                rx="1"
              />
            ))}
          </g>
        ))}
        <path class="bar-ground" d={`M0 ${height - 0.5}H${chartDays * step}`} />
      </svg>
      <p class="hint">
        <span class="bar-key bar-reads" aria-hidden="true" /> Values were read {total("reads")} and{" "}
        <span class="bar-key bar-changes" aria-hidden="true" /> changed {total("changes")}.{" "}
        <a href={Paths.audit(visit.team.id)}>Audit</a>
      </p>
    </section>
  )
}

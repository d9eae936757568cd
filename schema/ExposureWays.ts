/**
 * The ways by which somebody comes to hold a value: the one list of them. A `Record<Way, …>` demands an answer for each
 * way in each place that distinguishes ways.
 */

export type Way = "inject" | "read" | "model" | "sealed" | "opened" | "copy" | "wrote" | "backup"

interface WayTraits {
  readonly description: string
  /** Whether it counts as a read of the value: for the last read, and for values that were not read for long. */
  readonly isRead: boolean
  /** Whether it makes somebody a holder of the current value, in counts and incidents. A backup has recipients only. */
  readonly countsNow: boolean
}

const all: Readonly<Record<Way, WayTraits>> = {
  inject: { description: "run or exported", isRead: true, countsNow: true },
  read: { description: "read alone or in a list", isRead: true, countsNow: true },
  model: { description: "shown to an agent over MCP", isRead: true, countsNow: true },
  sealed: { description: "exported to a key", isRead: true, countsNow: true },
  opened: { description: "from a sealed file", isRead: true, countsNow: true },
  copy: { description: "to another environment", isRead: true, countsNow: true },
  wrote: { description: "typed by its author", isRead: false, countsNow: true },
  backup: { description: "in a backup", isRead: false, countsNow: false }
}

// Object.keys of a record of these names.
export const ways = Object.keys(all) as ReadonlyArray<Way>
export const readWays = ways.filter((way) => all[way].isRead)
/** Ways that make a holder of the current value. */
export const currentWays = ways.filter((way) => all[way].countsNow)
export const waysDescription = `${ways.map((way) => `${way}: ${all[way].description}`).join("; ")}.`

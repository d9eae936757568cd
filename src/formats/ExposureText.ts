/** Sentences about the people who received a secret (docs/contract/audit.md, "Exposure"). */
import type { ExposedVersion, ExposureCounts } from "#schema/ExposureApi.ts"
import type { Way } from "#schema/ExposureWays.ts"

const kinds = [
  ["people", "person", "people"],
  ["tokens", "token", "tokens"],
  ["agents", "agent", "agents"],
  ["rules", "CI rule", "CI rules"],
  ["backups", "backup", "backups"]
] as const

const total = (counts: ExposureCounts) => kinds.reduce((sum, [kind]) => sum + counts[kind], 0)

/** "3 people, 2 tokens, 1 agent" */
export const countsText = (counts: ExposureCounts): string =>
  kinds
    .flatMap(([kind, one, more]) => (counts[kind] === 0 ? [] : [`${counts[kind]} ${counts[kind] === 1 ? one : more}`]))
    .join(", ") || "nobody"

/** Earlier versions that a sentence names. */
const earlierAtMost = 5

/** "v7: 3 people, 2 tokens, 1 agent; v6 is still held by 1 token that has not read since" */
export const versionsText = (versions: ReadonlyArray<ExposedVersion>, current: number): string => {
  const now = versions.find(({ version }) => version === current)
  const earlier = versions.filter(({ heldBy, version }) => version !== null && version < current && total(heldBy) > 0)
  const sentences = earlier.slice(0, earlierAtMost).map(({ heldBy, version }) => {
    const verb = total(heldBy) === 1 ? "has" : "have"
    return `v${version} is still held by ${countsText(heldBy)} that ${verb} not read since`
  })
  const more = earlier.length > earlierAtMost ? ["earlier versions too"] : []
  return [`v${current}: ${now === undefined ? "nobody" : countsText(now.handedTo)}`, ...sentences, ...more].join("; ")
}

export const versionText = (version: number | null): string => (version === null ? "unknown" : `v${version}`)

const wayTexts: Readonly<Record<Way, string>> = {
  inject: "run or exported",
  read: "read",
  model: "shown to a model",
  sealed: "sealed to a key",
  opened: "out of a sealed file",
  copy: "copied to another environment",
  wrote: "typed it",
  backup: "in a backup"
}
const byWay: ReadonlyMap<string, string> = new Map(Object.entries(wayTexts))
/** A way of a later release is its own text. */
export const wayText = (way: string): string => byWay.get(way) ?? way

/** "read, typed it" */
export const waysText = (ways: ReadonlyArray<string>): string => ways.map(wayText).join(", ")

const isTyped = (ways: ReadonlyArray<string>) => ways.includes("wrote")

/** The doubt about a version that somebody may hold. */
export const doubtText = (value: { readonly certain: boolean; readonly ways?: ReadonlyArray<string> | undefined }) => {
  if (value.certain) return undefined
  return value.ways?.length === 1 && isTyped(value.ways) ? "unless it was generated or copied" : "or earlier"
}

/** Whether the text of a composed value was typed: it may hold a secret beside its references. */
export const hasTypedText = ({
  ways = [],
  uses
}: {
  readonly ways?: ReadonlyArray<string> | undefined
  readonly uses: ReadonlyArray<string>
}): boolean => uses.length > 0 && isTyped(ways)

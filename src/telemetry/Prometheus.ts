/** The metrics of this process in the text format of Prometheus (exposition format 0.0.4). */
import * as Metric from "effect/Metric"
import type * as MetricPair from "effect/MetricPair"
import * as MetricState from "effect/MetricState"
import * as Option from "effect/Option"
import { collect } from "./Collectors.ts"

interface Sample {
  /** For a histogram: `_bucket`, `_sum` or `_count`. */
  readonly suffix: string
  readonly labels: ReadonlyArray<readonly [name: string, value: string]>
  /** Always finite, since samples travel between processes as JSON; bounds are labels. */
  readonly value: number
}
export interface Family {
  readonly name: string
  readonly type: "counter" | "gauge" | "histogram"
  readonly help: string
  readonly samples: ReadonlyArray<Sample>
}

const number = (value: number) => (value === Infinity ? "+Inf" : String(value))

const samplesOf = ({ metricKey, metricState }: MetricPair.MetricPair.Untyped) => {
  const labels = metricKey.tags.map(({ key, value }) => [key, value] as const)
  const one = (value: number | bigint): Array<Sample> => [{ suffix: "", labels, value: Number(value) }]
  if (MetricState.isCounterState(metricState)) return { type: "counter" as const, samples: one(metricState.count) }
  if (MetricState.isGaugeState(metricState)) return { type: "gauge" as const, samples: one(metricState.value) }
  if (MetricState.isHistogramState(metricState)) {
    const samples: Array<Sample> = metricState.buckets.map(([bound, value]) => ({
      suffix: "_bucket",
      labels: [...labels, ["le", number(bound)] as const],
      value
    }))
    samples.push(
      { suffix: "_sum", labels, value: metricState.sum },
      { suffix: "_count", labels, value: metricState.count }
    )
    return { type: "histogram" as const, samples }
  }
  return undefined
}

const ours = /^(?:ampoule|process|nodejs)_/

/** The current metrics of this process. */
export const families = (): ReadonlyArray<Family> => {
  collect()
  const byName = new Map<string, Omit<Family, "samples"> & { readonly samples: Array<Sample> }>()
  for (const pair of Metric.unsafeSnapshot()) {
    const { description, name } = pair.metricKey
    const state = ours.test(name) ? samplesOf(pair) : undefined
    if (state === undefined) continue
    const family = byName.get(name)
    if (family !== undefined) for (const sample of state.samples) family.samples.push(sample)
    else
      byName.set(name, {
        name,
        type: state.type,
        help: Option.getOrElse(description, () => ""),
        samples: state.samples
      })
  }
  return [...byName.values()]
}

/** Merges the families of several processes, and labels each sample with its process. */
export const mergeProcesses = (
  label: string,
  parts: ReadonlyArray<readonly [value: string, families: ReadonlyArray<Family>]>
): ReadonlyArray<Family> => {
  const merged = new Map<string, Family>()
  for (const [value, families] of parts) {
    for (const family of families) {
      const samples = family.samples.map((sample) => ({
        ...sample,
        labels: [...sample.labels, [label, value] as const]
      }))
      const existing = merged.get(family.name)
      merged.set(family.name, { ...family, samples: [...(existing?.samples ?? []), ...samples] })
    }
  }
  return [...merged.values()]
}

const escapeLabel = (value: string) => value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")
const escapeHelp = (value: string) => value.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")

const line = (name: string, { labels, suffix, value }: Sample) => {
  const inside = labels.map(([key, text]) => `${key}="${escapeLabel(text)}"`).join(",")
  return `${name}${suffix}${inside === "" ? "" : `{${inside}}`} ${number(value)}`
}

export const contentType = "text/plain; version=0.0.4; charset=utf-8"

export const render = (families: ReadonlyArray<Family>): string =>
  families
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap(({ help, name, samples, type }) => [
      `# HELP ${name} ${escapeHelp(help)}`,
      `# TYPE ${name} ${type}`,
      ...samples.map((sample) => line(name, sample))
    ])
    .join("\n")
    .concat("\n")

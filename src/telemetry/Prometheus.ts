/** The metrics of this process in the text format of Prometheus (exposition format 0.0.4). */
import * as Metric from "effect/Metric"
import type * as MetricPair from "effect/MetricPair"
import * as MetricState from "effect/MetricState"
import * as Option from "effect/Option"
import { collect } from "./Collectors.ts"

interface Sample {
  /** Of a histogram: `_bucket`, `_sum` or `_count`. */
  readonly suffix: string
  readonly labels: ReadonlyArray<readonly [name: string, value: string]>
  /** JSON has no infinity, and samples travel between processes: bounds are labels, values are finite. */
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

/** The state of this process now. */
export const families = (): ReadonlyArray<Family> => {
  collect()
  const found = new Map<string, Omit<Family, "samples"> & { readonly samples: Array<Sample> }>()
  for (const pair of Metric.unsafeSnapshot()) {
    const { description, name } = pair.metricKey
    const read = ours.test(name) ? samplesOf(pair) : undefined
    if (read === undefined) continue
    const family = found.get(name)
    if (family !== undefined) for (const sample of read.samples) family.samples.push(sample)
    else
      found.set(name, { name, type: read.type, help: Option.getOrElse(description, () => ""), samples: read.samples })
  }
  return [...found.values()]
}

/** Families of several processes as one, each sample labelled with the process it is from. */
export const labelled = (
  label: string,
  parts: ReadonlyArray<readonly [value: string, families: ReadonlyArray<Family>]>
): ReadonlyArray<Family> => {
  const joined = new Map<string, Family>()
  for (const [value, families] of parts) {
    for (const family of families) {
      const samples = family.samples.map((sample) => ({
        ...sample,
        labels: [...sample.labels, [label, value] as const]
      }))
      const known = joined.get(family.name)
      joined.set(family.name, { ...family, samples: [...(known?.samples ?? []), ...samples] })
    }
  }
  return [...joined.values()]
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

/** Receivers of each version, out of the lines of an exported trail alone. Imports nothing of the server. */
import * as Schema from "effect/Schema"
import { parsed } from "#test/support/Json.ts"

const Named = Schema.Struct({ type: Schema.String, id: Schema.String })
const Entry = Schema.Struct({
  action: Schema.String,
  actor: Named,
  at: Schema.String,
  outcome: Schema.String,
  environmentId: Schema.optional(Schema.String),
  keys: Schema.Array(Schema.String),
  keyList: Schema.optional(Schema.String),
  versions: Schema.optional(Schema.Array(Schema.Number)),
  contains: Schema.optional(Schema.Record({ key: Schema.String, value: Schema.Number })),
  revision: Schema.optional(Schema.Number),
  target: Schema.optional(Named),
  typed: Schema.optional(Schema.Boolean),
  via: Schema.String
})
type Entry = typeof Entry.Type
const Line = Schema.Struct({
  entry: Schema.optional(Entry),
  keys: Schema.optional(Schema.Struct({ hash: Schema.String, keys: Schema.Array(Schema.String) }))
})
const readLine = parsed(Line)

const writes =
  "secret.create secret.update secret.rollback secret.restore secret.rename secret.delete audit.baseline".split(" ")

/** A rename names the key before, then the new one. */
const isGone = (action: string, i: number) => action === "secret.delete" || (action === "secret.rename" && i === 0)

const wayOf = (e: Entry): string | undefined => {
  const model = e.via === "mcp" ? "model" : undefined
  if (e.action === "secret.inject") return e.target?.type === "sealing_key" ? "sealed" : (model ?? "inject")
  if (e.action === "secret.read" || e.action === "secret.list_values")
    return e.target?.type === "environment" ? "copy" : (model ?? "read")
  if (e.action === "sealed.open") return "opened"
  if (["secret.create", "secret.update", "secret.unchanged"].includes(e.action))
    return e.versions === undefined || e.typed === false ? undefined : "wrote"
  return e.action === "backup.create" ? "backup" : undefined
}

/** `environment key version holder way via` to `count first last`. */
export const oracle = (text: string): ReadonlyMap<string, string> => {
  const lines = text.trim().split("\n").map(readLine)
  const lists = new Map(lines.flatMap(({ keys }) => (keys === undefined ? [] : [[keys.hash, keys.keys] as const])))
  const allowed = lines.flatMap(({ entry: e }) => (e?.outcome === "allowed" ? [e] : []))
  const owners = new Map<string, string>()
  const proposers = new Map<string, string>()
  for (const { action, actor, target } of allowed) {
    if (action === "change.request") proposers.set(target?.id ?? "", `${actor.type} ${actor.id}`)
    if (action === "grant.issue") owners.set(`cli_grant ${target?.id ?? ""}`, `user ${actor.id}`)
    if (action === "machine.exchange") owners.set(`api_token ${actor.id}`, `machine_rule ${target?.id ?? ""}`)
  }
  const entries = allowed.flatMap((e) =>
    e.environmentId === undefined
      ? []
      : [{ ...e, environmentId: e.environmentId, keys: lists.get(e.keyList ?? "") ?? e.keys }]
  )
  const history = entries
    .flatMap(({ action, environmentId, keys, revision, versions = [] }) =>
      writes.includes(action) && revision !== undefined
        ? keys.map((key, i) => [environmentId, key, revision, isGone(action, i) ? 0 : versions[i]] as const)
        : []
    )
    .sort(([, , a], [, , b]) => a - b)
  const times = new Map<string, Array<string>>()
  for (const e of entries) {
    const way = wayOf(e)
    if (way === undefined) continue
    const before = history.filter(([id, , revision]) => id === e.environmentId && revision <= (e.revision ?? -1))
    const at = (key: string) => before.filter(([, one]) => one === key).at(-1)?.[3]
    const versionOf = (key: string, i: number) => (way === "opened" ? undefined : (e.versions?.[i] ?? at(key)))
    const handed: ReadonlyArray<readonly [string, number | undefined]> =
      way === "backup"
        ? before.map(([, key, , version]) => [key, version])
        : e.keys.map((key, i) => [key, versionOf(key, i)])
    const isApproved = way === "wrote" && e.target?.type === "change_request"
    const actor = (isApproved ? proposers.get(e.target?.id ?? "") : undefined) ?? `${e.actor.type} ${e.actor.id}`
    const holder = way === "backup" ? `backup ${e.target?.id ?? ""}` : (owners.get(actor) ?? actor)
    const inside = Object.entries(e.contains ?? {}).map(
      ([key, version]) => [key, way === "opened" ? undefined : version] as const
    )
    const names = [...handed, ...inside].flatMap(([key, version]) =>
      way === "backup" && version === 0
        ? []
        : [[e.environmentId, key, version ?? "unknown", holder, way, e.via].join(" ")]
    )
    for (const name of new Set(names)) times.set(name, [...(times.get(name) ?? []), e.at].sort())
  }
  return new Map([...times].map(([name, times]) => [name, `${times.length} ${times[0]} ${times.at(-1)}`]))
}

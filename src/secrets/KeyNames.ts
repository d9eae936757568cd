/** What can be said of an environment by names alone. Nothing here opens a value. */
import * as Effect from "effect/Effect"
import type { EnvironmentQuery } from "#schema/SecretsApi.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/access/Audit.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import { maxSecrets, SecretStore } from "./SecretStore.ts"

type Graph = ReadonlyMap<string, ReadonlyArray<string>>

/** Whether everything that a key is composed from is there, with no way back to itself. */
const resolvable = (graph: Graph, key: string): boolean => {
  const done = new Set<string>()
  const visit = (at: string, path: ReadonlySet<string>): boolean => {
    if (done.has(at)) return true
    const references = graph.get(at)
    if (references === undefined || path.has(at)) return false
    const further = new Set(path).add(at)
    const ok = references.every((to) => visit(to, further))
    if (ok) done.add(at)
    return ok
  }
  return visit(key, new Set())
}

/** The cycles of a graph, each as its keys; a stored environment has none (decisions 4 "Templates"). */
export const cyclesOf = (graph: Graph): ReadonlyArray<ReadonlyArray<string>> => {
  const found: Array<ReadonlyArray<string>> = []
  const left = new Set<string>()
  const visit = (at: string, path: ReadonlyArray<string>): void => {
    const from = path.indexOf(at)
    if (from >= 0) return void found.push(path.slice(from))
    if (left.has(at)) return
    for (const to of graph.get(at) ?? []) visit(to, [...path, at])
    left.add(at)
  }
  for (const key of graph.keys()) visit(key, [])
  return found
}

export class KeyNames extends Effect.Service<KeyNames>()("secrets/KeyNames", {
  effect: Effect.gen(function* () {
    const access = yield* Access
    const audit = yield* Audit
    const store = yield* SecretStore

    const graphOf = (permit: EnvironmentPermit<"secrets:read" | "secrets:run">) =>
      Effect.map(store.graph(permit), (rows): Graph => new Map(rows.map((row) => [row.key, row.refs])))

    /** Live secrets whose key contains `query`, in the order of keys. */
    const search = Effect.fn("KeyNames.search")(function* (
      at: EnvironmentQuery & { readonly query?: string; readonly page?: number; readonly pageSize?: number }
    ) {
      const permit = yield* access.environment("secrets:read", at, { audit: "secret.list" })
      const { page = 1, pageSize = 100, query } = at
      if (query === undefined) {
        const rows = yield* store.page(permit, pageSize, (page - 1) * pageSize)
        return { target: permit.target, rows, page, pageSize, total: yield* store.count(permit) }
      }
      const wanted = query.toUpperCase()
      const rows = (yield* store.page(permit, maxSecrets, 0)).filter(({ key }) => key.includes(wanted))
      const shown = rows.slice((page - 1) * pageSize, page * pageSize)
      return { target: permit.target, rows: shown, page, pageSize, total: rows.length }
    })

    const check = Effect.fn("KeyNames.check")(function* (
      at: EnvironmentQuery & { readonly keys: ReadonlyArray<string> }
    ) {
      const permit = yield* access.environment("secrets:read", at, { audit: "secret.list", keys: at.keys })
      const graph = yield* graphOf(permit)
      const present = at.keys.filter((key) => graph.has(key))
      return {
        present,
        missing: at.keys.filter((key) => !graph.has(key)),
        unresolved: present.filter((key) => !resolvable(graph, key))
      }
    })

    /** What an injection of `keys` (all when absent) would give, recorded as a plan: no value is read. */
    const plan = Effect.fn("KeyNames.plan")(function* (
      at: EnvironmentQuery & { readonly keys?: ReadonlyArray<string> }
    ) {
      const permit = yield* access.environment("secrets:run", at, {
        audit: "secret.plan",
        ...(at.keys === undefined ? {} : { keys: at.keys })
      })
      const graph = yield* graphOf(permit)
      const asked = at.keys ?? [...graph.keys()]
      const problems = asked.flatMap((key) => {
        if (!graph.has(key)) return [{ key, reason: "missing" }]
        return resolvable(graph, key) ? [] : [{ key, reason: "unresolved" }]
      })
      const broken = new Set(problems.map(({ key }) => key))
      const injected = asked.filter((key) => !broken.has(key))
      yield* audit.record(permit.event({ keys: injected }))
      return { target: permit.target, injected, problems }
    })

    return { search, check, plan } as const
  })
}) {}

/** Tools that read names and metadata of secrets. */
import * as Effect from "effect/Effect"
import { cyclesOf } from "#src/secrets/KeyGraph.ts"
import type { SecretReads } from "#src/secrets/SecretReads.ts"
import { done, type Handlers } from "./Tool.ts"

const names = (list: ReadonlyArray<{ readonly key: string }>) => list.map(({ key }) => key)

export interface NameToolNeeds {
  readonly reads: SecretReads
}

export const handlers = ({
  reads
}: NameToolNeeds): Pick<Handlers, "list_secrets" | "check_secrets" | "compare_environments" | "get_composition"> => ({
  list_secrets: (input) =>
    Effect.map(reads.search(input), ({ page, pageSize, rows, target, total }) =>
      done({
        secrets: rows.map((row) => ({
          id: row.id,
          key: row.key,
          kind: row.kind,
          version: row.version,
          updatedAt: row.updatedAt.toISOString(),
          reference: `secret://${target.projectId}/${target.slug}/${row.key}`,
          references: row.refs
        })),
        page,
        pageSize,
        total
      })
    ),

  check_secrets: (input) => Effect.map(reads.check(input), done),

  compare_environments: (input) =>
    Effect.map(reads.diff(input), ({ added, changed, removed }) =>
      done({ added: names(added), removed: names(removed), changed: names(changed) })
    ),

  get_composition: (input) =>
    Effect.map(reads.composition(input), ({ edges, nodes }) => {
      const graph = new Map<string, Array<string>>(nodes.map(({ key }) => [key, []]))
      for (const { from, to } of edges) graph.get(from)?.push(to)
      return done({ nodes, edges, cycles: cyclesOf(graph) })
    })
})

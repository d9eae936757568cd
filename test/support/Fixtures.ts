/** Rows and callers for tests of services, below HTTP: each call makes a team of its own, so tests share a database. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as VaultLocal from "#layers/VaultLocal.ts"
import * as RateLimitMemory from "#layers/RateLimitMemory.ts"
import type { Caller } from "#schema/Caller.ts"
import type { Plan, Role } from "#schema/Scopes.ts"
import { EnvironmentSlug } from "#schema/Values.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { Exposure } from "#src/trail-use/Exposure.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { SnapshotCipher } from "#src/crypto/SnapshotCipher.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import { SealingKeys } from "#src/projects/SealingKeys.ts"
import { Idempotency } from "#src/secrets/Idempotency.ts"
import { Maintenance } from "#src/secrets/Maintenance.ts"
import { SecretStore } from "#src/secrets/SecretStore.ts"
import { Snapshots } from "#src/secrets/Snapshots.ts"
import * as TestDatabase from "./TestDatabase.ts"
import * as Rows from "./World.ts"

/** Both halves of what can be done with secrets. */
export const secrets = Effect.map(SecretStore, ({ reads, writes }) => ({
  ...reads,
  ...writes
}))

/** The services of secrets, over those that they need. */
export const secretServices = SecretStore.Default.pipe(
  Layer.provideMerge(
    Layer.mergeAll(Exposure.Default, RateLimiter.Default, SealingKeys.Default, Snapshots.Default, Idempotency.Default)
  )
)

/** The secrets services on a migrated test database and a vault in memory. */
export const secretsLayer = Layer.merge(
  secretServices,
  Maintenance.Default.pipe(Layer.provide(Idempotency.Default))
).pipe(
  Layer.provideMerge(Layer.mergeAll(Access.Default, DataKeys.Default, SnapshotCipher.Default, RateLimitMemory.layer)),
  Layer.provideMerge(Layer.merge(Audit.Default, RowSeal.Default)),
  Layer.provideMerge(Layer.provideMerge(ServiceKeys.Default, VaultLocal.layerMemory)),
  Layer.provideMerge(Layer.mergeAll(Crypto.Default, TestDatabase.layer))
)

/** The secrets services of another process on the same database. */
export const anotherProcess = Effect.map(
  Layer.build(
    Layer.fresh(
      secretServices.pipe(
        Layer.provideMerge(
          Layer.mergeAll(Access.Default, DataKeys.Default, SnapshotCipher.Default, RateLimitMemory.layer)
        ),
        Layer.provideMerge(Layer.merge(Audit.Default, RowSeal.Default))
      )
    )
  ),
  (context) => ({ secrets: Effect.provide(secrets, context), snapshots: Effect.provide(Snapshots, context) })
).pipe(Effect.flatMap(Effect.all))

const at = new Date(0)

/** A team with a project `demo`, environments `development` and `production` (protected), and an owner. */
export const world = Effect.fnUntraced(function* (options: { readonly plan?: Plan } = {}) {
  const plan = options.plan ?? "team"
  const {
    development,
    id: projectId,
    production,
    team
  } = yield* Rows.project({
    team: yield* Rows.team({ plan }),
    slug: "demo"
  })
  const { id: teamId, owner } = team

  const person = (role: Role): Caller => ({
    kind: "session",
    credentialId: owner.id,
    name: null,
    user: owner,
    teams: [
      {
        id: teamId,
        name: team.name,
        plan,
        role,
        scopes: null,
        adminsNeedGrants: false,
        factorIsOld: false,
        allowedKeys: null
      }
    ],
    withheld: [],
    accessLevel: null,
    mcpScopes: [],
    restrictions: { projectIds: null, environmentIds: null },
    grants: [],
    machine: false,
    factorAt: null,
    provedAt: null,
    issuer: null,
    onlyTeam: null,
    closedTeams: null,
    confirmedTeams: null,
    createdAt: at,
    expiresAt: null,
    lastUsedAt: null,
    named: null
  })

  return {
    teamId,
    userId: owner.id,
    projectId,
    developmentId: development.id,
    productionId: production.id,
    development: EnvironmentSlug.make(development.slug),
    production: EnvironmentSlug.make(production.slug),
    person,
    owner: person("owner"),
    token: (options: Partial<Pick<Caller, "accessLevel" | "restrictions">> = {}): Caller => ({
      ...person("owner"),
      kind: "api_token",
      name: "ci",
      user: null,
      teams: [
        {
          id: teamId,
          name: team.name,
          plan,
          role: null,
          scopes: null,
          adminsNeedGrants: false,
          factorIsOld: false,
          allowedKeys: null
        }
      ],
      accessLevel: options.accessLevel ?? "write",
      restrictions: options.restrictions ?? { projectIds: null, environmentIds: null },
      machine: true
    })
  } as const
})
export type World = Effect.Effect.Success<ReturnType<typeof world>>

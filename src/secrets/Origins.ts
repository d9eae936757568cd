/**
 * Values that are made or moved inside the server: generated, copied as written, composed. Whoever asks need not see
 * them, and they pass through no conversation.
 */
import * as Effect from "effect/Effect"
import { SecretAlreadyExists, SecretNotFound, SecretVersionConflict } from "#schema/Errors.ts"
import type { ProjectId, SecretId } from "#schema/Ids.ts"
import { charsets, type Generate, type Origin } from "#schema/McpTools.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/access/Audit.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Secrets from "./Secrets.ts"
import { type Locked, reportedOutcome, SecretStore, type Write, type Written } from "./SecretStore.ts"

interface Place {
  readonly projectId: ProjectId
  readonly environment: string
}

/** What an origin stores, once it is known what stands there (decisions 4 "Kind"). */
type Decision = (stored: { readonly pinned: boolean; readonly text: string } | undefined) => Write

const storedIn = (env: Locked, key: string) => {
  const meta = env.live.get(key)
  return meta === undefined ? undefined : { pinned: meta.pinned, text: "" }
}

const outcomes = (
  written: ReadonlyMap<string, Written>,
  outcomeOf: (one: Written) => Written["outcome"] = ({ outcome }) => outcome
) => {
  const named = (outcome: Written["outcome"]) =>
    [...written].filter(([, one]) => outcomeOf(one) === outcome).map(([key]) => key)
  return { created: named("created"), updated: named("updated"), unchanged: named("unchanged") }
}

const resultOf = (written: ReadonlyMap<string, Written>, key: string) =>
  Effect.map(Secrets.resultOf(written, key), ({ meta }) => ({
    id: meta.id,
    key: meta.key,
    version: meta.version
  }))

export class Origins extends Effect.Service<Origins>()("secrets/Origins", {
  effect: Effect.gen(function* () {
    const access = yield* Access
    const audit = yield* Audit
    const crypto = yield* Crypto
    const store = yield* SecretStore

    const generated = ({ charset = "alphanumeric", length }: Generate) => crypto.randomText(charsets[charset], length)

    /** Text and kind of secrets as written. The read is recorded, although the text goes nowhere but into the copy. */
    const readAsWritten = Effect.fnUntraced(function* (
      place: Place,
      keys: ReadonlyArray<string>,
      into: EnvironmentPermit<"secrets:write">
    ) {
      const permit = yield* access.sourceOfCopy(place, into, { audit: "secret.read", keys })
      const { secrets } = yield* store.closure(permit, keys, false)
      const found = new Map<string, Write>()
      for (const { key, kind, text } of secrets) {
        // A literal stays one, whatever its text looks like.
        found.set(key, { kind, pinned: kind === "literal" && text.includes("${"), text, from: "caller" })
      }
      return { permit, found }
    })

    /** What these origins copy, by environment: each is asked for, read and recorded once, whatever the number of keys. */
    const copiedBy = Effect.fnUntraced(function* (
      origins: ReadonlyArray<Origin>,
      into: EnvironmentPermit<"secrets:write">
    ) {
      const { projectId } = into.target
      const wanted = new Map<string, Set<string>>()
      for (const { copyFrom } of origins) {
        if (copyFrom === undefined) continue
        wanted.set(copyFrom.environment, (wanted.get(copyFrom.environment) ?? new Set()).add(copyFrom.key))
      }
      const copied = new Map<string, ReadonlyMap<string, Write>>()
      for (const [environment, keys] of wanted) {
        const { found, permit } = yield* readAsWritten({ projectId, environment }, [...keys], into)
        if (found.size > 0) yield* audit.record(permit.event({ keys: [...found.keys()] }))
        copied.set(environment, found)
      }
      return copied
    })

    const decisionOf = Effect.fnUntraced(function* (
      origin: Origin,
      copied: ReadonlyMap<string, ReadonlyMap<string, Write>>,
      field: string
    ) {
      if (origin.generate !== undefined) {
        const text = yield* generated(origin.generate)
        return (): Write => ({ kind: "literal", pinned: false, text, from: "server" })
      }
      if (origin.copyFrom !== undefined) {
        const write = copied.get(origin.copyFrom.environment)?.get(origin.copyFrom.key)
        if (write === undefined) return yield* new SecretNotFound({ field: `${field}copyFrom.key` })
        return (): Write => write
      }
      const { template, value } = origin
      const decide: Decision = (stored) =>
        Secrets.decideWrite(
          template === undefined
            ? value === undefined
              ? {}
              : { value }
            : { kind: "template", source: template.source },
          stored
        )
      return decide
    })

    const fieldOf = (origin: Origin) =>
      origin.template !== undefined ? "template.source" : origin.copyFrom !== undefined ? "copyFrom.key" : "value"

    const create = Effect.fn("Origins.create")(function* (at: Place & { readonly key: string } & Origin) {
      const intent = { audit: "secret.create", keys: [at.key] } as const
      const permit = yield* access.environment("secrets:write", at, intent)
      const decide = yield* decisionOf(at, yield* copiedBy([at], permit), "")
      const work = store.change(permit, (env) =>
        Effect.gen(function* () {
          if (env.live.has(at.key)) return yield* new SecretAlreadyExists({ field: "key" })
          const written = yield* env.commit(new Map([[at.key, decide(undefined)]]), () => fieldOf(at))
          yield* env.audit(permit.event({ keys: [at.key] }))
          return yield* resultOf(written, at.key)
        })
      )
      return yield* store.outermost(permit.event({ keys: [at.key] }), work)
    })

    const update = Effect.fn("Origins.update")(function* (
      at: { readonly secretId: SecretId; readonly expectedVersion?: number } & Origin
    ) {
      const permit = yield* access.environmentOfSecret("secrets:write", at.secretId, { audit: "secret.update" })
      const decide = yield* decisionOf(at, yield* copiedBy([at], permit), "")
      const work = store.change(permit, (env) =>
        Effect.gen(function* () {
          const meta = env.byId.get(at.secretId)
          if (meta === undefined) return yield* new SecretNotFound()
          if (at.expectedVersion !== undefined && at.expectedVersion !== meta.version) {
            return yield* new SecretVersionConflict({ currentVersion: meta.version, field: "expectedVersion" })
          }
          const write = decide({ pinned: meta.pinned, text: "" })
          const written = yield* env.commit(new Map([[meta.key, write]]), () => fieldOf(at))
          yield* env.audit(permit.event({ keys: [meta.key] }))
          return yield* resultOf(written, meta.key)
        })
      )
      return yield* Effect.catchTag(
        store.outermost(permit.event(), work),
        "ENVIRONMENT_NOT_FOUND",
        () => new SecretNotFound()
      )
    })

    /** Writes all of them or none; entries name what was created and what was updated. */
    const commitAll = (
      permit: EnvironmentPermit<"secrets:write">,
      decisions: ReadonlyMap<string, Decision>,
      field: (key: string) => string | undefined,
      skip: (env: Locked, key: string) => boolean
    ) =>
      store.outermost(
        permit.event({ keys: [...decisions.keys()] }),
        store.change(permit, (env) =>
          Effect.gen(function* () {
            const skipped = [...decisions.keys()].filter((key) => skip(env, key))
            const kept = [...decisions].filter(([key]) => !skipped.includes(key))
            const changes = new Map(kept.map(([key, decide]) => [key, decide(storedIn(env, key))]))
            const written = changes.size === 0 ? new Map<string, Written>() : yield* env.commit(changes, field)
            const done = outcomes(written)
            if (done.created.length > 0) yield* env.audit(permit.event({ audit: "secret.create", keys: done.created }))
            if (done.updated.length > 0) yield* env.audit(permit.event({ audit: "secret.update", keys: done.updated }))
            return { ...outcomes(written, (one) => reportedOutcome(permit, one)), skipped }
          })
        )
      )

    const upsert = Effect.fn("Origins.upsert")(function* (
      at: Place & { readonly secrets: ReadonlyArray<{ readonly key: string } & Origin> }
    ) {
      const keys = at.secrets.map(({ key }) => key)
      const permit = yield* access.environment("secrets:write", at, { audit: "secret.create", keys })
      const copied = yield* copiedBy(at.secrets, permit)
      const decisions = new Map<string, Decision>()
      const fields = new Map<string, string>()
      for (const [i, secret] of at.secrets.entries()) {
        decisions.set(secret.key, yield* decisionOf(secret, copied, `secrets.${i}.`))
        fields.set(secret.key, `secrets.${i}.${fieldOf(secret)}`)
      }
      return yield* commitAll(
        permit,
        decisions,
        (key) => fields.get(key),
        () => false
      )
    })

    /** As written: a template stays one, and needs what it refers to in the target too. */
    const copy = Effect.fn("Origins.copy")(function* (at: {
      readonly projectId: ProjectId
      readonly sourceEnv: string
      readonly targetEnv: string
      readonly keys: ReadonlyArray<string>
      readonly overwrite?: boolean
    }) {
      const { keys, overwrite = false, projectId } = at
      yield* access.visibleEnvironment({ projectId, environment: at.sourceEnv })
      const permit = yield* access.environment(
        "secrets:write",
        { projectId, environment: at.targetEnv },
        { audit: "secret.create", keys }
      )
      const source = yield* readAsWritten({ projectId, environment: at.sourceEnv }, keys, permit)
      const absent = keys.findIndex((key) => !source.found.has(key))
      if (absent >= 0) return yield* new SecretNotFound({ field: `keys.${absent}` })
      yield* audit.record(source.permit.event({ keys }))
      const decisions = new Map(
        keys.flatMap((key): ReadonlyArray<[string, Decision]> => {
          const write = source.found.get(key)
          return write === undefined ? [] : [[key, () => write]]
        })
      )
      return yield* commitAll(
        permit,
        decisions,
        (key) => `keys.${keys.indexOf(key)}`,
        (env, key) => !overwrite && env.live.has(key)
      )
    })

    /** Values that came sealed: whoever sealed them meant the text itself, whatever it looks like. */
    const storeOpened = Effect.fn("Origins.storeOpened")(function* (
      permit: EnvironmentPermit<"secrets:write">,
      values: Readonly<Record<string, string>>,
      overwrite: boolean
    ) {
      const decisions = new Map(
        Object.entries(values).map(([key, text]): [string, Decision] => [
          key,
          () => ({ kind: "literal", pinned: text.includes("${"), text, from: "caller" })
        ])
      )
      return yield* commitAll(
        permit,
        decisions,
        (key) => `entries.${key}`,
        (env, key) => !overwrite && env.live.has(key)
      )
    })

    return { create, update, upsert, copy, storeOpened } as const
  })
}) {}

/** Tools that put values to use without returning them. */
import * as Effect from "effect/Effect"
import { ValidationFailed } from "#schema/Errors.ts"
import type { SecretReads } from "#src/secrets/SecretReads.ts"
import type { SecretWrites } from "#src/secrets/SecretWrites.ts"
import type { SealingKeys } from "#src/projects/SealingKeys.ts"
import type { Settings } from "#src/AppConfig.ts"
import { done, type Handlers } from "./Tool.ts"

export interface UseToolNeeds {
  readonly reads: SecretReads
  readonly writes: SecretWrites
  readonly sealingKeys: SealingKeys
  readonly settings: Settings
}

export const handlers = ({
  reads,
  writes,
  sealingKeys,
  settings
}: UseToolNeeds): Pick<
  Handlers,
  "get_environment_keypair" | "plan_run" | "export_encrypted_env" | "verify_encrypted_env" | "import_encrypted_env"
> => ({
  get_environment_keypair: (input) =>
    Effect.gen(function* () {
      const { keyId, publicKey } = yield* sealingKeys.keypairIn(input)
      return done({ keyId, publicKey })
    }),

  plan_run: (input) =>
    Effect.map(reads.plan(input), ({ injected, problems, target }) => {
      const query = new URLSearchParams({ projectId: target.projectId, environment: target.slug })
      const only = input.keys === undefined ? [] : injected.flatMap((key) => ["--only", key])
      return done({
        command: [
          "ampoule",
          "run",
          "--url",
          settings.baseUrl,
          "--project",
          target.projectId,
          "--env",
          target.slug,
          ...only,
          "--",
          ...input.command
        ],
        http: { method: "GET", url: `${settings.baseUrl}/secrets/inject?${query.toString()}` },
        injectedKeys: injected,
        problems
      })
    }),

  export_encrypted_env: ({ keys, recipientPublicKey, ...at }) =>
    Effect.gen(function* () {
      // Sealed to a key of the caller's choice is plaintext by another name.
      if (recipientPublicKey !== undefined && !settings.mcpReveal) {
        return yield* new ValidationFailed({
          field: "recipientPublicKey",
          message: "is not accepted here: plaintext tools are switched off"
        })
      }
      return done(
        yield* reads.sealedExport({
          ...at,
          ...(keys === undefined ? {} : { keys }),
          ...(recipientPublicKey === undefined ? {} : { recipient: recipientPublicKey })
        })
      )
    }),

  verify_encrypted_env: ({ entries, keyId, ...at }) =>
    Effect.map(sealingKeys.openIn(at, { entries, keyId }), ({ activeKey, values }) =>
      done({ keys: Object.keys(values), altered: false, ...(activeKey === undefined ? {} : { activeKey }) })
    ),

  import_encrypted_env: (input) =>
    Effect.map(writes.importSealed(input), ({ created, skipped, updated }) => done({ created, updated, skipped }))
})

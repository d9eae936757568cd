import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Redacted from "effect/Redacted"
import * as fs from "node:fs"
import { join } from "node:path"
import * as VaultKms from "#layers/VaultKms.ts"
import * as VaultTransit from "#layers/VaultTransit.ts"
import type { KeyContext } from "#schema/Vault.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Vault from "#src/crypto/Vault.ts"
import * as KeyFile from "#src/vault/KeyFile.ts"
import type { KeyProvider } from "#src/vault/KeyProvider.ts"
import * as KeyServices from "./KeyServices.ts"

const world = Layer.mergeAll(NodeFileSystem.layer, Crypto.Default, Logger.minimumLogLevel(LogLevel.None))
const context: KeyContext = { purpose: "data-key", teamId: "t", projectId: "p", environmentId: "e", keyId: "k" }

const place = Effect.map(
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped()),
  (folder) => join(folder, "root-key")
)

/** The SDK finds region, credentials and endpoint in the environment, here as everywhere. */
const environment = (set: Record<string, string>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const before = Object.keys(set).map((name) => [name, process.env[name]] as const)
      Object.assign(process.env, set)
      return before
    }),
    (before) =>
      Effect.sync(() => {
        for (const [name, value] of before) {
          if (value === undefined) delete process.env[name]
          else process.env[name] = value
        }
      })
  )

const account = {
  accessKeyId: "AKIDEXAMPLE",
  secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
  keyId: "alias/ampoule"
}
const aws = (url: string, more: Record<string, string> = {}) =>
  environment({
    AWS_REGION: "eu-central-1",
    AWS_ACCESS_KEY_ID: account.accessKeyId,
    AWS_SECRET_ACCESS_KEY: account.secret,
    AWS_ENDPOINT_URL_KMS: url,
    AWS_MAX_ATTEMPTS: "1",
    ...more
  })

const started = (file: string) => Effect.flatMap(KeyFile.ring(file), Vault.make)

/** First start, a wrapped key, a second start that opens it: the file has the service's output. */
const life = (provider: Layer.Layer<KeyProvider>, prefix: string) =>
  Effect.gen(function* () {
    const file = yield* place
    const dataKey = yield* Effect.gen(function* () {
      yield* KeyFile.create(file)
      return yield* (yield* started(file)).generateDataKey(context)
    }).pipe(Effect.provide(Layer.fresh(provider)))
    const text = fs.readFileSync(file, "utf8")
    assert.isTrue(text.startsWith(prefix))
    assert.strictEqual(text.trim().split(/\s/).length, 1)
    const again = yield* Effect.flatMap(started(file), (vault) =>
      vault.unwrap(context, dataKey.wrapped, dataKey.rootKeyId)
    ).pipe(Effect.provide(Layer.fresh(provider)))
    assert.isTrue(again.equals(dataKey.key))
    return { file, made: dataKey }
  })

const refusal = (file: string, provider: Layer.Layer<KeyProvider>) =>
  Effect.map(Effect.flip(Effect.provide(started(file), Layer.fresh(provider))), (error) => error.message)

layer(world)("root keys guarded by AWS KMS", (it) => {
  it.scoped("are made, opened at each start, and never stand in the file", () =>
    Effect.gen(function* () {
      const service = yield* KeyServices.kms(account)
      yield* aws(service.url)
      yield* life(VaultKms.layer(account), "aws-kms:")
      assert.deepStrictEqual([...new Set(service.asked)], ["TrentService.Encrypt", "TrentService.Decrypt"])
    })
  )

  it.scoped("rotate: the new key goes to KMS, the plain old one of before unwraps", () =>
    Effect.gen(function* () {
      const service = yield* KeyServices.kms(account)
      yield* aws(service.url)
      const file = yield* place
      yield* KeyFile.create(file)
      const before = yield* (yield* started(file)).generateDataKey(context)
      yield* Effect.gen(function* () {
        yield* KeyFile.add(file)
        const vault = yield* started(file)
        const after = yield* vault.generateDataKey(context)
        assert.notStrictEqual(after.rootKeyId, before.rootKeyId)
        assert.isTrue((yield* vault.unwrap(context, before.wrapped, before.rootKeyId)).equals(before.key))
      }).pipe(Effect.provide(VaultKms.layer(account)))
      assert.match(fs.readFileSync(file, "utf8"), /^aws-kms:\S+\n[0-9a-f]{64} # rk_[0-9a-f]{8} until /)
    })
  )

  it.scoped("do not open with another key, wrong credentials, altered, or without the service", () =>
    Effect.gen(function* () {
      const service = yield* KeyServices.kms(account)
      yield* aws(service.url)
      const { file } = yield* life(VaultKms.layer(account), "aws-kms:")
      assert.include(yield* refusal(file, VaultKms.layer({ keyId: "alias/other" })), "NotFoundException")
      const text = fs.readFileSync(file, "utf8")
      fs.writeFileSync(
        file,
        text.replace(/.(?=.{20}$)/m, (found) => (found === "A" ? "B" : "A"))
      )
      assert.include(yield* refusal(file, VaultKms.layer(account)), "InvalidCiphertextException")
      fs.writeFileSync(file, text)
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* aws(service.url, { AWS_SECRET_ACCESS_KEY: "another" })
          const message = yield* refusal(file, VaultKms.layer(account))
          assert.include(message, "InvalidSignatureException")
          assert.notInclude(message, "another")
        })
      )
      yield* aws("http://127.0.0.1:1")
      assert.include(yield* refusal(file, VaultKms.layer(account)), "AWS KMS did not open the root key")
    })
  )
})

layer(world)("root keys guarded by a transit engine", (it) => {
  const options = { mount: "infra/transit", name: "ampoule", token: "hvs.example" }
  const provider = (url: string, more: Partial<VaultTransit.Options> = {}) =>
    VaultTransit.layer({ url, key: "infra/transit/ampoule", token: Redacted.make(options.token), ...more })

  it.scoped("are made, opened at each start, and never stand in the file", () =>
    Effect.gen(function* () {
      const service = yield* KeyServices.transit(options)
      yield* life(provider(service.url), "transit:vault:v1:")
      assert.deepStrictEqual(
        [...new Set(service.asked)],
        ["POST /v1/infra/transit/encrypt/ampoule", "POST /v1/infra/transit/decrypt/ampoule"]
      )
    })
  )

  it.scoped(
    "do not open with another key or token, altered, or without the service, and no sentence has the token",
    () =>
      Effect.gen(function* () {
        const service = yield* KeyServices.transit(options)
        const { file } = yield* life(provider(service.url), "transit:")
        assert.include(yield* refusal(file, provider(service.url, { key: "transit/other" })), "status 404")
        const text = yield* refusal(file, provider(service.url, { token: Redacted.make("hvs.wrong") }))
        assert.include(text, "status 403")
        assert.notInclude(text, "hvs.")
        assert.include(yield* refusal(file, provider("http://127.0.0.1:1")), "no answer")
        fs.writeFileSync(
          file,
          fs.readFileSync(file, "utf8").replace(/.(?=.{20}$)/m, (found) => (found === "A" ? "B" : "A"))
        )
        assert.include(yield* refusal(file, provider(service.url)), "status 400")
      })
  )
})

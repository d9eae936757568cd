import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as FileSystem from "@effect/platform/FileSystem"
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { createHash, randomBytes } from "node:crypto"
import * as fs from "node:fs"
import * as net from "node:net"
import { join } from "node:path"
import { tokenFileOf, VaultAddress } from "#layers/VaultAddress.ts"
import * as VaultRemote from "#layers/VaultRemote.ts"
import * as VaultServer from "#layers/VaultServer.ts"
import type { IntegrityFailure } from "#schema/Errors.ts"
import type { KeyContext, KeyPurpose, VaultUnavailable } from "#schema/Vault.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as RootKey from "#src/crypto/RootKey.ts"
import * as Vault from "#src/crypto/Vault.ts"
import * as VaultLog from "#src/vault/VaultLog.ts"
import * as Certificates from "#test/support/Certificates.ts"
import { freePort } from "#test/support/FreePort.ts"
import { parsed } from "#test/support/Json.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

const rootKey = (name: string) => RootKey.rootKey(RootKey.secretKeyFrom(createHash("sha256").update(name).digest()))
const context = (keyId: string, more: Partial<KeyContext> = {}): KeyContext => ({
  purpose: "data-key",
  teamId: "team",
  projectId: "project",
  environmentId: "environment",
  keyId,
  ...more
})

const world = Layer.mergeAll(
  TestDatabase.layer,
  Crypto.Default,
  NodeFileSystem.layer,
  Logger.minimumLogLevel(LogLevel.None)
)

interface Started {
  readonly address: VaultAddress
  readonly folder: string
  readonly log: string
  /** Ends the vault as a process ends. */
  readonly stop: Effect.Effect<void>
}

/** A vault in this process, with what a vault process has around it, until the scope closes. */
const start = (
  keys: RootKey.RootKeys | RootKey.RootKeyRing,
  options: {
    readonly folder?: string
    readonly token?: string
    readonly unwrapsPerSecond?: number
    readonly tls?: { readonly port: number; readonly certificates: Certificates.Issued }
  } = {}
) =>
  Effect.gen(function* () {
    const platform = yield* FileSystem.FileSystem
    const folder = options.folder ?? (yield* platform.makeTempDirectoryScoped())
    const path = join(folder, "vault.sock")
    const { tls } = options
    const address =
      tls === undefined ? VaultAddress.Unix({ path }) : VaultAddress.Tls({ host: "127.0.0.1", port: tls.port })
    const log = join(folder, "log.jsonl")
    const token = options.token ?? "a token of the tests, long enough"
    yield* Effect.sync(() => fs.writeFileSync(tokenFileOf(path), token))
    if (tls === undefined) yield* VaultServer.prepare(path)
    const scope = yield* Scope.fork(yield* Effect.scope, ExecutionStrategy.sequential)
    const vault = yield* Vault.make("byId" in keys ? RootKey.fixedRing(keys) : keys)
    const opened = yield* Scope.extend(VaultLog.open(log), scope)
    yield* Layer.buildWithScope(
      VaultServer.layer({
        address,
        token: Redacted.make(token),
        unwrapsPerSecond: options.unwrapsPerSecond ?? 1_000,
        log: opened,
        ...(tls === undefined ? {} : { certificates: tls.certificates })
      }).pipe(Layer.provide(Layer.succeed(Vault.Vault, vault))),
      scope
    )
    const started: Started = { address, folder, log, stop: Scope.close(scope, Exit.void) }
    return started
  })

const connect = (options: VaultRemote.Options) =>
  Effect.map(Layer.build(Layer.fresh(VaultRemote.layer(options))), Context.get(Vault.Vault))
const connectTo = ({ address }: Started, token?: string) =>
  connect({ address, token: Option.map(Option.fromNullable(token), Redacted.make) })

const reset = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`TRUNCATE vault_canary, data_keys, environments, projects, teams CASCADE`
)
const reason = (failing: Effect.Effect<unknown, unknown, never>) =>
  Effect.map(Effect.flip(failing), (error) =>
    typeof error === "object" && error !== null && "reason" in error ? error.reason : error
  )
/** Connections come back by themselves, after a pause on the wall clock. */
const eventually = <A, E>(call: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.gen(function* () {
    for (let i = 0; i < 100; i++) {
      const exit = yield* Effect.exit(call)
      if (Exit.isSuccess(exit)) return exit.value
      yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 100)))
    }
    return yield* call
  })

layer(world, { excludeTestServices: true })("a vault in another process", (it) => {
  it.scoped.prop(
    "wraps and unwraps like the one in the same process, and refuses the same",
    [
      FastCheck.record({
        purpose: FastCheck.constantFrom<KeyPurpose>("data-key", "sealing-key", "service-key"),
        teamId: FastCheck.string({ maxLength: 20 }),
        projectId: FastCheck.string({ maxLength: 20 }),
        environmentId: FastCheck.string({ maxLength: 20 }),
        keyId: FastCheck.string({ maxLength: 20 })
      }),
      FastCheck.uint8Array({ minLength: 1, maxLength: 200 }),
      FastCheck.nat(10_000)
    ],
    ([at, bytes, pick]) =>
      Effect.gen(function* () {
        yield* reset
        const keys = RootKey.rootKeys(rootKey("a"), [rootKey("b")])
        const local = yield* Vault.make(RootKey.fixedRing(keys))
        const remote = yield* connectTo(yield* start(keys))
        const pairs: ReadonlyArray<readonly [Vault.Vault["Type"], Vault.Vault["Type"]]> = [
          [local, remote],
          [remote, local]
        ]
        for (const [one, other] of pairs) {
          const { rootKeyId, wrapped } = yield* one.wrapBytes(at, Redacted.make(Uint8Array.from(bytes)))
          const opened = yield* other.unwrapBytes(at, wrapped, rootKeyId)
          assert.isTrue(Buffer.from(Redacted.value(opened)).equals(bytes))
          const altered = Uint8Array.from(wrapped)
          altered[pick % altered.length] ^= 1
          const moved = { ...at, environmentId: `${at.environmentId}x` }
          const attempts: ReadonlyArray<Effect.Effect<unknown, VaultUnavailable | IntegrityFailure>> = [
            other.unwrapBytes(at, altered, rootKeyId),
            other.unwrapBytes(moved, wrapped, rootKeyId),
            other.unwrapBytes(at, wrapped, rootKey("b").id),
            other.unwrapBytes(at, wrapped, "rk_00000000"),
            other.rewrap(moved, wrapped, rootKeyId)
          ]
          for (const refused of attempts) {
            assert.strictEqual((yield* Effect.flip(refused))._tag, "INTEGRITY_FAILURE")
          }
          const again = yield* other.rewrap(at, wrapped, rootKeyId)
          assert.strictEqual(again.rootKeyId, keys.current.id)
          const reopened = yield* one.unwrapBytes(at, again.wrapped, again.rootKeyId)
          assert.isTrue(Buffer.from(Redacted.value(reopened)).equals(bytes))
        }
        const dataKey = yield* remote.generateDataKey(at)
        assert.strictEqual(dataKey.key.symmetricKeySize, 32)
        assert.isTrue((yield* local.unwrap(at, dataKey.wrapped, dataKey.rootKeyId)).equals(dataKey.key))
        const head = Buffer.from(bytes)
        assert.isTrue(yield* local.auditHeadMatches(head, yield* remote.macAuditHead(head)))
        assert.isTrue(yield* remote.auditHeadMatches(head, yield* local.macAuditHead(head)))
        assert.deepStrictEqual(yield* remote.signCheckpoint(head), yield* local.signCheckpoint(head))
        assert.deepStrictEqual(yield* remote.status, yield* local.status)
      }),
    { fastCheck: { numRuns: 8 } }
  )

  it.scoped("answers many at once in few calls, each its own, and writes a line for each", () =>
    Effect.gen(function* () {
      yield* reset
      const vault = yield* start(RootKey.rootKeys(rootKey("a")))
      const remote = yield* connectTo(vault)
      const dataKeys = yield* Effect.forEach(
        Array.from({ length: 300 }, (_, i) => `${i}`),
        (id) => Effect.map(remote.generateDataKey(context(id)), (key) => ({ id, ...key })),
        { concurrency: 16 }
      )
      const batch = [...dataKeys, { ...dataKeys[7], id: "moved" }]
      const opened = yield* Effect.forEach(
        batch,
        ({ id, rootKeyId, wrapped }) => Effect.either(remote.unwrap(context(id), wrapped, rootKeyId)),
        { concurrency: "unbounded" }
      )
      for (const [i, { key }] of dataKeys.entries()) {
        const one = opened[i]
        assert.isTrue(one._tag === "Right" && one.right.equals(key))
      }
      assert.strictEqual(opened.at(-1)?._tag, "Left")
      const lines = fs
        .readFileSync(vault.log, "utf8")
        .trimEnd()
        .split("\n")
        .map(
          parsed(
            Schema.Struct({
              operation: Schema.String,
              outcome: Schema.String,
              purpose: Schema.String,
              key: Schema.String
            })
          )
        )
      const of = (operation: string, outcome: string) =>
        lines.filter((line) => line.operation === operation && line.outcome === outcome && line.purpose === "data-key")
      assert.sameMembers(
        of("unwrap", "done").map(({ key }) => key),
        dataKeys.map(({ id }) => id)
      )
      assert.deepStrictEqual(
        of("unwrap", "refused").map(({ key }) => key),
        ["moved"]
      )
      assert.strictEqual((yield* VaultLog.verify(vault.log)).seq, lines.length)
      assert.notInclude(fs.readFileSync(vault.log, "latin1"), dataKeys[0].key.export().toString("latin1"))
    })
  )

  it.scoped("takes no call without its token, and does not tell a wrong one from a missing one", () =>
    Effect.gen(function* () {
      yield* reset
      const vault = yield* start(RootKey.rootKeys(rootKey("a")))
      const lines = () => fs.readFileSync(vault.log, "utf8").split("\n").length
      const before = lines()
      const remote = yield* connectTo(vault, "another token of the same length.")
      for (const call of [
        remote.status,
        remote.generateDataKey(context("1")),
        remote.macAuditHead(randomBytes(32)),
        remote.signCheckpoint(randomBytes(32))
      ]) {
        assert.strictEqual(yield* reason(call), "The vault refused the server's token.")
      }
      assert.strictEqual(lines(), before, "nothing was done")
      const right = yield* connectTo(vault, "a token of the tests, long enough")
      assert.strictEqual((yield* right.status).rootKeyId, rootKey("a").id)
    })
  )

  it.scoped("is for its own user alone: the socket and its folder", () =>
    Effect.gen(function* () {
      const vault = yield* start(RootKey.rootKeys(rootKey("a")))
      const path = join(vault.folder, "vault.sock")
      assert.strictEqual(fs.statSync(path).mode & 0o777, 0o600)
      const open = yield* Effect.flatMap(FileSystem.FileSystem, (platform) => platform.makeTempDirectoryScoped())
      fs.chmodSync(open, 0o755)
      const refused = yield* Effect.flip(VaultServer.prepare(join(open, "vault.sock")))
      assert.include(refused.message, "chmod 700")
      const second = yield* Effect.flip(VaultServer.prepare(path))
      assert.include(second.message, "Another vault")
    })
  )

  it.scoped("survives what is no call of ours", () =>
    Effect.gen(function* () {
      yield* reset
      const vault = yield* start(RootKey.rootKeys(rootKey("a")))
      const remote = yield* connectTo(vault)
      for (const garbage of [randomBytes(10_000), Buffer.from("GET / HTTP/1.1\r\n\r\n"), Buffer.alloc(70_000, 0xc1)]) {
        yield* Effect.async<void>((resume) => {
          const socket = net.connect(join(vault.folder, "vault.sock"), () => socket.end(garbage))
          socket.on("error", () => resume(Effect.void))
          socket.on("close", () => resume(Effect.void))
          socket.resume()
          setTimeout(() => socket.destroy(), 500)
        })
        assert.strictEqual((yield* remote.status).rootKeyId, rootKey("a").id)
      }
    })
  )

  it.scoped("fails at once when it is gone, and is found again without a restart, with another token too", () =>
    Effect.gen(function* () {
      yield* reset
      const keys = RootKey.rootKeys(rootKey("a"))
      const vault = yield* start(keys)
      const remote = yield* connectTo(vault)
      const dataKey = yield* remote.generateDataKey(context("1"))
      yield* vault.stop
      assert.strictEqual((yield* Effect.flip(remote.status))._tag, "VaultUnavailable")
      assert.strictEqual(
        (yield* Effect.flip(remote.unwrap(context("1"), dataKey.wrapped, dataKey.rootKeyId)))._tag,
        "VaultUnavailable"
      )
      yield* start(keys, { folder: vault.folder, token: "the token of another start of it." })
      const key = yield* eventually(remote.unwrap(context("1"), dataKey.wrapped, dataKey.rootKeyId))
      assert.isTrue(key.equals(dataKey.key))
    })
  )

  it.scoped("need not be there when a server starts; a foreign one is refused then", () =>
    Effect.gen(function* () {
      yield* reset
      const vault = yield* start(RootKey.rootKeys(rootKey("a")))
      yield* connectTo(vault)
      yield* vault.stop
      const early = yield* connectTo(vault)
      assert.strictEqual((yield* Effect.flip(early.status))._tag, "VaultUnavailable")
      const foreign = yield* start(RootKey.rootKeys(rootKey("b")), { folder: vault.folder })
      const refused = yield* Effect.flip(connectTo(foreign))
      assert.strictEqual(refused._tag, "VaultKeyWrong")
      assert.include(refused._tag === "VaultKeyWrong" ? refused.message : "", rootKey("a").id)
      // The server that was there before notices too, and lets nothing be stored under a foreign key.
      const calls: ReadonlyArray<Effect.Effect<unknown, VaultUnavailable>> = [
        early.status,
        early.generateDataKey(context("1"))
      ]
      for (const call of calls) {
        const failure = eventually(
          Effect.filterOrFail(
            Effect.flip(call),
            ({ reason }) => reason.includes("other root keys"),
            () => "not yet" as const
          )
        )
        assert.strictEqual((yield* failure)._tag, "VaultUnavailable")
      }
    })
  )

  it.scoped("hands out no more keys per second than it may", () =>
    Effect.gen(function* () {
      yield* reset
      const vault = yield* start(RootKey.rootKeys(rootKey("a")), { unwrapsPerSecond: 100 })
      const remote = yield* connectTo(vault)
      const dataKey = yield* remote.generateDataKey(context("1"))
      const answers = yield* Effect.forEach(
        Array.from({ length: 2_000 }),
        () => Effect.either(remote.unwrap(context("1"), dataKey.wrapped, dataKey.rootKeyId)),
        { concurrency: "unbounded" }
      )
      const failures = answers.filter((answer) => answer._tag === "Left")
      assert.isAbove(failures.length, 0)
      assert.isAbove(answers.length - failures.length, 0)
      for (const { left: error } of failures) assert.strictEqual(error._tag, "VaultUnavailable")
      assert.include(fs.readFileSync(vault.log, "utf8"), '"limited"')
      // A rotation hands out nothing and is not held up.
      const again = yield* remote.rewrap(context("1"), dataKey.wrapped, dataKey.rootKeyId)
      assert.strictEqual(again.rootKeyId, dataKey.rootKeyId)
    })
  )

  it.scoped("takes up a new root key under way, and the server trusts it", () =>
    Effect.gen(function* () {
      yield* reset
      let keys = RootKey.rootKeys(rootKey("a"))
      const vault = yield* start({ now: Effect.sync(() => keys), having: () => Effect.sync(() => keys) })
      const remote = yield* connectTo(vault)
      const before = yield* remote.generateDataKey(context("1"))
      keys = RootKey.rootKeys(rootKey("b"), [rootKey("a")])
      const after = yield* remote.generateDataKey(context("2"))
      assert.strictEqual(after.rootKeyId, rootKey("b").id)
      assert.isTrue((yield* remote.unwrap(context("1"), before.wrapped, before.rootKeyId)).equals(before.key))
    })
  )
})

layer(world, { excludeTestServices: true })("a vault over TLS", (it) => {
  it.scoped("answers who shows a certificate of its authority, to whom it can show its own", () =>
    Effect.gen(function* () {
      yield* reset
      const platform = yield* FileSystem.FileSystem
      const folder = yield* platform.makeTempDirectoryScoped()
      const issue = Certificates.authority(folder)
      const foreign = Certificates.authority(folder)
      const port = yield* freePort
      const [ours, theirs] = [issue("vault"), issue("server")]
      const vault = yield* start(RootKey.rootKeys(rootKey("a")), { folder, tls: { port, certificates: ours } })
      const token = Option.some(Redacted.make("a token of the tests, long enough"))
      const remote = yield* connect({ address: vault.address, token, certificates: theirs })
      const dataKey = yield* remote.generateDataKey(context("1"))
      assert.isTrue((yield* remote.unwrap(context("1"), dataKey.wrapped, dataKey.rootKeyId)).equals(dataKey.key))

      const stranger = foreign("stranger")
      const nameless = yield* start(RootKey.rootKeys(rootKey("a")), {
        tls: { port: yield* freePort, certificates: issue("nameless", []) }
      })
      for (const [what, options] of Object.entries({
        "no certificate of its own": { address: vault.address, token },
        "a certificate of another authority": {
          address: vault.address,
          token,
          certificates: { ...stranger, ca: theirs.ca }
        },
        "another authority for the vault": {
          address: vault.address,
          token,
          certificates: { ...theirs, ca: stranger.ca }
        },
        "a vault that its certificate does not name": { address: nameless.address, token, certificates: theirs },
        "no token": { address: vault.address, token: Option.none(), certificates: theirs }
      })) {
        const refused = yield* connect(options)
        assert.strictEqual((yield* Effect.flip(refused.status))._tag, "VaultUnavailable", what)
      }
      assert.strictEqual((yield* remote.status).rootKeyId, rootKey("a").id)
    })
  )
})

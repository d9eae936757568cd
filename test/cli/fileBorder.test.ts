import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { missing } from "#test/support/Programs.ts"
import { Ampoule } from "./Ampoule.ts"
import { project, withServer } from "./WithServer.ts"

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

layer(Ampoule.Default, { excludeTestServices: true })("files that ampoule inject writes", (it) => {
  const inject = Effect.fnUntraced(function* () {
    const ampoule = yield* Ampoule
    const home = yield* ampoule.home
    const { options } = yield* withServer({ A: "value-of-a" })
    fs.writeFileSync(path.join(home, "t"), "is {{ A }}\n")
    const line = (out: string) => ampoule.line(["inject", ...project, "t", "--out", out])
    const shell = (script: string) =>
      Effect.scoped(Effect.flatMap(ampoule.shell(script, options({ home, stdin: "" })), ({ ended }) => ended))
    const read = (name: string) => fs.readFileSync(path.join(home, name), "utf8")
    return { home, line, read, shell }
  })

  it.scoped("a link stays, and its target is replaced, also one that does not exist yet", () =>
    Effect.gen(function* () {
      const { home, line, read, shell } = yield* inject()
      fs.mkdirSync(path.join(home, "real/deep"), { recursive: true })
      fs.writeFileSync(path.join(home, "real/file"), "before", { mode: 0o644 })
      fs.symlinkSync("file", path.join(home, "real/second"))
      fs.symlinkSync("real/second", path.join(home, "link"))
      fs.symlinkSync("real/new", path.join(home, "dangling"))
      fs.symlinkSync("real/deep", path.join(home, "folder"))
      fs.symlinkSync("../new2", path.join(home, "real/deep/up"))
      fs.mkdirSync(path.join(home, "real/deep/inner"))
      fs.symlinkSync("real/deep/inner", path.join(home, "inner"))
      fs.symlinkSync("inner/../new3", path.join(home, "beyond"))
      for (const [name, target] of [
        ["link", "real/file"],
        ["dangling", "real/new"],
        ["folder/up", "real/new2"],
        ["beyond", "real/deep/new3"]
      ] as const) {
        const ended = yield* shell(line(name))
        assert.strictEqual(ended.code, 0, ended.stderr)
        assert.isTrue(fs.lstatSync(path.join(home, name)).isSymbolicLink())
        assert.strictEqual(read(target), "is value-of-a\n")
        assert.strictEqual(fs.statSync(path.join(home, target)).mode & 0o777, 0o600)
      }
      fs.symlinkSync("round", path.join(home, "round"))
      const round = yield* shell(line("round"))
      assert.strictEqual(round.code, 1)
      assert.include(round.stderr, "too many links")
      assert.deepStrictEqual(
        fs.readdirSync(path.join(home, "real")).sort(),
        ["deep", "file", "new", "new2", "second"],
        "no temporary file"
      )
    })
  )

  it.scoped("a pipe and a device are written into, and stay", () =>
    Effect.gen(function* () {
      const { line, shell } = yield* inject()
      const out = yield* shell(`${line("/dev/stdout")} | cat; test -L /dev/stdout; echo $?`)
      assert.strictEqual(out.stdout, "is value-of-a\n0\n", out.stderr)
      const fifo = yield* shell(`mkfifo p; cat p & ${line("p")}; wait; test -p p; echo $?`)
      assert.strictEqual(fifo.stdout, "is value-of-a\n0\n", fifo.stderr)
    })
  )

  it.scoped.skipIf(missing("unshare"))("a file that is a mount is written in place, and the command says so", () =>
    Effect.gen(function* () {
      const { home, line, read, shell } = yield* inject()
      fs.mkdirSync(path.join(home, "app"))
      const inside = (script: string) => shell(`exec unshare --user --map-root-user --mount sh -c ${quoted(script)}`)
      for (const readOnly of [false, true]) {
        fs.writeFileSync(path.join(home, "outside"), "something longer than before\n", { mode: 0o640 })
        fs.chmodSync(path.join(home, "outside"), 0o640)
        fs.writeFileSync(path.join(home, "app/app conf"), "covered")
        const before = fs.statSync(path.join(home, "outside")).ino
        // The folder around it may be read-only, as in a container of --read-only.
        const folder = readOnly ? "mount --bind app app && mount -o remount,ro,bind app &&" : ""
        const ended = yield* inside(`${folder} mount --bind outside 'app/app conf' && ${line("app/app conf")}`)
        assert.strictEqual(ended.code, 0, ended.stderr)
        assert.include(ended.stderr, "is a mount, so it was written in place")
        assert.include(ended.stderr, "0640")
        assert.notInclude(ended.stderr, "readable only by you")
        assert.strictEqual(read("outside"), "is value-of-a\n")
        assert.strictEqual(fs.statSync(path.join(home, "outside")).ino, before)
        assert.deepStrictEqual(fs.readdirSync(path.join(home, "app")), ["app conf"])
      }
      const refused = yield* inside(`mount --bind app app && mount -o remount,ro,bind app && ${line("app/other")}`)
      assert.strictEqual(refused.code, 1)
      assert.include(refused.stderr, "the file system is read-only")
    })
  )
})

layer(Ampoule.Default, { excludeTestServices: true })("a home that cannot be read", (it) => {
  const inHome = Effect.fnUntraced(function* (HOME: string, environment: Readonly<Record<string, string>> = {}) {
    const ampoule = yield* Ampoule
    const { options } = yield* withServer({ A: "value-of-a" })
    const env = { HOME, XDG_CONFIG_HOME: "", XDG_CACHE_HOME: "", ...environment }
    const line = ampoule.line(["run", ...project, "--", "sh", "-c", "echo $A"])
    const shell = (script: string) =>
      Effect.scoped(Effect.flatMap(ampoule.shell(script, options({ env, stdin: "" })), ({ ended }) => ended))
    return { line, shell }
  })

  for (const home of ["/dev/null", "/proc", "/proc/1/nowhere", "/nonexistent/home"]) {
    it.scoped(`HOME=${home} is no obstacle to a token of the environment`, () =>
      Effect.gen(function* () {
        const { line, shell } = yield* inHome(home)
        const ended = yield* shell(line)
        assert.deepStrictEqual([ended.code, ended.stdout], [0, "value-of-a\n"])
        assert.notInclude(ended.stderr, "ampoule")
        const without = yield* inHome(home, { AMPOULE_API_TOKEN: "" })
        const failed = yield* without.shell(without.line)
        assert.deepStrictEqual([failed.code, failed.stdout], [125, ""])
        assert.include(failed.stderr, "AMPOULE_API_TOKEN")
      })
    )
  }

  /** A home whose login records are not a file that this user may read. */
  const broken = Effect.fnUntraced(function* (make: (records: string) => void) {
    const home = yield* Effect.flatMap(Ampoule, (ampoule) => ampoule.home)
    const folder = path.join(home, ".config/ampoule")
    fs.mkdirSync(folder, { recursive: true })
    make(path.join(folder, "logins.json"))
    return home
  })

  it.scoped("login records that cannot be read are a warning beside a token, and else a sentence", () =>
    Effect.gen(function* () {
      const loop = yield* broken((records) => fs.symlinkSync("logins.json", records))
      const folder = yield* broken((records) => fs.mkdirSync(records))
      for (const home of [loop, folder]) {
        const { line, shell } = yield* inHome(home)
        const ended = yield* shell(line)
        assert.deepStrictEqual([ended.code, ended.stdout], [0, "value-of-a\n"])
        assert.include(ended.stderr, "Cannot read the login records")
        assert.include(ended.stderr, "AMPOULE_API_TOKEN is used")
        const chosen = yield* shell(line.replace("'run'", "'run' '--credential' 'env'"))
        assert.deepStrictEqual([chosen.code, chosen.stderr], [0, ""])
        const without = yield* inHome(home, { AMPOULE_API_TOKEN: "" })
        const failed = yield* without.shell(without.line)
        assert.deepStrictEqual([failed.code, failed.stdout], [125, ""])
        assert.include(failed.stderr, "Set AMPOULE_API_TOKEN")
      }
    })
  )

  it.scoped.skipIf(missing("setpriv"))("the home of another user is no obstacle", () =>
    Effect.gen(function* () {
      const home = yield* broken((records) => fs.writeFileSync(records, "{}"))
      fs.chmodSync(home, 0)
      const { line, shell } = yield* inHome(home)
      // Root reads everything unless it gives its capabilities away.
      const plain = process.getuid?.() === 0 ? "setpriv --inh-caps=-all --bounding-set=-all " : ""
      const ended = yield* shell(`cd /; exec ${plain}${line}`)
      assert.deepStrictEqual([ended.code, ended.stdout], [0, "value-of-a\n"], ended.stderr)
      assert.include(ended.stderr, "permission denied")
      const without = yield* inHome(home, { AMPOULE_API_TOKEN: "" })
      const failed = yield* without.shell(`cd /; exec ${plain}${without.line}`)
      assert.deepStrictEqual([failed.code, failed.stdout], [125, ""])
      assert.include(failed.stderr, "Set AMPOULE_API_TOKEN")
    })
  )

  it.scoped("a pipe in the place of the login records does not stop a command", () =>
    Effect.gen(function* () {
      const home = yield* Effect.flatMap(Ampoule, (ampoule) => ampoule.home)
      const { line, shell } = yield* inHome(home)
      const ended = yield* shell(
        `mkdir -p ${home}/.config/ampoule; mkfifo ${home}/.config/ampoule/logins.json; ${line}`
      )
      assert.deepStrictEqual([ended.code, ended.stdout], [0, "value-of-a\n"])
      assert.include(ended.stderr, "not a regular file")
    })
  )

  it.scoped.skipIf(missing("unshare", "python3"))(
    "a file system that never answers is a sentence, and no obstacle to a token",
    () =>
      Effect.gen(function* () {
        // A FUSE program that mounts and answers nothing, like an NFS server that is gone.
        const silent = `
import ctypes, os, subprocess, sys
fd = os.open("/dev/fuse", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()
if libc.mount(b"silent", sys.argv[1].encode(), b"fuse.silent", 0, options) != 0: sys.exit("mount: " + os.strerror(ctypes.get_errno()))
sys.exit(subprocess.run(["sh", "-c", sys.argv[2]]).returncode)
`
        const home = yield* Effect.flatMap(Ampoule, (ampoule) => ampoule.home)
        const inside = (script: string) =>
          `exec unshare --user --map-root-user --mount python3 -c ${quoted(silent)} ${home} ${quoted(script)}`
        const { line, shell } = yield* inHome(home)
        const ended = yield* shell(`cd /; ${inside(line)}`)
        assert.deepStrictEqual([ended.code, ended.stdout], [0, "value-of-a\n"], ended.stderr)
        assert.include(ended.stderr, "its file system does not answer")
        const without = yield* inHome(home, { AMPOULE_API_TOKEN: "" })
        const failed = yield* without.shell(`cd /; ${inside(without.line)}`)
        assert.deepStrictEqual([failed.code, failed.stdout], [125, ""])
        assert.include(failed.stderr, "its file system does not answer")
      })
  )
})

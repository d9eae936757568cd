import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { missing } from "#test/support/Programs.ts"
import { Ampoule, isExecutable } from "./Ampoule.ts"
import { project, withServer } from "./WithServer.ts"

/** Modes in which `ampoule run` stays beside its command, whatever Node runs it. */
const parentModes = [["--redact"], ["--watch"], ["--redact", "--watch"]]
const modes = [[], ...parentModes]

const nameOf = (mode: ReadonlyArray<string>) => ["run", ...mode].join(" ")

const quoted = (words: ReadonlyArray<string>) => words.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ")

/** True for a Node in which `run` becomes its command. */
const becomes = ([major = 0, minor = 0]: ReadonlyArray<number>): boolean => major > 22 || (major === 22 && minor >= 15)

layer(Ampoule.Default, { excludeTestServices: true })("process 1 of a container", (it) => {
  /** A process namespace of its own, as a container has: the command is its process 1. */
  const container = Effect.fnUntraced(function* (mode: ReadonlyArray<string>, command: ReadonlyArray<string>) {
    const ampoule = yield* Ampoule
    const { options, server } = yield* withServer({ A: "value-of-a" })
    const line = ampoule.line(["run", ...project, ...mode, "--", ...command])
    const run = (script: string) =>
      Effect.scoped(
        Effect.flatMap(
          ampoule.shell(
            `exec unshare --user --map-root-user --mount --pid --fork --mount-proc sh -c ${quoted([script])}`,
            options({ stdin: "" })
          ),
          ({ ended }) => ended
        )
      )
    return { line, run, server }
  })

  for (const mode of parentModes) {
    it.scoped.skipIf(missing("unshare"))(`${nameOf(mode)} refuses to be process 1, and reads no value`, () =>
      Effect.gen(function* () {
        const { line, run, server } = yield* container(mode, ["echo", "started"])
        const ended = yield* run(`exec ${line}`)
        assert.deepStrictEqual([ended.code, ended.stdout, server.asked.length], [125, "", 0], ended.stderr)
        assert.include(ended.stderr, "process 1")
        assert.include(ended.stderr, "--init")
        for (const option of mode) assert.include(ended.stderr, option)
      })
    )
  }

  it.scoped.skipIf(missing("unshare"))("ampoule run becomes process 1, or refuses where its Node cannot", () =>
    Effect.gen(function* () {
      const { line, run, server } = yield* container([], ["sh", "-c", "echo $$ $A"])
      const ended = yield* run(`exec ${line}`)
      if (becomes((yield* Ampoule).nodeVersion)) {
        assert.deepStrictEqual([ended.code, ended.stdout, ended.stderr], [0, "1 value-of-a\n", ""])
      } else {
        assert.deepStrictEqual([ended.code, ended.stdout, server.asked.length], [125, "", 0], ended.stderr)
        assert.include(ended.stderr, "Node 22.15")
      }
    })
  )

  it.scoped.skipIf(missing("unshare"))("under an init, no orphan of the command stays a zombie", () =>
    Effect.gen(function* () {
      // Each orphan is a grandchild whose parent ends first.
      const orphans =
        "for i in 1 2 3 4 5; do sh -c 'sleep 0.1 & :'; done; sleep 0.6; grep -c '^State:.Z' /proc/[0-9]*/status | grep -c ':1$'"
      for (const mode of modes) {
        const { line, run } = yield* container(mode, ["sh", "-c", orphans])
        // A shell that waits is such an init.
        const ended = yield* run(`${line}; exit $?`)
        assert.strictEqual(ended.stdout, "0\n", ended.stderr)
      }
    })
  )
})

layer(Ampoule.Default, { excludeTestServices: true })("descriptors of the caller", (it) => {
  /** Prints the numbers and targets of all descriptors from 3 up, without that of the listing. */
  const listing = [
    "python3",
    "-c",
    `import os
for n in sorted(map(int, os.listdir("/proc/self/fd"))):
    try:
        if n > 2: print(n, os.readlink(f"/proc/self/fd/{n}"))
    except FileNotFoundError: pass`
  ]

  for (const mode of modes) {
    it.scoped(`${nameOf(mode)} passes on what a shell opened, and nothing else`, () =>
      Effect.gen(function* () {
        const ampoule = yield* Ampoule
        const home = yield* ampoule.home
        fs.writeFileSync(path.join(home, "in"), "from the file\n")
        const { options } = yield* withServer({ A: "value-of-a" })
        const shell = (opened: string, command: ReadonlyArray<string>) =>
          Effect.scoped(
            Effect.flatMap(
              ampoule.shell(
                `exec 251>&- 2>&1; ${opened} plain=$(${quoted(listing)}); with=$(${ampoule.line(["run", ...project, ...mode, "--", ...listing])}); [ "$plain" = "$with" ] && echo same || printf '%s\\n---\\n%s\\n' "$plain" "$with"; ${ampoule.line(["run", ...project, ...mode, "--", ...command])}`,
                options({ home, stdin: "" })
              ),
              ({ ended }) => ended
            )
          )
        const nothing = yield* shell("", ["echo", "end"])
        assert.strictEqual(nothing.stdout, "same\nend\n")
        const few = yield* shell("exec 3<in 4>out;", ["sh", "-c", "cat <&3; echo written >&4"])
        assert.strictEqual(few.stdout, "same\nfrom the file\n")
        assert.strictEqual(fs.readFileSync(path.join(home, "out"), "utf8"), "written\n")
        // Gaps, a device, a pipe with both ends, one that nobody else holds, and numbers that Node itself likes.
        const many =
          "exec 3</dev/null 5</dev/zero 6</dev/null 9>out 63<in; mkfifo p 2>/dev/null; exec 7<>p 11< <(sleep 9) 12> >(cat);"
        const all = yield* shell(many, ["bash", "-c", "cat <&63"])
        assert.strictEqual(all.stdout, "same\nfrom the file\n")
      })
    )

    it.scoped.skipIf(missing("python3"))(
      `${nameOf(mode)} passes on sockets of systemd, with LISTEN_PID of the command`,
      () =>
        Effect.gen(function* () {
          const ampoule = yield* Ampoule
          const { options } = yield* withServer({ A: "value-of-a" })
          // As systemd does: sockets from 3 up, the id in LISTEN_PID, then execve.
          const launcher = `
import os, socket, sys
sockets = [socket.socket(), socket.socket(socket.AF_UNIX)]
sockets[0].bind(("127.0.0.1", 0)); sockets[0].listen()
sockets[1].bind("\\0ampoule-" + str(os.getpid())); sockets[1].listen()
high = [os.dup(s.fileno()) for s in sockets]
for i, fd in enumerate(high):
    up = os.dup2(fd, 100 + i)
for i in range(2):
    os.dup2(100 + i, 3 + i, inheritable=True)
os.closerange(5, 200)
os.environ["LISTEN_FDS"] = "2"
os.environ["LISTEN_PID"] = str(os.getpid())
os.environ["LISTEN_FDNAMES"] = "http:control"
os.execvp(sys.argv[1], sys.argv[1:])
`
          const service = `
import os, socket
assert os.environ["LISTEN_PID"] == str(os.getpid()), "LISTEN_PID"
assert os.environ["LISTEN_FDNAMES"] == "http:control"
http = socket.socket(fileno=3)
client = socket.create_connection(http.getsockname())
http.accept()[0].sendall(b"accepted ")
control = socket.socket(fileno=4)
print(client.recv(9).decode() + str(control.family.name), len(os.environ["A"]))
`
          const line = ampoule.line(["run", ...project, ...mode, "--", "python3", "-c", service])
          const ended = yield* Effect.scoped(
            Effect.flatMap(
              ampoule.shell(`exec python3 -c ${quoted([launcher])} ${line}`, options({ stdin: "" })),
              ({ ended }) => ended
            )
          )
          assert.strictEqual(ended.stdout, "accepted AF_UNIX 10\n", ended.stderr)
          assert.strictEqual(ended.code, 0)
        })
    )

    it.scoped.skipIf(missing("make"))(`${nameOf(mode)} passes on the jobserver of make`, () =>
      Effect.gen(function* () {
        const ampoule = yield* Ampoule
        const home = yield* ampoule.home
        const { options } = yield* withServer({ A: "value-of-a" })
        fs.writeFileSync(path.join(home, "inner.mk"), "all: a b\na b:\n\t@echo $@\n")
        const line = ampoule.line(["run", ...project, ...mode, "--"]).replaceAll("$", "$$$$")
        fs.writeFileSync(path.join(home, "Makefile"), `all:\n\t+@${line} $(MAKE) --no-print-directory -f inner.mk\n`)
        const ended = yield* Effect.scoped(
          Effect.flatMap(ampoule.shell("exec make -j3", options({ home, stdin: "" })), ({ ended }) => ended)
        )
        assert.notInclude(ended.stderr, "jobserver")
        assert.deepStrictEqual([ended.code, ended.stdout.split("\n").sort()], [0, ["", "a", "b"]])
      })
    )
  }
})

layer(Ampoule.Default, { excludeTestServices: true })("all signals of ampoule run", (it) => {
  /** KILL and STOP are not caught by any process, CHLD is about our own children, 32 and 33 belong to the C library. */
  const { SIGCHLD, SIGCONT, SIGIO, SIGKILL, SIGPWR, SIGSTKFLT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU } =
    os.constants.signals
  const apart = [SIGKILL, SIGSTOP, SIGCHLD, SIGTSTP, SIGTTIN, SIGTTOU, 32, 33]
  const numbers = Array.from({ length: 64 }, (_, i) => i + 1).filter((number) => !apart.includes(number))
  /**
   * Bun catches neither SIGSTKFLT, SIGIO nor a real-time signal, and its engine stops threads by SIGPWR. Where `run` becomes its command, the kernel
   * delivers all of them (docs/command-line/run.md).
   */
  const reaches = (number: number, mode: ReadonlyArray<string>) =>
    !isExecutable || mode.length === 0 || (number < 34 && ![SIGSTKFLT, SIGIO, SIGPWR].includes(number))
  const recorder = `
import os, signal, sys
sys.stdout.write("ready\\n"); sys.stdout.flush()
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
sys.stdout.write("blocked\\n"); sys.stdout.flush()
while True:
    number = signal.sigwait(signal.valid_signals() - {signal.SIGCHLD})
    sys.stdout.write("got " + str(int(number)) + ".\\n"); sys.stdout.flush()
    if number == signal.SIGUSR2: break
`
  for (const mode of [["--redact"], ["--watch"]]) {
    it.scoped.skipIf(missing("python3"))(`${nameOf(mode)} hands every signal on, once`, () =>
      Effect.gen(function* () {
        const { start } = yield* withServer({ A: "value-of-a" })
        const running = yield* start([...project, ...mode, "--", "python3", "-c", recorder], { detached: true })
        yield* running.shows("blocked")
        const pid = running.child.pid ?? 0
        // The kernel sends SIGPIPE itself when a watching parent writes to a connection that is gone.
        const sent = numbers.filter(
          (number) =>
            reaches(number, mode) &&
            number !== os.constants.signals.SIGUSR2 &&
            (number !== os.constants.signals.SIGPIPE || !mode.includes("--watch"))
        )
        for (const number of [...sent, os.constants.signals.SIGUSR2]) {
          process.kill(pid, number)
          yield* running.shows(`got ${number}.`)
        }
        const ended = yield* running.ended
        assert.strictEqual(ended.code, 0, ended.stderr)
        assert.deepStrictEqual(
          [...ended.stdout.matchAll(/got (\d+)\./g)].map((match) => Number(match[1])),
          [...sent, os.constants.signals.SIGUSR2]
        )
        assert.include(sent, SIGCONT)
      })
    )
  }

  for (const mode of modes) {
    it.scoped(`${nameOf(mode)} ends as its command does, by each signal`, () =>
      Effect.gen(function* () {
        const ampoule = yield* Ampoule
        const { options } = yield* withServer({ A: "value-of-a" })
        for (const number of [6, 14, 24, 27, 29, 30, 31, 34, 50, 64].filter((one) => reaches(one, mode))) {
          const line = ampoule.line(["run", ...project, ...mode, "--", "sh", "-c", "echo ready $PPID; exec sleep 30"])
          const running = yield* ampoule.shell(
            `ulimit -c 0; ${line} & echo pid=$!; wait $!; echo code=$?`,
            options({ stdin: "" })
          )
          yield* running.shows("ready")
          process.kill(Number(/pid=(\d+)/.exec(running.output.stdout)?.[1]), number)
          const { stdout } = yield* running.ended
          assert.include(stdout, `code=${128 + number}`)
        }
      })
    )
  }
})

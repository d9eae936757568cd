/**
 * Descriptors from 3 up that the caller of this process opened for the command: sockets of systemd, the pipe of make's
 * jobserver, those of a shell. Node marks each as close-on-exec when it starts, and no call of it removes the mark. So
 * only a child process can have them (`stdio` of `spawn`).
 */
import type { Variables } from "#src/cli/terminal/ChildEnvironment.ts"
import { fs } from "#src/cli/terminal/BuiltIn.ts"

/** O_CLOEXEC and O_NONBLOCK of Linux, as in `flags` of /proc/self/fdinfo. Most processors have these numbers. */
const closeOnExec = 0o2000000
const nonBlocking = 0o4000

interface Descriptor {
  readonly fd: number
  /** Path, `socket:[1]`, `pipe:[2]` or `anon_inode:[eventpoll]`. */
  readonly link: string
  readonly flags: number
  /** Descriptors that this one waits for, if it is an epoll instance. */
  readonly watched: ReadonlyArray<number>
}

const describe = (name: string): ReadonlyArray<Descriptor> => {
  try {
    const info = fs().readFileSync(`/proc/self/fdinfo/${name}`, "latin1")
    const watched = [...info.matchAll(/^tfd:\s*(\d+)/gm)].map((match) => Number(match[1]))
    const flags = parseInt(/^flags:\s*([0-7]+)/m.exec(info)?.[1] ?? "0", 8)
    return [{ fd: Number(name), link: fs().readlinkSync(`/proc/self/fd/${name}`), flags, watched }]
  } catch {
    // The descriptor of this very listing is closed by now.
    return []
  }
}

/** Descriptors that Node itself opens for an event loop. */
const isOfLoop = ({ link }: Descriptor): boolean => /^anon_inode:\[?(eventpoll|eventfd|io_uring)\]?$/.test(link)

/** Pipes with both ends in this process: those of Node, and those that a caller passed on whole. */
const wholePipes = (all: ReadonlyArray<Descriptor>): ReadonlyArray<ReadonlyArray<Descriptor>> => {
  const pipes = all.filter(({ link }) => link.startsWith("pipe:"))
  const links = new Set(pipes.map(({ link }) => link))
  return [...links].map((link) => pipes.filter((end) => end.link === link)).filter((ends) => ends.length === 2)
}

/** Milliseconds of the last change of a pipe. */
const changeTime = ([end]: ReadonlyArray<Descriptor>): number => {
  try {
    return end === undefined ? 0 : fs().fstatSync(end.fd).ctimeMs
  } catch {
    return 0
  }
}

/**
 * Node's own pipes: one for each loop, which does not block, and one lock for signals, which does. A caller's pipe that
 * looks like the lock is older than the pipe of the loop, which Node makes together with the lock.
 */
const pipesOfNode = (all: ReadonlyArray<Descriptor>): ReadonlyArray<Descriptor> => {
  const whole = wholePipes(all)
  const ofLoops = whole.filter((ends) => ends.every(({ flags }) => (flags & nonBlocking) !== 0))
  const loopTimes = ofLoops.map(changeTime)
  const distance = (ends: ReadonlyArray<Descriptor>) =>
    Math.min(...loopTimes.map((time) => Math.abs(time - changeTime(ends))))
  const lock = whole
    .filter((ends) => ends.every(({ flags }) => (flags & nonBlocking) === 0))
    .toSorted((a, b) => distance(a) - distance(b))
    .slice(0, 1)
  return [...ofLoops, ...lock].flat()
}

/** Node marks those of the caller at its start. Bun leaves most as they are, and closes all when it becomes a command. */
const isMarked = ({ flags }: Descriptor): boolean => (flags & closeOnExec) !== 0 || "bun" in process.versions

/**
 * Descriptors that the caller opened, among `all` of this process. The numbers below the first one of Node's loop are
 * the caller's. Above it, all that Node opens at its start are not. `named`: numbers that a variable names.
 */
const ofCaller = (all: ReadonlyArray<Descriptor>, named: ReadonlySet<number>): ReadonlyArray<number> => {
  const first = all.find(({ link }) => link === "anon_inode:[eventpoll]")?.fd ?? Infinity
  const later = all.filter(({ fd }) => fd > first && !named.has(fd))
  const watched = new Set(all.flatMap((one) => one.watched))
  const pipes = new Set(pipesOfNode(later))
  // Node opens one after its first loop is complete.
  const complete = all.find(({ link }) => link === "anon_inode:[eventfd]")?.fd ?? first
  const nulls = later.filter(({ fd, link }) => fd > complete && link === "/dev/null")
  const isOfNode = (one: Descriptor) =>
    isOfLoop(one) || watched.has(one.fd) || pipes.has(one) || (nulls.length === 1 && nulls[0] === one)
  return all
    .filter((one) => one.fd < first || named.has(one.fd) || (later.includes(one) && !isOfNode(one)))
    .filter(isMarked)
    .map(({ fd }) => fd)
}

const range = (first: number, count: number) => Array.from({ length: count }, (_, i) => first + i)

/** Sockets that systemd passed to this process (sd_listen_fds(3)). */
export const isSocketActivated = (): boolean =>
  process.env["LISTEN_PID"] === String(process.pid) && /^[1-9]\d{0,3}$/.test(process.env["LISTEN_FDS"] ?? "")

/** Numbers in variables: LISTEN_FDS, and the jobserver of make ("POSIX Jobserver Interaction" in its manual). */
const namedDescriptors = (): ReadonlySet<number> => {
  const sockets = isSocketActivated() ? range(3, Number(process.env["LISTEN_FDS"])) : []
  const jobs = /--jobserver-(?:auth|fds)=(\d+),(\d+)/.exec(process.env["MAKEFLAGS"] ?? "")?.slice(1) ?? []
  return new Set([...sockets, ...jobs.map(Number).filter((fd) => fd > 2)])
}

const isOpen = (fd: number): boolean => {
  try {
    fs().fstatSync(fd)
    return true
  } catch {
    return false
  }
}

const list = (): ReadonlyArray<number> => {
  const inVariables = namedDescriptors()
  try {
    const names = fs().readdirSync("/proc/self/fd")
    const all = names
      .filter((name) => Number(name) > 2)
      .flatMap(describe)
      .sort((a, b) => a.fd - b.fd)
    return ofCaller(all, inVariables)
  } catch {
    // Without /proc (macOS) a descriptor says nothing of its origin, so only those with a name are known.
    return [...inVariables].filter(isOpen).sort((a, b) => a - b)
  }
}

let openAtStart: ReadonlyArray<number> | undefined

/** Numbers of these descriptors, sorted. The first call comes before this program opens anything. */
export const inherited = (): ReadonlyArray<number> => (openAtStart ??= list())

/** `stdio` of `spawn` that passes them on under their numbers. */
export const stdio = <A>(first: readonly [A, A, A]): Array<A | number | "ignore"> => {
  const descriptors = inherited()
  const after = Array.from({ length: Math.max(0, (descriptors.at(-1) ?? 2) - 2) }, (_, i) => i + 3)
  return [...first, ...after.map((fd) => (descriptors.includes(fd) ? fd : ("ignore" as const)))]
}

/** Names that a shell does not pass on, because they are none of its variables. */
const isShellName = (name: string): boolean => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)

interface Start {
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly environment: Variables
  /** Names of variables that are lost on the way. */
  readonly lost: ReadonlyArray<string>
}

/** Command whose LISTEN_PID is its own process id, which only the child itself knows before it starts. */
export const withListenPid = (command: string, args: ReadonlyArray<string>, environment: Variables): Start => {
  const { LISTEN_PIDFDID: _, ...variables } = environment
  return {
    command: "/bin/sh",
    args: ["-c", 'LISTEN_PID=$$; export LISTEN_PID; exec "$@"', "sh", command, ...args],
    environment: variables,
    lost: Object.keys(variables).filter((name) => !isShellName(name))
  }
}

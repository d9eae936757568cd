/**
 * Folders of this user, always absolute. With an empty or relative HOME (cron, containers) they would be in the working
 * folder. A file from somebody's repository would then count as the user's own.
 */
import { homedir, userInfo } from "node:os"
import { dirname, isAbsolute, join, sep } from "node:path"
import { fs } from "./BuiltIn.ts"
import * as Windows from "./Windows.ts"

const absolute = (path: string | undefined): string | undefined =>
  path !== undefined && isAbsolute(path) ? path : undefined

const ofAccount = (): string | undefined => {
  // Some containers have no account for this user id.
  try {
    return absolute(userInfo().homedir)
  } catch {
    return undefined
  }
}

/** At worst the root folder, in which only root can write. */
const home = (): string => absolute(homedir()) ?? ofAccount() ?? "/"

/** XDG base directories: "all paths must be absolute", and others are ignored. */
const base = (xdg: string, windows: string, otherwise: string): string =>
  absolute(process.env[xdg]) ??
  (Windows.isWindows ? absolute(process.env[windows]) : undefined) ??
  join(home(), otherwise)

export const configBase = (): string => base("XDG_CONFIG_HOME", Windows.folderVariables.config, ".config")
export const cacheBase = (): string => base("XDG_CACHE_HOME", Windows.folderVariables.cache, ".cache")

// --- file systems that may not answer ---

declare global {
  /** Folders that do not answer. Global, because each small program of this one has its own modules. */
  var ampouleUnreachable: ReadonlyArray<string> | undefined
}

export const isUnreachable = (path: string): boolean =>
  (globalThis.ampouleUnreachable ?? []).some((folder) => path === folder || path.startsWith(`${folder}${sep}`))

/** File systems with a server or program behind them, by the start of their names in /proc/self/mountinfo. */
const remote = /^(?:nfs|cifs|smb|fuse|9p|ceph|afs|autofs|lustre|gpfs|glusterfs|beegfs|virtiofs)/

interface Mount {
  readonly at: string
  readonly type: string
}

const mounts = (): ReadonlyArray<Mount> => {
  try {
    const lines = fs().readFileSync("/proc/self/mountinfo", "utf8").split("\n")
    return lines.flatMap((line) => {
      const at = line.split(" ")[4]
      const type = / - (\S+) /.exec(line)?.[1]
      return at === undefined || type === undefined ? [] : [{ at: at.replaceAll("\\040", " "), type }]
    })
  } catch {
    return []
  }
}

/** Links that a path may have, as in the kernel. */
const mostLinks = 40

/** True when a step of the path is on such a file system. Looks at each folder only after its parent was local. */
const isRemote = (path: string, all: ReadonlyArray<Mount>, remaining = mostLinks): boolean => {
  const names = path.split(sep).filter((name) => name !== "")
  for (let i = 0; i <= names.length; i++) {
    const at = `${sep}${names.slice(0, i).join(sep)}`
    // The last one of a place covers those before it.
    if (remote.test(all.findLast((mount) => mount.at === at)?.type ?? "")) return true
    try {
      if (!fs().lstatSync(at).isSymbolicLink()) continue
      const target = fs().readlinkSync(at)
      const rest = names.slice(i)
      return (
        remaining > 0 && isRemote(join(isAbsolute(target) ? "/" : dirname(at), target, ...rest), all, remaining - 1)
      )
    } catch {
      return false
    }
  }
  return false
}

/** Folders of this user on file systems that may not answer. */
export const remoteFolders = (): ReadonlyArray<string> => {
  const all = mounts()
  if (!all.some(({ type }) => remote.test(type))) return []
  return [...new Set([configBase(), cacheBase()])].filter((folder) => isRemote(folder, all))
}

/**
 * Makes a folder and those above it, of mode 0700. `mkdir` of Node with `recursive` does not end below /proc, where no
 * folder can be made (nodejs/node, Node 20 to 24).
 */
export const makeFolders = (folder: string): void => {
  if (fs().statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true) return
  if (dirname(folder) !== folder) makeFolders(dirname(folder))
  try {
    fs().mkdirSync(folder, { mode: 0o700 })
  } catch (error) {
    // Another process may have made it.
    if (fs().statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) throw error
  }
}

/**
 * Folders of this user, always absolute. With an empty or relative HOME (cron, containers) they would be in the working
 * folder. A file from somebody's repository would then count as the user's own.
 */
import { homedir, userInfo } from "node:os"
import { isAbsolute, join } from "node:path"
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

/** Environment of a child process: included and excluded variables, and the limits of the system. Pure. */
import { isDangerous } from "#src/formats/DangerousNames.ts"
import { isCredentialVariable, tokenVariables, withheldVariable } from "./Environment.ts"
import * as MacOs from "./MacOs.ts"
import * as Windows from "./Windows.ts"

export type Variables = Readonly<Record<string, string>>

interface Selection {
  /** `*` stands for any text; empty = all. */
  readonly only: ReadonlyArray<string>
  readonly except: ReadonlyArray<string>
  readonly prefix: string | undefined
}

const matches = (pattern: string, name: string): boolean => {
  const [first = "", ...rest] = pattern.split("*")
  if (rest.length === 0) return pattern === name
  const last = rest.pop() ?? ""
  if (!name.startsWith(first)) return false
  let at = first.length
  for (const part of rest) {
    const start = name.indexOf(part, at)
    if (start < 0) return false
    at = start + part.length
  }
  return name.length - at >= last.length && name.endsWith(last)
}

export const anyOf =
  (patterns: ReadonlyArray<string>) =>
  (name: string): boolean =>
    patterns.some((pattern) => matches(pattern, name))

/** Names that can change which code runs, sorted. `allowed`: patterns as in `Selection`. */
export const dangerousNames = (names: ReadonlyArray<string>, allowed: ReadonlyArray<string>): ReadonlyArray<string> =>
  names.filter((name) => isDangerous(name) && !anyOf(allowed)(name)).sort()

export const select = (values: Variables, { except, only, prefix }: Selection): Variables =>
  Object.fromEntries(
    Object.entries(values).filter(
      ([name]) =>
        (only.length === 0 || anyOf(only)(name)) &&
        !anyOf(except)(name) &&
        (prefix === undefined || name.startsWith(prefix))
    )
  )

/** Exact names in `only` that do not exist, which are probably typing errors. */
export const missing = (values: Variables, only: ReadonlyArray<string>): ReadonlyArray<string> =>
  only.filter((pattern) => !pattern.includes("*") && !Object.hasOwn(values, pattern))

interface Composition {
  readonly inherited: Readonly<Record<string, string | undefined>>
  readonly values: Variables
  /** True when a variable that is already set keeps its value. */
  readonly keepsExisting: (name: string) => boolean
  readonly passCredentials: boolean
}

export const compose = ({ inherited, keepsExisting, passCredentials, values }: Composition): Variables => {
  // Without a prototype, __proto__ is an ordinary name.
  const composed: Record<string, string> = Object.create(null)
  for (const [name, value] of Object.entries(inherited)) {
    if (value !== undefined && (passCredentials || !isCredentialVariable(name))) composed[name] = value
  }
  const withheld = tokenVariables
    .flatMap((name) => [name, `${name}_FILE`])
    .filter((name) => inherited[name] !== undefined && !Object.hasOwn(composed, name))
  if (withheld.length > 0) composed[withheldVariable] = withheld.join(",")
  for (const [name, value] of Object.entries(values)) {
    if (!Object.hasOwn(composed, name) || !keepsExisting(name)) composed[name] = value
  }
  return composed
}

interface SystemLimits {
  /** Bytes of one `NAME=value` with its final NUL; undefined = no separate limit. */
  readonly oneString: number | undefined
  /** Bytes of all arguments and variables together, including pointers. */
  readonly total: number
}

/** Bytes of `NAME=value` with its final NUL. */
export const sizeOf = (name: string, value: string): number => Buffer.byteLength(name) + Buffer.byteLength(value) + 2
const pointer = 8

export type Excess =
  | { readonly _tag: "Nul"; readonly keys: ReadonlyArray<string> }
  | { readonly _tag: "TooLong"; readonly keys: ReadonlyArray<string>; readonly limit: number }
  | { readonly _tag: "TooMuch"; readonly keys: ReadonlyArray<string>; readonly limit: number; readonly size: number }

const largest = (values: Variables, count: number): ReadonlyArray<string> =>
  Object.entries(values)
    .map(([name, value]) => [name, sizeOf(name, value)] as const)
    .sort((a, b) => b[1] - a[1])
    .slice(0, count)
    .map(([name]) => name)

/**
 * Reason why the system could not start a program with these variables; undefined if it can. Names only keys of
 * `values`.
 */
export const excessOf = (
  environment: Variables,
  values: Variables,
  command: ReadonlyArray<string>,
  limits: SystemLimits
): Excess | undefined => {
  const nul = Object.keys(values).filter((name) => values[name]?.includes("\0"))
  if (nul.length > 0) return { _tag: "Nul", keys: nul }
  const { oneString } = limits
  if (oneString !== undefined) {
    const long = Object.keys(values).filter((name) => sizeOf(name, values[name] ?? "") > oneString)
    if (long.length > 0) return { _tag: "TooLong", keys: long, limit: oneString }
  }
  let size = 0
  for (const argument of command) size += Buffer.byteLength(argument) + 1 + pointer
  for (const [name, value] of Object.entries(environment)) size += sizeOf(name, value) + pointer
  return size > limits.total ? { _tag: "TooMuch", keys: largest(values, 5), limit: limits.total, size } : undefined
}

const kib = 1024
/** `stackBytes`: soft limit of the stack, from which Linux derives the limit (execve(2)). */
export const systemLimits = (platform: NodeJS.Platform, stackBytes: number | undefined): SystemLimits => {
  // One page for the kernel's own data: the file name and the auxiliary vector.
  const room = 4 * kib
  switch (platform) {
    case "linux": {
      const quarter = Math.floor((stackBytes ?? 8 * kib * kib) / 4)
      return { oneString: 128 * kib, total: Math.min(Math.max(quarter, 128 * kib), 6 * kib * kib) - room }
    }
    case "win32":
      return Windows.variableLimits
    default:
      return { oneString: undefined, total: MacOs.argumentBytes - room }
  }
}

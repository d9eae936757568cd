/**
 * Composition of the secrets of one environment (docs/contract/secrets.md): checks, expansion, dependents, flattening.
 * All functions are pure and work on plaintext in memory. No function recurses, and sizes are computed before texts are
 * joined, so no input makes a call slow or its result large.
 */
import type { SecretKind } from "#schema/Values.ts"
import {
  PlanLimitReached,
  TemplateCycle,
  TemplateInvalid,
  TemplateReferenceMissing,
  TemplateTooDeep,
  ValueTooLarge
} from "#schema/Errors.ts"
import { codePoints, maxValueLength } from "#schema/Values.ts"
import * as Either from "effect/Either"
import * as Template from "./Template.ts"
import * as TemplateScan from "./TemplateScan.ts"

export type Entry =
  | { readonly kind: "literal"; readonly text: string }
  | { readonly kind: "template"; readonly parts: TemplateScan.Parts; readonly source: string }

/** The live secrets of an environment by key. */
export type State = ReadonlyMap<string, Entry>

/** Secrets to write (an entry) or to delete (null), in the order of the request. */
export type Changes = ReadonlyMap<string, Entry | null>

export type Problem = TemplateReferenceMissing | TemplateCycle | TemplateTooDeep | ValueTooLarge | PlanLimitReached

/** The most references that a path from a template down to a literal may have. */
const maxDepth = 10

/** The most UTF-8 bytes that all values of an environment may have together, both as written and as expanded. */
const maxEnvironmentBytes = 16 * 1024 * 1024

export const literal = (text: string): Entry => ({ kind: "literal", text })

/** Makes an entry from stored or submitted text. `scan`: of the text, where it was scanned already. */
export const entry = (
  kind: SecretKind,
  text: string,
  field?: string,
  scan?: TemplateScan.Scan
): Either.Either<Entry, TemplateInvalid> => {
  if (kind === "literal") return Either.right(literal(text))
  const { parts } = scan ?? TemplateScan.scan(text)
  return parts === undefined
    ? Either.left(new TemplateInvalid(field === undefined ? {} : { field }))
    : Either.right({ kind: "template", parts, source: text })
}

/** Returns the text of an entry as it was written. */
export const sourceOf = (entry: Entry): string => (entry.kind === "literal" ? entry.text : entry.source)

/** Returns the keys that an entry refers to, each once, in the order of first use. */
export const referencesOf = (entry: Entry): ReadonlyArray<string> =>
  entry.kind === "literal" ? [] : TemplateScan.references(entry.parts)

const sorted = (keys: Iterable<string>): Array<string> => [...keys].sort()
const keysOf = (steps: ReadonlyArray<{ readonly key: string }>): ReadonlySet<string> =>
  new Set(steps.map(({ key }) => key))

interface Step {
  readonly key: string
  readonly entry: Entry
  /** The keys that the entry refers to. */
  readonly uses: ReadonlyArray<string>
}

interface Walk {
  /** All that the walk reached. Unless there is a cycle, a key comes after all keys that its template uses. */
  readonly order: ReadonlyArray<Step>
  readonly missing: ReadonlySet<string>
  readonly cycle: ReadonlyArray<string> | undefined
}

/** Walks depth-first from the roots. The path is an array, so a deep environment cannot overflow the call stack. */
const walk = (state: State, roots: Iterable<string>): Walk => {
  const order: Array<Step> = []
  const reached = new Set<string>()
  const missing = new Set<string>()
  let cycle: ReadonlyArray<string> | undefined
  const path: Array<{ readonly step: Step; next: number }> = []
  const onPath = new Map<string, number>()

  const reach = (key: string) => {
    const position = onPath.get(key)
    if (position !== undefined) {
      cycle ??= path.slice(position).map(({ step }) => step.key)
      return
    }
    if (reached.has(key)) return
    const entry = state.get(key)
    if (entry === undefined) {
      missing.add(key)
      return
    }
    reached.add(key)
    onPath.set(key, path.length)
    path.push({ step: { key, entry, uses: referencesOf(entry) }, next: 0 })
  }

  for (const root of roots) {
    reach(root)
    for (let last = path.at(-1); last !== undefined; last = path.at(-1)) {
      const { step } = last
      if (last.next < step.uses.length) {
        reach(step.uses[last.next++])
      } else {
        path.pop()
        onPath.delete(step.key)
        order.push(step)
      }
    }
  }
  return { order, missing, cycle }
}

const startingAtSmallest = (cycle: ReadonlyArray<string>): ReadonlyArray<string> => {
  let smallest = 0
  for (let i = 1; i < cycle.length; i++) if (cycle[i] < cycle[smallest]) smallest = i
  return [...cycle.slice(smallest), ...cycle.slice(0, smallest)]
}

/** Returns, for each key, the most references on a path that starts at it. */
const depthsDown = ({ order }: Walk): ReadonlyMap<string, number> => {
  const depths = new Map<string, number>()
  for (const { key, uses } of order) {
    let depth = 0
    for (const used of uses) depth = Math.max(depth, 1 + (depths.get(used) ?? 0))
    depths.set(key, depth)
  }
  return depths
}

/** Returns, for each key, the most references on a path that ends at it. */
const depthsUp = ({ order }: Walk): ReadonlyMap<string, number> => {
  const depths = new Map<string, number>()
  for (const { key, uses } of order.toReversed()) {
    const depth = 1 + (depths.get(key) ?? 0)
    for (const used of uses) depths.set(used, Math.max(depth, depths.get(used) ?? 0))
  }
  return depths
}

interface Size {
  /** Code points of the expanded value. */
  readonly points: number
  /** UTF-8 bytes of the expanded value. */
  readonly bytes: number
  /** UTF-8 bytes of the text as written. */
  readonly written: number
}

const nothing: Size = { points: 0, bytes: 0, written: 0 }

const sizeOfText = (text: string): Size => {
  const bytes = Buffer.byteLength(text)
  return { points: codePoints(text), bytes, written: bytes }
}

const sizeOfTemplate = (parts: TemplateScan.Parts, source: string, sizeOf: (key: string) => Size): Size => {
  let { points, bytes } = nothing
  for (const part of parts) {
    const size = typeof part === "string" ? sizeOfText(part) : sizeOf(part.key)
    points += size.points
    bytes += size.bytes
  }
  return { points, bytes, written: Buffer.byteLength(source) }
}

/** Computes sizes bottom-up and reads each part once. */
const sizesOf = (order: ReadonlyArray<Step>): ReadonlyMap<string, Size> => {
  const sizes = new Map<string, Size>()
  const sizeOf = (key: string) => sizes.get(key) ?? nothing
  for (const { entry, key } of order) {
    sizes.set(
      key,
      entry.kind === "literal" ? sizeOfText(entry.text) : sizeOfTemplate(entry.parts, entry.source, sizeOf)
    )
  }
  return sizes
}

/** UTF-8 bytes of all texts together, as they are written and as they are expanded. */
export interface Totals {
  readonly written: number
  readonly expanded: number
}

const nothingBesides: Totals = { written: 0, expanded: 0 }

const totalsAmong = (sizes: Iterable<Size>, besides: Totals): Totals => {
  let { expanded, written } = besides
  for (const size of sizes) {
    expanded += size.bytes
    written += size.written
  }
  return { written, expanded }
}

/** Totals of a state without problems. */
export const totalsOf = (state: State, besides = nothingBesides): Totals =>
  totalsAmong(sizesOf(walk(state, state.keys()).order).values(), besides)

/** Returns the request member for an error: the member of the first changed key that takes part in the problem. */
type FieldFor = (takesPart: ReadonlySet<string>) => { readonly field?: string }

const noField: FieldFor = () => ({})

const keyOf = ([key]: readonly [key: string, depth: number]) => key

/** The member of the template at fault, or else of a key that takes part. */
const firstNamed = (fieldFor: FieldFor, atFault: ReadonlyArray<string>, takingPart: ReadonlyArray<string>) => {
  const member = fieldFor(new Set(atFault))
  return member.field === undefined ? fieldFor(new Set(takingPart)) : member
}

/**
 * The first problem of a state, else its totals. The order is: missing references (all of them, sorted), a cycle (its
 * keys in order, starting at the smallest), a path of more than 10 references, a value of more than 65,536 code points,
 * more than 16 MiB in total.
 */
const checked = (
  state: State,
  found: Walk,
  fieldFor: FieldFor,
  besides = nothingBesides
): Either.Either<Totals, Problem> => {
  if (found.missing.size > 0) {
    const users = found.order.filter(({ uses }) => uses.some((used) => found.missing.has(used)))
    const field = fieldFor(keysOf(users))
    return Either.left(new TemplateReferenceMissing({ references: sorted(found.missing), ...field }))
  }
  if (found.cycle !== undefined) {
    const field = fieldFor(new Set(found.cycle))
    return Either.left(new TemplateCycle({ cycle: startingAtSmallest(found.cycle), ...field }))
  }
  const down = depthsDown(found)
  if ([...down.values()].some((depth) => depth > maxDepth)) {
    const up = depthsUp(found)
    const onLongPaths = [...down].filter(([key, depth]) => depth + (up.get(key) ?? 0) > maxDepth)
    const tooDeep = [...down].filter(([, depth]) => depth > maxDepth)
    return Either.left(new TemplateTooDeep(firstNamed(fieldFor, tooDeep.map(keyOf), onLongPaths.map(keyOf))))
  }
  const sizes = sizesOf(found.order)
  const tooLarge = sorted([...sizes].filter(([, { points }]) => points > maxValueLength).map(([key]) => key)).at(0)
  if (tooLarge !== undefined) {
    const within = walk(state, [tooLarge]).order.map(({ key }) => key)
    return Either.left(new ValueTooLarge(firstNamed(fieldFor, [tooLarge], within)))
  }
  const totals = totalsAmong(sizes.values(), besides)
  return Math.max(totals.expanded, totals.written) > maxEnvironmentBytes
    ? Either.left(new PlanLimitReached())
    : Either.right(totals)
}

export const apply = (state: State, changes: Changes): State => {
  const after = new Map(state)
  for (const [key, change] of changes) {
    if (change === null) after.delete(key)
    else after.set(key, change)
  }
  return after
}

/**
 * Checks the state after all changes, and returns its totals. `fieldOf` maps a changed key to its request member: the
 * error names the first changed key, in the order of the request, that takes part in the problem. The state holds the
 * changed keys, the templates that build on them, and all keys that either builds on. `besides` has the totals of all
 * other keys.
 */
export const checkAfter = (
  state: State,
  changes: Changes,
  fieldOf?: (key: string) => string | undefined,
  besides?: Totals
): Either.Either<Totals, Problem> => {
  const after = apply(state, changes)
  const fieldFor: FieldFor = (takesPart) => {
    for (const key of changes.keys()) {
      if (!takesPart.has(key)) continue
      const field = fieldOf?.(key)
      if (field !== undefined) return { field }
    }
    return {}
  }
  return checked(after, walk(after, sorted(after.keys())), fieldFor, besides)
}

const resolveFrom = (state: State, roots: Iterable<string>): Either.Either<ReadonlyMap<string, string>, Problem> => {
  const reached = walk(state, roots)
  return Either.map(checked(state, reached, noField), () => {
    const values = new Map<string, string>()
    const valueOf = (key: string) => values.get(key) ?? ""
    for (const { entry, key } of reached.order) {
      values.set(key, entry.kind === "literal" ? entry.text : Template.expand(entry.parts, valueOf))
    }
    return values
  })
}

/**
 * Returns the expanded values of `wanted` (by default of every key), sorted by key in byte order; reads only what they
 * depend on. An absent key is a missing reference.
 */
export const resolve = (
  state: State,
  wanted: Iterable<string> = state.keys()
): Either.Either<ReadonlyMap<string, string>, Problem> => {
  const keys = sorted(wanted)
  return Either.map(resolveFrom(state, keys), (values) => new Map(keys.map((key) => [key, values.get(key) ?? ""])))
}

/** From `start` up to, not including, `end`, in UTF-16 code units. */
export interface Span {
  readonly start: number
  readonly end: number
}

/**
 * Where the expanded values of `wanted` hold values of other keys, also of keys inside those. Keys without such a place
 * are left out, and so are empty values.
 */
export const spans = (
  state: State,
  wanted: ReadonlyArray<string>
): Either.Either<ReadonlyMap<string, ReadonlyArray<Span>>, Problem> => {
  const reached = walk(state, wanted)
  return Either.map(resolveFrom(state, wanted), (values) => {
    const within = new Map<string, ReadonlyArray<Span>>()
    for (const { entry, key } of reached.order) {
      if (entry.kind === "literal") continue
      const places = new Map<string, Span>()
      const add = (start: number, end: number) => places.set(`${start}-${end}`, { start, end })
      let at = 0
      for (const part of entry.parts) {
        const length = typeof part === "string" ? part.length : (values.get(part.key) ?? "").length
        if (typeof part !== "string" && length > 0) {
          add(at, at + length)
          for (const { end, start } of within.get(part.key) ?? []) add(at + start, at + end)
        }
        at += length
      }
      if (places.size > 0) within.set(key, [...places.values()])
    }
    return new Map(wanted.flatMap((key) => (within.has(key) ? [[key, within.get(key) ?? []]] : [])))
  })
}

/** The templates outside `keys` that use one of `keys` directly, sorted by their own. */
const templatesUsing = (state: State, keys: ReadonlySet<string>) => {
  const users: Array<{ readonly key: string; readonly parts: TemplateScan.Parts }> = []
  for (const [key, one] of state) {
    if (keys.has(key) || one.kind === "literal") continue
    if (one.parts.some((part) => typeof part !== "string" && keys.has(part.key))) users.push({ key, parts: one.parts })
  }
  return users.sort((one, other) => (one.key < other.key ? -1 : 1))
}

/** Returns the keys outside `keys` whose templates use one of `keys` directly, sorted. */
export const dependentsOfAll = (state: State, keys: ReadonlySet<string>): ReadonlyArray<string> =>
  templatesUsing(state, keys).map(({ key }) => key)

/** Returns the keys whose templates use `key` directly, sorted. */
export const dependents = (state: State, key: string): ReadonlyArray<string> => dependentsOfAll(state, new Set([key]))

/** Returns the keys whose templates use `key`, directly or through others, sorted and without `key` itself. */
export const transitiveDependents = (state: State, key: string): ReadonlyArray<string> => {
  const usedBy = new Map<string, Array<string>>()
  for (const [user, one] of state) {
    for (const used of referencesOf(one)) {
      const users = usedBy.get(used)
      if (users === undefined) usedBy.set(used, [user])
      else users.push(user)
    }
  }
  const users = new Set([key])
  // The iteration of a Set also visits members that are added during the iteration.
  for (const used of users) for (const user of usedBy.get(used) ?? []) users.add(user)
  users.delete(key)
  return sorted(users)
}

/** A secret that gets a new text because a key that it uses is deleted. */
export interface Rewrite {
  readonly key: string
  readonly kind: SecretKind
  /** The text of a literal or the source of a template. */
  readonly text: string
}

/**
 * Returns the rewrites of the direct dependents of `key`, sorted, that keep every expanded value the same when `key` is
 * deleted. A dependent keeps its other references, except a reference that the language cannot write
 * (`Template.inline`). A dependent whose escaped source would exceed the length limit becomes a literal of its expanded
 * text, which always fits.
 */
export const flatten = (state: State, key: string): Either.Either<ReadonlyArray<Rewrite>, Problem> => {
  const users = templatesUsing(state, new Set([key]))
  return Either.map(resolveFrom(state, keysOf(users)), (values) => {
    const valueOf = (used: string) => values.get(used) ?? ""
    return users.map((user): Rewrite => {
      const parts = Template.inline(user.parts, key, valueOf)
      const source = Template.print(parts)
      return parts.every((part) => typeof part === "string") || codePoints(source) > maxValueLength
        ? { key: user.key, kind: "literal", text: valueOf(user.key) }
        : { key: user.key, kind: "template", text: source }
    })
  })
}

/**
 * The direct dependents of `from`, sorted, with their sources where it is called `to`; undefined: longer than a source
 * can be.
 */
export const rekeyed = (
  state: State,
  from: string,
  to: string
): ReadonlyArray<{ readonly key: string; readonly text: string | undefined }> =>
  templatesUsing(state, new Set([from])).map(({ key, parts }) => {
    const source = Template.print(
      parts.map((part) => (typeof part !== "string" && part.key === from ? { key: to } : part))
    )
    return { key, text: codePoints(source) > maxValueLength ? undefined : source }
  })

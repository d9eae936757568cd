/** What a trust rule asks of the claims of a JWT. Pure. */

/** To the letter, or up to the asterisk at its end. */
export const matchesPattern = (pattern: string, value: string): boolean =>
  pattern.endsWith("*") ? value.startsWith(pattern.slice(0, -1)) : value === pattern

/** Claims that are no plain value match nothing. */
const textOf = (claim: unknown): string | undefined =>
  typeof claim === "string"
    ? claim
    : typeof claim === "boolean" || (typeof claim === "number" && Number.isSafeInteger(claim))
      ? String(claim)
      : undefined

/** The first claim of the rule that the JWT does not have as the rule asks; undefined: all match. */
export const firstMismatch = (
  rule: Readonly<Record<string, string>>,
  presented: Readonly<Record<string, unknown>>
): string | undefined =>
  Object.keys(rule).find((name) => {
    const value = Object.hasOwn(presented, name) ? textOf(presented[name]) : undefined
    return value === undefined || !matchesPattern(rule[name], value)
  })

/**
 * Issuers that sign for the jobs of everybody: what a rule must say for the jobs to be somebody's own. `path`: claims that
 * name an owner when they begin like this. A `sub` can be composed anew by whoever runs the job (GitHub lets a repository
 * choose its parts), but not with another's name behind this first word.
 */
const shared: Readonly<
  Record<string, { readonly exact: ReadonlyArray<string>; readonly path: Readonly<Record<string, RegExp>> }>
> = {
  "token.actions.githubusercontent.com": {
    exact: ["repository_owner", "repository_owner_id", "repository_id"],
    path: { repository: /^[^/]+\//, sub: /^repo:[^/:]+\// }
  },
  "gitlab.com": {
    exact: ["project_id", "namespace_id", "namespace_path"],
    path: { project_path: /^[^/]+\//, sub: /^project_path:[^/:]+\// }
  }
}

/** Names of owners: an asterisk in the middle of one would match somebody else's longer one. */
const ownerClaims = new Set([
  "repository",
  "repository_owner",
  "project_path",
  "namespace_path",
  "sub",
  "job_workflow_ref"
])

export type Weakness =
  | { readonly claim: string; readonly problem: "open-name" }
  | { readonly claim: undefined; readonly problem: "anybody" }

/** What is wrong with a rule that would trust more than its author can mean. */
export const weaknessOf = (issuer: string, claims: Readonly<Record<string, string>>): Weakness | undefined => {
  const open = Object.keys(claims).find((name) => ownerClaims.has(name) && /[^/:]\*$/.test(claims[name]))
  if (open !== undefined) return { claim: open, problem: "open-name" }
  const needs = URL.canParse(issuer) ? shared[new URL(issuer).hostname] : undefined
  if (needs === undefined) return undefined
  const has = (name: string) => Object.hasOwn(claims, name)
  const owned =
    needs.exact.some((name) => has(name) && !claims[name].endsWith("*")) ||
    Object.entries(needs.path).some(([name, owner]) => has(name) && owner.test(claims[name]))
  return owned ? undefined : { claim: undefined, problem: "anybody" }
}

/** The claims of a JWT that a trust rule requires. Pure. */

/** Equal, or equal up to the asterisk at the end of the pattern. */
export const matchesPattern = (pattern: string, value: string): boolean =>
  pattern.endsWith("*") ? value.startsWith(pattern.slice(0, -1)) : value === pattern

/** A claim that is an object or a list matches nothing. */
const textOf = (claim: unknown): string | undefined =>
  typeof claim === "string"
    ? claim
    : typeof claim === "boolean" || (typeof claim === "number" && Number.isSafeInteger(claim))
      ? String(claim)
      : undefined

/** The first claim of the rule that the JWT does not have as the rule requires; undefined: all match. */
export const firstMismatch = (
  rule: Readonly<Record<string, string>>,
  presented: Readonly<Record<string, unknown>>
): string | undefined => {
  const claims = new Map(Object.entries(presented))
  return Object.entries(rule).find(([name, pattern]) => {
    const value = textOf(claims.get(name))
    return value === undefined || !matchesPattern(pattern, value)
  })?.[0]
}

interface OwnerClaims {
  /** Claims that name an owner when the rule binds them without an asterisk. */
  readonly exact: ReadonlyArray<string>
  /** Claims that name an owner when the rule's text for them begins like this. */
  readonly path: ReadonlyMap<string, RegExp>
}

const organization = new Map([["sub", /^organization:[^:]+:/]])

/**
 * Issuers that sign for the jobs of all their customers: what a rule must bind so that the jobs are those of one of
 * them. The person who runs a job can often choose the parts of its `sub` (GitHub lets a repository do so), but cannot
 * put another owner's name after this first word.
 */
const sharedIssuers: ReadonlyMap<string, OwnerClaims> = new Map([
  [
    "token.actions.githubusercontent.com",
    {
      exact: ["repository_owner", "repository_owner_id", "repository_id"],
      path: new Map([
        ["repository", /^[^/]+\//],
        ["sub", /^repo:[^/:]+\//]
      ])
    }
  ],
  [
    "gitlab.com",
    {
      exact: ["project_id", "namespace_id", "namespace_path"],
      path: new Map([
        ["project_path", /^[^/]+\//],
        ["sub", /^project_path:[^/:]+\//]
      ])
    }
  ],
  ["agent.buildkite.com", { exact: ["organization_slug", "organization_id", "pipeline_id"], path: organization }],
  [
    "app.terraform.io",
    {
      exact: [
        "terraform_organization_name",
        "terraform_organization_id",
        "terraform_project_id",
        "terraform_workspace_id"
      ],
      path: organization
    }
  ],
  ["oidc.vercel.com", { exact: ["owner_id", "project_id"], path: new Map([["sub", /^owner:[^:]+:/]]) }],
  ["accounts.google.com", { exact: ["sub"], path: new Map() }]
])

/** Names of owners: an asterisk in the middle of one would match somebody else's longer one. */
const ownerClaims = new Set([
  "repository",
  "repository_owner",
  "project_path",
  "namespace_path",
  "sub",
  "job_workflow_ref",
  "organization_slug",
  "terraform_organization_name",
  "owner"
])
const idClaim = /(?:^|[^A-Za-z])(?:u|uu|o)?id$|[a-z](?:Id|Uid|Uuid|ID|UID|UUID)$/
/**
 * Of an issuer that we do not know, a rule must bind who runs the job: by name, or by a claim that is called an id. How
 * its `sub` is composed is not known either, so that the beginning of one, like that of an id, is somebody else's too.
 */
const namesSomebody = ([claim, pattern]: readonly [string, string]) =>
  pattern.endsWith("*")
    ? ownerClaims.has(claim) && claim !== "sub" && !idClaim.test(claim) && /\w/.test(pattern)
    : ownerClaims.has(claim) || idClaim.test(claim)

type Weakness =
  | { readonly problem: "open-name"; readonly claim: string }
  /** The issuer signs for everybody, or may, and no claim says whose job it is. */
  | { readonly problem: "anybody" | "nobody-named" }

/** Why a rule would trust more than its author can mean; undefined for a rule that is fine. */
export const weaknessOf = (issuer: string, claims: Readonly<Record<string, string>>): Weakness | undefined => {
  const bound = new Map(Object.entries(claims))
  const open = [...bound].find(([name, pattern]) => ownerClaims.has(name) && /[^/:]\*$/.test(pattern))
  if (open !== undefined) return { problem: "open-name", claim: open[0] }
  const host = URL.canParse(issuer) ? new URL(issuer).hostname.replace(/\.$/, "") : ""
  const owner = sharedIssuers.get(host)
  if (owner === undefined) return [...bound].some(namesSomebody) ? undefined : { problem: "nobody-named" }
  const owned =
    owner.exact.some((name) => bound.get(name)?.endsWith("*") === false) ||
    [...owner.path].some(([name, beginning]) => beginning.test(bound.get(name) ?? ""))
  return owned ? undefined : { problem: "anybody" }
}

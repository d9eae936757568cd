/** Claims of a JWT that a trust rule requires. Pure. */

/** Equal, or equal up to an asterisk at the end of the pattern. */
export const matchesPattern = (pattern: string, value: string): boolean =>
  pattern.endsWith("*") ? value.startsWith(pattern.slice(0, -1)) : value === pattern

/** Text of a claim; undefined for an object or list, which matches nothing. */
const textOf = (claim: unknown): string | undefined =>
  typeof claim === "string"
    ? claim
    : typeof claim === "boolean" || (typeof claim === "number" && Number.isSafeInteger(claim))
      ? String(claim)
      : undefined

/** The first claim that does not match the rule; undefined if all match. */
export const firstMismatch = (
  rule: Readonly<Record<string, string>>,
  payload: Readonly<Record<string, unknown>>
): string | undefined => {
  const claims = new Map(Object.entries(payload))
  return Object.entries(rule).find(([name, pattern]) => {
    const value = textOf(claims.get(name))
    return value === undefined || !matchesPattern(pattern, value)
  })?.[0]
}

interface OwnerClaims {
  /** Claims that identify an owner when bound without an asterisk. */
  readonly exact: ReadonlyArray<string>
  /** Claims that identify an owner when the rule's text starts like this. */
  readonly path: ReadonlyMap<string, RegExp>
}

const organization = new Map([["sub", /^organization:[^:]+:/]])

/**
 * Issuers that sign for the jobs of all their customers, with the claims that identify one customer. The person who
 * runs a job can often choose parts of its `sub` (GitHub lets a repository do so). They cannot put another owner's name
 * after this first word.
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

/** Claims with names of owners: an asterisk inside a name would match another owner's longer name. */
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
 * For an unknown issuer, a rule must bind the owner of the job: by name, or by a claim called an id. The structure of
 * its `sub` is unknown, so a prefix of it, like one of an id, may belong to others.
 */
const bindsOwner = ([claim, pattern]: readonly [string, string]) =>
  pattern.endsWith("*")
    ? ownerClaims.has(claim) && claim !== "sub" && !idClaim.test(claim) && /\w/.test(pattern)
    : ownerClaims.has(claim) || idClaim.test(claim)

type Weakness =
  | { readonly problem: "open-name"; readonly claim: string }
  /** The issuer signs (or may sign) for everyone, and no claim identifies the owner of the job. */
  | { readonly problem: "anybody" | "nobody-named" }

/** The way in which a rule trusts too much; undefined for a good rule. */
export const weaknessOf = (issuer: string, claims: Readonly<Record<string, string>>): Weakness | undefined => {
  const bound = new Map(Object.entries(claims))
  const open = [...bound].find(([name, pattern]) => ownerClaims.has(name) && /[^/:]\*$/.test(pattern))
  if (open !== undefined) return { problem: "open-name", claim: open[0] }
  const host = URL.canParse(issuer) ? new URL(issuer).hostname.replace(/\.$/, "") : ""
  const owner = sharedIssuers.get(host)
  if (owner === undefined) return [...bound].some(bindsOwner) ? undefined : { problem: "nobody-named" }
  const isBound =
    owner.exact.some((name) => bound.get(name)?.endsWith("*") === false) ||
    [...owner.path].some(([name, beginning]) => beginning.test(bound.get(name) ?? ""))
  return isBound ? undefined : { problem: "anybody" }
}

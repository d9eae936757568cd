/** Conversion of trust rules between forms and sentences. Pure. */
import type { CreateMachineRule, MachineRule } from "#schema/MachineIdentityApi.ts"
import type * as Form from "#src/dashboard/frame/Form.ts"

export type Kind = "github" | "gitlab" | "other"
export const kinds: ReadonlyArray<Kind> = ["github", "gitlab", "other"]
export const isKind = (text: string): text is Kind => kinds.some((kind) => kind === text)

export const kindNames: Readonly<Record<Kind, string>> = {
  github: "GitHub Actions",
  gitlab: "GitLab CI",
  other: "Another issuer"
}

export const githubIssuer = "https://token.actions.githubusercontent.com"
export const gitlabIssuer = "https://gitlab.com"

/** Kind of a rule, for its form and example. A self-managed GitLab is recognized by a claim that only GitLab has. */
export const kindOf = ({ claims, issuer }: Pick<CreateMachineRule, "claims" | "issuer">): Kind =>
  issuer === githubIssuer
    ? "github"
    : issuer === gitlabIssuer || Object.keys(claims).some((name) => /^(?:project|namespace)_(?:path|id)$/.test(name))
      ? "gitlab"
      : "other"

/** Claims with their own field, which has the name of the claim. */
export const claimFields: Readonly<Record<Kind, ReadonlyArray<string>>> = {
  github: ["repository", "environment", "ref"],
  gitlab: ["project_path", "environment", "ref"],
  other: []
}

/** Parses `name = value`, one per line. Undefined for another form, or for a repeated name. */
const parseClaims = (text: string): ReadonlyArray<readonly [string, string]> | undefined => {
  const claims = new Map<string, string>()
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue
    const at = line.indexOf("=")
    const [name, value] = [line.slice(0, Math.max(0, at)).trim(), line.slice(at + 1).trim()]
    if (name === "" || /\s/.test(name) || /[\r\u2028\u2029]/.test(value) || claims.has(name)) return undefined
    claims.set(name, value)
  }
  return [...claims]
}

/** All claims of a form. Undefined if the further claims are invalid, or repeat one that has a field. */
export const claimsOf = (form: Form.Form, kind: Kind): Readonly<Record<string, string>> | undefined => {
  const further = parseClaims(form.text("claims"))
  if (further === undefined) return undefined
  const ownFields = claimFields[kind].flatMap((name) => {
    const value = form.filled(name)?.trim()
    return value === undefined ? [] : [[name, value] as const]
  })
  const all = [
    ...ownFields,
    ...(kind === "gitlab" && form.has("ref_protected") ? [["ref_protected", "true"] as const] : []),
    ...further
  ]
  return new Set(all.map(([name]) => name)).size < all.length ? undefined : Object.fromEntries(all)
}

type Trusted = Pick<MachineRule, "issuer" | "claims">

/** Bearers of the JWTs that the rule accepts. */
export const trustedBearers = (rule: Trusted): string => {
  const kind = kindOf(rule)
  if (kind === "github") return "Jobs of GitHub Actions"
  if (kind === "gitlab") {
    return rule.issuer === gitlabIssuer ? "Jobs of GitLab CI" : `Jobs of the GitLab at ${rule.issuer}`
  }
  return `Anyone with a JWT signed by ${rule.issuer}`
}

interface Condition {
  readonly claim: string
  readonly verb: "is" | "begins with"
  readonly value: string
}
export const conditions = (claims: Readonly<Record<string, string>>): ReadonlyArray<Condition> =>
  Object.entries(claims).map(([claim, value]) =>
    value.endsWith("*") ? { claim, verb: "begins with", value: value.slice(0, -1) } : { claim, verb: "is", value }
  )

/** Claims that limit a rule to a part of a repository or project. Without any of them, it trusts every branch. */
const narrower: ReadonlySet<string> = new Set([
  "ref",
  "ref_protected",
  "environment",
  "environment_protected",
  "job_workflow_ref",
  "workflow_ref",
  "sub",
  "ci_config_ref_uri"
])
const ownerWide = (claims: Readonly<Record<string, string>>) =>
  ["repository", "project_path"].every((name) => claims[name] === undefined || claims[name].endsWith("*")) &&
  !["repository_id", "project_id", "sub"].some((name) => Object.hasOwn(claims, name))

/** Warnings about access that the author of a rule may have overlooked. */
export const cautions = (rule: Trusted & { readonly accessLevel: string }): ReadonlyArray<string> => {
  const kind = kindOf(rule)
  const source = kind === "gitlab" ? "project" : "repository"
  const sentences: Array<string> = []
  if (kind === "other") {
    sentences.push(
      "This rule trusts any JWT of this issuer with these claims. Make sure that you know who can get one."
    )
  } else {
    if (ownerWide(rule.claims)) sentences.push(`Every ${source} of the owner is trusted, including later ones.`)
    if (!Object.keys(rule.claims).some((name) => narrower.has(name))) {
      sentences.push(
        `Every branch is trusted. Anyone who can push a branch to the ${source} gets the access of this rule.`
      )
    }
  }
  if (rule.accessLevel === "write") sentences.push("Its tokens can also change and delete secrets.")
  return sentences
}

const plain = /^[\w.:/@%+-]+$/
/** Text that needs no quoting in YAML, a shell or an address. For any other text, the reader fills in a placeholder. */
const literal = (text: string, otherwise: string) => (plain.test(text) ? text : otherwise)

/** Example for the file of a job. */
export const example = (
  rule: Pick<MachineRule, "id" | "issuer" | "claims" | "audience">,
  {
    baseUrl,
    environment,
    project
  }: { readonly baseUrl: string; readonly project: string; readonly environment: string }
): string => {
  const audience = literal(rule.audience, "<audience of the rule>")
  const run = `ampoule run --project ${literal(project, "my-project")} --env ${literal(environment, "production")} -- ./deploy.sh`
  const exchange = (token: string, type: "jwt" | "id_token") => [
    `curl -fsS ${baseUrl}/auth/token-exchange \\`,
    "  -d grant_type=urn:ietf:params:oauth:grant-type:token-exchange \\",
    `  -d subject_token_type=urn:ietf:params:oauth:token-type:${type} \\`,
    `  -d audience=${rule.id} --data-urlencode subject_token@${token} | jq -r .access_token`
  ]
  const indented = (lines: ReadonlyArray<string>, by: number) => lines.map((line) => " ".repeat(by) + line).join("\n")
  switch (kindOf(rule)) {
    case "github":
      return `permissions:
  id-token: write
steps:
  - name: Token for Ampoule
    run: |
      jwt=$(curl -fsS -G -H "Authorization: Bearer $ACTIONS_ID_TOKEN_REQUEST_TOKEN" \\
        "$ACTIONS_ID_TOKEN_REQUEST_URL" --data-urlencode audience=${audience} | jq -r .value)
      token=$(printf %s "$jwt" |
${indented(exchange("-", "jwt"), 8)})
      echo "::add-mask::$token"
      echo "AMPOULE_API_TOKEN=$token" >> "$GITHUB_ENV"
      echo "AMPOULE_URL=${baseUrl}" >> "$GITHUB_ENV"
  - run: ${run}`
    case "gitlab":
      return `deploy:
  id_tokens:
    AMPOULE_JWT:
      aud: ${audience}
  variables:
    AMPOULE_URL: ${baseUrl}
  script:
    - |
      export AMPOULE_API_TOKEN=$(printf %s "$AMPOULE_JWT" |
${indented(exchange("-", "id_token"), 8)})
    - ${run}`
    case "other":
      return `export AMPOULE_URL=${baseUrl}
export AMPOULE_API_TOKEN=$(printf %s "$JWT" |
${indented(exchange("-", "jwt"), 2)})
${run}`
  }
}

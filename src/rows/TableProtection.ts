/**
 * How each table of the database is protected from a writer of the database, column by column. Every table is either
 * sealed (its rows carry a MAC, `AuthorizationRows.ts`) or open with a reason. `test/rows/tableProtection.test.ts`
 * compares both lists with the database's catalogue, so a new table or column needs a decision here.
 */
import type { AuthorizationTable } from "./AuthorizationRows.ts"

const display = "Text or time that people see"
const use = "The last use: each use would cost a statement and a MAC"
const salt = "Fits the hash under the MAC, and no other"
const claimed = "A claim of the program, and appears as one"
const pace = "Slows the polls of one program"
const counter = "A count, which limits and caches use"
const issuerEnd = "Finds the sessions that the issuer, or the removal of an identity, ends early"
const firstUse = "A mark of the first use: taking it back needs the text of the credential too"

/** Columns of sealed tables that no MAC covers, each with its reason. */
export const outsideTheMac: { readonly [Table in AuthorizationTable]: Readonly<Record<string, string>> } = {
  users: { name: display, created_at: display, updated_at: display, proposal_declined: "Hides one proposal on a page" },
  teams: { name: display, created_at: display, updated_at: display },
  memberships: { created_at: display },
  projects: { name: display, created_at: display, updated_at: display },
  environments: {
    name: display,
    revision: counter,
    created_at: display,
    updated_at: display,
    live_secrets: counter,
    written_bytes: counter,
    expanded_bytes: counter,
    counted_revision: counter,
    tracked_from: counter,
    described: counter,
    position: display
  },
  access_grants: { reason: display, created_by: display, created_at: display },
  access_requests: { reason: display },
  second_person_requests: { about: "A copy of the sentence in the payload" },
  sessions: {
    salt,
    active_team_id: "Chooses the team that a page opens with, among those of the memberships",
    last_used_at: use,
    last_used_ip: use,
    last_used_user_agent: use,
    issuer_subject: issuerEnd,
    issuer_session: issuerEnd
  },
  api_tokens: { salt, name: display, last_used_at: use, last_used_ip: use, last_used_user_agent: use },
  cli_grants: {
    salt,
    hostname: claimed,
    os: claimed,
    installation_id: claimed,
    credential_protection: claimed,
    last_used_at: use,
    last_used_ip: use,
    last_used_user_agent: use
  },
  machine_rules: { name: display, created_at: display, last_used_at: use },
  invitations: {
    salt,
    invited_by: "Names the author on pages, and whose links end with their access; a link ends by itself after a week",
    created_at: display
  },
  password_resets: { salt, created_at: display },
  device_requests: {
    salt,
    credential_protection: claimed,
    installation_id: claimed,
    hostname: claimed,
    os: claimed,
    ip: claimed,
    interval_seconds: pace,
    last_polled_at: pace,
    created_at: display,
    decided_at: display,
    grant_id: "Names the login that a delivered request became, after its end"
  },
  oauth_grants: {
    client_name: display,
    redirect_host: "Shown in lists; each consent shows the address of its own request",
    last_used_at: use,
    last_used_ip: use,
    last_used_user_agent: use,
    device_id: "Chooses the earlier grant that a new one replaces"
  },
  oauth_grant_teams: {},
  oauth_access_tokens: {
    salt,
    payload: "A copy for the library; /mcp decides by the other columns",
    created_at: display
  },
  oauth_refresh_tokens: {
    salt,
    consumed_at: firstUse,
    next: "A box for this token, for the seconds of a repeated refresh"
  },
  oauth_codes: { salt, consumed_at: firstUse },
  oauth_interactions: {},
  cli_grant_teams: {},
  totp_factors: { created_at: display, last_used_at: use },
  recovery_codes: { salt },
  sign_in_steps: { salt, created_at: display, issuer_subject: issuerEnd, issuer_session: issuerEnd },
  sign_in_issuers: { name: display, created_at: display },
  sign_in_identities: {
    created_at: display,
    last_used_at: use,
    address: "The address by the issuer, which an owner sees beside the account before they confirm"
  },
  sign_in_rules: { created_at: display },
  passkeys: {
    name: display,
    transports: "A hint for the browser",
    synced: "A hint for the person",
    created_at: display,
    last_used_at: use
  },
  value_requests: {
    decided_at: display,
    decided_by: display,
    reported_at: "Hides an answer from its credential once it has it"
  },
  run_plans: { output: "A box for this plan, its environment and its credentials" },
  webhooks: { name: display, created_by: display, created_at: display, updated_at: display },
  passkey_challenges: { salt, created_at: display }
}

interface OpenTable {
  /**
   * `box`: the content is sealed, and its place is bound into the box. `chain`: a hash chain with seals shows changes.
   * `derived`: the trail or other rows can make it anew. `nothing`: a writer of the database can change it.
   */
  readonly by: "box" | "chain" | "derived" | "nothing"
  readonly because: string
}

/** Tables without MACs. */
export const openTables = {
  account_notices: {
    by: "nothing",
    because:
      "Notices for a person; they open nothing. One more keeps a reset person from a decision, one less lets them decide early"
  },
  audit_cuts: { by: "chain", because: "A signed note names each cut" },
  audit_entries: { by: "chain", because: "Entries are chained, and the last of each statement carries a MAC" },
  audit_key_lists: { by: "chain", because: "Entries name a list by its hash" },
  audit_seals: { by: "chain", because: "Each seal is a MAC of the vault over the head of a stream" },
  audit_streams: { by: "chain", because: "The head of a stream, which its seal and its last entry contain" },
  audit_terms: { by: "derived", because: "Words for the search of the trail" },
  audit_views: { by: "nothing", because: "Saved filters of a person; the trail checks the reader at each use" },
  change_requests: {
    by: "box",
    because:
      "Author, place, reason and changes are bound into the box that the environment's key opens. Each viewer carries a MAC of that key. A decision is judged by the rows of now"
  },
  data_keys: { by: "box", because: "The wrapped key is bound to its environment, its row and the database" },
  effect_sql_migrations: {
    by: "nothing",
    because: "The list of migrations, compared with the program's at each start"
  },
  exposure_credentials: { by: "derived", because: "Made anew from the trail by `ampoule audit rebuild`" },
  exposure_reads: { by: "derived", because: "Made anew from the trail by `ampoule audit rebuild`" },
  exposure_streams: { by: "derived", because: "Made anew from the trail by `ampoule audit rebuild`" },
  exposure_writes: { by: "derived", because: "Made anew from the trail by `ampoule audit rebuild`" },
  idempotency_keys: {
    by: "nothing",
    because: "A stored answer without values, given to the credential that sent the same request"
  },
  incidents: { by: "nothing", because: "A period and a note, judged against the trail at each view" },
  known_devices: {
    by: "nothing",
    because:
      "Opens nothing: a browser with separate attempts at a password. The hash is under the pepper, so none can be made"
  },
  instance: {
    by: "nothing",
    because:
      "The id of the database, which contexts of wrapped keys, values and MACs contain: another one makes all of them invalid"
  },
  leaked_credentials: {
    by: "nothing",
    because: "Reports that people see; the end of the credential is in its own row"
  },
  machine_assertions: {
    by: "nothing",
    because: "Digests of used assertions. Removing one needs the assertion's text too, which lives minutes"
  },
  mcp_sessions: {
    by: "nothing",
    because: "Opens nothing: each request and each message is judged by the credential that it carries"
  },
  oauth_clients: {
    by: "nothing",
    because: "Anybody may register a client. Each consent shows the name and the redirect host of its own request"
  },
  sealed_tables: {
    by: "nothing",
    because: "Each row is the MAC of a table's name; without it the server does not start"
  },
  sealing_keys: {
    by: "box",
    because:
      "The wrapped private key is bound to its environment and the database; the public one is checked against it"
  },
  secret_absences: {
    by: "derived",
    because: "Times between a deletion and its restoration, for the history of one secret"
  },
  secret_counters: { by: "derived", because: "The last number of each key; a box opens for its own number alone" },
  secret_references: { by: "derived", because: "What the current templates name" },
  secret_versions: { by: "box", because: "Database, place, key, kind and number are bound into the box" },
  secrets: {
    by: "nothing",
    because:
      "Names, notes, and which version is the current one. Each version is a box of its place; an earlier one can be made current"
  },
  service_keys: { by: "box", because: "The wrapped key is bound to its name" },
  service_key_generations: { by: "box", because: "The wrapped key is bound to its name and generation" },
  setup_codes: { by: "nothing", because: "The hash is under the pepper, and setup is over once an account exists" },
  vault_canary: { by: "box", because: "A box that the right root key opens" },
  webhook_deliveries: {
    by: "nothing",
    because:
      "Messages without values on their way to an address under the webhook's MAC; a forged one is sent and signed"
  },
  webhook_secrets: { by: "box", because: "The wrapped secret is bound to its team, its row and the database" }
} as const satisfies Readonly<Record<string, OpenTable>>

/**
 * Columns that authorize, by table (docs/security.md, "Authorization rows"), and the text of a row under its MAC. Pure.
 */

interface TableColumns {
  readonly key: ReadonlyArray<string>
  readonly columns: ReadonlyArray<string>
  readonly ended: ReadonlyArray<string>
}

/**
 * `columns` are the authorization columns, with the ids that bind the row to its place. `ended` are the columns that
 * mark an ended row. The statement that sets one also empties the MAC, so that a writer of the database cannot undo the
 * end.
 */
export const authorizationTables = {
  users: {
    key: ["id"],
    columns: ["id", "email", "passwordHash", "secondFactor", "recovering", "vouchedBy", "madeBy"],
    ended: []
  },
  teams: {
    key: ["id"],
    columns: [
      "id",
      "plan",
      "adminsNeedGrants",
      "tokensFollowCreators",
      "secondFactorRequired",
      "stepUpMinutes",
      "leakedCredentials",
      "signInOnly",
      "suspended",
      "sessionAddresses",
      "secondPerson",
      "allowedKeys"
    ],
    ended: []
  },
  memberships: {
    key: ["teamId", "userId"],
    columns: ["teamId", "userId", "role", "active", "deactivatedAt", "updatedAt", "ruledBy", "roleLimit", "breakGlass"],
    ended: []
  },
  projects: { key: ["id"], columns: ["id", "teamId", "slug", "visibility"], ended: ["deleted_at"] },
  environments: {
    key: ["id"],
    columns: ["id", "teamId", "projectId", "slug", "protected", "readers", "changes", "approvers", "approvals"],
    ended: ["deleted_at"]
  },
  access_grants: {
    key: ["id"],
    columns: ["id", "teamId", "userId", "projectId", "environmentId", "level", "until"],
    ended: []
  },
  access_requests: {
    key: ["id"],
    columns: [
      "id",
      "teamId",
      "userId",
      "environmentId",
      "level",
      "hours",
      "status",
      "approvedBy",
      "createdAt",
      "expiresAt"
    ],
    ended: []
  },
  second_person_requests: {
    key: ["id"],
    columns: ["id", "teamId", "userId", "payload", "status", "createdAt", "expiresAt"],
    ended: []
  },
  sessions: {
    key: ["id"],
    columns: [
      "id",
      "lookupId",
      "hash",
      "userId",
      "createdAt",
      "expiresAt",
      "factorAt",
      "manages",
      "loginId",
      "issuer",
      "onlyTeam",
      "provedAt",
      "closedTeams",
      "confirmedTeams"
    ],
    ended: ["revoked_at"]
  },
  api_tokens: {
    key: ["id"],
    columns: [
      "id",
      "lookupId",
      "hash",
      "teamId",
      "accessLevel",
      "projectIds",
      "environmentIds",
      "mcpScopes",
      "mcpOnly",
      "createdBy",
      "createdAt",
      "expiresAt",
      "ruleId",
      "addresses"
    ],
    ended: ["revoked_at"]
  },
  cli_grants: {
    key: ["id"],
    columns: [
      "id",
      "lookupId",
      "hash",
      "userId",
      "machine",
      "projectIds",
      "environmentIds",
      "createdAt",
      "expiresAt",
      "factorAt"
    ],
    ended: ["revoked_at"]
  },
  machine_rules: {
    key: ["id"],
    columns: [
      "id",
      "teamId",
      "issuer",
      "audience",
      "claims",
      "accessLevel",
      "projectIds",
      "environmentIds",
      "lifetimeSeconds",
      "createdBy"
    ],
    ended: ["revoked_at"]
  },
  invitations: {
    key: ["id"],
    columns: ["id", "lookupId", "hash", "teamId", "email", "role", "expiresAt"],
    ended: ["accepted_at", "revoked_at"]
  },
  password_resets: {
    key: ["id"],
    columns: ["id", "lookupId", "hash", "userId", "createdBy", "expiresAt"],
    ended: ["used_at"]
  },
  device_requests: {
    key: ["id"],
    columns: [
      "id",
      "lookupId",
      "hash",
      "userCodeHash",
      "status",
      "machineRequested",
      "expiresAt",
      "decidedBy",
      "machine",
      "teams",
      "projectIds",
      "environmentIds",
      "factorAt",
      "manages",
      "loginId",
      "askedBy"
    ],
    ended: ["delivered_at"]
  },
  oauth_grants: {
    key: ["id"],
    columns: [
      "id",
      "userId",
      "clientId",
      "scopes",
      "projectIds",
      "environmentIds",
      "payload",
      "createdAt",
      "expiresAt",
      "factorAt"
    ],
    ended: ["revoked_at"]
  },
  oauth_grant_teams: { key: ["grantId", "teamId"], columns: ["grantId", "teamId"], ended: [] },
  oauth_access_tokens: {
    key: ["lookupId"],
    columns: ["lookupId", "hash", "grantId", "audience", "scopes", "expiresAt"],
    ended: []
  },
  oauth_refresh_tokens: {
    key: ["lookupId"],
    columns: ["lookupId", "hash", "grantId", "rotation", "payload", "expiresAt"],
    ended: []
  },
  oauth_codes: {
    key: ["lookupId"],
    columns: ["lookupId", "hash", "grantId", "payload", "expiresAt"],
    ended: []
  },
  oauth_interactions: { key: ["idHash"], columns: ["idHash", "payload", "expiresAt"], ended: [] },
  cli_grant_teams: { key: ["grantId", "teamId"], columns: ["grantId", "teamId", "scopes"], ended: [] },
  totp_factors: {
    key: ["id"],
    columns: ["id", "userId", "sealed", "confirmed", "usedStep", "suspendedAt", "youngUntil", "closedTeams"],
    ended: []
  },
  recovery_codes: {
    key: ["id"],
    columns: ["id", "userId", "hash", "youngUntil", "closedTeams"],
    ended: ["used_at"]
  },
  sign_in_steps: {
    key: ["id"],
    columns: [
      "id",
      "lookupId",
      "hash",
      "userId",
      "expiresAt",
      "issuer",
      "onlyTeam",
      "closedTeams",
      "confirmedTeams",
      "recovery"
    ],
    ended: []
  },
  sign_in_issuers: {
    key: ["id"],
    columns: ["id", "teamId", "issuer", "clientId", "scopes", "sealed", "factors", "enabled"],
    ended: []
  },
  sign_in_identities: {
    key: ["id"],
    columns: ["id", "source", "issuer", "subject", "userId", "suspendedAt", "closedTeams", "confirmedTeams", "witness"],
    ended: []
  },
  sign_in_rules: { key: ["id"], columns: ["id", "teamId", "issuer", "claim", "value", "role"], ended: [] },
  passkeys: {
    key: ["id"],
    columns: ["id", "userId", "credentialId", "publicKey", "counter", "suspendedAt", "youngUntil", "closedTeams"],
    ended: []
  },
  value_requests: {
    key: ["id"],
    columns: [
      "id",
      "code",
      "credentialId",
      "askedBy",
      "userId",
      "teamId",
      "projectId",
      "environmentId",
      "key",
      "note",
      "replace",
      "status",
      "secretId",
      "version",
      "createdAt",
      "expiresAt"
    ],
    ended: []
  },
  run_plans: {
    key: ["id"],
    columns: [
      "id",
      "environmentId",
      "credentialId",
      "userId",
      "createdAt",
      "expiresAt",
      "startedAt",
      "startedBy",
      "tellsOutput",
      "endedAt",
      "exitCode",
      "durationMillis",
      "keys"
    ],
    ended: []
  },
  webhooks: { key: ["id"], columns: ["id", "teamId", "url", "events", "format", "enabled"], ended: [] },
  passkey_challenges: {
    key: ["id"],
    columns: ["id", "challenge", "hash", "purpose", "userId", "boundTo", "expiresAt"],
    ended: []
  }
} as const satisfies Record<string, TableColumns>

/**
 * Columns added to tables that already had MACs, with the defaults of older rows. A row with the default has the same
 * text, and so the same MAC, as before.
 */
export const laterDefaults: ReadonlyMap<string, Readonly<Record<string, unknown>>> = new Map([
  ["users", { secondFactor: false, recovering: false, vouchedBy: null, madeBy: null }],
  [
    "teams",
    {
      secondFactorRequired: false,
      secondPerson: false,
      stepUpMinutes: 15,
      leakedCredentials: "revoke",
      signInOnly: null,
      suspended: false,
      sessionAddresses: null,
      allowedKeys: null
    }
  ],
  ["memberships", { ruledBy: null, roleLimit: null, breakGlass: false }],
  [
    "sessions",
    {
      factorAt: null,
      manages: null,
      loginId: null,
      issuer: null,
      onlyTeam: null,
      provedAt: null,
      closedTeams: null,
      confirmedTeams: null
    }
  ],
  ["sign_in_steps", { issuer: null, onlyTeam: null, closedTeams: null, confirmedTeams: null, recovery: false }],
  ["passkeys", { suspendedAt: null, youngUntil: null, closedTeams: null }],
  ["totp_factors", { suspendedAt: null, youngUntil: null, closedTeams: null }],
  ["recovery_codes", { youngUntil: null, closedTeams: null }],
  ["sign_in_identities", { suspendedAt: null, closedTeams: null, confirmedTeams: null, witness: null }],
  ["api_tokens", { addresses: null }],
  ["device_requests", { factorAt: null, manages: null, loginId: null, askedBy: null }],
  ["cli_grants", { factorAt: null }],
  ["oauth_grants", { factorAt: null }],
  ["run_plans", { keys: null }]
])

export type AuthorizationTable = keyof typeof authorizationTables
type Cell = string | number | boolean | Date | Uint8Array | ReadonlyArray<unknown> | object | null

/** The authorization columns of a row, by the driver's names. */
export type AuthorizationRow<Table extends AuthorizationTable> = Readonly<
  Record<(typeof authorizationTables)[Table]["columns"][number], Cell>
>

const idText = (cell: unknown): string =>
  // Drivers return different types of byte arrays.
  cell instanceof Uint8Array ? Buffer.from(cell).toString("hex") : String(cell)

/** The ids that name a row, which has at least its key columns. */
export const idsOf = (table: AuthorizationTable, cells: ReadonlyMap<string, unknown>): string =>
  authorizationTables[table].key.map((part) => idText(cells.get(part))).join(" ")

/** The ids that name the row. */
export const keyOf = <Table extends AuthorizationTable>(table: Table, row: AuthorizationRow<Table>): string =>
  idsOf(table, new Map<string, unknown>(Object.entries(row)))

/** The database's name of a column, from the driver's. */
export const columnName = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

export const columnsOf = (table: AuthorizationTable): string =>
  authorizationTables[table].columns.map(columnName).join(", ")

export const isAuthorizationTable = (table: string): table is AuthorizationTable =>
  Object.hasOwn(authorizationTables, table)

/** Tables with a credential's hash, and the prefix of the credential's text (`src/credentials/TokenText.ts`). */
export const credentials = {
  api_tokens: "at",
  cli_grants: "cg",
  device_requests: "dc",
  oauth_access_tokens: "oa",
  oauth_refresh_tokens: "or",
  oauth_codes: "oc",
  sessions: "ss",
  setup_codes: "su",
  invitations: "iv",
  password_resets: "pr",
  known_devices: "kd",
  sign_in_steps: "sf"
} as const

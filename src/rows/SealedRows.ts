/**
 * Which columns of which rows decide who may do what (docs/security.md, "Rows that decide"), and the text of a row that
 * its MAC is over. Pure.
 */

interface Sealed {
  readonly key: ReadonlyArray<string>
  readonly columns: ReadonlyArray<string>
  readonly ended: ReadonlyArray<string>
}

/**
 * `columns`: all that decides, with the ids that bind the row to its place. `ended`: the columns that say that the row gives nothing any
 * more; whoever sets it empties the MAC, so that nobody without the key takes the end back.
 */
export const sealed = {
  users: { key: ["id"], columns: ["id", "email", "passwordHash", "secondFactor"], ended: [] },
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
      "sessionAddresses"
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
      "onlyTeam"
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
  totp_factors: { key: ["id"], columns: ["id", "userId", "sealed", "confirmed", "usedStep"], ended: [] },
  recovery_codes: { key: ["id"], columns: ["id", "userId", "hash"], ended: ["used_at"] },
  sign_in_steps: {
    key: ["id"],
    columns: ["id", "lookupId", "hash", "userId", "expiresAt", "issuer", "onlyTeam"],
    ended: []
  },
  sign_in_issuers: {
    key: ["id"],
    columns: ["id", "teamId", "issuer", "clientId", "scopes", "sealed", "factors", "enabled"],
    ended: []
  },
  sign_in_identities: { key: ["id"], columns: ["id", "source", "issuer", "subject", "userId"], ended: [] },
  sign_in_rules: { key: ["id"], columns: ["id", "teamId", "issuer", "claim", "value", "role"], ended: [] },
  passkeys: { key: ["id"], columns: ["id", "userId", "credentialId", "publicKey", "counter"], ended: [] },
  passkey_challenges: {
    key: ["id"],
    columns: ["id", "challenge", "hash", "purpose", "userId", "boundTo", "expiresAt"],
    ended: []
  }
} as const satisfies Record<string, Sealed>

/**
 * Columns that came to tables which had MACs already, with what a row has there that nobody gave anything else: such a
 * row's text, and so its MAC, is the one from before.
 */
const added: ReadonlyMap<string, Readonly<Record<string, unknown>>> = new Map([
  ["users", { secondFactor: false }],
  [
    "teams",
    {
      secondFactorRequired: false,
      stepUpMinutes: 15,
      leakedCredentials: "revoke",
      signInOnly: null,
      suspended: false,
      sessionAddresses: null
    }
  ],
  ["memberships", { ruledBy: null, roleLimit: null, breakGlass: false }],
  ["sessions", { factorAt: null, manages: null, loginId: null, issuer: null, onlyTeam: null }],
  ["sign_in_steps", { issuer: null, onlyTeam: null }],
  ["api_tokens", { addresses: null }],
  ["device_requests", { factorAt: null, manages: null, loginId: null, askedBy: null }],
  ["cli_grants", { factorAt: null }],
  ["oauth_grants", { factorAt: null }]
])

/** Columns that hold JSON, in every table that has one of this name. */
export const jsonColumns: ReadonlySet<string> = new Set(["claims", "payload", "teams"])

export type SealedTable = keyof typeof sealed
type Cell = string | number | boolean | Date | Uint8Array | ReadonlyArray<unknown> | object | null

/** What decides in a row; names as the driver gives them. */
export type SealedRow<Table extends SealedTable> = Readonly<Record<(typeof sealed)[Table]["columns"][number], Cell>>

/** JSON whose members stand in one order, whatever order the database keeps them in. */
const ordered = (value: unknown): unknown =>
  typeof value !== "object" || value === null
    ? value
    : Array.isArray(value)
      ? value.map(ordered)
      : Object.fromEntries(
          Object.entries(value)
            .filter(([, member]) => member !== undefined)
            .toSorted(([a], [b]) => (a < b ? -1 : 1))
            .map(([name, member]) => [name, ordered(member)])
        )

const isText = (one: unknown) => typeof one === "string"

/** Each value has one spelling, whether it comes from a request or from a row. Ids and scopes hold no comma. */
const spelled = (cell: unknown): unknown => {
  if (typeof cell !== "object" || cell === null) return cell
  if (cell instanceof Date) return cell.getTime()
  if (cell instanceof Uint8Array) return Buffer.from(cell.buffer, cell.byteOffset, cell.byteLength).toString("base64")
  if (Array.isArray(cell) && cell.every(isText)) return cell.join(",")
  return JSON.stringify(ordered(cell))
}

const none: ReadonlyMap<string, unknown> = new Map()
/** By table: what its columns that came later have in rows from before. */
const laterColumns: ReadonlyMap<string, ReadonlyMap<string, unknown>> = new Map(
  Array.from(added, ([table, cells]) => [table, new Map(Object.entries(cells))])
)

/** The table's name comes first: a MAC is good for a row of its own table alone. */
export const textOf = <Table extends SealedTable>(table: Table, row: SealedRow<Table>): string => {
  const columns: ReadonlyArray<keyof SealedRow<Table>> = sealed[table].columns
  const cells: Array<unknown> = [table]
  const later = laterColumns.get(table) ?? none
  for (const column of columns) {
    const cell = spelled(row[column])
    if (!later.has(column)) cells.push(cell)
    else if (cell !== later.get(column)) cells.push([column, cell])
  }
  return JSON.stringify(cells)
}

const idText = (cell: unknown): string =>
  // Whatever kind of bytes the driver gives.
  cell instanceof Uint8Array ? Buffer.from(cell).toString("hex") : String(cell)

/** The ids that name a row, which has at least those. */
export const idsOf = (table: SealedTable, cells: ReadonlyMap<string, unknown>): string =>
  sealed[table].key.map((part) => idText(cells.get(part))).join(" ")

/** The ids that name the row. */
export const keyOf = <Table extends SealedTable>(table: Table, row: SealedRow<Table>): string =>
  idsOf(table, new Map<string, unknown>(Object.entries(row)))

/** A driver's name of a column, as the database has it. */
export const columnName = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

export const columnsOf = (table: SealedTable): string => sealed[table].columns.map(columnName).join(", ")

export const isSealed = (table: string): table is SealedTable => Object.hasOwn(sealed, table)

/** Tables that keep a credential's hash, with the kind of its text (`src/credentials/TokenText.ts`). */
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

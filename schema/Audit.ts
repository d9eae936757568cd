/** Entries of the audit trail (docs/contract/audit.md). Names only: no member can hold a value. */
import * as Schema from "effect/Schema"
import { Timestamp } from "./Values.ts"
import { Actor, Integer, Key, openEnum, Slug, Uuid } from "./Wire.ts"
import { optional } from "./Strict.ts"

/** All actions of the service, the closed list that the document publishes. */
export const AuditAction = Schema.Literal(
  "secret.list",
  "secret.list_values",
  "secret.list_deleted",
  "secret.read",
  "secret.inject",
  "secret.diff",
  "secret.composition",
  "secret.history",
  "secret.create",
  "secret.update",
  "secret.unchanged",
  "secret.delete",
  "secret.rollback",
  "secret.restore",
  "secret.rename",
  "secret.purge",
  "secret.describe",
  "secret.rotation_due",
  "secret.plan",
  "run.report",
  "run.read",
  "secret.request",
  "sealed.open",
  "sealed.export",
  "sealing_key.read",
  "sealing_key.create",
  "sealing_key.rotate",
  "sealing_key.retire",
  "project.list",
  "project.create",
  "project.update",
  "project.delete",
  "environment.list",
  "environment.create",
  "environment.update",
  "environment.delete",
  "environment.restore",
  "access.list",
  "access.grant",
  "access.end",
  "access.request",
  "access.approve",
  "access.deny",
  "access.withdraw",
  "access.break_glass",
  "second_person.list",
  "second_person.request",
  "second_person.approve",
  "second_person.deny",
  "change.list",
  "change.request",
  "change.reveal",
  "change.approve",
  "change.deny",
  "change.withdraw",
  "token.list",
  "token.create",
  "token.update",
  "token.make_read_only",
  "token.set_addresses",
  "token.rotate",
  "token.revoke",
  "token.delete",
  "machine.rule_list",
  "machine.rule_create",
  "machine.rule_revoke",
  "machine.rule_delete",
  "machine.exchange",
  "webhook.list",
  "webhook.create",
  "webhook.update",
  "webhook.rotate",
  "webhook.test",
  "webhook.delete",
  "identity.read",
  "grant.list",
  "grant.issue",
  "grant.revoke",
  "device.view",
  "device.approve",
  "device.deny",
  "management.request",
  "management.approve",
  "management.begin",
  "oauth.consent",
  "oauth.deny",
  "oauth.issue",
  "oauth.refresh",
  "oauth.revoke",
  "credential.refused",
  "credential.leaked",
  "setup.complete",
  "session.create",
  "session.break_glass",
  "session.new_device",
  "session.end",
  "identity.link",
  "identity.unlink",
  "sign_in.list",
  "sign_in.issuer_create",
  "sign_in.issuer_update",
  "sign_in.issuer_delete",
  "sign_in.rule_create",
  "sign_in.rule_delete",
  "sign_in.require",
  "factor.add",
  "factor.remove",
  "factor.recovery_codes",
  "factor.confirm",
  "factor.vouch",
  "account.update",
  "email.change",
  "email.confirm",
  "password.change",
  "password.reset_link",
  "password.reset",
  "team.create",
  "team.update",
  "team.leave",
  "team.list",
  "team.suspend",
  "team.resume",
  "team.delete",
  "member.list",
  "member.invite",
  "member.invite_withdraw",
  "member.join",
  "member.update",
  "member.remove",
  "member.end_access",
  "incident.read",
  "incident.open",
  "audit.read",
  "audit.export",
  "audit.rebuild",
  "audit.baseline",
  "audit.cut",
  "audit.accept_restore",
  "backup.create",
  "data_key.rotate",
  "root_key.rotate"
)
export type AuditAction = typeof AuditAction.Type
export const auditActions: ReadonlyArray<AuditAction> = AuditAction.literals

const AuditTarget = Schema.Struct({
  type: Schema.String,
  id: Schema.String,
  name: Schema.String
}).annotations({ identifier: "AuditTarget", description: "Object of the action, unless it is given by keys." })

export const AuditEntry = Schema.Struct({
  id: Uuid,
  stream: Uuid,
  seq: Integer.annotations({ jsonSchema: { type: "integer" }, description: "Position in its stream, without gaps." }),
  at: Timestamp,
  requestId: Schema.String,
  actor: Actor,
  action: openEnum(...auditActions),
  outcome: openEnum("allowed", "denied"),
  reason: optional(
    Schema.String.annotations({ description: "Error code of a denial; reason given for revealing a value." })
  ),
  team: Schema.NullOr(Uuid),
  project: optional(Uuid),
  environment: optional(Slug),
  environmentId: optional(Uuid),
  keys: Schema.Array(Key),
  versions: optional(
    Schema.Array(Integer).annotations({
      description:
        "In the order of `keys`. For a read: the versions read. For a write: the new versions; for a deletion: the last ones."
    })
  ),
  contains: optional(
    Schema.Record({ key: Key, value: Integer }).annotations({
      description:
        "For a read: secrets handed out inside composed values. Versions by key; 0: unknown, from a sealed file."
    })
  ),
  revision: optional(
    Integer.annotations({
      jsonSchema: { type: "integer" },
      description:
        "Revision of the environment; for a write, after it. A read without `versions` returned the keys at this revision."
    })
  ),
  compared: optional(
    Schema.Array(
      Schema.Struct({ environmentId: Uuid, environment: Slug, revision: Integer }).annotations({
        identifier: "ComparedEnvironment"
      })
    ).annotations({
      description: "For a comparison: the further environments, each at its revision. A reader sees those it reaches."
    })
  ),
  target: optional(AuditTarget),
  earlier: optional(
    Schema.Boolean.annotations({
      description: "True for a write of texts that the secrets had before: as another kind, or of a past moment."
    })
  ),
  digest: optional(
    Schema.String.annotations({
      description:
        "Of a change that waits, revealed or approved: the digest that the reveal answered. It names author, reason, keys, kinds, texts, references and versions, and tests no guess."
    })
  ),
  typed: optional(
    Schema.Boolean.annotations({
      description:
        "For a write: whether the author sent the texts of `keys`, so that the author holds them. False: generated, copied or earlier texts. Absent: not a write of a text, or an entry of an earlier release."
    })
  ),
  ip: Schema.NullOr(Schema.String),
  userAgent: Schema.NullOr(Schema.String),
  via: openEnum("rest", "mcp", "dashboard", "cli")
}).annotations({ identifier: "AuditEntry", description: "One entry of the audit trail. Never a value." })
export type AuditEntry = typeof AuditEntry.Type

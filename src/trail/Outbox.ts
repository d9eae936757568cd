/**
 * Changes on their way to webhooks: rows that commit with the change and its audit entry, or not at all. What is
 * written here is sent by `src/webhooks/Dispatcher.ts`, by whatever process comes first.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import type { AuditAction } from "#schema/Audit.ts"
import type { TeamId } from "#schema/Ids.ts"
import { eventOfAction } from "#schema/WebhooksApi.ts"

export interface OutboxMessage {
  /** Of the audit entry; the same in every delivery of this event. */
  readonly id: string
  readonly at: number
  readonly action: AuditAction
  readonly team: TeamId
  /** What it says of itself beyond that: names and ids, since an audit entry holds nothing else. */
  readonly event: {
    readonly projectId?: string | undefined
    readonly environmentId?: string | undefined
    readonly environment?: string | undefined
    readonly keys?: ReadonlyArray<string> | undefined
    readonly versions?: ReadonlyArray<number> | undefined
    readonly revision?: number | undefined
    readonly target?: { readonly type: string; readonly id: string; readonly name: string } | undefined
  }
  readonly actor: { readonly type: string; readonly id: string; readonly name: string }
}

export const hasWebhookEvent = (action: AuditAction): boolean => eventOfAction[action] !== undefined

/**
 * The body of a delivery, as it is signed. `revision` orders the writes of an environment; deliveries come in any
 * order.
 */
export const bodyOf = ({ actor, at, event, id, team }: Omit<OutboxMessage, "action">, type: string): string =>
  JSON.stringify({
    id,
    type,
    at: new Date(at).toISOString(),
    team,
    project: event.projectId,
    environment: event.environment,
    environmentId: event.environmentId,
    keys: event.keys ?? [],
    versions: event.versions,
    revision: event.revision,
    target:
      event.target === undefined
        ? undefined
        : { type: event.target.type, id: event.target.id, name: event.target.name },
    actor: { type: actor.type, id: actor.id, name: actor.name }
  })

/**
 * One statement for all entries and all webhooks of their teams. A webhook that is being removed is waited for, and gets
 * nothing.
 */
export const enqueue = (sql: SqlClient.SqlClient, all: ReadonlyArray<OutboxMessage>) => {
  const rows = all.flatMap((message) => {
    const event = eventOfAction[message.action]
    return event === undefined ? [] : [{ message, event, body: bodyOf(message, event) }]
  })
  return sql`
    INSERT INTO webhook_deliveries (webhook_id, event_id, event, body, state, created_at, next_at)
    SELECT w.id, e.id, e.event, e.body, 'pending', e.at, e.at
    FROM unnest(
      ${rows.map(({ message }) => message.id)}::uuid[],
      ${rows.map(({ message }) => message.team)}::uuid[],
      ${rows.map(({ event }) => event)}::text[],
      ${rows.map(({ body }) => body)}::text[],
      ${rows.map(({ message }) => new Date(message.at).toISOString())}::timestamptz[]
    ) AS e (id, team_id, event, body, at)
    JOIN webhooks w ON w.team_id = e.team_id AND w.enabled AND (w.events IS NULL OR e.event = any(w.events))
    FOR KEY SHARE OF w`
}

/**
 * Changes on their way to webhooks. The rows commit with the change and its audit entry, or not at all.
 * `src/webhooks/Dispatcher.ts` sends them, in whichever process is first.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import type { AuditAction } from "#schema/Audit.ts"
import type { TeamId } from "#schema/Ids.ts"
import { eventOfAction } from "#schema/WebhooksApi.ts"

export interface OutboxMessage {
  /** Id of the audit entry, the same in every delivery of this event. */
  readonly id: string
  readonly at: number
  readonly action: AuditAction
  readonly team: TeamId
  /** Names and ids of the audit entry, which contains no values. */
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

/** The signed body of a delivery. `revision` orders the writes of an environment; deliveries arrive in any order. */
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
 * Inserts the messages of all entries for all webhooks in one statement. It waits for the removal of a webhook in
 * progress, and skips that webhook.
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

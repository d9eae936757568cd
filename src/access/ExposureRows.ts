/** Columns of the index of who was handed what, as several questions read them. */

/** Of `exposure_reads r`: who was handed it. */
export const holderColumns = `CASE WHEN held.own THEN o.owner_type ELSE r.actor_type END AS holder_type,
  CASE WHEN held.own THEN o.owner_id ELSE r.actor_id END AS holder_id,
  CASE WHEN held.own THEN o.owner_name ELSE r.actor_name END AS holder_name,
  CASE WHEN r.actor_type = 'oauth_client' THEN o.owner_name END AS person
  FROM exposure_reads r LEFT JOIN exposure_credentials o ON o.id = r.actor_id,
    LATERAL (SELECT o.id IS NOT NULL AND r.actor_type IN ('cli_grant', 'api_token') AS own) AS held`

/** Sentences after a change. The address names one of these, so that a link cannot put other words on a page. */
const notices = {
  "signed-out": "You are signed out.",
  "password-changed":
    "Your password is changed. Your other sessions are signed out. CLI logins, connected agents and the API tokens that you created no longer work.",
  "password-set": "Your new password is set. Sign in with it.",
  joined: "Welcome to the team.",
  "team-created": "The team is created.",
  "team-changed": "The team's settings are saved.",
  "plan-changed": "The plan is changed.",
  "team-left": "You have left the team.",
  "project-created": "The project is created.",
  "project-changed": "The project is saved.",
  "project-deleted": "The project is deleted.",
  "environment-created": "The environment is created.",
  "environment-changed": "The environment is saved.",
  "environment-deleted": "The environment is deleted.",
  "access-asked": "Your request is sent. Another person decides about it.",
  "access-given": "The grant is given.",
  "access-ended": "The grant has ended.",
  "access-approved": "The request is approved. The grant ends by itself.",
  "access-first-approval": "You approved the request. Another person has to approve it too.",
  "access-denied": "The request is denied.",
  "access-withdrawn": "The request is withdrawn.",
  "change-waits": "Your change waits until another person approves it. Nothing is written yet.",
  "change-approved": "The change is approved and written.",
  "change-denied": "The change is denied.",
  "change-withdrawn": "The change is withdrawn.",
  "secret-created": "The secret is added.",
  "secret-copied": "The secret is copied.",
  "secret-changed": "The secret is saved.",
  "secret-rolled-back": "The secret is rolled back.",
  "secret-deleted": "The secret is deleted. You can restore it for 30 days.",
  "secret-restored": "The secret is restored.",
  imported: "The pasted secrets are saved.",
  "token-changed": "The token is saved.",
  "token-read-only": "The token is now read-only.",
  "token-revoked": "The token is revoked.",
  "token-deleted": "The token is deleted.",
  "member-changed": "The member is saved.",
  "member-removed": "The member is removed.",
  "invitation-withdrawn": "The invitation is withdrawn. Its link no longer works.",
  "rule-created": "The trust rule is created.",
  "rule-deleted": "The trust rule is deleted, and the tokens that it issued are revoked.",
  "webhook-changed": "The webhook is saved.",
  "webhook-enabled": "The webhook is on. It gets every event from now on.",
  "webhook-disabled": "The webhook is off. It gets no events.",
  "webhook-tested": "A test event is being sent. Reload the page to see the result.",
  "webhook-deleted": "The webhook is deleted.",
  "grant-revoked": "The login is revoked. It no longer works.",
  "connection-revoked": "The connection is revoked. It no longer works.",
  "key-rotated": "A new sealing key is active. The old key still opens files until you retire it.",
  "key-retired": "The sealing key is retired."
} as const

const byName: ReadonlyMap<string, string> = new Map(Object.entries(notices))
export const noticeOf = (name: string): string | undefined => byName.get(name)

/** `path`, with the sentence about what was done; `about`: an id or numbers that the page makes more of, never words. */
export const withNotice = (path: string, name: keyof typeof notices, about?: string): string =>
  `${path}${path.includes("?") ? "&" : "?"}done=${name}${about === undefined ? "" : `&about=${encodeURIComponent(about)}`}`

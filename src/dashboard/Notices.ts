/** Sentences after a change. The address names one of these, so that nobody can put words of theirs on a page. */
const notices: Readonly<Record<string, string>> = {
  "signed-out": "You are signed out.",
  "password-changed":
    "Your password is changed. Other sessions have ended, and API tokens that you created are revoked.",
  "password-set": "Your new password is set. Sign in with it.",
  joined: "Welcome to the team.",
  "team-created": "The team is created.",
  "team-changed": "The team's settings are saved.",
  "team-left": "You have left the team.",
  "project-created": "The project is created.",
  "project-changed": "The project is saved.",
  "project-deleted": "The project is deleted.",
  "environment-created": "The environment is created.",
  "environment-changed": "The environment is saved.",
  "environment-deleted": "The environment is deleted.",
  "secret-created": "The secret is added.",
  "secret-changed": "The secret is saved.",
  "secret-rolled-back": "The secret is rolled back.",
  "secret-deleted": "The secret is deleted. It can be restored for 30 days.",
  "secret-restored": "The secret is restored.",
  imported: "The pasted secrets are saved.",
  "token-changed": "The token is saved.",
  "token-read-only": "The token is read-only from now on.",
  "token-revoked": "The token is revoked.",
  "token-deleted": "The token is deleted.",
  "member-changed": "The member is saved.",
  "member-removed": "The member is removed.",
  "invitation-withdrawn": "The invitation is withdrawn. Its link does not work any more.",
  "rule-created": "The trust rule is in force.",
  "rule-deleted": "The trust rule is deleted, and the tokens that jobs got by it are revoked.",
  "webhook-changed": "The webhook is saved.",
  "webhook-enabled": "The webhook is on: changes from now on are told.",
  "webhook-disabled": "The webhook is off. It is told of nothing.",
  "webhook-tested": "A test event is on its way. Reload to see what became of it.",
  "webhook-deleted": "The webhook is deleted.",
  "grant-revoked": "The login is revoked. It stopped working at once.",
  "connection-revoked": "The connection is revoked. It stopped working at once.",
  "key-rotated": "A new sealing key is active. The old one still opens files until it is retired.",
  "key-retired": "The sealing key is retired."
}

export const noticeOf = (name: string): string | undefined => (Object.hasOwn(notices, name) ? notices[name] : undefined)

/** `path`, saying what was done. */
export const withNotice = (path: string, name: keyof typeof notices): string =>
  `${path}${path.includes("?") ? "&" : "?"}done=${name}`

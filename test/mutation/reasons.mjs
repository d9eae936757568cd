// @ts-check
/**
 * Alterations that no test notices, and why none has to. `at` is a part of the line, `from` what stood there and `to` what it
 * became (any, when it is not said).
 * @type {ReadonlyArray<{ module: string, at: string, from?: string, to?: string, why: string }>}
 */
export const reasons = [
  {
    module: "TokenText",
    at: "if (kind === undefined ||",
    to: "false",
    why: "The pattern has no other kinds than the list: the compiler alone asks for the line."
  },
  {
    module: "TokenText",
    at: "&& row !== undefined",
    to: "true",
    why: "The columns of no row are 32 zero bytes, which no secret hashes to: the second lock of the same door."
  },
  {
    module: "Envelope",
    at: "extends Context.Reference<ValueCipher>()",
    to: '""',
    why: "The name of a setting inside the process; nothing is found by it but itself."
  },
  {
    module: "Policy",
    at: 'target.type === "environment" &&',
    from: 'target.type === "environment"',
    to: "true",
    why: "Nothing but an environment is protected or has changes proposed: the compiler alone asks for the line."
  },
  {
    module: "Policy",
    at: 'isScope(action) ? action : "identity:read"',
    to: '""',
    why: "Never reached: the line before has refused what is no scope. The compiler alone asks for an answer."
  },
  {
    module: "Policy",
    at: "team.scopes === null && !caller.mcpScopes.includes(action)",
    from: "team.scopes === null",
    to: "true",
    why: "Over MCP the scopes of a token are its MCP scopes, and the rule about scopes has asked for this one before."
  },
  {
    module: "Policy",
    at: '!(action === "secrets:write" && proposes(caller, team, target)) &&',
    from: 'action === "secrets:write"',
    to: "true",
    why: "A proposer is below admin, and the rule about roles, the first, leaves them no other change than this one: a second lock, for the day when members manage more."
  },
  {
    module: "Policy",
    at: 'level !== undefined && target.type === "environment" && lacksGrant(',
    from: "level !== undefined",
    to: "true",
    why: "Nobody has less than a level that is none: the compiler alone asks."
  },
  {
    module: "Policy",
    at: "(lasts(a) < lasts(b) ? 1 : -1)",
    from: "lasts(a) < lasts(b)",
    to: "lasts(a) <= lasts(b)",
    why: "Of two grants that give the same for as long, either is the highest."
  },
  {
    module: "RateLimiter",
    at: '"limits/RateLimit',
    to: '""',
    why: "The name of a service or a setting inside the process; nothing is found by it but itself."
  },
  {
    module: "Composition",
    at: "const noField: FieldFor = () => ({})",
    from: "() => ({})",
    to: "() => undefined",
    why: "An error that is made of nothing has no member, as one that is made of no members."
  },
  {
    module: "Composition",
    at: "one.key < other.key",
    to: "one.key <= other.key",
    why: "Keys are unique: no two are equal."
  },
  {
    module: "Composition",
    at: 'Either.right({ kind: "template", parts, source: text })',
    from: '"template"',
    to: '""',
    why: 'A kind is compared with "literal" alone; what is none is a template.'
  },
  {
    module: "Composition",
    at: "for (let i = 1; i < cycle.length; i++)",
    from: "i < cycle.length",
    to: "i <= cycle.length",
    why: "Behind the last one is nothing, which is smaller than nothing."
  },
  {
    module: "Composition",
    at: "if (cycle[i] < cycle[smallest]) smallest = i",
    from: "cycle[i] < cycle[smallest]",
    to: "cycle[i] <= cycle[smallest]",
    why: "Keys of a cycle are unique: no two are equal."
  },
  {
    module: "Composition",
    at: 'typeof part !== "string" && keys.has(part.key)',
    from: 'typeof part !== "string"',
    to: "true",
    why: "A text has no key, and nothing is not among the keys: the compiler alone asks."
  },
  {
    module: "Composition",
    at: 'typeof part !== "string" && keys.has(part.key)',
    from: '"string"',
    to: '""',
    why: "A text has no key, and nothing is not among the keys: the compiler alone asks."
  },
  {
    module: "Composition",
    at: 'typeof part !== "string" && part.key === from',
    from: 'typeof part !== "string"',
    to: "true",
    why: "A text has no key, and nothing is not the key that is asked for: the compiler alone asks."
  },
  {
    module: "Composition",
    at: 'typeof part !== "string" && part.key === from',
    from: '"string"',
    to: '""',
    why: "A text has no key, and nothing is not the key that is asked for: the compiler alone asks."
  },
  {
    module: "Composition",
    at: 'values.get(key) ?? ""',
    from: '""',
    to: '"Stryker was here!"',
    why: "Whatever is used has its value by then: the compiler alone asks."
  },
  {
    module: "Composition",
    at: 'values.get(used) ?? ""',
    from: '""',
    to: '"Stryker was here!"',
    why: "Whatever is used has its value by then: the compiler alone asks."
  },
  {
    module: "Verify",
    at: "} catch {",
    to: "{}",
    why: "What ends without an answer answers undefined; the line says so."
  },
  {
    module: "Verify",
    at: "this.#expected.get(stream) ?? []",
    from: "[]",
    why: "A text where a head was expected has neither number nor times: every filter after it leaves it out."
  },
  {
    module: "Verify",
    at: 'Date.parse(textOf(parsed["at"]) ?? "")',
    from: '""',
    why: "Any other text that is no date is as good."
  },
  {
    module: "Verify",
    at: "one !== undefined && !sameBytes(one.hash, computed)",
    from: "one !== undefined",
    to: "true",
    why: "The loop runs while there is a first one: the compiler alone asks."
  },
  {
    module: "Verify",
    at: "if (sealed === undefined || state.unsealed === 0) continue",
    from: "sealed === undefined",
    to: "false",
    why: "Entries under no seal are counted only where seals are kept: the compiler alone asks."
  }
]

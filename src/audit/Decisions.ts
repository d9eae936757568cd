/** Approved changes of an exported trail, with the digest of the content that each approval wrote. */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

const Decision = Schema.parseJson(
  Schema.Struct({
    action: Schema.Literal("change.reveal", "change.approve"),
    outcome: Schema.Literal("allowed"),
    at: Schema.String,
    actor: Schema.Struct({ id: Schema.String, name: Schema.String }),
    digest: Schema.String,
    target: Schema.Struct({ id: Schema.String })
  })
)
const decode = Schema.decodeUnknownOption(Decision)

/** The text of an entry is canonical, so the action comes first. */
const prefix = '{"action":"change.'
const approvalsShown = 20

export class Decisions {
  /** Digests that a person was shown, by request and person; until the approval of the request. */
  readonly #revealed = new Map<string, Map<string, Set<string>>>()
  readonly #lines: Array<string> = []
  #count = 0

  /** `body`: the hashed text of an entry. */
  add(body: string): void {
    if (!body.startsWith(prefix)) return
    const decision = Option.getOrUndefined(decode(body))
    if (decision === undefined) return
    const { action, actor, at, digest, target } = decision
    if (action === "change.reveal") {
      const people = this.#revealed.get(target.id) ?? new Map<string, Set<string>>()
      this.#revealed.set(target.id, people.set(actor.id, (people.get(actor.id) ?? new Set()).add(digest)))
      return
    }
    this.#count++
    const own = this.#revealed.get(target.id)?.get(actor.id)
    this.#revealed.delete(target.id)
    if (this.#lines.length >= approvalsShown) return
    const seen =
      own === undefined
        ? "not revealed to the approver in this file"
        : own.has(digest)
          ? "as revealed to the approver"
          : "which is not what was revealed to the approver"
    this.#lines.push(`Change ${target.id} was approved by ${actor.name} at ${at}: content ${digest}, ${seen}.`)
  }

  /** One line for each approval, of the first 20. */
  get notes(): ReadonlyArray<string> {
    const more = this.#count - this.#lines.length
    return more === 0 ? this.#lines : [...this.#lines, `${more} more changes were approved.`]
  }
}

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

interface Revealed {
  readonly person: string
  readonly digest: string
}

export class Decisions {
  /** Reveals of requests that no approval was read for yet, by request. */
  readonly #revealed = new Map<string, Array<Revealed>>()
  readonly #lines: Array<string> = []
  #count = 0

  /** `body`: the hashed text of an entry. */
  add(body: string): void {
    if (!body.startsWith(prefix)) return
    const decision = Option.getOrUndefined(decode(body))
    if (decision === undefined) return
    const { action, actor, at, digest, target } = decision
    if (action === "change.reveal") {
      const reveals = this.#revealed.get(target.id)
      const revealed = { person: actor.id, digest }
      if (reveals === undefined) this.#revealed.set(target.id, [revealed])
      else reveals.push(revealed)
      return
    }
    this.#count++
    const reveals = this.#revealed.get(target.id) ?? []
    this.#revealed.delete(target.id)
    if (this.#lines.length >= approvalsShown) return
    const own = reveals.filter(({ person }) => person === actor.id)
    const seen = own.some((one) => one.digest === digest)
      ? "as revealed to the approver"
      : own.length > 0
        ? "which is not what was revealed to the approver"
        : "not revealed to the approver in this file"
    this.#lines.push(`Change ${target.id} was approved by ${actor.name} at ${at}: content ${digest}, ${seen}.`)
  }

  /** One line for each approval, of the first 20. */
  get notes(): ReadonlyArray<string> {
    const more = this.#count - this.#lines.length
    return more === 0 ? this.#lines : [...this.#lines, `${more} more changes were approved.`]
  }
}

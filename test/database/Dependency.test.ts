import { SqlError } from "@effect/sql/SqlError"
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as FiberId from "effect/FiberId"
import { DependencyDown, isDatabaseUnavailable } from "#src/database/Dependency.ts"

const coded = (code: string, message = "") => Object.assign(new Error(message), { code })
const wrapped = (cause: unknown) => new SqlError({ cause, message: "Failed to execute statement" })

describe("an outage of the database", () => {
  it("is known by its code, its SQLSTATE class or the words of the driver", () => {
    for (const code of [
      "ECONNREFUSED",
      "ECONNRESET",
      "57P01",
      "57P03",
      "08006",
      "53300",
      "57014",
      "QUERY_DEADLINE_EXCEEDED"
    ]) {
      assert.isTrue(isDatabaseUnavailable(wrapped(coded(code))), code)
    }
    assert.isTrue(isDatabaseUnavailable(wrapped(new Error("timeout exceeded when trying to connect"))))
    assert.isTrue(isDatabaseUnavailable(wrapped(new AggregateError([coded("ECONNREFUSED")]))))
    assert.isTrue(isDatabaseUnavailable(wrapped(Object.assign(coded("ENOENT"), { syscall: "connect" }))))
    assert.isTrue(isDatabaseUnavailable(new DependencyDown({ dependency: "database" })))
  })

  it("is found as a failure or a defect, behind and beside other things", () => {
    const down = wrapped(coded("ECONNRESET"))
    assert.isTrue(isDatabaseUnavailable(Cause.fail(down)))
    assert.isTrue(isDatabaseUnavailable(Cause.sequential(Cause.fail("other"), Cause.die(wrapped(down)))))
    assert.isTrue(isDatabaseUnavailable(Cause.parallel(Cause.interrupt(FiberId.none), Cause.die(down))))
  })

  it("is not what a working database answers, nor anything else", () => {
    for (const code of ["23505", "42P01", "40001", "22021", "P0001", "25P02", "ENOENT", "XX001"]) {
      assert.isFalse(isDatabaseUnavailable(Cause.die(wrapped(coded(code)))), code)
    }
    // The words count only from the driver, not in an answer of the server.
    assert.isFalse(isDatabaseUnavailable(wrapped(coded("P0001", "Connection terminated"))))
    assert.isFalse(isDatabaseUnavailable(new DependencyDown({ dependency: "vault" })))
    const loop = new Error("loop")
    loop.cause = loop
    for (const other of [undefined, null, "ECONNREFUSED", 7, loop, Cause.empty])
      assert.isFalse(isDatabaseUnavailable(other))
  })
})

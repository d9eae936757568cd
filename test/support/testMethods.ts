/**
 * Runs before each file of tests. `layer(…)` of @effect/vitest writes its methods onto the one `it` of vitest, so that
 * in a process that files share `it.effect` of the next file would run in the layer of the one before.
 */
import { it, makeMethods } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"

makeMethods(it)

/** Random properties start from the seed of the run (test/seed.ts). */
FastCheck.configureGlobal({ seed: Number(process.env["AMPOULE_TEST_SEED"]) })

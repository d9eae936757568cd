// @ts-check
/**
 * Alterations that no test notices, and why none has to. `at` is a part of the line, `to` what it became (any, when it is
 * not said).
 * @type {ReadonlyArray<{ module: string, at: string, to?: string, why: string }>}
 */
export const reasons = []

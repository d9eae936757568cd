/**
 * Types of the routes for clients without the declarations of Effect 3. In the package, `src/operationTypes.mjs` writes
 * this file from the OpenAPI document, with every operation in it. Here it says their shape alone.
 */

/** By the id of the operation, such as `secrets.readValue`. */
export interface Operations {
  readonly [id: `${string}.${string}`]: {
    /** `params` of the path, `query`, `headers` and `payload`, as far as the operation has them. */
    readonly request: unknown
    readonly success: unknown
    /** Declared codes of refusals. */
    readonly codes: string
  }
}

/** Members of a refusal beside the common ones, by code. */
export interface RefusalMembers {
  readonly [code: string]: object
}

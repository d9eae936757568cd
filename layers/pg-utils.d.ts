/** Missing in `pg`'s types: encodes a parameter for the wire. Throws for cyclic values. */
declare module "pg/lib/utils.js" {
  export const prepareValue: (value: unknown) => string | Buffer | null
}

/** Of `pg`, whose types leave it out: a parameter as it goes over the wire. Throws on what refers to itself. */
declare module "pg/lib/utils.js" {
  export const prepareValue: (value: unknown) => string | Buffer | null
}

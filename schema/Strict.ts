import type * as Schema from "effect/Schema"

/** Marks a request body or query as strict: an unknown member is a 400 that names it (interface 7, decisions 3). */
export const strict = <S extends Schema.Annotable.All>(schema: S): Schema.Annotable.Self<S> =>
  schema.annotations({ parseOptions: { onExcessProperty: "error" } }) as Schema.Annotable.Self<S>

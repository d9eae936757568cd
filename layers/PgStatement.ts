/**
 * Statement with parameters that is described only once. The result of a prepared statement cannot change: the server
 * would answer 0A000, and the connection would end. `pg` requests the description at each execution and creates the
 * parsers of all columns again, which takes longer than the rest of a small statement.
 *
 * https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-EXT-QUERY
 */
import * as Str from "effect/String"
import * as Pg from "pg"
import { prepareValue, type Wire, wireOf } from "#layers/PgDriver.ts"

/** A bigint of the database is beyond 2^53, where a JavaScript number loses digits. The value is not repeated. */
export class BigintOutOfRange extends Error {
  override readonly name = "BigintOutOfRange"
  constructor() {
    super("a bigint of the database is beyond the safe integers")
  }
}

const INT8 = 20

const parseInt8 = (text: string): number => {
  const number = Number(text)
  if (!Number.isSafeInteger(number)) throw new BigintOutOfRange()
  return number
}

/**
 * Parsers of `pg`, except for int8 (`bigint`, `count(*)`), which becomes a number. One that does not fit fails its
 * statement.
 */
export const types: Pg.CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    // pg's type pairs each oid with its result, but the column's type is not known here.
    Number(oid) === INT8 && format !== "binary" ? parseInt8 : Pg.types.getTypeParser(oid, format as "text")
}

const camelNames = new Map<string, string>()
/** Name of a column in camelCase, for members of rows. */
export const camel = (name: string): string => {
  let cached = camelNames.get(name)
  if (cached === undefined) camelNames.set(name, (cached = Str.snakeToCamel(name)))
  return cached
}

interface Column {
  readonly name: string
  readonly member: string
  readonly type: number
  readonly parse: (text: string) => unknown
}
type Row = Record<string, unknown>

interface Description {
  readonly columns: ReadonlyArray<Column>
  /** Copied for each row, so that all rows have one shape. */
  readonly empty: Row
  readonly emptyInCamel: Row
}

const describe = (fields: ReadonlyArray<Pg.FieldDef>): Description => ({
  // The cast: types of a column's parser are not known here.
  columns: fields.map(({ dataTypeID, name }) => ({
    name,
    member: camel(name),
    type: dataTypeID,
    parse: types.getTypeParser(dataTypeID, "text") as Column["parse"]
  })),
  empty: Object.fromEntries(fields.map(({ name }) => [name, null])),
  emptyInCamel: Object.fromEntries(fields.map(({ name }) => [camel(name), null]))
})

const describes = ({ columns }: Description, fields: ReadonlyArray<Pg.FieldDef>) =>
  columns.length === fields.length &&
  fields.every(({ dataTypeID, name }, i) => name === columns[i].name && dataTypeID === columns[i].type)

/** Shared by all connections to a database, by statement name. */
export type Shared = Map<string, Description>

/** Results of the prepared statements of one connection. */
export class Descriptions {
  readonly #byName = new Map<string, Description>()
  readonly #shared: Shared

  constructor(shared: Shared) {
    this.#shared = shared
  }

  of(name: string): Description | undefined {
    return this.#byName.get(name)
  }

  /** An empty name is for a single execution. */
  describe(name: string, fields: ReadonlyArray<Pg.FieldDef>): Description {
    if (name === "") return describe(fields)
    const other = this.#shared.get(name)
    const description = other !== undefined && describes(other, fields) ? other : describe(fields)
    this.#shared.set(name, description)
    this.#byName.set(name, description)
    return description
  }
}

/** A statement with its parameters, for a connection. */
export interface StatementInput {
  readonly text: string
  readonly values: ReadonlyArray<unknown>
  readonly inCamel?: boolean
  /** Last statement of its transaction: COMMIT goes with it (`src/database/Transaction.ts`). */
  readonly ends?: boolean
}

/** Adds BEGIN or COMMIT to the same message. The server runs the commands in order, and stops at the first failure. */
const control = (wire: Wire, text: "BEGIN" | "COMMIT") => {
  wire.parse({ name: "", text })
  wire.bind({ statement: "", values: [] })
  wire.execute({ rows: 0 })
}

export type Callback = (error: Error | null | undefined, result?: { readonly rows: ReadonlyArray<Row> }) => void

const prepared = (values: ReadonlyArray<unknown>) => {
  try {
    return values.map((value) => prepareValue(value))
  } catch (error) {
    return error instanceof Error ? error : new TypeError("a parameter cannot be sent")
  }
}

/** `pg.Client` calls the `handle…` members for messages of the server. */
export class Statement implements Pg.Submittable {
  /** Empty: parsed for a single execution. */
  readonly name: string
  readonly text: string
  /** Set by `pg.Client`. */
  callback: Callback | undefined
  /** Encoded parameters, or the error of one of them. */
  readonly #values: ReadonlyArray<string | Buffer | null> | Error
  readonly #descriptions: Descriptions
  readonly #inCamel: boolean
  readonly #rows: Array<Row> = []
  /** COMMIT goes with it. */
  readonly ends: boolean
  /** BEGIN goes with it. */
  begins = false
  /** Commands that the server completed, including BEGIN and COMMIT. */
  #completed = 0
  #description: Description | undefined
  #failure: Error | undefined

  /** `inCamel`: rows have camelCase members at once, which saves a copy. */
  constructor(
    { ends = false, inCamel = false, text, values }: StatementInput,
    name: string | undefined,
    descriptions: Descriptions
  ) {
    this.name = name ?? ""
    this.text = text
    this.#values = prepared(values)
    this.#descriptions = descriptions
    this.#inCamel = inCamel
    this.ends = ends
  }

  /** True when its parameters can be encoded, so that BEGIN may go with it. */
  get isSendable(): boolean {
    return !(this.#values instanceof Error)
  }

  /** The server has begun the transaction. */
  get hasBegun(): boolean {
    return this.begins && this.#completed > 0
  }

  /** The server has committed, even if a part of its answer could not be parsed. */
  get hasEnded(): boolean {
    return this.ends && this.#completed === (this.begins ? 3 : 2)
  }

  /** Returns the error of a parameter, before anything is sent. */
  submit(connection: Pg.Connection): Error | undefined {
    const values = this.#values
    if (values instanceof Error) return values
    const wire = wireOf(connection)
    const { name, text } = this
    const isParsed = name !== "" && wire.parsedStatements[name] !== undefined
    this.#description = isParsed ? this.#descriptions.of(name) : undefined
    wire.stream.cork()
    // `pg` counts BEGIN's "parse complete" as that of this statement. So a named statement is parsed before BEGIN, and
    // an unnamed one after it, since BEGIN would replace it.
    if (!isParsed && name !== "") wire.parse({ name, text })
    if (this.begins) control(wire, "BEGIN")
    if (!isParsed && name === "") wire.parse({ name, text })
    wire.bind({ statement: name, values })
    if (this.#description === undefined) wire.describe({ type: "P", name: "" })
    wire.execute({ rows: 0 })
    if (this.ends) control(wire, "COMMIT")
    wire.sync()
    wire.stream.uncork()
    return undefined
  }

  handleRowDescription({ fields }: { readonly fields: ReadonlyArray<Pg.FieldDef> }) {
    this.#description = this.#descriptions.describe(this.name, fields)
  }

  handleDataRow({ fields }: { readonly fields: ReadonlyArray<string | null> }) {
    const description = this.#description
    if (description === undefined || this.#failure !== undefined) return
    const { columns, empty, emptyInCamel } = description
    const inCamel = this.#inCamel
    const row = inCamel ? { ...emptyInCamel } : { ...empty }
    try {
      for (let i = 0; i < columns.length; i++) {
        const text = fields[i]
        const { member, name, parse } = columns[i]
        if (text !== null) row[inCamel ? member : name] = parse(text)
      }
      this.#rows.push(row)
    } catch (error) {
      this.#failure = error instanceof Error ? error : new TypeError("a column cannot be read")
    }
  }

  handleCommandComplete() {
    this.#completed++
    const isOwn = this.#completed === (this.begins ? 2 : 1)
    if (isOwn && this.#description === undefined) this.#descriptions.describe(this.name, [])
  }

  handleEmptyQuery() {}

  handleError(error: Error) {
    this.callback?.(this.#failure ?? error)
  }

  handleReadyForQuery() {
    if (this.#failure === undefined) this.callback?.(null, { rows: this.#rows })
    else this.callback?.(this.#failure)
  }
}

/**
 * A statement with parameters, as `pg` runs one, but described once: what a prepared statement returns cannot change (the
 * server answers 0A000 when it would have to, and the connection ends). `pg` asks for it at each execution, and makes the
 * parsers of all columns anew, which takes longer than the rest of a small statement.
 *
 * https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-EXT-QUERY
 */
import * as Str from "effect/String"
import * as Pg from "pg"
import { prepareValue } from "pg/lib/utils.js"

/**
 * A bigint of the database is beyond 2^53, where a JavaScript number would be another one. The value is not repeated.
 */
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
 * As `pg` parses columns, but int8 (`bigint`, `count(*)`) is a number instead of a text; one that does not fit fails
 * its statement.
 */
export const types: Pg.CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    // The overloads of pg's own type pair each oid with its result; a column's type is not known here.
    Number(oid) === INT8 && format !== "binary" ? parseInt8 : Pg.types.getTypeParser(oid, format as "text")
}

const camelNames = new Map<string, string>()
/** Name of a column, as the member of a row that the service reads. */
export const camel = (name: string): string => {
  let known = camelNames.get(name)
  if (known === undefined) camelNames.set(name, (known = Str.snakeToCamel(name)))
  return known
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
  /** Copied for each row, so that all have one shape. */
  readonly empty: Row
  readonly emptyInCamel: Row
}

const describe = (fields: ReadonlyArray<Pg.FieldDef>): Description => ({
  // The cast: what a parser of a column takes and answers is not known here.
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

/** Of all connections to a database, by the statement's name: they share what is the same. */
export type Shared = Map<string, Description>

/** What the prepared statements of one connection return. */
export class Descriptions {
  readonly #known = new Map<string, Description>()
  readonly #shared: Shared

  constructor(shared: Shared) {
    this.#shared = shared
  }

  of(name: string): Description | undefined {
    return this.#known.get(name)
  }

  /** Without a name for this one execution. */
  describe(name: string, fields: ReadonlyArray<Pg.FieldDef>): Description {
    if (name === "") return describe(fields)
    const other = this.#shared.get(name)
    const description = other !== undefined && describes(other, fields) ? other : describe(fields)
    this.#shared.set(name, description)
    this.#known.set(name, description)
    return description
  }
}

/** `pg.Connection` as it is: its declared type lacks what was parsed, and the wire's messages without `more`. */
interface Wire {
  readonly stream: { cork(): void; uncork(): void }
  readonly parsedStatements: Readonly<Record<string, string | undefined>>
  parse(message: { readonly name: string; readonly text: string }): void
  bind(message: { readonly statement: string; readonly values: ReadonlyArray<string | Buffer | null> }): void
  describe(message: { readonly type: "P"; readonly name: string }): void
  execute(message: { readonly rows: number }): void
  sync(): void
}

/** What is asked of a connection. */
export interface Asked {
  readonly text: string
  readonly values: ReadonlyArray<unknown>
  readonly inCamel?: boolean
  /** It is the last one of its transaction: COMMIT goes with it (`src/database/TransactionEnd.ts`). */
  readonly ends?: boolean
}

/**
 * BEGIN or COMMIT in one message with another statement: the server runs them in order, and none after one that failed.
 */
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

/** `pg.Client` calls the members that begin with `handle` as the messages of the server come. */
export class Statement implements Pg.Submittable {
  /** Empty: it is parsed for this one execution. */
  readonly name: string
  readonly text: string
  /** `pg.Client` sets it. */
  callback: Callback | undefined
  /** As they are sent; or what is wrong with one of them. */
  readonly #values: ReadonlyArray<string | Buffer | null> | Error
  readonly #descriptions: Descriptions
  readonly #inCamel: boolean
  readonly #rows: Array<Row> = []
  /** COMMIT goes with it. */
  readonly ends: boolean
  /** BEGIN goes with it. */
  begins = false
  /** Commands that the server completed, BEGIN and COMMIT among them. */
  #completed = 0
  #description: Description | undefined
  #failure: Error | undefined

  /** `inCamel`: members of rows have the names that the service reads, and nobody needs to copy them. */
  constructor(
    { ends = false, inCamel = false, text, values }: Asked,
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

  /** It can be sent, and BEGIN with it. */
  get isSendable(): boolean {
    return !(this.#values instanceof Error)
  }

  /** The server has begun the transaction that BEGIN went for. */
  get hasBegun(): boolean {
    return this.begins && this.#completed > 0
  }

  /** The server has committed: also where something of its answer could not be read. */
  get hasEnded(): boolean {
    return this.ends && this.#completed === (this.begins ? 3 : 2)
  }

  /** Answers what is wrong with a parameter, before anything is sent. */
  submit(connection: Pg.Connection): Error | undefined {
    const values = this.#values
    if (values instanceof Error) return values
    const wire = connection as unknown as Wire
    const { name, text } = this
    const isParsed = name !== "" && wire.parsedStatements[name] !== undefined
    this.#description = isParsed ? this.#descriptions.of(name) : undefined
    wire.stream.cork()
    // `pg` counts BEGIN's "parse complete" as this statement's own, so a statement with a name is parsed before BEGIN. One
    // without a name is parsed after it, since BEGIN would replace it.
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

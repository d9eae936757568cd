/**
 * Commands with their pages of help. The library's own page repeats the type of each option: 154 lines of up to 250
 * columns for `run`, where ours has 48 of at most 100 (`Page.ts`). Pages are made from the library's HelpDoc, so
 * each option is described once.
 */
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import type * as Span from "@effect/cli/HelpDoc/Span"
import type * as Effect from "effect/Effect"
import type * as Types from "effect/Types"
import type { Page, Row } from "./Page.ts"
import { withoutColour } from "#src/cli/terminal/Output.ts"

/** Text of a command's page: a sentence, further paragraphs, and lines that can be pasted. */
interface Manual {
  readonly says: string
  readonly more?: ReadonlyArray<string>
  readonly examples?: ReadonlyArray<string>
}

export interface Node {
  readonly name: string
  readonly manual: Manual
  readonly help: () => HelpDoc.HelpDoc
  readonly below: ReadonlyArray<Node>
  /** Without a subcommand it only shows its page. */
  readonly isGroup: boolean
}

/** A command and its node of the help: the library's tree gives no access to grandchildren. */
export const described = <Name extends string, R, E, A>(
  command: Command.Command<Name, R, E, A>,
  manual: Manual,
  below: ReadonlyArray<{ readonly node: Node }> = [],
  isGroup = false
) => {
  const node: Node = {
    name: [...Command.getNames(command)][0] ?? "",
    manual,
    help: () => Command.getHelp(command, CliConfig.make({ showBuiltIns: false })),
    below: below.map(({ node }) => node),
    isGroup
  }
  return Object.assign(command, { node })
}

export const command = <Name extends string, const Config extends Command.Command.Config, R, E>(
  name: Name,
  manual: Manual,
  config: Config,
  handler: (options: Types.Simplify<Command.Command.ParseConfig<Config>>) => Effect.Effect<void, E, R>
) => described(Command.make(name, config, handler), manual)

/** Name of an argument that a command declares only to reject it. */
export const notAnArgument = "nothing-else"

const flat = (doc: HelpDoc.HelpDoc): ReadonlyArray<HelpDoc.HelpDoc> =>
  doc._tag === "Sequence" ? [...flat(doc.left), ...flat(doc.right)] : doc._tag === "Empty" ? [] : [doc]

const textOf = (span: Span.Span): string => withoutColour(HelpDoc.toAnsiText(HelpDoc.p(span))).trimEnd()

/** Sentences that the library adds to each option of a kind. */
const boilerplate =
  /^(A user-defined piece of text\.|A true or false value\.|An integer\.|This setting is optional\.|This (option|argument) (may|must) be repeated .*|One of the following: .*)$/

const paragraphs = (doc: HelpDoc.HelpDoc): ReadonlyArray<string> =>
  flat(doc).flatMap((node) => (node._tag === "Paragraph" ? [textOf(node.value)] : []))

const rows = (body: ReadonlyArray<HelpDoc.HelpDoc>): ReadonlyArray<Row> =>
  body.flatMap((node) =>
    node._tag === "DescriptionList"
      ? node.definitions.map(([name, doc]): Row => [
          textOf(name).replace(/^\(|\)$/g, ""),
          paragraphs(doc)
            .filter((text) => !boilerplate.test(text))
            .map((text) => text.replace(/^This setting is optional\. Defaults to: /, "Default: "))
            .join(". ")
        ])
      : []
  )

/** Rows below a title of the library's page. */
const rowsBelow = (title: string, doc: HelpDoc.HelpDoc): ReadonlyArray<Row> => {
  let isBelow = false
  const body = flat(doc).filter((part) => {
    if (part._tag === "Header") isBelow = textOf(part.value) === title
    return isBelow
  })
  return rows(body)
}

/** Page of a command and of all its subcommands. */
export const pageOf = ({ below, help, isGroup, manual, name }: Node): Page => {
  const doc = help()
  return {
    name,
    isGroup,
    says: [manual.says, ...(manual.more ?? [])].filter((text) => text !== ""),
    examples: manual.examples ?? [],
    arguments: rowsBelow("ARGUMENTS", doc).filter(([argument]) => !argument.includes(notAnArgument)),
    options: rowsBelow("OPTIONS", doc),
    below: below.map(pageOf)
  }
}

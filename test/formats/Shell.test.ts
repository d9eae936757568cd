import * as PowerShell from "#src/formats/PowerShell.ts"
import * as Shell from "#src/formats/Shell.ts"
import type { Entry, Print } from "#src/formats/Entry.ts"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { value } from "./Entries.ts"
import { environmentAfter, installedShells } from "./Shells.ts"

const printed = (print: Print, entries: ReadonlyArray<Entry>) => Either.getOrThrow(print(entries))

/** Random values, and those that would run, end a quote, or be taken for an escape by one of the shells. */
const hostile = (): ReadonlyArray<Entry> =>
  [
    ...FastCheck.sample(value, { numRuns: 1_500, seed: 11 }).map((text) => text.replaceAll("\0", "")),
    ..."$(kill -9 $$)|`kill -9 $$`|';kill -9 $$;'|'|\\'|\n||x\\\\y|it\\'s|\\|\\\\'|''|a''b|=|a=b=c|-x|#x".split("|"),
    ..."\\';kill -9 $$ #|\\'; kill -9 $fish_pid; '|(kill -9 $fish_pid)|$fish_pid|!!|~|*|{a,b}|\r|a\r\nb".split("|")
  ].map((text, i) => ({ key: `K${i}`, value: text }))

describe("shell exports", () => {
  it("the shells that people use are on this machine", () => {
    assert.includeMembers(
      installedShells.map(({ name }) => name),
      ["sh", "bash", "dash", "zsh", "ksh", "fish"]
    )
  })

  for (const shell of installedShells) {
    for (const script of ['. "$FILE"', 'eval "$(cat "$FILE")"']) {
      it(`${shell.name} reads back every value by ${script}, and runs nothing`, () => {
        const entries = [...hostile(), { key: "SOME_PATH", value: "/a:/b" }]
        const environment = environmentAfter(shell, printed(Shell.print, entries), script)
        for (const { key, value } of entries) assert.strictEqual(environment[key], value, JSON.stringify(value))
      })
    }
  }

  it("fish reads back its own format", () => {
    const fish = installedShells.find(({ name }) => name === "fish")
    assert(fish !== undefined)
    const entries = [...hostile(), { key: "SOME_PATH", value: "/a:/b" }]
    const environment = environmentAfter(fish, printed(Shell.printFish, entries), 'source "$FILE"')
    for (const { key, value } of entries) assert.strictEqual(environment[key], value, JSON.stringify(value))
  })

  it("all of them put in the value of a reference that a template has", () => {
    const entries: ReadonlyArray<Entry> = [
      { key: "A", value: "it's $(id)" },
      { key: "T", value: "<${A}>\\'$${A} ${A}", kind: "template" },
      { key: "ALONE", value: "${A}", kind: "template" }
    ]
    for (const shell of installedShells) {
      const environment = environmentAfter(shell, printed(Shell.print, entries), '. "$FILE"')
      assert.strictEqual(environment["T"], "<it's $(id)>\\'${A} it's $(id)", shell.name)
      assert.strictEqual(environment["ALONE"], "it's $(id)", shell.name)
    }
  })

  it("writes quotes and backslashes outside of quotes, and names the key of a value with U+0000", () => {
    assert.deepStrictEqual(
      Shell.print([{ key: "A", value: "it's \\ $HOME" }]),
      Either.right("export A='it'\\''s '\\\\' $HOME'\n")
    )
    assert.deepStrictEqual(Shell.printFish([{ key: "A", value: "'" }]), Either.right("set -gx A ''\\'\n"))
    for (const print of [Shell.print, Shell.printFish, PowerShell.print]) {
      const outcome = print([{ key: "BAD", value: "\0" }])
      assert(Either.isLeft(outcome))
      assert.strictEqual(outcome.left.key, "BAD")
    }
  })

  it("reads what people write in a shell file, and refuses what the shell would have to work out", () => {
    const text = [
      "# c",
      "",
      "A='1'",
      "export  B=''\\'''",
      "export C=",
      'export D="x"   # comment',
      'E="say \\"hi\\" to ${A} for \\$5"',
      "F=plain/text:1,2",
      "G='${A}'",
      'H=pre"$A"post'
    ].join("\n")
    assert.deepStrictEqual(Either.getOrThrow(Shell.parse(text)), [
      { key: "A", value: "1", line: 3 },
      { key: "B", value: "'", line: 4 },
      { key: "C", value: "", line: 5 },
      { key: "D", value: "x", line: 6 },
      { key: "E", value: 'say "hi" to ${A} for $5', line: 7, plainDollars: [21] },
      { key: "F", value: "plain/text:1,2", line: 8 },
      { key: "G", value: "${A}", line: 9, plainDollars: [0] },
      { key: "H", value: "pre${A}post", line: 10 }
    ])
    const refused = ["A=$(id)", "A=`id`", 'A="`id`"', "A='x' B='y'", "A='x';id", "A='x", 'A="x', "id", "A='x'\\"]
    for (const bad of [...refused, "export A", "A=*", "A=~/x", "A=x&", "A=$1", "A=$home", "A=a b"]) {
      const outcome = Shell.parse(`OK='1'\n${bad}\n`)
      assert(Either.isLeft(outcome), bad)
      assert.strictEqual(outcome.left.line, 2)
    }
  })

  it("reads what people write for fish", () => {
    const parsed = Either.getOrThrow(Shell.parseFish("set -gx A 'it\\'s \\\\ \\n'\nset -gx B \"x$A\"\nset -gx C\n"))
    assert.deepStrictEqual(
      parsed.map(({ value }) => value),
      ["it's \\ \\n", "x${A}", ""]
    )
  })
})

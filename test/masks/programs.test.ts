/** The masks against the programs that write values: each prints the value in its own way, none of it may be read. */
import { assert, describe, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { masks } from "#src/masks/Redactor.ts"

/** Characters that each way of writing treats in its own way. */
const values = {
  PASSWORD: `p&s<s>w'o"r d/+?=$HOME\`x\`!(y)*~é\\z`,
  TOKEN: "sk-live_0123456789abcdefABCDEF??>>~~"
}
const environment = { ...process.env, ...values }

interface Way {
  readonly program: string
  readonly args: ReadonlyArray<string>
}

const python = (code: string): Way => ({
  program: "python3",
  args: ["-c", `import os\nv = os.environ["NAME"]\n${code}`]
})
const bash = (code: string): Way => ({ program: "bash", args: ["-c", code] })
const node = (code: string): Way => ({ program: process.execPath, args: ["-e", `const v = process.env.NAME; ${code}`] })

const ways: Readonly<Record<string, Way>> = {
  "printf of bash": bash('printf "%s\\n" "$NAME"'),
  "bash %q": bash('printf "%q\\n" "$NAME"'),
  "bash @Q": bash('echo "${NAME@Q}"'),
  "bash set -x": bash('set -x; true "$NAME"'),
  "bash declare -p": bash("declare -p NAME"),
  "bash export -p": bash("export -p | grep NAME="),
  base64: bash('printf %s "$NAME" | base64 -w0'),
  "base64 of user and password": bash('printf %s "app:$NAME" | base64 -w0'),
  "base64 two off": bash('printf %s "ap:$NAME" | base64 -w0'),
  "od as hex": bash('printf %s "$NAME" | od -An -v -tx1 | tr -d " \\n"'),
  "python json": python("import json; print(json.dumps(v))"),
  "python json as text": python("import json; print(json.dumps(v, ensure_ascii=False))"),
  "python html": python("import html; print(html.escape(v))"),
  "python xml": python("from xml.sax.saxutils import quoteattr, escape; print(escape(v), quoteattr(v))"),
  "python quote": python(
    "from urllib.parse import quote, quote_plus; print(quote(v), quote(v, safe=''), quote_plus(v))"
  ),
  "python urlencode": python("from urllib.parse import urlencode; print(urlencode({'a': v}))"),
  "python shlex": python("import shlex; print(shlex.quote(v))"),
  "python base64url": python("import base64; print(base64.urlsafe_b64encode(v.encode()).decode())"),
  "python hex in capitals": python("print(v.encode().hex().upper())"),
  "node json": node("console.log(JSON.stringify(v))"),
  "node uri": node("console.log(encodeURIComponent(v), new URLSearchParams({ v }).toString())"),
  "node utf-16": node("process.stdout.write(Buffer.from(v.replace('é', ''), 'utf16le'))"),
  "colours inside": node("console.log([...v].join('\\u001b[31m'))"),
  "a title of the terminal": node("process.stdout.write('\\u001b]0;' + v + '\\u0007')"),
  "zsh quoting": {
    program: "zsh",
    args: ["-c", "echo ${(q)NAME}; echo ${(qq)NAME}; echo ${(qqq)NAME}; echo ${(qqqq)NAME}"]
  },
  "fish quoting": { program: "fish", args: ["-c", "string escape -- $NAME; string escape --style=url -- $NAME"] },
  "dash set -x": { program: "dash", args: ["-c", 'set -x; true "$NAME"'] },
  "ruby shellescape": {
    program: "ruby",
    args: ["-rshellwords", "-e", 'puts ENV["NAME"].shellescape, ENV["NAME"].inspect']
  },
  "carriage returns": node("console.log([...v].join('\\r'))"),
  "unseen characters": node("console.log([...v].join('\\u200b') + [...v].join('\\u00ad'))"),
  "bold by backspace": node("console.log([...v].map((c) => c + '\\b' + c).join(''))"),
  "jq @html @uri @sh @base64": {
    program: "jq",
    args: ["-nr", "env.NAME | @html, @uri, @sh, @base64, @json"]
  }
}

const exists = (program: string) => spawnSync(program, ["-c", "true"]).error === undefined

/** The text as its reader could take it: anything that is left of the value in a row. */
const partsOf = (value: string): ReadonlyArray<string> =>
  value.split(/[^A-Za-z0-9]+/).filter((part) => part.length >= 5)

describe("masked output", () => {
  const set = masks(values)
  if (set === "too much") throw new Error("too much")
  for (const [name, { args, program }] of Object.entries(ways)) {
    it.skipIf(!exists(program))(`hides a value from ${name}`, () => {
      for (const [key, value] of Object.entries(values)) {
        const text = name === "node utf-16" ? value.replace("é", "") : value
        const { stderr, stdout } = spawnSync(program, args, {
          env: { ...environment, NAME: value },
          encoding: "buffer"
        })
        const bytes = Buffer.concat([stdout, stderr])
        const hide = masks({ [key]: text })
        if (hide === "too much") throw new Error("too much")
        const redactor = hide.redactor()
        const output = Buffer.concat([redactor.push(bytes), redactor.flush()]).toString("latin1")
        assert.include(output, "[redacted]", `${name}: ${key}`)
        const letters = ["\0", "\u001b[31m", "\r", "\b"].reduce((text, part) => text.replaceAll(part, ""), output)
        for (const part of partsOf(value)) assert.notInclude(letters, part, `${name}: ${key}`)
      }
    })
  }

  it("hides user and password of an address, and what a composed value holds", () => {
    const url = "postgres://writer7:s3cr%40t-pass@db.internal:5432/shop"
    const hide = masks({ URL: url }, ["inner value"])
    if (hide === "too much") throw new Error("too much")
    const redactor = hide.redactor()
    const bytes = Buffer.from("writer7 s3cr%40t-pass s3cr@t-pass inner value db.internal postgres")
    const output = Buffer.concat([redactor.push(bytes), redactor.flush()]).toString()
    assert.strictEqual(output, "[redacted] [redacted] [redacted] [redacted] db.internal postgres")
  })
})

/**
 * Texts that show a value, for masks (docs/security.md, "Masked output"): its lines, what it contains, and the ways in
 * which programs write them. It serves against accidents, not intent.
 */
import { Buffer } from "node:buffer"

/** Characters. Shorter texts occur in ordinary output by chance: masking them would hide much and protect nothing. */
export const shortestMasked = 4

/** Accounts that many systems have. Their names hide nothing, and occur in ordinary output. */
const ordinaryAccounts: ReadonlySet<string> = new Set(
  "admin administrator anonymous apikey default elastic guest minio mongo mysql neo4j nobody oauth2 postgres public rabbitmq redis root sa service supabase system test token ubuntu user username webhook x-access-token".split(
    " "
  )
)

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** User and password of an address, as it writes them and decoded. The last `@` before the path ends them. */
const accountOf = (text: string): ReadonlyArray<string> => {
  const scheme = text.indexOf("://")
  if (scheme < 0) return []
  const rest = text.slice(scheme + 3)
  const end = rest.search(/[/?#\s]/)
  const authority = end < 0 ? rest : rest.slice(0, end)
  const at = authority.lastIndexOf("@")
  if (at < 0) return []
  const account = authority.slice(0, at)
  const colon = account.indexOf(":")
  const [user, password] = colon < 0 ? [account, ""] : [account.slice(0, colon), account.slice(colon + 1)]
  return [user, decoded(user)]
    .filter((name) => !ordinaryAccounts.has(name.toLowerCase()))
    .concat(password, decoded(password))
}

const linesOf = (text: string): ReadonlyArray<string> => text.split(/\r\n|\n|\r/).map((line) => line.trim())

/** The texts that a value shows: each line, since output is read line by line, and the accounts of addresses. */
export const piecesOf = (value: string): ReadonlyArray<string> => {
  const lines = linesOf(value)
  return [...new Set([...lines, ...lines.flatMap(accountOf)])].filter((text) => [...text].length >= shortestMasked)
}

const json = (text: string): string => JSON.stringify(text).slice(1, -1)
const unicode = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`

/** As encoders of several languages write it: slashes, HTML's characters and characters outside of ASCII escaped. */
const jsonForms = (text: string): ReadonlyArray<string> => {
  const plain = json(text)
  const html = plain.replace(/[<>&'\u2028\u2029]/g, unicode)
  return [
    plain,
    plain.replaceAll("/", "\\/"),
    html,
    html.replaceAll("\\u0027", "'"),
    plain.replace(/[\u007f-\uffff]/g, unicode),
    plain.replaceAll("/", "\\/").replace(/[\u007f-\uffff]/g, unicode)
  ]
}

const percent = (character: string): string => `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`
const lowerHex = (text: string): string => text.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())

/** RFC 3986, with and without its marks and the slash, and forms (`application/x-www-form-urlencoded`). */
const urlForms = (text: string): ReadonlyArray<string> => {
  const component = encodeURIComponent(text.toWellFormed())
  const strict = component.replace(/[!'()*]/g, percent)
  const form = new URLSearchParams([["", text.toWellFormed()]]).toString().slice(1)
  const forms = [component, strict, component.replaceAll("%2F", "/"), strict.replaceAll("%2F", "/"), form]
  return [...forms, ...forms.map((one) => one.replaceAll("%20", "+")), ...forms.map(lowerHex)]
}

const quotes = ['"', "&quot;", "&#34;"]
const apostrophes = ["'", "&#39;", "&#x27;", "&apos;"]

const markupForms = (text: string): ReadonlyArray<string> => {
  const safe = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
  return quotes.flatMap((quote) =>
    apostrophes.map((apostrophe) => safe.replaceAll('"', quote).replaceAll("'", apostrophe))
  )
}

/** Quoting of shells: single quotes in two ways, double quotes, and backslashes (`printf %q`, `set -x`). */
const shellForms = (text: string): ReadonlyArray<string> => [
  text.replaceAll("'", "'\\''"),
  text.replaceAll("'", `'"'"'`),
  text.replace(/[\\"$`]/g, "\\$&"),
  text.replace(/[\\"$`!]/g, "\\$&"),
  text.replace(/[\\']/g, "\\$&"),
  text.replace(/[\\'!]/g, "\\$&"),
  // bash, with the comma that its newer versions escape; zsh; fish; Ruby and others.
  text.replace(/[ \t'"\\|&;()<>!{}*[\]?^$`]/g, "\\$&"),
  text.replace(/[ \t'"\\|&;()<>!{}*[\]?^$`,]/g, "\\$&"),
  text.replace(/[ \t'"\\|&;()<>{}*[\]?^$`]/g, "\\$&"),
  text.replace(/[ \t'"\\|&;()<>{}*[\]?^$~]/g, "\\$&"),
  text.replace(/[^A-Za-z0-9_%+./:@\u0080-\uffff-]/g, "\\$&"),
  text.replace(/[^A-Za-z0-9_./\u0080-\uffff-]/g, "\\$&")
]

/** Characters of base64 that the bytes alone decide, at each of the three offsets in what is encoded. */
const base64Forms = (bytes: Buffer): ReadonlyArray<string> =>
  [0, 1, 2].flatMap((offset) => {
    const encoded = Buffer.concat([Buffer.alloc(offset), bytes]).toString("base64")
    const core = encoded.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6))
    return [core, core.replaceAll("+", "-").replaceAll("/", "_")]
  })

const byteForms = (text: string): ReadonlyArray<string> => {
  const bytes = Buffer.from(text)
  const hex = bytes.toString("hex")
  return [...base64Forms(bytes), hex, hex.toUpperCase()]
}

/** The text as it is. These come first where there is room for some only. */
export const plainForms = (text: string): ReadonlyArray<string> => [
  ...new Set([text, json(text), encodeURIComponent(text.toWellFormed())])
]

/** The text as programs write it for others. */
export const encodedForms = (text: string): ReadonlyArray<string> => [
  ...new Set([...jsonForms(text), ...urlForms(text), ...markupForms(text), ...shellForms(text), ...byteForms(text)])
]

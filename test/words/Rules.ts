/** Data of the lint of words. Reasons and examples: CONTRIBUTING, "Words". */

/** First words that make a comment a riddle: they name no subject. */
export const firstWords = /^(?:What|Who|Whoever)\b/

export interface Banned {
  readonly name: string
  readonly pattern: RegExp
  readonly instead: string
}

/** A space of the source matches any number of them: a wording may break over two lines. */
const wording = (source: string) => new RegExp(source.replaceAll(" ", " +"), "gi")

/** Wordings with a plainer form. They count in comments, pages and texts of the product. */
export const banned: ReadonlyArray<Banned> = [
  {
    name: "whoever",
    pattern: wording(String.raw`\bwho(?:so)?ever\b`),
    instead: "the caller, the owner, a person who"
  },
  {
    name: "is told",
    pattern: wording(String.raw`\b(?:is|are|was|were|be|been|being) told\b`),
    instead: "receives, gets, sees; or say who tells whom"
  },
  {
    name: "tells nothing",
    pattern: wording(String.raw`\btells? nothing\b`),
    instead: "reveals nothing, returns nothing"
  },
  {
    name: "comes by",
    pattern: wording(String.raw`\b(?:comes?|came) by\b`),
    instead: "arrives through, is sent by"
  },
  {
    name: "is there",
    pattern: wording(
      String.raw`\b(?:is|are|was|were) (?:not |still |already |no longer )?there(?=[.,;:)!]| and\b| when\b)`
    ),
    instead: "exists"
  },
  {
    name: "stands",
    pattern: wording(String.raw`\bstands\b(?! (?:for|in for)\b)`),
    instead: "is written, applies, is"
  },
  {
    name: "nobody, acted on",
    pattern: wording(String.raw`\b(?:by|to|of|from|with|tells?|asks?|names?|finds?|wakes?|has) nobody\b`),
    instead: "no caller, no process, no member"
  }
]

/** Names of constants that say that something happened, and not what the thing is. */
export const participles =
  /\b(?:const|let) (?:held|told|given|left|asked|shown|found|known|made|taken|wanted)\b(?=\s*[:=])/g

/** Types whose name says no more than that a function has a result. */
export const vagueTypes =
  /\b(?:interface|class) (?:Written|Answer|Outcome|Settled|Shown|Asked|Told)\b|\btype (?:Written|Answer|Outcome|Settled|Shown|Asked|Told)(?=\s*[=<])/g

/** Words in a sentence of a page, at most. */
export const longest = 35

/** Characters of a commit's subject, at most; from the commit after this one. */
export const subjectLength = 72
export const subjectsSince = "ac3b16a"

// @ts-check
/** Scenarios of the conformance suite that apply to this server, and those that do not, with the reason. */

export const scenarios = [
  "server-initialize",
  "server-session-lifecycle",
  "server-stateless",
  "ping",
  "completion-complete",
  "tools-list",
  "resources-list",
  "sep-2164-resource-not-found",
  "prompts-list",
  "dns-rebinding-protection",
  "caching",
  "http-header-validation",
  "http-custom-header-server-validation",
  "server-sse-multiple-streams",
  "server-sse-polling",
  "input-required-result-unsupported-methods",
  "input-required-result-ignore-extra-params"
]

const fixture = "calls tools, prompts or resources of the suite's own, which are no part of a product"
/** @type {ReadonlyArray<readonly [which: string, why: string]>} */
export const notApplicable = [
  [
    "tools-call-*, json-schema-2020-12, elicitation-*, prompts-get-*, resources-read-*, resources-templates-read, resources-(un)subscribe",
    fixture
  ],
  ["the other input-required-result-*", fixture],
  ["logging-set-level, tools-call-with-logging", "logging is not declared"],
  ["tasks-*, sep-2640-*", "extensions that are not offered"]
]

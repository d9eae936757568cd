/** Prompts of the endpoint: texts that a person starts a conversation with. */
import { prompts } from "#schema/McpPrompts.ts"

export interface PromptText {
  readonly description: string
  readonly text: string
}

/** Arguments become text for a model, so they are limited to what ids, slugs and keys can be. */
const plainArgument = /^[A-Za-z0-9_-]{1,255}$/

export const listed = Object.entries(prompts).map(([name, prompt]) => ({
  name,
  title: prompt.title,
  description: prompt.description,
  arguments: Object.entries(prompt.arguments).map(([argument, description]) => ({
    name: argument,
    description,
    required: true
  }))
}))

/** Undefined: there is no such prompt, or an argument is missing or is no name. */
export const promptText = (name: string, given: Readonly<Record<string, string>>): PromptText | undefined => {
  if (name !== "wire_up_project" && name !== "rotate_credential") return undefined
  const values = Object.keys(prompts[name].arguments).map((argument) => given[argument] ?? "")
  if (!values.every((value) => plainArgument.test(value))) return undefined
  const [projectId, environment, key] = values
  const text =
    name === "wire_up_project"
      ? prompts.wire_up_project.text(projectId, environment)
      : prompts.rotate_credential.text(projectId, environment, key)
  return { description: prompts[name].description, text }
}

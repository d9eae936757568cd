/** Names of the file formats, and of the readers of a .env file. Loads no codec: YAML alone is larger than all the rest. */

export const formats = ["dotenv", "json", "yaml", "shell", "fish", "powershell", "nushell", "docker"] as const
export type Format = (typeof formats)[number]

/** Also those that are only read. */
export const readFormats = [...formats, "csv", "toml"] as const
export type ReadFormat = (typeof readFormats)[number]

/** Readers that a .env file can be printed for. */
export const readers = ["npm", "node", "compose", "python", "shell"] as const
export type Reader = (typeof readers)[number]

import manifest from "../../package.json" with { type: "json" }

/** Who this server says it is, in every revision. */
export const serverInfo = { name: "ampoule", title: "Ampoule", version: manifest.version } as const

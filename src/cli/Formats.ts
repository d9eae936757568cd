/**
 * File formats of import, export and sealing. Loaded by the commands that use one: YAML alone is more than the rest of
 * us.
 */
import * as Effect from "effect/Effect"
import type { Format, ReadFormat } from "#src/formats/EnvFile.ts"

export const formats = ["dotenv", "json", "yaml", "shell", "docker"] as const satisfies ReadonlyArray<Format>
export const readFormats = [...formats, "csv"] as const satisfies ReadonlyArray<ReadFormat>

export const codecs = Effect.promise(() => import("#src/formats/EnvFile.ts"))

/** File for a token that is shown once. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { cannotWrite } from "#src/cli/terminal/Folders.ts"

/** Creates the file before the token, which would otherwise be lost when it cannot be stored. */
export const claim = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const ready = fs
    .makeDirectory(path.dirname(path.resolve(file)), { recursive: true, mode: 0o700 })
    .pipe(Effect.zipRight(fs.writeFileString(file, "", { flag: "wx", mode: 0o600 })))
  yield* Effect.mapError(ready, (error) => cannotWrite("the token", file, error))
  yield* Effect.addFinalizer((exit) => (Exit.isFailure(exit) ? Effect.ignore(fs.remove(file)) : Effect.void))
  return (token: string) =>
    Effect.mapError(fs.writeFileString(file, `${token}\n`), (error) => cannotWrite("the token", file, error))
})

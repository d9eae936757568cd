/**
 * The one environment that the credential reaches (`GET /me/verify`). The answer is remembered: that there is none for
 * an hour, so that a folder with a `.ampoule.json` costs no request more; a name for `--offline` and for completion.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { join } from "node:path"
import type { OnlyEnvironment } from "#src/ClientTarget.ts"
import { crypto } from "#src/cli/terminal/BuiltIn.ts"
import { type CliError, isUnavailable } from "#src/cli/terminal/Failure.ts"
import { folders, jsonFile, remove } from "#src/cli/terminal/Folders.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"
import * as Choice from "./Choice.ts"
import { bodyOf, type Link } from "./Link.ts"

export interface Session extends Link {
  readonly chosen: Choice.Chosen
}

const Only = Shape.nullable(
  Shape.struct({
    projectId: Shape.string,
    project: Shape.string,
    environmentId: Shape.string,
    environment: Shape.string
  })
)
/** Members of `VerifyAuthResponse`. An older server sends no `only`. */
export const VerifiedBody = Shape.struct({ only: Shape.optional(Only) })

/** `unsaid`: an older server, or a credential that may not read its own identity. */
export interface OnlyAnswer {
  readonly only: OnlyEnvironment | null
  readonly unsaid: "older server" | "not allowed" | undefined
}

// --- memory ---

const Remembered = Shape.record(Shape.struct({ at: Shape.number, only: Only }))
const fileName = "only-environments.json"
const file = jsonFile("cache", fileName, Remembered, "the list of only environments")
const mostRemembered = 20
/** Milliseconds. */
const freshFor = 3_600_000

/** One-way: the file reveals neither the credential nor its owner. */
const ownerOf = (identity: string): string =>
  crypto().createHash("sha256").update(identity).digest("base64url").slice(0, 22)

const readAll = file.read.pipe(
  Effect.map((all) => new Map(Object.entries(Option.getOrElse(all, (): Shape.Of<typeof Remembered> => ({}))))),
  // A broken cache must not stop a command.
  Effect.orElseSucceed((): ReadonlyMap<string, Shape.Of<typeof Remembered>[string]> => new Map())
)

/** None: no command of this user has asked yet. */
export const recall = (identity: string) =>
  Effect.map(readAll, (all) => Option.fromNullable(all.get(ownerOf(identity))))

const remember = Effect.fnUntraced(function* (identity: string, only: OnlyEnvironment | null) {
  const owner = ownerOf(identity)
  const others = [...(yield* readAll)].filter(([one]) => one !== owner).slice(1 - mostRemembered)
  yield* file.write(Object.fromEntries([...others, [owner, { at: yield* Clock.currentTimeMillis, only }]]))
}, Effect.ignore)

/** Removes all remembered answers at a logout: they name projects. */
export const forget = Effect.suspend(() => remove(join(folders().cache, fileName)))

// --- the server's word ---

const notAllowed: ReadonlySet<string> = new Set(["SCOPE_MISSING", "FORBIDDEN", "CREDENTIAL_KIND_NOT_ACCEPTED"])

const ask = (session: Session): Effect.Effect<OnlyAnswer, CliError> =>
  session.ask({ path: "/me/verify" }).pipe(
    Effect.flatMap((response) => bodyOf(session, response, VerifiedBody)),
    Effect.map(({ only }): OnlyAnswer =>
      only === undefined ? { only: null, unsaid: "older server" } : { only, unsaid: undefined }
    ),
    Effect.catchTag("ServerRefused", (error) => {
      if (notAllowed.has(error.code)) return Effect.succeed<OnlyAnswer>({ only: null, unsaid: "not allowed" })
      return error.code === "ROUTE_NOT_FOUND"
        ? Effect.succeed<OnlyAnswer>({ only: null, unsaid: "older server" })
        : Effect.fail(error)
    })
  )

interface AskOptions {
  /** True when another source names the rest of the target: then a remembered "none or several" is enough. */
  readonly hasOther: boolean
  /** True when the last answer counts while the server is away. */
  readonly offline: boolean
}

export const of = Effect.fnUntraced(function* (session: Session, { hasOther, offline }: AskOptions) {
  const identity = Choice.identityOf(session.chosen)
  const remembered = yield* recall(identity)
  if (hasOther && Option.isSome(remembered) && remembered.value.only === null) {
    const age = (yield* Clock.currentTimeMillis) - remembered.value.at
    if (age >= 0 && age < freshFor) return { only: null, unavailable: undefined, unsaid: undefined }
  }
  const hasRemembered = Option.isSome(remembered) && remembered.value.only !== null
  const hurried = offline && hasRemembered ? { ...session, ...(yield* Choice.hurried(session)) } : session
  const answer = yield* Effect.either(ask(hurried))
  if (answer._tag === "Right") {
    yield* remember(identity, answer.right.only)
    return { only: answer.right.only, unsaid: answer.right.unsaid, unavailable: undefined }
  }
  if (!offline || !isUnavailable(answer.left)) return yield* Effect.fail(answer.left)
  const only = Option.match(remembered, { onNone: () => null, onSome: ({ only }) => only })
  return { only, unsaid: undefined, unavailable: answer.left }
})

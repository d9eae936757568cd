/** The journey, by whatever client: each of the three beside this file says how it makes the calls. */
export interface Failure {
  readonly status: number
  readonly error: { readonly code: string; readonly currentVersion?: number; readonly retryAfterSeconds?: number }
}
export interface Calls {
  readonly inject: () => Promise<{ readonly values: Readonly<Record<string, string>> }>
  readonly expectedVersion: () => Promise<number>
  readonly plan: () => Promise<string | null | undefined>
  readonly verify: () => Promise<{ readonly accessLevel?: string; readonly mcpScopes?: ReadonlyArray<string> }>
  readonly list: (
    page: number,
    pageSize: number
  ) => Promise<{ readonly items: ReadonlyArray<{ id: string; kind: string }>; readonly hasMore: boolean }>
  /** Of the key HOST. */
  readonly create: () => Promise<Failure>
  readonly update: (id: string, expectedVersion: number) => Promise<Failure>
  readonly projects: () => Promise<number | Failure>
}

declare const process: {
  readonly env: Record<string, string | undefined>
  readonly stdout: { readonly write: (text: string) => void }
}
export const env = (name: string): string => process.env[name] ?? ""
export const project = env("PROJECT")

const check = (holds: boolean, step: string) => {
  if (!holds) throw new Error(step)
  process.stdout.write(`${step}\n`)
}

export const journey = async (client: (url: string, token: string) => Calls) => {
  const reader = client(env("AMPOULE_URL"), env("READ_TOKEN"))
  const writer = client(env("AMPOULE_URL"), env("WRITE_TOKEN"))

  check((await reader.inject()).values["DATABASE_URL"] === "postgres://db", "read an environment")
  check((await reader.expectedVersion()) === 9007199254740991, "read 64 bits")

  const ids: Array<string> = []
  let page = 1
  for (let more = true; more; page++) {
    const answer = await reader.list(page, 2)
    ids.push(...answer.items.map(({ id }) => id))
    more = answer.hasMore
  }
  check(ids.length === 5 && page === 4, "paged")

  const forbidden = await reader.create()
  check(forbidden.status === 403 && forbidden.error.code === "API_TOKEN_READ_ONLY", "met a typed 403")

  const exists = await writer.create()
  const conflict = await writer.update(ids[0] ?? "", 999)
  check(exists.error.code === "SECRET_ALREADY_EXISTS" && conflict.error.currentVersion === 1, "met a typed 409")

  let limited = await reader.projects()
  for (let tries = 0; tries < 2000 && typeof limited === "number"; tries++) limited = await reader.projects()
  const seconds = typeof limited === "number" ? 0 : (limited.error.retryAfterSeconds ?? 0)
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
  check(seconds > 0 && (await reader.projects()) === 1, "waited out a 429")

  const later = client(env("LATER_URL"), env("WRITE_TOKEN"))
  const [first] = (await later.list(1, 2)).items
  check(first?.kind === "later-kind" && (await later.create()).error.code === "LATER_CODE", "read a later release")
  const { accessLevel, mcpScopes } = await later.verify()
  check(
    (await later.plan()) === "later-plan" &&
      accessLevel === "later-level" &&
      mcpScopes?.includes("later:scope") === true,
    "read a later plan, level and scope"
  )
}

/** Each page with a way out says what happens to each kind of what lets a person in. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { WayEnding } from "#schema/WaysIn.ts"
import { type everythingThatOpens, type WayOut, waysOut } from "#src/credentials/WaysIn.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const words: Readonly<Record<keyof typeof everythingThatOpens, RegExp>> = {
  links: /\blinks\b/,
  password: /the password/,
  sessions: /\bsessions\b/,
  tokens: /API tokens/,
  logins: /CLI logins/,
  agents: /connected agents/,
  devices: /known browsers/,
  steps: /sign-ins under way/,
  recoveryCodes: /recovery codes/,
  passkeys: /passkeys/,
  app: /authenticator app/,
  identities: /linked sign-ins/
}
const headings: Readonly<Record<WayEnding, string>> = {
  ended: "Ended for good",
  out_of_use: "Out of use until",
  closed: "Open this team no more",
  kept: "Kept"
}

/** Texts of the lists of a page, one after the other: each begins with what is ended. */
const listsOf = (page: string): ReadonlyArray<ReadonlyArray<string>> => {
  const lines = [...page.matchAll(/<p class="hint">([^<]+)<\/p>/g)]
    .map(([, text]) => text ?? "")
    .filter((text) => Object.values(headings).some((heading) => text.startsWith(heading)))
  const lists: Array<Array<string>> = []
  for (const line of lines) {
    if (line.startsWith(headings.ended)) lists.push([line])
    else lists.at(-1)?.push(line)
  }
  return lists
}
const says = (list: ReadonlyArray<string>, plan: Readonly<Record<string, WayEnding>>, without: ReadonlyArray<string>) =>
  Object.entries(words).every(([way, word]) => {
    const line = list.find((text) => text.startsWith(headings[plan[way] ?? "kept"]))
    return without.includes(way) || word.test(line ?? "")
  })

/** The page of each way out. Null: the operator's command line, without a page. */
const pages = Effect.gen(function* () {
  const team = yield* World.team()
  const here = yield* World.member(team, "member")
  const elsewhere = yield* World.member(team, "member")
  yield* World.join(yield* World.team(), elsewhere, "member")
  const owner = yield* World.session(team.owner)
  const get = (path: string) => Effect.map(TestApp.get(path, { session: owner.text }), ({ text }) => text)
  const members = `/app/teams/${team.id}/members`
  const incident = get(`/app/teams/${team.id}/incidents/new?person=${here.id}`)
  const all: Readonly<Record<WayOut, Readonly<Record<"everywhere" | "here", ReturnType<typeof get> | null>>>> = {
    password_change: { everywhere: get("/app/account"), here: null },
    reset_link: { everywhere: get("/reset?code=x"), here: null },
    end_access: { everywhere: get(`${members}/${here.id}`), here: get(`${members}/${elsewhere.id}`) },
    incident: { everywhere: incident, here: incident },
    removal: { everywhere: null, here: get(members) },
    operator: { everywhere: null, here: null },
    account_removal: { everywhere: null, here: null }
  }
  return all
})

layer(TestApp.shared, { excludeTestServices: true, timeout: "60 seconds" })("the page of each way out", (it) => {
  it.effect("names each kind of what lets a person in, with what happens to it", () =>
    Effect.gen(function* () {
      let compared = 0
      for (const [wayOut, reaches] of Object.entries(yield* pages)) {
        for (const [reach, page] of Object.entries(reaches)) {
          if (page === null) continue
          const plan = Object.entries(waysOut).find(([name]) => name === wayOut)?.[1]
          const endings = reach === "here" ? plan?.here : plan?.everywhere
          assert.isOk(endings, `${wayOut} ${reach}`)
          const without = wayOut === "password_change" || wayOut === "reset_link" ? ["password"] : []
          const lists = listsOf(yield* page)
          assert.isTrue(
            lists.some((list) => says(list, endings ?? {}, without)),
            `${wayOut} ${reach}: ${JSON.stringify(lists)}`
          )
          compared++
        }
      }
      assert.strictEqual(compared, 7)
    })
  )

  it.effect("says of changes that wait that they outlast the role of their author", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const owner = yield* World.session(project.team.owner)
      const member = yield* World.session(yield* World.member(project.team, "member"))
      const access = `/app/projects/${project.id}/env/development/access`
      const words = "stays open when its author"
      assert.notInclude((yield* TestApp.get(access, { session: owner.text })).text, words)
      yield* TestApp.patch(`/environments/${project.development.id}`, {
        session: owner.text,
        json: { changes: "proposed" }
      })
      const proposed = yield* TestApp.post("/secrets", {
        session: member.text,
        json: { projectId: project.id, environment: "development", key: "K", value: "v" }
      })
      assert.strictEqual(proposed.status, 202, proposed.text)
      assert.include((yield* TestApp.get(access, { session: owner.text })).text, words)
    })
  )
})

/**
 * `ampoule login` as a real process, approved by a person in a real browser, then `ampoule run` with what was granted.
 */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Ampoule } from "#test/cli/Ampoule.ts"
import * as Browser from "./Browser.ts"
import * as Rooms from "./Rooms.ts"

layer(Layer.merge(Browser.layerWith(), Ampoule.Default), { excludeTestServices: true, timeout: "60 seconds" })(
  "a login from the terminal",
  (it) => {
    it.scoped.skipIf(!Browser.available)(
      "is approved in the browser and runs a program with the secrets",
      () =>
        Effect.gen(function* () {
          const rooms = yield* Rooms.furnished
          const ampoule = yield* Ampoule
          const home = yield* ampoule.home
          const login = yield* ampoule.start(["login", "--url", rooms.baseUrl, "--plaintext-local", "--no-browser"], {
            home,
            stdin: ""
          })
          yield* login.shows("Waiting")
          const address = /Open\s+(\S+)/.exec(login.output.stderr)?.[1] ?? ""
          const code = /code\s+([A-Z]{4}-[A-Z]{4})/.exec(login.output.stderr)?.[1] ?? ""
          const context = yield* Browser.signedIn(rooms.session)
          yield* Browser.steps(async () => {
            const page = await context.newPage()
            await page.goto(address)
            await page.getByText(code, { exact: true }).waitFor()
            await page.getByText("as plain text in a file").waitFor()
            await page.getByRole("button", { name: "Yes, it matches: log in" }).click()
            await page.getByText("Choose projects or environments, or choose everything.").waitFor()
            await page.getByRole("checkbox", { name: "Everything in the teams above" }).check()
            await page.getByRole("button", { name: "Yes, it matches: log in" }).click()
            await page.getByText("The command line is logged in").waitFor()
          })
          const ended = yield* login.ended
          assert.strictEqual(ended.code, 0, ended.stderr)
          assert.include(ended.stderr, `as ${rooms.owner.email}`)

          const script = "process.stdout.write(process.env.DATABASE_URL)"
          const ran = yield* ampoule.run(
            ["run", "--project", rooms.project.id, "--env", "development", "--", process.execPath, "-e", script],
            { home }
          )
          assert.strictEqual(ran.stdout, "postgres://app:correct horse@db2.internal/app", ran.stderr)

          yield* Browser.steps(async () => {
            const page = await context.newPage()
            await page.goto("/app/grants")
            const card = page.locator("li.project").filter({ hasText: "stored as plain text" })
            await card.locator("summary").click()
            await card.getByRole("button", { name: "Revoke this login" }).click()
            await page.getByText("The login is revoked").waitFor()
          })
          const refused = yield* ampoule.run(
            ["run", "--project", rooms.project.id, "--env", "development", "--", process.execPath, "-e", script],
            { home }
          )
          assert.notStrictEqual(refused.code, 0)
          assert.notInclude(refused.stdout, "correct horse")
        }),
      60_000
    )

    it.scoped.skipIf(!Browser.available)(
      "is not needed by a program: the commands beside a new token run as they are printed",
      () =>
        Effect.gen(function* () {
          const { page, rooms } = yield* Browser.entered()
          const ampoule = yield* Ampoule
          for (const choice of ["shop", "All projects of the team"]) {
            const printed = yield* Browser.steps(async () => {
              await page.goto(rooms.pages["token-new"])
              await page.getByRole("textbox", { name: "Name" }).fill("printed")
              await page.getByRole("checkbox", { name: choice }).check()
              await page.getByRole("checkbox", { name: "development" }).check()
              await page.getByRole("button", { name: "Create the token" }).click()
              return page.getByRole("group", { name: "Text to copy" }).innerText()
            })
            const lines = printed.trim().split("\n")
            const set = lines.flatMap((line) => {
              const [, name, value] = /^export (\w+)=(\S+)$/.exec(line) ?? []
              return name === undefined ? [] : [[name, value] as const]
            })
            const [program, ...args] = (lines.at(-1) ?? "").split(" ")
            assert.strictEqual(program, "ampoule")
            const script = "process.stdout.write(Object.keys(process.env).join())"
            const command = [...args.slice(0, args.indexOf("--") + 1), process.execPath, "-e", script]
            const ran = yield* ampoule.run(command, { env: Object.fromEntries(set) })
            assert.strictEqual(ran.code, 0, ran.stderr)
            if (choice === "shop") assert.include(ran.stdout, "DB_PASSWORD")
          }
        }),
      60_000
    )
  }
)

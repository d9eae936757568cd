// @ts-check
/** Journeys of people with an issuer, in a browser: each step says what was seen. */
import { owner } from "../clients/server.mjs"

/** @typedef {{ readonly email: string, readonly name: string, readonly verified: boolean, readonly groups: ReadonlyArray<string> }} PersonThere */
/** @typedef {Awaited<ReturnType<typeof import("./dex.mjs").start>> & { userInfo?: { key: string, name: string } }} Issuer */
/** @typedef {Awaited<ReturnType<typeof import("../clients/server.mjs").start>>} Server */

const ada = { email: owner.email, name: "Ada", verified: true, groups: ["platform"] }
const grace = { email: "grace@example.com", name: "Grace", verified: true, groups: ["platform", "admins"] }
const mallory = { email: "mallory@example.com", name: "Mallory", verified: false, groups: ["platform"] }

/** @type {(is: unknown, should: unknown, what: string) => void} */
const equal = (is, should, what) => {
  if (JSON.stringify(is) !== JSON.stringify(should)) {
    throw new Error(`${what}: ${JSON.stringify(is)} instead of ${JSON.stringify(should)}`)
  }
}

/** @param {import("playwright-core").Browser} browser @param {Server} server @param {Issuer} issuer */
export const journey = async (browser, server, issuer) => {
  /** @type {Array<string>} */
  const steps = []
  /** @type {(context: import("playwright-core").BrowserContext) => Promise<Array<[string, string]> | number>} */
  const teamsOf = async (context) => {
    const answer = await context.request.get(`${server.url}/me`)
    return answer.ok() ? (await answer.json()).teams.map(({ name, role }) => [name, role]) : answer.status()
  }
  /** A browser of its own. @template A @param {(context: import("playwright-core").BrowserContext, page: import("playwright-core").Page) => Promise<A>} work */
  const visit = async (work) => {
    const context = await browser.newContext({ baseURL: server.url })
    context.setDefaultTimeout(30_000)
    const page = await context.newPage()
    try {
      return await work(context, page)
    } catch (error) {
      const text = await page
        .locator("body")
        .innerText()
        .catch(() => "")
      throw new Error(`at ${page.url()}\n${text.slice(0, 2_000)}`, { cause: error })
    } finally {
      await context.close()
    }
  }
  const back = (/** @type {import("playwright-core").Page} */ page) =>
    page.waitForURL(
      (url) =>
        url.origin === server.url &&
        !url.pathname.endsWith("/callback") &&
        !url.pathname.startsWith("/app/sign-in/with/")
    )

  /** @param {import("playwright-core").Page} page @param {PersonThere} person @param {string} [name] */
  const signIn = async (page, person, name = issuer.name) => {
    await page.goto("/app/sign-in")
    await page.getByRole("button", { name: `Sign in with ${name}`, exact: true }).click()
    await issuer.signInAt(page, person)
  }
  const passwordSignIn = async (/** @type {import("playwright-core").Page} */ page) => {
    await page.goto("/app/sign-in")
    await page.getByLabel("E-mail address").fill(owner.email)
    await page.getByLabel("Password").fill(owner.password)
    await page.getByRole("button", { name: "Sign in", exact: true }).click()
    await back(page)
  }

  for (const { key } of issuer.settings) {
    for (const [value, role] of [
      ["platform", "member"],
      ["admins", "admin"]
    ]) {
      await server.call("POST", `/teams/${server.teamId}/sign-in/rules`, { issuer: key, claim: "groups", value, role })
    }
  }
  await issuer.setPeople([ada, grace, mallory])
  const discovered = await (await fetch(`${issuer.url}/.well-known/openid-configuration`)).json()
  equal(discovered.issuer, issuer.url, "the issuer's own name")

  await visit(async (context, page) => {
    /** @type {Array<URL>} */
    const requests = []
    /** @type {Array<string>} */
    const answered = []
    page.on("request", (request) => {
      const url = new URL(request.url())
      if (url.searchParams.get("response_type") === "code") requests.push(url)
      if (url.pathname.endsWith("/callback") && url.origin === server.url) answered.push(request.url())
    })
    await signIn(page, grace)
    await back(page)
    equal(await teamsOf(context), [["Platform", "admin"]], "the role by the highest rule")
    const sent = requests.find((url) => url.searchParams.has("code_challenge"))?.searchParams
    equal(sent?.get("code_challenge_method"), "S256", "PKCE")
    for (const name of ["state", "nonce", "code_challenge"]) equal(sent?.get(name)?.length, 43, name)
    steps.push("signs in with PKCE, state and nonce; the rule of the highest role counts")
    const answer = new URL(answered[0] ?? "")
    equal(
      answer.searchParams.get("iss"),
      discovered.authorization_response_iss_parameter_supported === true ? issuer.url : null,
      "iss of the answer"
    )
    steps.push(
      answer.searchParams.has("iss")
        ? "its answer says iss (RFC 9207)"
        : "its answer says no iss, and its metadata promises none"
    )
    const again = await context.request.get(answered[0] ?? "", { maxRedirects: 0 })
    equal(again.status(), 401, "a replayed answer")
    equal(await teamsOf(context), [["Platform", "admin"]], "the session after a replay")
    steps.push("an answer that is sent again is refused, and the session stays")
    if (discovered.backchannel_logout_supported === true) {
      await issuer.signOutAt(page)
      for (let tries = 0; tries < 50 && (await teamsOf(context)) !== 401; tries++) await page.waitForTimeout(200)
      equal(await teamsOf(context), 401, "the session after a logout there")
      steps.push("a logout there ends the session here, by the back channel")
    } else steps.push("offers no back-channel logout")
  })

  if (issuer.userInfo !== undefined) {
    const { name } = issuer.userInfo
    await visit(async (context, page) => {
      await signIn(page, grace, name)
      await back(page)
      equal(await teamsOf(context), [["Platform", "admin"]], "groups of UserInfo")
    })
    steps.push("groups come from UserInfo where the ID token has none")
  }

  await issuer.setPeople([ada, { ...grace, groups: ["platform"] }, mallory])
  await visit(async (context, page) => {
    await signIn(page, grace)
    await back(page)
    equal(await teamsOf(context), [["Platform", "member"]], "after a group was lost")
  })
  await issuer.setPeople([ada, { ...grace, groups: [] }, mallory])
  await visit(async (context, page) => {
    await signIn(page, grace)
    await back(page)
    equal(await teamsOf(context), [], "after the last group was lost")
    await page.getByText("You have no team here").waitFor()
  })
  steps.push("a group that is lost is a role that is lost, at the next sign-in; with the last one the person leaves")

  await visit(async (context, page) => {
    await signIn(page, mallory)
    await page.getByText("does not vouch for your e-mail address").waitFor()
    equal(await teamsOf(context), 401, "an address that nobody vouches for")
  })
  await visit(async (context, page) => {
    await signIn(page, ada)
    await page.getByText("Your e-mail address has an account here").waitFor()
    equal(await teamsOf(context), 401, "an address that has an account")
  })
  steps.push("an unverified address makes no account, and a verified one takes none over")

  await visit(async (context, page) => {
    await passwordSignIn(page)
    await page.goto("/app/account/sign-ins")
    await page.getByRole("button", { name: `Link ${issuer.name}`, exact: true }).click()
    await issuer.signInAt(page, ada)
    await page.getByText("The sign-in is linked.").waitFor()
    equal(await teamsOf(context), [["Platform", "owner"]], "after linking")
  })
  await visit(async (context, page) => {
    await signIn(page, ada)
    await back(page)
    equal(await teamsOf(context), [["Platform", "owner"]], "by what was linked")
    steps.push("is linked from an existing account, and opens it from then on")

    await page.goto("/app/confirm?next=/app/grants")
    await page.getByRole("button", { name: new RegExp(`with ${issuer.name}$`) }).click()
    await issuer.signInAt(page, ada)
    await page.waitForURL("**/app/grants")
    steps.push("confirms the presence of the person: it asks again, and says when (auth_time)")

    await page.goto(`/app/teams/${server.teamId}/sign-in`)
    await page.getByRole("checkbox", { name: issuer.name, exact: true }).check()
    await page.getByRole("checkbox", { name: owner.email }).check()
    await page.getByRole("button", { name: "Save", exact: true }).click()
    await page.getByText("The choice is saved.").waitFor()
    await visit(async (glass, other) => {
      await passwordSignIn(other)
      equal(await teamsOf(glass), [["Platform", "owner"]], "behind glass")
    })
    await page.reload()
    await page.getByText("An owner signed in with a password").waitFor()
    await page.getByRole("checkbox", { name: issuer.name, exact: true }).uncheck()
    await page.getByRole("button", { name: "Save", exact: true }).click()
    await page.getByText("The choice is saved.").waitFor()
    equal(await teamsOf(context), [["Platform", "owner"]], "after passwords were taken again")
    steps.push("alone lets people in, but for an owner behind glass, whose password raises an alarm")
  })
  return steps
}

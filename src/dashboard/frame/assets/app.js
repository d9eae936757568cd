// Conveniences of pages. All actions also work without a script, through plain forms.
"use strict"

document.documentElement.classList.add("scripted")

const announce = (text) => {
  const place = document.getElementById("announce")
  if (place) place.textContent = text
}

// A page from the browser's back-forward cache may show outdated values: fetch it again.
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload()
})

// The form holds the code now, so remove it from the address bar and the history.
if (/^\/(setup|invite|reset)$/.test(location.pathname) && location.search.includes("code=")) {
  history.replaceState(null, "", location.pathname)
}

// --- menus ---

addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false
  }
})
addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false
    menu.querySelector("summary").focus()
  }
  hideAll()
})

// --- values: one, or both sides of a comparison, fetched with a POST, hidden again after a minute ---

const visibleFor = 60_000
let hiding

const mask = (row) => {
  const text = row.querySelector("[data-value-text]")
  if (!text || row.dataset.shown !== "yes") return
  text.textContent = "••••••••"
  text.className = "value-mask"
  text.removeAttribute("tabindex")
  row.dataset.shown = "no"
  const button = row.querySelector("[data-reveal]")
  if (button) {
    button.setAttribute("aria-pressed", "false")
    button.querySelector("[data-verb]").textContent = "Reveal"
  }
}
const hideAll = () => {
  for (const row of document.querySelectorAll('[data-secret][data-shown="yes"]')) mask(row)
}

const revealFor = async (form) => {
  const answer = await fetch(form.action, {
    method: "POST",
    headers: { accept: "application/json" },
    body: new URLSearchParams(new FormData(form)),
    cache: "no-store",
    redirect: "error"
  })
  const body = await answer.json()
  if (answer.status === 401) location.reload()
  if (body.code === "STEP_UP_REQUIRED") {
    location.assign(`/app/confirm?next=${encodeURIComponent(location.pathname + location.search)}`)
  }
  if (!answer.ok) throw new Error(body.message)
  return body
}
const ask = async (form) => (await revealFor(form)).value

const fail = (row, error) => {
  const place = row.querySelector("[data-value-error]")
  if (place) place.textContent = error instanceof TypeError ? "The server does not answer." : error.message
  announce(error instanceof TypeError ? "The server does not answer." : error.message)
}

const show = (row, value) => {
  const text = row.querySelector("[data-value-text]")
  text.textContent = value === "" ? "(empty)" : value
  text.className = value === "" ? "hint" : "value-text"
  text.tabIndex = 0
  row.dataset.shown = "yes"
  const button = row.querySelector("[data-reveal]")
  button.setAttribute("aria-pressed", "true")
  button.querySelector("[data-verb]").textContent = "Hide"
  announce("The value is shown.")
  clearTimeout(hiding)
  hiding = setTimeout(hideAll, visibleFor)
}

const copied = (button, done) => {
  const verb = button.querySelector("[data-verb]") ?? button
  const before = verb.textContent
  verb.textContent = done
  announce(done)
  setTimeout(() => (verb.textContent = before), 1_600)
}

addEventListener("submit", async (event) => {
  const form = event.target
  const button = event.submitter
  if (!form.matches("[data-value-form]") || !button) return
  event.preventDefault()
  const row = form.closest("[data-secret]")
  const problem = row.querySelector("[data-value-error]")
  if (problem) problem.textContent = ""
  if (button.matches("[data-reveal]")) {
    const together = row.closest("[data-together]")
    const rows = together ? [...together.querySelectorAll("[data-secret]:has([data-value-form])")] : [row]
    if (row.dataset.shown === "yes") return rows.forEach(mask)
    hideAll()
    button.disabled = true
    for (const one of rows) {
      try {
        show(one, await ask(one.querySelector("[data-value-form]")))
      } catch (error) {
        fail(one, error)
      }
    }
    button.disabled = false
    button.focus()
  }
})

addEventListener("click", async (event) => {
  const button = event.target.closest("button")
  if (!button) return
  try {
    if (button.matches("[data-copy-value]")) {
      const form = button.closest("[data-value-form]")
      await navigator.clipboard.writeText(await ask(form))
      copied(button, "Copied")
    } else if (button.matches("[data-copy]")) {
      await navigator.clipboard.writeText(button.dataset.copy)
      copied(button, "Copied")
    } else if (button.matches("[data-copy-from]")) {
      const field = document.getElementById(button.dataset.copyFrom)
      await navigator.clipboard.writeText(field.value)
      field.select()
      copied(button, "Copied")
    } else if (button.matches("[data-load-into]")) {
      const field = document.getElementById(button.dataset.loadInto)
      const { lineBreaks, value } = await revealFor(button.closest("[data-secret]").querySelector("[data-source-form]"))
      field.value = value
      document.getElementById(button.dataset.lineBreaks).value = lineBreaks
      field.focus()
      announce("The current text is in the field.")
    }
  } catch (error) {
    const row = button.closest("[data-secret]")
    if (row) fail(row, error)
    else announce("This browser does not allow copying here.")
  }
})

// --- forms with typed text: the response replaces the page, and the text stays in its fields ---

// Excludes forms with a password, and forms whose response leads to another site.
const keeps = (form) =>
  form.method === "post" &&
  !form.hasAttribute("data-leaves") &&
  form.querySelector("textarea, select, input:not([type='hidden'])") !== null &&
  form.querySelector("[type='password']") === null

const alertIn = (form, text) => {
  const note = form.querySelector("[data-sending]") ?? form.appendChild(document.createElement("p"))
  note.dataset.sending = ""
  note.className = "error"
  note.setAttribute("role", "alert")
  note.textContent = text
  note.scrollIntoView({ block: "nearest" })
}

const sameForm = (form) => (other) => other.action === form.action
const formsOf = (page) => [...page.forms].filter(keeps)

const keepTyped = (form, next) => {
  for (const field of form.elements) {
    if (!field.name || field.type === "hidden" || field.tagName === "BUTTON") continue
    const choice = field.type === "checkbox" || field.type === "radio"
    const same = [...next.elements].find(
      (other) => other.name === field.name && other.type === field.type && (!choice || other.value === field.value)
    )
    if (same === undefined) continue
    if (choice) same.checked = field.checked
    else if (same.type !== "file") same.value = field.value
    if (field === changed) changed = same
  }
}

// Scrolls a refused form into view, with the focus on the problem.
const showRefused = (form) => {
  for (let around = form.parentElement; around; around = around.parentElement) {
    if (around.tagName === "DETAILS") around.open = true
  }
  const wrong = form.querySelector("[aria-invalid], [role='alert']") ?? document.querySelector("main [role='alert']")
  const place = wrong ?? form.querySelector("[role='status'], [aria-live]") ?? form
  if (!place.matches("input, textarea, select")) place.tabIndex = -1
  place.focus()
  place.scrollIntoView({ block: "nearest" })
}

// Shows a response in the drawer that its form is in.
const showInDrawer = (drawer, page, sent) => {
  const before = formsOf(document)
  drawer.replaceChildren(...document.adoptNode(page.querySelector("main")).childNodes)
  const within = (form) => drawer.contains(form)
  for (const next of formsOf(document).filter(within)) {
    const form = before.find(sameForm(next))
    if (form && sent) keepTyped(form, next)
  }
  start()
  const next = sent && formsOf(document).find((form) => within(form) && sameForm(sent)(form))
  if (next) return showRefused(next)
  drawer.dispatchEvent(new Event("saved"))
  drawer.closest("dialog").scrollTo(0, 0)
}

const showPage = (page, sent) => {
  const before = formsOf(document)
  document.title = page.title
  document.body.replaceWith(document.adoptNode(page.body))
  for (const next of formsOf(document)) {
    const form = before.find(sameForm(next))
    if (form) keepTyped(form, next)
  }
  start()
  const next = formsOf(document).find(sameForm(sent))
  if (next) return showRefused(next)
  scrollTo(0, 0)
}

const headline = (page) => {
  const words = [...page.querySelectorAll("main h1, main .lead")].map((part) => part.textContent.replace(/\.$/, ""))
  return words.length === 0 ? "The server refused this." : `${words.join(". ")}.`
}

addEventListener("submit", async (event) => {
  const form = event.target
  const button = event.submitter
  if (event.defaultPrevented || !keeps(form) || button?.hasAttribute("formaction")) return
  event.preventDefault()
  const body = new URLSearchParams(new FormData(form))
  if (button?.name) body.set(button.name, button.value)
  if (button) button.disabled = true
  try {
    const answer = await fetch(form.action, { method: "POST", body, cache: "no-store" })
    const drawer = form.closest("[data-drawer]")
    const isDone = answer.redirected && new URL(answer.url).pathname !== "/app/sign-in"
    if (isDone) changed = undefined
    if (isDone && (!drawer || !answer.ok || !/\/secrets\/[^/]+$/.test(new URL(answer.url).pathname))) {
      return location.assign(answer.url)
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html")
    if (isDone) showInDrawer(drawer, page)
    else if (answer.redirected) alertIn(form, "You are signed out. Sign in in another tab, then try again here.")
    else if (drawer && formsOf(page).some(sameForm(form))) showInDrawer(drawer, page, form)
    else if (!drawer && (answer.ok || formsOf(page).some(sameForm(form)))) showPage(page, form)
    else alertIn(form, headline(page))
  } catch {
    alertIn(form, "The server does not answer. Try again in a moment.")
  }
  if (button) button.disabled = false
})

// --- typing ---

// The last edited text. While it is unsaved, the browser asks before it leaves the page.
let changed
addEventListener("input", ({ target }) => {
  if (target.matches("[data-capitals]")) {
    const at = target.selectionStart
    target.value = target.value.toUpperCase()
    target.setSelectionRange(at, at)
  }
  if (target.tagName === "TEXTAREA" && target.form && keeps(target.form)) changed = target
})
addEventListener("beforeunload", (event) => {
  if (changed?.isConnected && changed.value !== "") event.preventDefault()
})

addEventListener("dragover", (event) => {
  if (event.target.matches?.("[data-takes-files]")) event.preventDefault()
})
addEventListener("drop", async (event) => {
  const [file] = event.dataTransfer.files
  if (!event.target.matches?.("[data-takes-files]") || !file) return
  event.preventDefault()
  event.target.value = await file.text()
  changed = event.target
  announce(`The text of ${file.name} is in the field.`)
})

// --- filtering ---

// The page holds only a part of the list, so the server filters and its list replaces this one.
let asking
const askForList = async (filter) => {
  asking?.abort()
  asking = new AbortController()
  const url = `${filter.form.action}?q=${encodeURIComponent(filter.value.trim())}`
  try {
    const answer = await fetch(url, { signal: asking.signal, cache: "no-store" })
    const page = new DOMParser().parseFromString(await answer.text(), "text/html")
    for (const part of ["[data-filter-list]", "[data-filter-count]"]) {
      const next = page.querySelector(part)
      if (next) document.querySelector(part)?.replaceWith(document.adoptNode(next))
    }
    history.replaceState(null, "", url)
  } catch (error) {
    if (error.name !== "AbortError") announce("The server does not answer.")
  }
}

const filterRows = (filter) => {
  const rows = [...document.querySelectorAll("[data-filter-row]")]
  const count = document.querySelector("[data-filter-count]")
  const words = filter.value.trim().toLowerCase()
  let hits = 0
  for (const row of rows) {
    const hit = row.dataset.filterRow.toLowerCase().includes(words)
    row.hidden = !hit
    if (hit) hits++
  }
  if (count) count.textContent = words === "" ? count.dataset.all : `${hits} of ${rows.length}`
}

let typing
const startFilter = () => {
  const filter = document.querySelector("[data-filter]")
  if (!filter) return
  const partial = filter.hasAttribute("data-filter-partial")
  filter.addEventListener("input", () => {
    if (!partial) return filterRows(filter)
    clearTimeout(typing)
    typing = setTimeout(() => askForList(filter), 150)
  })
  filter.form.addEventListener("submit", (event) => {
    event.preventDefault()
    if (partial) askForList(filter)
  })
  if (!partial) filterRows(filter)
}
addEventListener("keydown", (event) => {
  const filter = document.querySelector("[data-filter]")
  if (!filter || event.key !== "/" || event.target.closest("input, textarea, select")) return
  event.preventDefault()
  filter.focus()
})

// --- expiry of a device request ---

const startCountdown = () => {
  const countdown = document.querySelector("[data-expires]")
  if (!countdown) return
  const end = Date.now() + Number(countdown.dataset.expires)
  const tick = () => {
    const seconds = Math.max(0, Math.ceil((end - Date.now()) / 1000))
    countdown.textContent =
      seconds === 0 ? "expired" : `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")} left`
    if (seconds > 0) return countdown.isConnected && setTimeout(tick, 1_000)
    for (const button of document.querySelectorAll("[data-decides]")) button.disabled = true
    announce("The code has expired. Start the login again in your terminal.")
  }
  tick()
}

// --- progress of an approved login ---

const startProgress = () => {
  const progress = document.querySelector("[data-progress]")
  if (!progress) return
  const look = async () => {
    try {
      const words = progress.dataset[await ask(progress)]
      if (words) {
        progress.querySelector("[data-progress-text]").textContent = words
        return
      }
    } catch {
      // Asks again below. The terminal does not depend on this page.
    }
    setTimeout(look, 2_000)
  }
  look()
}

// --- notices: they disappear after a while, unless they are in use or offer an undo ---

let noticeTimer
const startNotice = () => {
  clearTimeout(noticeTimer)
  const notice = document.querySelector(".notice")
  if (!notice) return
  const isUsed = () => notice.matches(":hover, :focus-within")
  const leave = () => (isUsed() ? (noticeTimer = setTimeout(leave, 2_000)) : notice.remove())
  if (!notice.querySelector("form")) noticeTimer = setTimeout(leave, 10_000)
  notice.querySelector("[data-close-notice]")?.addEventListener("click", () => notice.remove())
}

// --- start of each page, also of one that replaced another without a reload ---

/** `matrix.css` hides most rows until the islands run; shows them if the islands fail to load. This file runs first. */
const islands = document.querySelector('script[src*="/islands."]')
islands?.addEventListener("error", () => document.getElementById("matrix")?.removeAttribute("data-matrix"))

// A form that waited for a confirmation goes on without a click.
const startContinue = () => document.querySelector("form[data-continue]")?.submit()

const start = () => {
  startContinue()
  startPasskeys()
  startNotice()
  startFilter()
  startCountdown()
  startProgress()
  for (const field of document.querySelectorAll("[data-select]")) field.addEventListener("focus", () => field.select())
}
start()

// What pages can do more of with script: everything here also works without it, through plain forms.
"use strict"

document.documentElement.classList.add("scripted")

const announce = (text) => {
  const place = document.getElementById("announce")
  if (place) place.textContent = text
}

// A page that comes back from the browser's memory may show what was hidden since: fetch it again.
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload()
})

// A code in the address was read into the form; it need not stay in the address bar or in the history.
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

// --- values: one at a time, asked for with a POST, hidden again after a minute ---

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

const ask = async (form) => {
  const answer = await fetch(form.action, {
    method: "POST",
    headers: { accept: "application/json" },
    body: new URLSearchParams(new FormData(form)),
    cache: "no-store",
    redirect: "error"
  })
  const body = await answer.json()
  if (answer.status === 401) location.reload()
  if (!answer.ok) throw new Error(body.message)
  return body.value
}

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
    if (row.dataset.shown === "yes") return mask(row)
    hideAll()
    button.disabled = true
    try {
      show(row, await ask(form))
    } catch (error) {
      fail(row, error)
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
      field.value = await ask(button.closest("[data-secret]").querySelector("[data-source-form]"))
      field.focus()
      announce("The current text is in the field.")
    }
  } catch (error) {
    const row = button.closest("[data-secret]")
    if (row) fail(row, error)
    else announce("Copying is not possible here.")
  }
})

// --- a part of the page that is fetched anew while the form keeps what was typed ---

addEventListener("submit", async (event) => {
  const form = event.target
  const button = event.submitter
  if (!form.matches("[data-swap]") || button?.value !== "preview") return
  event.preventDefault()
  button.disabled = true
  const body = new URLSearchParams(new FormData(form))
  body.set(button.name, button.value)
  try {
    const answer = await fetch(form.action, { method: "POST", body, cache: "no-store" })
    const page = new DOMParser().parseFromString(await answer.text(), "text/html")
    const part = page.getElementById(form.dataset.swap)
    if (part) document.getElementById(form.dataset.swap).replaceWith(document.adoptNode(part))
    else location.reload()
  } catch {
    announce("The server does not answer.")
  }
  button.disabled = false
})

// --- a form with a value: a refusal replaces the form, and what was typed stays in its fields ---

const alertIn = (form, text) => {
  const note = form.querySelector("[data-sending]") ?? form.appendChild(document.createElement("p"))
  note.dataset.sending = ""
  note.className = "error"
  note.setAttribute("role", "alert")
  note.textContent = text
}

addEventListener("submit", async (event) => {
  const form = event.target
  const button = event.submitter
  if (!form.matches("[data-keep]") || !button || button.hasAttribute("formaction")) return
  event.preventDefault()
  button.disabled = true
  try {
    const body = new URLSearchParams(new FormData(form))
    const answer = await fetch(form.action, { method: "POST", body, cache: "no-store" })
    if (answer.redirected && new URL(answer.url).pathname !== "/app/sign-in") return location.assign(answer.url)
    const page = new DOMParser().parseFromString(await answer.text(), "text/html")
    const next = page.getElementById(form.id)
    if (next) {
      for (const field of form.querySelectorAll("textarea")) next.querySelector(`#${field.id}`).value = field.value
      form.replaceWith(document.adoptNode(next))
      const wrong = document.querySelector(`#${next.id} [aria-invalid], #${next.id} [role="alert"]`)
      wrong?.scrollIntoView({ block: "nearest" })
      wrong?.focus?.()
    } else if (answer.redirected) {
      alertIn(form, "You are signed out. Sign in in another tab, then try again here.")
    } else {
      alertIn(form, page.querySelector("h1")?.textContent ?? "The server refused this.")
    }
  } catch {
    alertIn(form, "The server does not answer. Try again in a moment.")
  }
  button.disabled = false
})

// --- filtering what is on the page ---

const filter = document.querySelector("[data-filter]")
if (filter) {
  const rows = [...document.querySelectorAll("[data-filter-row]")]
  const count = document.querySelector("[data-filter-count]")
  const apply = () => {
    const words = filter.value.trim().toLowerCase()
    let shown = 0
    for (const row of rows) {
      const hit = row.dataset.filterRow.toLowerCase().includes(words)
      row.hidden = !hit
      if (hit) shown++
    }
    if (count) count.textContent = words === "" ? count.dataset.all : `${shown} of ${rows.length}`
  }
  filter.addEventListener("input", apply)
  filter.form.addEventListener("submit", (event) => {
    if (!filter.hasAttribute("data-filter-partial")) event.preventDefault()
  })
  if (!filter.hasAttribute("data-filter-partial")) apply()
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.closest("input, textarea, select")) return
    event.preventDefault()
    filter.focus()
  })
}

// --- a device request runs out ---

const countdown = document.querySelector("[data-expires]")
if (countdown) {
  const end = Date.now() + Number(countdown.dataset.expires)
  const tick = () => {
    const left = Math.max(0, Math.ceil((end - Date.now()) / 1000))
    countdown.textContent =
      left === 0 ? "expired" : `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")} left`
    if (left > 0) return setTimeout(tick, 1_000)
    for (const button of document.querySelectorAll("[data-decides]")) button.disabled = true
    announce("The code has expired. Start the login again in your terminal.")
  }
  tick()
}

// --- an approved login on its way to the terminal ---

const progress = document.querySelector("[data-progress]")
if (progress) {
  const look = async () => {
    try {
      const words = progress.dataset[await ask(progress)]
      if (words) {
        progress.querySelector("[data-progress-text]").textContent = words
        return
      }
    } catch {
      // Asked again: the terminal goes on without this page.
    }
    setTimeout(look, 2_000)
  }
  look()
}

for (const field of document.querySelectorAll("[data-select]")) {
  field.addEventListener("focus", () => field.select())
}

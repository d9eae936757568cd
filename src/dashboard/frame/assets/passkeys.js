// Passkeys, which only scripts can use. A form requests a challenge from the server, and sends the device's response.
"use strict"

const bytesOf = (text) =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0))
const textOf = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "")

const described = (credentials = []) => credentials.map((one) => ({ ...one, id: bytesOf(one.id) }))
const optionsOf = (options) => ({
  ...options,
  challenge: bytesOf(options.challenge),
  ...(options.user ? { user: { ...options.user, id: bytesOf(options.user.id) } } : {}),
  ...(options.allowCredentials ? { allowCredentials: described(options.allowCredentials) } : {}),
  ...(options.excludeCredentials ? { excludeCredentials: described(options.excludeCredentials) } : {})
})
const answerOf = ({ id, response }) =>
  JSON.stringify({
    id,
    response: response.attestationObject
      ? {
          clientDataJSON: textOf(response.clientDataJSON),
          attestationObject: textOf(response.attestationObject),
          transports: response.getTransports?.() ?? []
        }
      : {
          clientDataJSON: textOf(response.clientDataJSON),
          authenticatorData: textOf(response.authenticatorData),
          signature: textOf(response.signature),
          userHandle: response.userHandle ? textOf(response.userHandle) : null
        }
  })

const challengeFor = async (form) => {
  const answer = await fetch(form.dataset.begin, {
    method: "POST",
    headers: { accept: "application/json" },
    cache: "no-store",
    redirect: "error"
  })
  const body = await answer.json()
  if (body.code === "STEP_UP_REQUIRED") {
    location.assign(`/app/confirm?next=${encodeURIComponent(location.pathname)}`)
    return undefined
  }
  if (!answer.ok) throw new Error(body.message)
  return optionsOf(body)
}

// A browser allows one open request for passkeys at a time.
let pending
const askDevice = async (form, mediation) => {
  pending?.abort()
  const own = new AbortController()
  pending = own
  const publicKey = await challengeFor(form)
  if (publicKey === undefined || own.signal.aborted) return
  const { signal } = own
  const credential =
    form.dataset.passkey === "create"
      ? await navigator.credentials.create({ publicKey, signal })
      : await navigator.credentials.get({ publicKey, signal, ...(mediation ? { mediation } : {}) })
  if (credential === null || own.signal.aborted) return
  form.elements.passkey.value = answerOf(credential)
  form.submit()
}

const problemOf = (error) =>
  error instanceof TypeError
    ? "The server does not answer. Try again in a moment."
    : error.name === "InvalidStateError"
      ? "This device already has a passkey for this account."
      : error instanceof DOMException
        ? "Your device returned no passkey. Try again, or sign in another way."
        : error.message

addEventListener("submit", async (event) => {
  const form = event.target
  if (!form.matches("[data-passkey]")) return
  event.preventDefault()
  const problem = form.querySelector("[data-passkey-problem]")
  problem.hidden = true
  try {
    await askDevice(form)
  } catch (error) {
    if (error.name === "AbortError") return
    problem.textContent = problemOf(error)
    problem.hidden = false
    offer()
  }
})

// Offers passkeys in the e-mail field while the page is open. Renewed, since a challenge expires after five minutes.
const offerEvery = 240_000
let offering
const offer = async () => {
  clearTimeout(offering)
  const form = document.querySelector("[data-passkey][data-offered]")
  if (!form || !(await PublicKeyCredential.isConditionalMediationAvailable?.())) return
  offering = setTimeout(offer, offerEvery)
  try {
    await askDevice(form, "conditional")
  } catch {
    // The form's button reports the problem when it is used.
  }
}

const startPasskeys = () => {
  if (!window.PublicKeyCredential || !navigator.credentials) return
  for (const form of document.querySelectorAll("[data-passkey]")) form.hidden = false
  offer()
}

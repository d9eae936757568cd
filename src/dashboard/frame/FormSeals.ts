/**
 * Seals of forms (docs/security.md, "Pages"). Each form of a page carries a MAC over its person, its address and the
 * environment that the page showed, so that it works for them alone. A guard adds the seals to the finished page, so no
 * form can lack one.
 */
import type { RowMac } from "#src/rows/RowMac.ts"
import type { Form } from "./Form.ts"

/** Name of the hidden field. */
const field = "seal"

/** The environment of a page: its address and its id. A page of two environments has both ids, joined. */
export interface PagePlace {
  readonly path: string
  readonly id: string
}

/** A seal whose MAC holds. */
export interface ValidSeal {
  /** Empty: a visitor without a session. */
  readonly user: string
  /** Id of the environment that the page showed; empty: none. */
  readonly place: string
}

/** Path and query, in the browser's spelling. */
const addressOf = (url: string, base = "/"): string => {
  const root = "http://page.invalid"
  if (!URL.canParse(url, new URL(base, root))) return ""
  const { pathname, search } = new URL(url, new URL(base, root))
  return `${pathname}${search}`
}

const textOf = (user: string, place: string, address: string) => JSON.stringify([user, place, address])

/** The address is that of the place, or below it, with or without a query. */
const isWithin = (address: string, path: string): boolean =>
  path !== "" && (address === path || address.startsWith(`${path}/`) || address.startsWith(`${path}?`))

const seal = (macs: RowMac, user: string, { id, path }: PagePlace, address: string): string => {
  const place = isWithin(address, path) ? id : ""
  return [user, place, macs.ofForm(textOf(user, place, address)).toString("base64url")].join(".")
}

const formTag = /<form((?: [^\s=<>"]+(?:="[^"<]*")?)*)>/g
const isPost = /\smethod="post"/i
const actionAttribute = /\saction="([^"]*)"/
const buttonAction = /\sformaction="([^"]*)"/gi

const unescaped = (text: string): string =>
  text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&amp;", "&")

/** The page with a seal in each form, for each address that the form or a button of it names. */
export const withSeals = (
  html: string,
  macs: RowMac,
  { place, url, user }: { readonly user: string; readonly place: PagePlace; readonly url: string }
): string =>
  html.replace(formTag, (tag, attributes: string, at: number) => {
    if (!isPost.test(attributes)) return tag
    const whole = html.slice(at, html.indexOf("</form>", at))
    const actions = [
      actionAttribute.exec(attributes)?.[1] ?? url,
      ...[...whole.matchAll(buttonAction)].map(([, to]) => to)
    ]
    const addresses = new Set(actions.map((action) => addressOf(unescaped(action), url)))
    const inputs = [...addresses].map(
      (address) => `<input type="hidden" name="${field}" value="${seal(macs, user, place, address)}"/>`
    )
    return `${tag}${inputs.join("")}`
  })

/** The seals of a sent form that hold for the address. */
export const validSeals = (form: Form, macs: RowMac, url: string): ReadonlyArray<ValidSeal> =>
  form.all(field).flatMap((text) => {
    const [user = "", place = "", mac = "", ...rest] = text.split(".")
    const isValid =
      rest.length === 0 && macs.isOfForm(textOf(user, place, addressOf(url)), Buffer.from(mac, "base64url"))
    return isValid ? [{ user, place }] : []
  })

/** Whether the form has the field at all. */
export const hasSeal = (form: Form): boolean => form.has(field)

/** A request's target (RFC 9112 3.2.1) in its two parts. */

export const pathOf = (target: string): string => {
  const mark = target.indexOf("?")
  return mark === -1 ? target : target.slice(0, mark)
}

/** What follows the `?`, or nothing. */
export const queryOf = (target: string): string => {
  const mark = target.indexOf("?")
  return mark === -1 ? "" : target.slice(mark + 1)
}

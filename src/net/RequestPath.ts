/** The path of a request's target (RFC 9112 3.2.1). */

export const pathOf = (target: string): string => {
  const mark = target.indexOf("?")
  return mark === -1 ? target : target.slice(0, mark)
}

/** The part after the `?`, or an empty text. */
export const queryOf = (target: string): string => {
  const mark = target.indexOf("?")
  return mark === -1 ? "" : target.slice(mark + 1)
}

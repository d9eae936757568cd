/** The way through a list that has several pages. */

/** `link`: address of a page; pages count from 1. Nothing when all is on one. */
export const Pager = ({
  link,
  page,
  size,
  total
}: {
  readonly page: number
  readonly size: number
  readonly total: number
  readonly link: (page: number) => string
}) =>
  total <= size ? null : (
    <nav class="pager" aria-label="Pages">
      {page > 1 ? <a href={link(page - 1)}>Previous</a> : <span />}
      <span>
        {(page - 1) * size + 1}–{Math.min(total, page * size)} of {total}
      </span>
      {page * size < total ? <a href={link(page + 1)}>Next</a> : <span />}
    </nav>
  )

/** Links between the pages of a list. */

/** `link` gives the address of a page, counted from 1. Renders nothing for a single page. */
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

/** A form, and beside it what to know before it is sent: under it where the screen has no room for both. */
import type { ComponentChildren } from "preact"

export const Beside = ({
  children,
  words
}: {
  readonly children: ComponentChildren
  /** Titles with what they say. */
  readonly words: ReadonlyArray<readonly [title: string, words: ComponentChildren]>
}) => (
  <div class="beside">
    <div class="beside-form">{children}</div>
    <aside class="beside-words" aria-label="Good to know">
      {words.map(([title, text]) => (
        <section>
          <h2>{title}</h2>
          <p>{text}</p>
        </section>
      ))}
    </aside>
  </div>
)

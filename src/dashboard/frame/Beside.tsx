/** A form with explanations beside it, or below it on narrow screens. */
import type { ComponentChildren } from "preact"

export const Beside = ({
  children,
  words
}: {
  readonly children: ComponentChildren
  /** Explanations with their titles. */
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

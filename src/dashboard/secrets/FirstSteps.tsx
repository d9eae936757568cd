/** First steps of a project, ticked as they happen. The server draws them, and the page's script redraws them. */
import type { ComponentChildren } from "preact"
import * as CopyText from "#src/dashboard/frame/CopyText.tsx"
import * as Icons from "#src/dashboard/frame/Icons.tsx"
import type { FirstSteps as Steps } from "./Matrix.ts"

const Step = ({
  children,
  done,
  title
}: {
  readonly done: boolean
  readonly title: string
  readonly children: ComponentChildren
}) => (
  <li class={done ? "is-done" : undefined}>
    <span class="first-step-mark">{done ? <Icons.Check /> : null}</span>
    <div>
      <h3>
        {title}
        {done ? <span class="hidden">: done</span> : null}
      </h3>
      {children}
    </div>
  </li>
)

export const isDone = ({ loggedIn, ran, saved }: Steps): boolean => saved && loggedIn && ran

export const FirstSteps = ({ of }: { readonly of: Steps }) => (
  <section class="first-steps" aria-label="First steps">
    <h2>{isDone(of) ? "Done: your program runs with its secrets" : "First steps"}</h2>
    <ol>
      <Step done={of.saved} title="Add secrets">
        <p class="hint">Drop or paste your .env file, or add secrets one by one.</p>
      </Step>
      <Step done={of.loggedIn} title="Log in from your terminal">
        <CopyText.Command>{of.login}</CopyText.Command>
      </Step>
      <Step done={of.ran} title="Run your program with them">
        <CopyText.Command>{of.run}</CopyText.Command>
      </Step>
    </ol>
  </section>
)

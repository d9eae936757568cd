/** Text with a button that copies it. */
import * as Icons from "./Icons.tsx"

/** A text that only this response shows: no address and no later page has it. */
export const Once = ({ label, text }: { readonly label: string; readonly text: string }) => (
  <div class="once">
    <label for="once">{label}</label>
    <div class="once-line">
      <input id="once" class="mono" readonly value={text} autocomplete="off" spellcheck={false} data-select />
      <button type="button" class="button button-primary needs-script" data-copy-from="once">
        <Icons.Copy /> Copy
      </button>
    </div>
  </div>
)

/** `block` allows several lines. */
export const Command = ({ block = false, children }: { readonly children: string; readonly block?: boolean }) => (
  <div class={block ? "command command-block" : "command"}>
    <pre {...(block ? { tabIndex: 0, role: "group", "aria-label": "Text to copy" } : {})}>
      <code>
        {block
          ? children
          : children.split(" ").map((word, i) => (
              <>
                {i === 0 ? "" : " "}
                <span>{word}</span>
              </>
            ))}
      </code>
    </pre>
    <button type="button" class="button button-quiet needs-script" data-copy={children} aria-label="Copy the command">
      <Icons.Copy />
    </button>
  </div>
)

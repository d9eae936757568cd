/** Buttons that add secrets to a project: from a file, or one by one. */
import type { ComponentChildren } from "preact"
import * as Icons from "#src/dashboard/frame/Icons.tsx"
import { Mark } from "#src/dashboard/frame/Mark.tsx"
import * as Act from "./Act.ts"
import { type State, type Store, targetColumn } from "./State.ts"

export const Ways = ({ formats, state, store }: { state: State; store: Store; formats: string }) =>
  targetColumn(state) < 0 ? null : (
    <>
      <label class="button button-plain">
        <Icons.Paste /> Import
        <input
          type="file"
          onChange={async ({ currentTarget }) => {
            const file = currentTarget.files?.[0]
            if (file !== undefined) await Act.importText(store, file.name, await file.text(), formats)
            currentTarget.value = ""
          }}
        />
      </label>{" "}
      <button type="button" class="button button-primary" onClick={() => store.set({ sheet: "add" })}>
        <Icons.Plus /> Add secret <kbd>n</kbd>
      </button>
    </>
  )

/** Shown instead of the keys of an empty project. */
export const DropZone = ({ children }: { readonly children: ComponentChildren }) => (
  <div class="empty drop-zone">
    <Mark />
    <p class="empty-title">No secrets yet</p>
    <p>Drop your .env file here, or paste its text anywhere on this page. JSON, YAML and CSV work too.</p>
    <div class="buttons">{children}</div>
  </div>
)

/** List of keyboard shortcuts. Links and forms of the page can do everything that the keys do. */
import { Dialog } from "./Dialog.tsx"

type Lines = ReadonlyArray<readonly [keys: string, action: string]>

const everywhere: Lines = [
  ["⌘K, Ctrl K", "Search or jump to"],
  ["/", "Go to the filter"],
  ["?", "Show these keys"],
  ["Esc", "Close the sheet; hide values"]
]
const inMatrix: Lines = [
  ["↑ ↓ ← →", "Go to another cell"],
  ["Enter, F2", "Edit; Enter again keeps the text and goes down"],
  ["Tab", "Keep the text and go right"],
  ["r", "Reveal or hide the value"],
  ["c", "Copy the value"],
  ["h", "Details and history"],
  ["d, Delete", "Mark as deleted"],
  ["x", "Tick the key"],
  ["n", "Add a secret"],
  ["⌘S, Ctrl S", "Review and save"]
]

const Table = ({ lines, title }: { lines: Lines; title: string }) => (
  <section>
    <h3>{title}</h3>
    <dl class="key-list">
      {lines.map(([keys, action]) => (
        <div key={keys}>
          <dt>
            {keys.split(", ").map((one) => (
              <kbd key={one}>{one}</kbd>
            ))}
          </dt>
          <dd>{action}</dd>
        </div>
      ))}
    </dl>
  </section>
)

export const keys = (close: () => void) => (
  <Dialog label="Keys" kind="palette" close={close}>
    {/* Takes the focus, so that the keyboard can scroll the list. */}
    <div class="key-lists" tabIndex={0}>
      <h2>Keys</h2>
      <Table title="On every page" lines={everywhere} />
      <Table title="In the table of a project" lines={inMatrix} />
    </div>
  </Dialog>
)

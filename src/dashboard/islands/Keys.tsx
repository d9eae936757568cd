/** Which keys do what. Nothing is done here that a page does not do by a link or a form. */
import { Dialog } from "./Dialog.tsx"

type Lines = ReadonlyArray<readonly [keys: string, what: string]>

const everywhere: Lines = [
  ["⌘K, Ctrl K", "Search or jump to"],
  ["/", "Go to the filter"],
  ["?", "Show these keys"],
  ["Esc", "Close what lies above the page; hide values"]
]
const inMatrix: Lines = [
  ["↑ ↓ ← →", "Go to another cell"],
  ["Enter, F2", "Edit; Enter again keeps it and goes down"],
  ["Tab", "Keep it and go right"],
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
      {lines.map(([keys, what]) => (
        <div key={keys}>
          <dt>
            {keys.split(", ").map((one) => (
              <kbd key={one}>{one}</kbd>
            ))}
          </dt>
          <dd>{what}</dd>
        </div>
      ))}
    </dl>
  </section>
)

export const keys = (close: () => void) => (
  <Dialog label="Keys" kind="palette" close={close}>
    {/* The first that takes the focus: the rest is to be read. */}
    <div class="key-lists" tabIndex={0}>
      <h2>Keys</h2>
      <Table title="On every page" lines={everywhere} />
      <Table title="In the table of a project" lines={inMatrix} />
    </div>
  </Dialog>
)

/** The program `ampoule`. `--version` answers before anything else is loaded. */
import { version } from "./Version.ts"

const [first, ...rest] = process.argv.slice(2)
if ((first === "--version" || first === "-v") && rest.length === 0) {
  process.stdout.write(`${version}\n`)
} else {
  const { launch } = await import("#layers/Cli.ts")
  launch(process.argv)
}

/** The world of each page whose blocks `commands.test.ts` runs. */
import type { Preparation } from "./Reader.ts"

export interface PageWorld extends Preparation {
  /** Lines of bash that run first, in the reader's folder. */
  readonly before?: string
  /** Commands that print this when the page was run. */
  readonly after?: Readonly<Record<string, string>>
  /** Examples of the page, and their names in this world; `bash` words, expanded where they are used. */
  readonly instead?: Readonly<Record<string, string>>
}

/** The public address of an installation in every page. */
export const publicAddress = "https://ampoule.example.com"

const dotenv = [
  `printf 'DATABASE_URL=postgres://app:secret@db.internal/app\\nSTRIPE_KEY=sk_test_52\\n' > .env`,
  `echo 'console.log(Object.keys(process.env).includes("STRIPE_KEY"))' > app.js`
].join("\n")
const readers = "ampoule run --env production -- true"

/** A stand-in for another tool: it knows the argument lists of the page, and what the tool prints for each. */
const tool = (outputs: Readonly<Record<string, string>>) =>
  [
    ...Object.entries(outputs).map(([words, output]) => `[ "$*" != '${words}' ] || { ${output}; exit; }`),
    'echo "unknown to this stand-in: $*" >&2; exit 64'
  ].join("\n")
/** Prints a text. */
const prints = (text: string) => `printf '%s' '${text.replaceAll("'", "'\\''")}'`
/** Runs the words behind \`--\` with a variable of its own, as \`doppler run\` does. */
const runs = `while [ "$1" != -- ]; do shift; done; shift; DATABASE_URL=postgres://theirs exec "$@"`

const url = "postgres://app:made-up@db.internal/app"
const doppler = (raw: string, computed = raw, note = "") => ({ raw, computed, note })
const dopplers = {
  DB_PASSWORD: doppler("made-up"),
  DATABASE_URL: doppler("postgres://app:${DB_PASSWORD}@db.internal/app", url, "the main database"),
  STRIPE: doppler("${billing.prd.STRIPE_KEY}", "sk_made_up"),
  DOPPLER_PROJECT: doppler("shop"),
  DOPPLER_CONFIG: doppler("prd"),
  DOPPLER_ENVIRONMENT: doppler("prd")
}
const infisicals = [
  { key: "DATABASE_URL", value: url, type: "shared", comment: "the main database" },
  { key: "stripe-key", value: "sk_made_up", type: "shared", comment: "" }
]
const vaults = { request_id: "5d1c", data: { data: { "db-url": url, greeting: "${name}" }, metadata: { version: 3 } } }
const item = {
  id: "q1",
  title: "shop",
  category: "API_CREDENTIAL",
  vault: { id: "v1", name: "prod" },
  fields: [
    { id: "notesPlain", type: "STRING", label: "notesPlain" },
    { id: "f1", type: "CONCEALED", label: "db-url", value: url }
  ]
}
const both = "ampoule run --project shop --env production --no-override -- printenv DATABASE_URL"

const pages: Readonly<Record<string, PageWorld>> = {
  "README.md": { before: dotenv },
  "docs/audit-trail.md": { operator: true },
  "docs/backup.md": { operator: true },
  "docs/coming-from/1password.md": {
    programs: {
      op: tool({
        "item get shop --vault prod --format json": prints(JSON.stringify(item)),
        "inject -i .env": prints(`DATABASE_URL=${url}\n`),
        [`run --env-file=.env -- ${both}`]: runs
      })
    },
    after: {
      "ampoule secrets get DB_URL --env production": url,
      "ampoule secrets get DATABASE_URL --env development": url
    }
  },
  "docs/coming-from/doppler.md": {
    programs: {
      doppler: tool({
        "secrets --json -p shop -c prd": prints(JSON.stringify(dopplers)),
        [`run -p shop -c prd -- ${both}`]: runs
      })
    },
    after: {
      "ampoule secrets get DATABASE_URL --env production": url,
      "ampoule secrets get STRIPE --env production": "sk_made_up",
      "ampoule secrets export --source --format json --env production | jq -r .DATABASE_URL":
        "postgres://app:${DB_PASSWORD}@db.internal/app",
      "ampoule secrets notes --json --env production | jq -r '.. | .note? // empty'": "the main database",
      "ampoule secrets list --json --env production | grep -c DOPPLER_ || true": "0"
    }
  },
  "docs/coming-from/dotenv.md": {
    before: [
      `printf 'PORT=3000\\nHOST=\${HOSTNAME:-localhost}\\nADDRESS=http://127.0.0.1:\${PORT}\\n' > .env`,
      `echo 'console.log(process.env.ADDRESS)' > app.js`
    ].join("\n"),
    programs: { dotenvx: tool({ "decrypt --stdout -f .env.production": prints(`DATABASE_URL=${url}\n`) }) },
    after: {
      "ampoule secrets get DATABASE_URL --env production": url,
      "ampoule secrets get ADDRESS": "http://127.0.0.1:3000",
      "ampoule secrets get HOST": "${HOSTNAME:-localhost}"
    }
  },
  "docs/coming-from/infisical.md": {
    programs: {
      infisical: tool({
        "export --env=prod --format=json": prints(JSON.stringify(infisicals)),
        [`run --env=prod -- ${both}`]: runs
      })
    },
    after: {
      "ampoule secrets get STRIPE_KEY --env production": "sk_made_up",
      "ampoule secrets notes --json --env production | jq -r '.. | .note? // empty'": "the main database"
    }
  },
  "docs/coming-from/vault.md": {
    programs: { vault: tool({ "kv get -mount=secret -format=json shop": prints(JSON.stringify(vaults)) }) },
    after: {
      "ampoule secrets get GREETING --env production": "${name}",
      "cat shop.conf": `url=${url}`,
      "ampoule run --env production --names alias -- printenv db-url": url
    }
  },
  "docs/command-line/access.md": {},
  "docs/command-line/folder.md": {},
  "docs/command-line/sealed-files.md": { before: dotenv },
  "docs/command-line/team.md": { programs: { gh: "cat > /dev/null" } },
  "docs/command-line/values.md": { before: "echo 'key = {{ STRIPE_KEY | json }}' > app.conf.template" },
  "docs/command-line/who-has-a-value.md": { before: readers },
  "docs/operations/accounts.md": {
    operator: true,
    people: ["Grace", "Cfo"],
    instead: {
      "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30": `$(ampoule admin teams --json | jq -er '.. | objects | select(.name == "Mobile") | .id')`
    }
  },
  "docs/operations/incidents.md": {
    operator: true,
    before: `printf 'Authorization: Bearer %s' "$CI_TOKEN" > token-header`
  },
  "docs/operations/monitoring.md": { operator: true }
}

export const worlds: ReadonlyMap<string, PageWorld> = new Map(Object.entries(pages))

/** Exports of other programs, in the shapes that they print; the values are made up. */
import { assert, describe, it, vi } from "@effect/vitest"
import * as Either from "effect/Either"
import * as YAML from "yaml"
import * as EnvFile from "#src/formats/EnvFile.ts"
import { type ReadFormat } from "#src/formats/FormatNames.ts"
import { entries, value } from "./Entries.ts"

const read = (text: string, format: ReadFormat = EnvFile.detect("<stdin>", text)) => {
  const { entries, origin } = Either.getOrThrow(EnvFile.read(format, text))
  return { format, origin, entries: Object.fromEntries(entries.map(({ key, value }) => [key, value])) }
}
const refusal = (text: string, name = "<stdin>") => {
  const outcome = EnvFile.read(EnvFile.detect(name, text), text)
  assert(Either.isLeft(outcome), text)
  return `${outcome.left.line}: ${outcome.left.reason}`
}
const json = (value: unknown) => JSON.stringify(value, null, 2)
const base64 = (text: string | Uint8Array) => Buffer.from(text).toString("base64")

describe("exports of other programs", () => {
  it("doppler secrets --json: as written where its references come along, else as computed", () => {
    const secret = (raw: string | null, computed: string | null) => ({
      computed,
      computedVisibility: "masked",
      computedValueType: { type: "string" },
      note: "",
      raw,
      rawVisibility: "masked",
      rawValueType: { type: "string" }
    })
    const readFile = read(
      json({
        DB_PASSWORD: secret("correct horse", "correct horse"),
        DB_URL: secret("postgres://app:${DB_PASSWORD}@db/app", "postgres://app:correct horse@db/app"),
        STRIPE: secret("${billing.prd.STRIPE_KEY}", "sk_made_up"),
        EMPTY: secret("", "")
      })
    )
    assert.deepStrictEqual(readFile, {
      format: "json",
      origin: "doppler secrets",
      entries: {
        DB_PASSWORD: "correct horse",
        DB_URL: "postgres://app:${DB_PASSWORD}@db/app",
        STRIPE: "sk_made_up",
        EMPTY: ""
      }
    })
    assert.match(refusal(json({ A: secret(null, null) })), /restricted in Doppler/)
  })

  it("infisical export, as JSON, YAML, CSV and dotenv", () => {
    const entries = { DB_URL: "postgres://db/app", MULTI: 'a\n"b", c', EMPTY: "" }
    const items = Object.entries(entries).map(([key, value]) => ({ key, value, type: "shared", tags: [] }))
    assert.deepStrictEqual(read(json(items)), { format: "json", origin: undefined, entries })
    const yaml = 'DB_URL: postgres://db/app\nMULTI: |-\n    a\n    "b", c\nEMPTY: ""\n'
    assert.deepStrictEqual(read(yaml), { format: "yaml", origin: undefined, entries })
    const csv = 'Key,Value\nDB_URL,postgres://db/app\nMULTI,"a\n""b"", c"\nEMPTY,\n'
    assert.deepStrictEqual(read(csv), { format: "csv", origin: undefined, entries })
    assert.deepStrictEqual(read(csv.replaceAll("\n", "\r\n")).entries["EMPTY"], "")
    const dotenv = "export DB_URL='postgres://db/app'\nMULTI='a\n\"b\", c'\nEMPTY=''\n"
    assert.deepStrictEqual(read(dotenv), { format: "dotenv", origin: undefined, entries })
  })

  it("vault kv get -format=json, of both versions of the engine", () => {
    const about = { request_id: "5d1c", lease_id: "", lease_duration: 0, renewable: false, warnings: null }
    const entries = { "db-url": "postgres://db", port: "5432" }
    const second = { ...about, data: { data: { "db-url": "postgres://db", port: 5432 }, metadata: { version: 3 } } }
    assert.deepStrictEqual(read(json(second)), { format: "json", origin: "vault kv get", entries })
    const first = { ...about, data: { "db-url": "postgres://db", port: "5432" } }
    assert.deepStrictEqual(read(json(first)), { format: "json", origin: "vault kv get", entries })
    // Keys of these very names in the first version, and a deleted secret of the second.
    assert.deepStrictEqual(read(json({ ...about, data: { data: "x", metadata: "y" } })).entries, {
      data: "x",
      metadata: "y"
    })
    assert.match(refusal(json({ ...about, data: { data: null, metadata: { version: 3 } } })), /null/)
  })

  it("aws secretsmanager get-secret-value: an object, or one text", () => {
    const about = {
      ARN: "arn:aws:secretsmanager:eu-central-1:1:secret:shop/prod-AbC",
      Name: "shop/prod",
      VersionId: "1"
    }
    const object = { ...about, SecretString: json({ DB_URL: "postgres://db", PORT: 5432 }) }
    assert.deepStrictEqual(read(json(object)), {
      format: "json",
      origin: "aws secretsmanager",
      entries: { DB_URL: "postgres://db", PORT: "5432" }
    })
    assert.deepStrictEqual(read(json({ ...about, SecretString: "just text" })).entries, { prod: "just text" })
    assert.match(
      refusal(json({ ...about, SecretString: json({ A: { B: 1 } }) })),
      /^5: the value of A is an object, and not text/
    )
  })

  it("aws ssm get-parameters-by-path and get-parameter", () => {
    const parameter = (Name: string, Value: string) => ({ Name, Type: "SecureString", Value, Version: 2 })
    const some = { Parameters: [parameter("/shop/prod/DB_URL", "postgres://db"), parameter("PORT", "5432")] }
    assert.deepStrictEqual(read(json(some)), {
      format: "json",
      origin: "aws ssm",
      entries: { DB_URL: "postgres://db", PORT: "5432" }
    })
    assert.deepStrictEqual(read(json({ Parameter: parameter("/a/B", "c") })).entries, { B: "c" })
    const twice = { Parameters: [parameter("/a/B", "c"), parameter("/b/B", "d")] }
    assert.match(refusal(json(twice)), /already on line/)
  })

  it("gcloud secrets versions access and kubectl get secret: base64 of text", () => {
    const version = {
      name: "projects/7/secrets/db-url/versions/3",
      payload: { data: base64("päss?>"), dataCrc32c: "1" }
    }
    assert.deepStrictEqual(read(json(version)), {
      format: "json",
      origin: "gcloud secrets",
      entries: { "db-url": "päss?>" }
    })
    const secret = (data: Readonly<Record<string, string>>) => ({
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "shop" },
      data,
      type: "Opaque"
    })
    assert.deepStrictEqual(read(json(secret({ DB_URL: base64("postgres://db"), EMPTY: "" }))), {
      format: "json",
      origin: "kubectl get secret",
      entries: { DB_URL: "postgres://db", EMPTY: "" }
    })
    assert.match(refusal(json(secret({ A: base64(Buffer.of(0xff, 0xfe)) }))), /not UTF-8/)
    assert.match(refusal(json(secret({ A: "not base64!" }))), /not base64/)
  })

  it("Kubernetes: Secret, ConfigMap and List, in JSON and YAML, also several documents", () => {
    const secret = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "a" },
      data: { A: base64("x"), B: base64("y") },
      stringData: { B: "z" }
    }
    const config = { apiVersion: "v1", kind: "ConfigMap", data: { LEVEL: "debug", "app.conf": "a\nb\n" } }
    const list = { apiVersion: "v1", kind: "List", items: [secret, config] }
    const both = { A: "x", B: "z", LEVEL: "debug", "app.conf": "a\nb\n" }
    for (const text of [json(list), YAML.stringify(list)]) {
      const readFile = read(text)
      assert.deepStrictEqual([readFile.origin, readFile.entries], ["kubectl get secret", both])
    }
    assert.deepStrictEqual(read(`---\n${YAML.stringify(secret)}---\n${YAML.stringify(config)}`).entries, both)
    assert.strictEqual(read(YAML.stringify(config)).origin, "kubectl get configmap")
    const deployment = { apiVersion: "apps/v1", kind: "Deployment" }
    assert.match(refusal(json({ ...list, items: [secret, deployment] })), /neither a Secret nor a ConfigMap/)
    assert.match(
      refusal(YAML.stringify({ ...secret, data: { P12: base64(Buffer.of(0xff)) } })),
      /the value of P12 is binary/
    )
    assert.match(refusal(json({ ...list, items: [secret, secret] })), /already on line/)
  })

  it("nested JSON and YAML, whose names are joined when that is asked for", () => {
    const nested = { db: { host: "h", ports: [1, 2] }, ConnectionStrings: { Default: "c" }, flat: "f" }
    const entries = { db__host: "h", db__ports__0: "1", db__ports__1: "2", ConnectionStrings__Default: "c", flat: "f" }
    for (const [format, text] of [
      ["json", json(nested)],
      ["yaml", YAML.stringify(nested)]
    ] as const) {
      const readFile = Either.getOrThrow(EnvFile.read(format, text, { flatten: "__" }))
      assert.deepStrictEqual(Object.fromEntries(readFile.entries.map(({ key, value }) => [key, value])), entries)
      const refused = EnvFile.read(format, text)
      assert(Either.isLeft(refused))
      assert.match(refused.left.reason, /^the value of db is an object/)
      assert.strictEqual(refused.left.remedy, "flatten")
    }
    const empty = EnvFile.read("json", json({ db: { password: null } }), { flatten: "__" })
    assert(Either.isLeft(empty))
    assert.match(empty.left.reason, /^the value of db__password is null/)
  })

  it("1Password, Vercel, Netlify, Terraform and Key Vault", () => {
    const item = {
      id: "x1",
      title: "shop",
      vault: { id: "v" },
      category: "LOGIN",
      fields: [
        { id: "username", type: "STRING", purpose: "USERNAME", label: "username", value: "app" },
        { id: "password", type: "CONCEALED", label: "password", value: "p" },
        { id: "notesPlain", type: "STRING", purpose: "NOTES", label: "notesPlain" }
      ]
    }
    assert.deepStrictEqual(read(json(item)), {
      format: "json",
      origin: "op item get",
      entries: { username: "app", password: "p" }
    })
    assert.match(refusal(json([{ ...item, fields: undefined }])), /`op item get` prints them/)

    const vercel = { key: "A", value: "1", type: "encrypted", decrypted: true, target: ["production"] }
    assert.deepStrictEqual(read(json({ envs: [vercel] })), {
      format: "json",
      origin: "vercel env",
      entries: { A: "1" }
    })
    for (const hidden of [
      { ...vercel, type: "sensitive" },
      { ...vercel, decrypted: false }
    ]) {
      assert.match(refusal(json({ envs: [hidden] })), /the value of A is sensitive in Vercel/)
    }
    const netlify = { key: "A", scopes: ["builds"], values: [{ value: "1", context: "all", id: "i" }] }
    assert.deepStrictEqual(read(json([netlify])), { format: "json", origin: "netlify env", entries: { A: "1" } })
    const contexts = [
      { value: "1", context: "dev" },
      { value: "2", context: "production" }
    ]
    assert.match(refusal(json([{ ...netlify, values: contexts }])), /^\d+: A has values for several contexts/)

    const output = {
      db_url: { sensitive: true, type: "string", value: "postgres://db" },
      port: { sensitive: false, type: "number", value: 5432 }
    }
    assert.deepStrictEqual(read(json(output)), {
      format: "json",
      origin: "terraform output",
      entries: { db_url: "postgres://db", port: "5432" }
    })
    const nested = { db: { sensitive: true, type: ["object", {}], value: { host: "h" } } }
    assert.match(refusal(json(nested)), /the value of db is an object/)

    const secret = {
      attributes: {},
      id: "https://v.vault.azure.net/secrets/db-url/1",
      name: "db-url",
      value: "postgres://db"
    }
    assert.deepStrictEqual(read(json(secret)), {
      format: "json",
      origin: "az keyvault secret",
      entries: { "db-url": "postgres://db" }
    })
    assert.match(refusal(json([{ ...secret, value: null }])), /db-url has no value here: `az keyvault secret show`/)
  })

  it("Doppler's own three names are left out and named, and comments become notes", () => {
    const own = { DOPPLER_PROJECT: "shop", DOPPLER_CONFIG: "prd", DOPPLER_ENVIRONMENT: "prd" }
    const readFile = Either.getOrThrow(EnvFile.read("json", json({ A: "1", ...own })))
    assert.deepStrictEqual(
      readFile.entries.map(({ key }) => key),
      ["A"]
    )
    assert.deepStrictEqual(readFile.leftOut, Object.keys(own))
    assert.deepStrictEqual(Object.keys(read(json({ DOPPLER_PROJECT: "mine", A: "1" })).entries), [
      "DOPPLER_PROJECT",
      "A"
    ])
    const infisical = [
      { key: "A", value: "1", comment: " of the shop " },
      { key: "B", value: "2", comment: "" }
    ]
    const { entries } = Either.getOrThrow(EnvFile.read("json", json(infisical)))
    assert.deepStrictEqual(
      entries.map(({ note }) => note),
      ["of the shop", undefined]
    )
  })

  it("are read in a browser too, which has no Buffer", () => {
    const secret = json({ apiVersion: "v1", kind: "Secret", data: { A: base64("päss") } })
    vi.stubGlobal("Buffer", undefined)
    const entries = Either.getOrThrow(EnvFile.read("json", secret)).entries
    vi.unstubAllGlobals()
    assert.deepStrictEqual(
      entries.map(({ value }) => value),
      ["päss"]
    )
  })

  it("a refusal names the path and never the value", () => {
    for (const text of [
      json({ A: { B: "MARKER" } }),
      json({ A: ["MARKER"] }),
      json([{ key: "A", value: { x: "MARKER" } }])
    ]) {
      assert.notInclude(refusal(text), "MARKER")
    }
  })

  it("an ordinary object that only looks a little like one of these is itself", () => {
    for (const entries of [
      { data: "x", kind: "Secret" },
      { Name: "a", Value: "b" },
      { name: "a", value: "b" }
    ]) {
      assert.deepStrictEqual(read(json(entries)), { format: "json", origin: undefined, entries })
    }
    assert.match(refusal(json({ A: { b: "c" } })), /^2: the value of A is an object, and not text/)
  })
})

describe("encrypted values", () => {
  const point = `B${"k3".repeat(60)}==`
  it("are refused with what to do, by line, and never stored as if they were the secret", () => {
    const cases: ReadonlyArray<readonly [text: string, told: RegExp]> = [
      [
        `#/---[DOTENV_PUBLIC_KEY]---/\nDOTENV_PUBLIC_KEY="03ab"\nPLAIN=x\nA="encrypted:${point}"\n`,
        /^4: .*`dotenvx decrypt --stdout`/
      ],
      // Without the line of the public key.
      [`A="encrypted:${point}"\n`, /^1: .*dotenvx/],
      [`DOTENV_PUBLIC_KEY_CI=03ab\nA=encrypted:xyz`, /^2: .*dotenvx/],
      [`DOTENV_VAULT="vlt_1"\nDOTENV_VAULT_CI="${"q7".repeat(40)}"\n`, /^2: .*dotenv-vault/],
      [json({ A: "ENC[AES256_GCM,data:x,iv:y,tag:z,type:str]" }), /^2: .*`sops decrypt`/],
      ["A: ENC[AES256_GCM,data:x,iv:y,tag:z,type:str]\n", /^1: .*SOPS/],
      ['# header\nA="sealed:v1:ek_0123abcd:AAAA"\n', /^2: .*`ampoule unseal`/]
    ]
    for (const [text, told] of cases) assert.match(refusal(text), told)
  })

  it("are distinguished from text that only begins like them", () => {
    const entries = { A: "encrypted: no", B: "ENC[", C: "sealed:v1:", DOTENV_VAULT: "x" }
    assert.deepStrictEqual(read(json(entries)).entries, entries)
  })
})

describe("the format of a file", () => {
  const cases: ReadonlyArray<readonly [name: string, text: string, format: ReadFormat]> = [
    ["<stdin>", "A=1\n", "dotenv"],
    ["<stdin>", "", "dotenv"],
    ["<stdin>", "# comment\n\n  export A='1'\n", "dotenv"],
    ["<stdin>", "\ufeff# comment\r\n{\r\n}", "json"],
    ["<stdin>", "\n\n[]", "json"],
    [".env", '{"A": "1"}', "json"],
    ["<stdin>", "---\nA: 1\n", "yaml"],
    ["<stdin>", "# comment\nA: 1\n", "yaml"],
    ["<stdin>", '"A": 1\n', "yaml"],
    [".env", "A: 1\n", "dotenv"],
    ["<stdin>", "URL=http://x\n", "dotenv"],
    ["<stdin>", "Key,Value\nA,1\n", "csv"],
    ["<stdin>", '"name","comment","value"\n', "csv"],
    ["secrets.csv", "A,1\n", "csv"],
    ["secrets.yaml", "{}", "yaml"],
    ["notes.txt", "A: 1\n", "yaml"]
  ]
  it.each(cases)("%s with %j is %s", (name, text, format) => {
    assert.strictEqual(EnvFile.detect(name, text), format)
  })
})

describe("CSV files", () => {
  it("are refused by line when they are not what they should be", () => {
    const failureOf = (text: string) => {
      const outcome = EnvFile.parse("csv", text)
      assert(Either.isLeft(outcome), text)
      return outcome.left.message
    }
    assert.match(failureOf("A,1\nB,2\n"), /^line 1: the first line does not name/)
    assert.match(failureOf("Key,Value\nA\n"), /^line 2: not as many fields/)
    assert.match(failureOf('Key,Value\nA,"x\ny"\nB,"x\n'), /^line 4: the quote is not closed/)
    assert.match(failureOf('Key,Value\nA,x"y\n'), /^line 2: an unquoted field contains a quote/)
    assert.match(failureOf('Key,Value\nA,"x"y\n'), /^line 2: there is text after/)
    assert.match(failureOf("Key,Value\nA,1\nA,2\n"), /^line 3: the key is already on line 2/)
    assert.deepStrictEqual(Either.getOrThrow(EnvFile.parse("csv", "")), [])
  })

  it.prop("give back what a writer of RFC 4180 wrote", [entries(value)], ([given]) => {
    const quote = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)
    for (const end of ["\n", "\r\n"]) {
      const text = ["Key,Note,Value", ...given.map(({ key, value }) => `${key},"n",${quote(value)}`)].join(end) + end
      const parsed = Either.getOrThrow(EnvFile.parse("csv", text))
      assert.deepStrictEqual(
        parsed.map(({ key, value }) => ({ key, value })),
        [...given]
      )
    }
  })
})

/** Root keys guarded by the transit engine of HashiCorp Vault or OpenBao: `POST /v1/<mount>/encrypt|decrypt/<name>`. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { KeyProvider, KeyProviderFailed } from "#src/vault/KeyProvider.ts"

export interface Options {
  /** Without a trailing slash. */
  readonly url: string
  readonly token: Redacted.Redacted
  /** `mount/name`; a mount may have several parts. */
  readonly key: string
}

const timeoutMillis = 10_000

const Encrypted = Schema.Struct({ data: Schema.Struct({ ciphertext: Schema.String }) })
const Decrypted = Schema.Struct({ data: Schema.Struct({ plaintext: Schema.Uint8ArrayFromBase64 }) })

/** Ciphertext of the engine: `vault:v<version>:<base64>`. It is one word of the key file. */
const ciphertext = /^[a-z]+:v[0-9]+:[A-Za-z0-9+/=]+$/

/** The engine's own message could quote the request. */
const failed = (reason: string) =>
  new KeyProviderFailed({
    message: `The transit engine did not open the root key (${reason}); check AMPOULE_TRANSIT_URL, AMPOULE_TRANSIT_KEY and the token.`
  })

export const layer = ({ key, token, url }: Options) => {
  const at = key.lastIndexOf("/")
  const [mount, name] = [key.slice(0, at), key.slice(at + 1)]

  const ask = <A, I>(operation: "encrypt" | "decrypt", body: object, answer: Schema.Schema<A, I>) =>
    Effect.tryPromise({
      try: async (signal) => {
        const response = await fetch(`${url}/v1/${mount}/${operation}/${name}`, {
          method: "POST",
          headers: { "x-vault-token": Redacted.value(token), "content-type": "application/json" },
          body: JSON.stringify(body),
          redirect: "error",
          signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMillis)])
        })
        const parsed: unknown = response.ok ? await response.json() : undefined
        return { status: response.status, parsed }
      },
      catch: () => failed("no answer")
    }).pipe(
      Effect.filterOrFail(
        ({ status }) => status === 200,
        ({ status }) => failed(`status ${status}`)
      ),
      Effect.flatMap(({ parsed }) =>
        Effect.mapError(Schema.decodeUnknown(answer)(parsed), () => failed("an answer of another form"))
      )
    )

  return Layer.succeed(KeyProvider, {
    prefix: "transit:" as const,
    seal: (bytes) =>
      ask("encrypt", { plaintext: Buffer.from(Redacted.value(bytes)).toString("base64") }, Encrypted).pipe(
        Effect.map(({ data }) => data.ciphertext),
        Effect.filterOrFail(
          (text) => ciphertext.test(text),
          () => failed("an answer of another form")
        )
      ),
    open: (text) =>
      Effect.map(ask("decrypt", { ciphertext: text }, Decrypted), ({ data }) => Redacted.make(data.plaintext))
  })
}

/**
 * Stand-ins for key services, on loopback: no AWS account and no HashiCorp Vault is asked in tests. They speak the
 * services' wire formats (KMS: JSON 1.1 with SigV4, which is checked; transit: the HTTP API of the engine) and do what
 * the real ones do with what tests can see: they bind to key and context, and answer errors in the same form.
 */
import { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto"
import * as http from "node:http"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { optional } from "#schema/Strict.ts"
import { parsed } from "#test/support/Json.ts"

interface Call {
  readonly request: http.IncomingMessage
  readonly body: string
}
interface Reply {
  readonly status: number
  readonly json: unknown
}

const serve = (answer: (call: Call) => Reply, contentType: string) =>
  Effect.acquireRelease(
    Effect.async<http.Server>((resume) => {
      const server = http.createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk) => chunks.push(chunk))
        request.on("end", () => {
          const { json, status } = answer({ request, body: Buffer.concat(chunks).toString() })
          response.writeHead(status, { "content-type": contentType }).end(JSON.stringify(json))
        })
      })
      server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    (server) =>
      Effect.async<void>((resume) => {
        server.closeAllConnections()
        server.close(() => resume(Effect.void))
      })
  ).pipe(
    Effect.map((server) => {
      const address = server.address()
      return `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`
    })
  )

const seal = (key: Buffer, aad: string, plaintext: Buffer) => {
  const iv = randomBytes(12)
  const cipher = createCipheriv("aes-256-gcm", key, iv).setAAD(Buffer.from(aad))
  return Buffer.concat([iv, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()])
}
const open = (key: Buffer, aad: string, sealed: Buffer): Buffer | undefined => {
  const cipher = createDecipheriv("aes-256-gcm", key, sealed.subarray(0, 12))
    .setAAD(Buffer.from(aad))
    .setAuthTag(sealed.subarray(-16))
  try {
    return Buffer.concat([cipher.update(sealed.subarray(12, -16)), cipher.final()])
  } catch {
    return undefined
  }
}

const hmac = (key: Buffer | string, text: string) => createHmac("sha256", key).update(text).digest()
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex")

/** Signature Version 4 of a request with a body and no query, made again from what arrived. */
const signedBy = ({ body, request }: Call, accessKeyId: string, secret: string): boolean => {
  const parts =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/kms\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
      request.headers.authorization ?? ""
    )
  if (parts === null || parts[1] !== accessKeyId) return false
  const [, , date, region, headers, signature] = parts
  const canonicalHeaders = headers
    .split(";")
    .map((name) => `${name}:${String(request.headers[name] ?? "").trim()}\n`)
    .join("")
  const canonical = [request.method, request.url, "", canonicalHeaders, headers, sha256(body)].join("\n")
  const scope = `${date}/${region}/kms/aws4_request`
  const toSign = ["AWS4-HMAC-SHA256", request.headers["x-amz-date"], scope, sha256(canonical)].join("\n")
  const key = ["kms", "aws4_request"].reduce(hmac, hmac(hmac(`AWS4${secret}`, date), region))
  return timingSafeEqual(hmac(key, toSign), Buffer.from(signature, "hex"))
}

const kmsRequest = parsed(
  Schema.Struct({
    KeyId: Schema.String,
    EncryptionContext: optional(Schema.Record({ key: Schema.String, value: Schema.String })),
    Plaintext: optional(Schema.String),
    CiphertextBlob: optional(Schema.String)
  })
)
const transitRequest = parsed(
  Schema.Struct({ plaintext: optional(Schema.String), ciphertext: optional(Schema.String) })
)

const context = (given: Readonly<Record<string, string>> = {}) =>
  JSON.stringify(Object.entries(given).sort(([a], [b]) => (a < b ? -1 : 1)))

/** One KMS key. Answers the address, and the operations that were asked for. */
export const kms = (options: { readonly keyId: string; readonly accessKeyId: string; readonly secret: string }) =>
  Effect.gen(function* () {
    const key = randomBytes(32)
    const operations: Array<string> = []
    const refuse = (type: string, status = 400): Reply => ({ status, json: { __type: type, message: "no" } })
    const url = yield* serve((call) => {
      const operation = String(call.request.headers["x-amz-target"])
      operations.push(operation)
      if (call.request.headers["content-type"] !== "application/x-amz-json-1.1") return refuse("SerializationException")
      if (!signedBy(call, options.accessKeyId, options.secret)) return refuse("InvalidSignatureException")
      const input = kmsRequest(call.body)
      if (input.KeyId !== options.keyId) return refuse("NotFoundException")
      const aad = context(input.EncryptionContext)
      const KeyId = `arn:aws:kms:eu-central-1:111122223333:key/${options.keyId}`
      if (operation === "TrentService.Encrypt") {
        const blob = seal(key, aad, Buffer.from(input.Plaintext ?? "", "base64"))
        return {
          status: 200,
          json: { CiphertextBlob: blob.toString("base64"), KeyId, EncryptionAlgorithm: "SYMMETRIC_DEFAULT" }
        }
      }
      if (operation === "TrentService.Decrypt") {
        const plaintext = open(key, aad, Buffer.from(input.CiphertextBlob ?? "", "base64"))
        if (plaintext === undefined) return refuse("InvalidCiphertextException")
        return {
          status: 200,
          json: { Plaintext: plaintext.toString("base64"), KeyId, EncryptionAlgorithm: "SYMMETRIC_DEFAULT" }
        }
      }
      return refuse("UnknownOperationException")
    }, "application/x-amz-json-1.1")
    return { url, asked: operations }
  })

/** One transit key. */
export const transit = (options: { readonly mount: string; readonly name: string; readonly token: string }) =>
  Effect.gen(function* () {
    const key = randomBytes(32)
    const requests: Array<string> = []
    const url = yield* serve(({ body, request }) => {
      requests.push(`${request.method} ${request.url}`)
      if (request.headers["x-vault-token"] !== options.token) {
        return { status: 403, json: { errors: ["permission denied"] } }
      }
      const input = transitRequest(body)
      const answer = (data: object) => ({
        status: 200,
        json: { request_id: "b7c1", lease_id: "", renewable: false, lease_duration: 0, data, wrap_info: null }
      })
      if (request.method === "POST" && request.url === `/v1/${options.mount}/encrypt/${options.name}`) {
        const sealed = seal(key, "", Buffer.from(input.plaintext ?? "", "base64"))
        return answer({ ciphertext: `vault:v1:${sealed.toString("base64")}`, key_version: 1 })
      }
      if (request.method === "POST" && request.url === `/v1/${options.mount}/decrypt/${options.name}`) {
        const sealed = /^vault:v1:([A-Za-z0-9+/=]+)$/.exec(input.ciphertext ?? "")
        const plaintext = sealed === null ? undefined : open(key, "", Buffer.from(sealed[1], "base64"))
        return plaintext === undefined
          ? { status: 400, json: { errors: ["cipher: message authentication failed"] } }
          : answer({ plaintext: plaintext.toString("base64") })
      }
      return { status: 404, json: { errors: [] } }
    }, "application/json")
    return { url, asked: requests }
  })

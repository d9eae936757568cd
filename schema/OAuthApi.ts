/**
 * Endpoints of the authorization server (RFC 6749, 7591, 7009): they accept forms and return OAuth bodies. The library
 * handles them. `/.well-known/oauth-authorization-server` describes them instead of the OpenAPI document.
 */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { optional } from "./Strict.ts"

const text = optional(Schema.String)

/** RFC 6749 5.2, RFC 6750 3. */
export const OAuthErrorResponse = Schema.Struct({
  error: Schema.String,
  error_description: text
}).annotations({ identifier: "OAuthErrorResponse", description: "RFC 6750 and RFC 6749." })

/** RFC 6749 5.1. `scope` is always sent, because it may be less than requested. */
export const TokenResponse = Schema.Struct({
  access_token: Schema.String,
  token_type: Schema.Literal("Bearer"),
  expires_in: Schema.Number,
  refresh_token: text,
  scope: Schema.String
}).annotations({ identifier: "OAuthTokenResponse" })

const TokenForm = Schema.Struct({
  grant_type: text,
  code: text,
  redirect_uri: text,
  code_verifier: text,
  refresh_token: text,
  client_id: text,
  client_secret: text,
  scope: text,
  resource: text
}).pipe(HttpApiSchema.withEncoding({ kind: "UrlParams" }))
const RevocationForm = Schema.Struct({
  token: text,
  token_type_hint: text,
  client_id: text,
  client_secret: text
}).pipe(HttpApiSchema.withEncoding({ kind: "UrlParams" }))
const Registration = Schema.Struct({
  redirect_uris: Schema.Array(Schema.String),
  client_name: text,
  grant_types: optional(Schema.Array(Schema.String)),
  response_types: optional(Schema.Array(Schema.String)),
  token_endpoint_auth_method: text
})

/**
 * The library reads the query of the authorization endpoint: it ignores unknown parameters and refuses repeated ones.
 */
export class OAuthApi extends HttpApiGroup.make("oauth")
  .add(HttpApiEndpoint.get("authorize", "/oauth/authorize").addSuccess(Schema.Void, { status: 303 }))
  .add(
    HttpApiEndpoint.get("resume", "/oauth/authorize/:uid")
      .setPath(Schema.Struct({ uid: Schema.String }))
      .addSuccess(Schema.Void, { status: 303 })
  )
  .add(
    HttpApiEndpoint.post("token", "/oauth/token")
      .setPayload(TokenForm)
      .addSuccess(TokenResponse)
      .addError(OAuthErrorResponse, { status: 400 })
  )
  .add(
    HttpApiEndpoint.post("register", "/oauth/register")
      .setPayload(Registration)
      .addSuccess(Schema.Struct({ client_id: Schema.String }), { status: 201 })
      .addError(OAuthErrorResponse, { status: 400 })
  )
  .add(
    HttpApiEndpoint.post("revoke", "/oauth/revoke")
      .setPayload(RevocationForm)
      .addSuccess(Schema.Void, { status: 200 })
      .addError(OAuthErrorResponse, { status: 400 })
  )
  .annotateContext(OpenApi.annotations({ exclude: true })) {}

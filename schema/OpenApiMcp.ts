/** `/mcp` in the document. It is served outside the HttpApi, so this file declares it. */
import { errorHeaders, headerRefs, type JsonObject, ref, text } from "./OpenApiComponents.ts"

const mcpErrors = {
  "400": ["JsonRpcErrorResponse", "The message is not valid JSON-RPC, or the protocol version is not known."],
  "401": ["OAuthErrorResponse", "No credential, or an invalid, expired or revoked one."],
  "403": ["McpForbidden", "The credential lacks the scope (OAuth), or the request came from another site (JSON-RPC)."],
  "404": ["JsonRpcErrorResponse", "No such session or method."],
  "405": ["JsonRpcErrorResponse", "Not GET, POST or DELETE."],
  "406": ["JsonRpcErrorResponse", "The client does not accept what the answer would be."],
  "409": ["JsonRpcErrorResponse", "The session has a stream already."],
  "413": ["JsonRpcErrorResponse", "The body is larger than 1 MiB."],
  "415": ["JsonRpcErrorResponse", "The body is not application/json."],
  "429": ["JsonRpcErrorResponse", "Rate limited."],
  "500": ["JsonRpcErrorResponse", "Unexpected server error."]
} as const

const mcpOperation = (
  operation: JsonObject & { readonly responses: JsonObject; readonly summary: string }
): JsonObject => ({
  tags: ["mcp"],
  security: [{ oauth: [] }, { apiToken: [] }],
  ...operation,
  responses: {
    ...operation.responses,
    ...Object.fromEntries(
      Object.entries(mcpErrors).map(([status, [shape, description]]) => [
        status,
        {
          description,
          headers: headerRefs(...(errorHeaders[Number(status)] ?? [])),
          content: {
            "application/json": {
              schema: ref("schemas", shape)
            }
          }
        }
      ])
    )
  }
})

const jsonrpc = { type: "string", enum: ["2.0"] }
const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "list_projects", arguments: {} } }
const result = { jsonrpc: "2.0", id: 1, result: { content: [], structuredContent: { projects: [] } } }

export const mcp = {
  paths: {
    "/mcp": {
      post: mcpOperation({
        operationId: "mcp.request",
        summary: "Send a JSON-RPC message",
        description: "Model Context Protocol over Streamable HTTP: one request or notification.",
        requestBody: {
          required: true,
          content: { "application/json": { schema: ref("schemas", "JsonRpcRequest"), example: call } }
        },
        responses: {
          "200": {
            description: "The answer, as JSON or as an event stream.",
            content: {
              "application/json": { schema: ref("schemas", "JsonRpcResponse"), example: result },
              "text/event-stream": { schema: text }
            }
          },
          "202": { description: "The notification was accepted." }
        }
      }),
      get: mcpOperation({
        operationId: "mcp.stream",
        summary: "Open the event stream of a session",
        description: "Messages of the server, for protocol versions that have sessions.",
        responses: {
          "200": {
            description: "The stream.",
            content: { "text/event-stream": { schema: text, example: ": open\n\n" } }
          }
        }
      }),
      delete: mcpOperation({
        operationId: "mcp.end",
        summary: "End a session",
        description: "For protocol versions that have sessions.",
        responses: {
          "200": { description: "The session is over.", content: { "application/json": { schema: {}, example: {} } } }
        }
      })
    }
  },
  schemas: {
    McpForbidden: { anyOf: [ref("schemas", "OAuthErrorResponse"), ref("schemas", "JsonRpcErrorResponse")] },
    OAuthErrorResponse: {
      type: "object",
      description: "RFC 6750 and RFC 6749.",
      required: ["error"],
      properties: { error: text, error_description: text }
    },
    JsonRpcId: { description: "Pairs a response with its request.", oneOf: [text, { type: "integer" }] },
    JsonRpcRequest: {
      type: "object",
      description: "JSON-RPC 2.0: a request, or without id a notification.",
      required: ["jsonrpc", "method"],
      properties: { jsonrpc, id: ref("schemas", "JsonRpcId"), method: text, params: { type: "object" } }
    },
    JsonRpcResponse: {
      type: "object",
      description: "JSON-RPC 2.0: result, or error.",
      required: ["jsonrpc", "id"],
      properties: {
        jsonrpc,
        id: ref("schemas", "JsonRpcId"),
        result: { type: "object" },
        error: ref("schemas", "JsonRpcError")
      }
    },
    JsonRpcError: {
      type: "object",
      description: "Codes are those of JSON-RPC 2.0 and of the Model Context Protocol.",
      required: ["code", "message"],
      properties: { code: { type: "integer" }, message: text, data: {} }
    },
    JsonRpcErrorResponse: {
      type: "object",
      description: "JSON-RPC 2.0. id is null when that of the request is unreadable.",
      required: ["jsonrpc", "error", "id"],
      properties: {
        jsonrpc,
        id: { anyOf: [ref("schemas", "JsonRpcId"), { type: "null" }] },
        error: ref("schemas", "JsonRpcError")
      }
    }
  },
  scheme: {
    oauth: {
      type: "http",
      scheme: "bearer",
      bearerFormat: "amp_oa_…",
      description: "OAuth 2.1 access token for the MCP endpoint; see /.well-known/oauth-protected-resource/mcp."
    }
  },
  tag: { name: "mcp", description: "Model Context Protocol, for AI agents." }
} as const satisfies JsonObject

/** The journey with openapi-typescript and openapi-fetch. */
import createClient from "openapi-fetch"
import type { components, paths } from "./openapi.ts"
import { type Calls, journey, project } from "./journey.ts"

type Schemas = components["schemas"]
const environment = "development"

await journey((baseUrl, token): Calls => {
  const client = createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${token}` } })
  const body: Schemas["CreateSecret"] = { projectId: project, environment, key: "HOST", value: "x", kind: "literal" }
  const there = <A>(answer: { readonly data?: A }): A => {
    if (answer.data === undefined) throw new Error("refused")
    return answer.data
  }
  return {
    inject: async () =>
      there(await client.GET("/secrets/inject", { params: { query: { projectId: project, environment } } })),
    expectedVersion: async () => there(await client.GET("/capabilities")).limits.expectedVersion,
    plan: async () => there(await client.GET("/capabilities")).plan,
    verify: async () => there(await client.GET("/me/verify")),
    list: async (page, pageSize) =>
      there(await client.GET("/secrets", { params: { query: { projectId: project, environment, page, pageSize } } })),
    create: async () => {
      const { error, response } = await client.POST("/secrets", { body })
      if (error === undefined) throw new Error("created")
      return { status: response.status, error }
    },
    update: async (secretId, expectedVersion) => {
      const { error, response } = await client.PATCH("/secrets/{secretId}", {
        params: { path: { secretId } },
        body: { value: "y", expectedVersion }
      })
      if (error === undefined) throw new Error("updated")
      return { status: response.status, error }
    },
    projects: async () => {
      const { data, error, response } = await client.GET("/projects")
      return data === undefined ? { status: response.status, error } : data.items.length
    }
  }
})
